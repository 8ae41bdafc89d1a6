"""An adapter for any module with ``from_dlpack``, which finds out what the library's arrays can do."""

from __future__ import annotations

import importlib.metadata
import math
import sys
from collections.abc import Callable
from typing import Any

from dlbridge_conformance import crafter, elements, module_elements
from dlbridge_conformance.adapter import Adapter
from dlbridge_conformance.crafter import DTYPES
from dlbridge_conformance.isolation import DEATHS, apart
from dlbridge_conformance.outcome import NotApplicable

#: the elements of the arrays that are made to find out what the library can do
SAMPLE = [[0, 1, 1], [1, 0, 1]]

#: where the text of an error sends its reader
GUIDE = "the README of dlbridge-conformance shows one of ten lines"


class ModuleAdapter(Adapter):
    """Checks a library that the kit lacks an adapter for, by the names of the array API standard.

    ``library`` is a module, or ``module:attribute`` for a class or a function of the module. A subclass may set
    ``module`` instead, and override any method.
    """

    def __init__(self, library: str = "") -> None:
        self.name = library or type(self).module
        self.module, _, self._attribute = self.name.partition(":")
        #: the function of the module that makes arrays; empty if there is none
        self.maker = ""

    def load(self) -> None:
        """Imports the library, and finds out in forks which arrays it makes."""
        super().load()
        self._module = sys.modules[self.module]
        found: Any = self._module
        for part in filter(None, self._attribute.split(".")):
            found = getattr(found, part)
        self._import: Any = getattr(found, "from_dlpack", found if self._attribute else None)
        self.consumes = self._import is not None or type(self).from_dlpack is not ModuleAdapter.from_dlpack
        self.dtypes = ()
        for self.maker in self._makers():
            self.dtypes = tuple(dtype for dtype in DTYPES if self._tried(self._makes, dtype)[0])
            if self.dtypes:
                break
        else:
            self.maker = ""
        device = self._tried(lambda: list(map(int, self._sample().__dlpack_device__())))[0]
        self.produces = bool(self._tried(lambda: hasattr(self._sample(), "__dlpack__"))[0])
        if device:
            self.device = (device[0], device[1])

    def version(self) -> str:
        """The version of the distribution that has the module; "unknown" if there is none."""
        first = self.module.partition(".")[0]
        for distribution in importlib.metadata.packages_distributions().get(first, [first]):
            try:
                return importlib.metadata.version(distribution)
            except importlib.metadata.PackageNotFoundError:
                continue
        return "unknown"

    def array(self, values: Any, dtype: str = "float32") -> Any:
        """Makes an array with ``asarray`` or ``array``, or imports a tensor."""
        if not self.maker:
            raise NotApplicable(f"{self.name} lacks a function that makes arrays")
        if self.maker == "from_dlpack":
            return self.from_dlpack(elements.tensor(values, dtype))
        return getattr(self._module, self.maker)(values, dtype=getattr(self._module, dtype))

    def from_dlpack(self, producer: Any, **keywords: Any) -> Any:
        """Calls the library's function."""
        if self._import is None:
            raise NotApplicable(f"{self.name} lacks from_dlpack")
        return self._import(producer, **keywords)

    def values(self, array: Any) -> Any:
        """Reads the elements by ``tolist``, in memory, or one by one."""
        return module_elements.values(array)

    def address(self, array: Any) -> int:
        """The address, by ``data_ptr`` or ``__array_interface__``."""
        return module_elements.address(array)

    def transposed(self, array: Any) -> Any:
        """The array's ``T``."""
        if not hasattr(array, "T"):
            raise NotApplicable(f"arrays of {self.name} lack T")
        return self._view(array, array.T)

    def stepped(self, array: Any) -> Any:
        """``array[::2]``."""
        return self._view(array, self._part(array, slice(None, None, 2)))

    def reversed(self, array: Any) -> Any:
        """``array[::-1]``."""
        return self._view(array, self._part(array, slice(None, None, -1)))

    def sliced(self, array: Any) -> Any:
        """``array[1:]``."""
        return self._view(array, self._part(array, slice(1, None)))

    def broadcast(self, array: Any, extent: int) -> Any:
        """The module's ``broadcast_to``."""
        if not hasattr(self._module, "broadcast_to"):
            raise NotApplicable(f"{self.name} lacks broadcast_to")
        return self._view(array, self._module.broadcast_to(array, (extent, *array.shape)))

    def is_read_only(self, array: Any) -> bool:
        """Return true if ``__array_interface__`` marks the array as read-only."""
        return module_elements.is_read_only(array)

    def write(self, array: Any, value: float) -> None:
        """Assigns the element at index zero."""
        if not hasattr(type(array), "__setitem__"):
            raise NotApplicable(f"arrays of {self.name} lack __setitem__")
        try:
            array[(0,) * len(array.shape)] = value
        except TypeError as error:
            raise NotApplicable(f"{self.name} cannot change its arrays: {error}") from None

    def found(self) -> list[str]:
        """Lines that say what the loaded library has. Raises LookupError if it cannot be checked without an adapter."""
        if not (self.consumes or self.produces):
            raise LookupError(
                f"{self.name} lacks from_dlpack, and asarray or array that makes arrays with __dlpack__. Name the class "
                f"or the function that imports arrays, as {self.module}:CLASS or {self.module}:FUNCTION, or write an adapter: "
                f"{GUIDE}"
            )
        how = {"": "none", "from_dlpack": "imported by from_dlpack"}.get(self.maker, f"made by {self.maker}")
        lines = [f"{self.name} {self.version()}: checked by the names of the array API"]
        lines.append(f"    arrays: {', '.join([how, *self.dtypes])}")
        values, reason = self._tried(lambda: self.values(self.from_dlpack(_plain()))) if self.consumes else (True, "")
        if not values and reason.startswith(DEATHS):
            lines.append(f"    the import of a plain tensor does not end well: {reason}")
        elif not values:
            # Rules allow a refusal, so a library that is called in the wrong way would seem to keep most of them.
            raise LookupError(
                f"{self.name} does not import a plain float32 tensor on the CPU and return its elements: {reason}. If it needs "
                f"other arguments, write an adapter: {GUIDE}"
            )
        return [*lines, *self._methods()] if self.dtypes else lines

    def _makers(self) -> list[str]:
        """The ways to make arrays that are tried in turn."""
        if type(self).array is not ModuleAdapter.array:
            return ["the adapter"]
        found = [name for name in ("asarray", "array") if callable(getattr(self._module, name, None))]
        return [*found, "from_dlpack"] if self.consumes else found

    def _methods(self) -> list[str]:
        """Lines about the optional methods, each tried in a fork."""
        tries: dict[str, Callable[[Any], Any]] = {
            "address": self.address, "T": self.transposed, "[::2]": self.stepped, "[::-1]": self.reversed,
            "[1:]": self.sliced, "broadcast_to": lambda array: self.broadcast(array, 2),
            "assignment": lambda array: self.write(array, 1), "read-only": self.is_read_only,
        }  # fmt: skip
        results = {name: self._tried(self._works, call) for name, call in tries.items()}
        works = ", ".join(name for name, (value, _) in results.items() if value)
        lacks = [f"    lacks {name}: {reason}" for name, (value, reason) in results.items() if not value]
        return [f"    has {works}", *lacks] if works else lacks

    def _works(self, call: Callable[[Any], Any]) -> bool:
        call(self._sample())
        return True

    def _tried(self, call: Callable[..., Any], *arguments: Any) -> tuple[Any, str]:
        """The result of a call in a fork, or None and the reason why there is none."""
        return apart(lambda: call(*arguments))

    def _sample(self) -> Any:
        return self.array(SAMPLE, "float32" if "float32" in self.dtypes else self.dtypes[0])

    def _makes(self, dtype: str) -> bool:
        """Return true if the library makes arrays of this dtype."""
        array = self.array([[bool(x) for x in row] for row in SAMPLE] if dtype == "bool" else SAMPLE, dtype)
        if self.values(array) != SAMPLE:
            return False
        if hasattr(array, "dtype"):
            return module_elements.dtype_of(array) == dtype
        held = crafter.take(array.__dlpack__())
        found = held.fields.dtype
        held.delete()
        return found == DTYPES[dtype]

    def _part(self, array: Any, part: slice) -> Any:
        """Slices the first axis. The standard requires an index for every axis, or an ellipsis."""
        try:
            return array[part]
        except IndexError:
            return array[part, ...]
        except (TypeError, ValueError, NotImplementedError) as error:
            raise NotApplicable(f"arrays of {self.name} cannot be sliced so: {error}") from None

    def _view(self, array: Any, view: Any) -> Any:
        """Returns the view if it begins in the array's memory. A copy cannot, because the array is alive.

        The end of the memory counts too: a view without elements may begin there.
        """
        size = math.prod(array.shape) * DTYPES[module_elements.dtype_of(array)][1] // 8
        if not 0 <= self.address(view) - self.address(array) <= size:
            raise NotApplicable(f"{self.name} makes a copy and not a view")
        return view


def _plain() -> crafter.Producer:
    """A plain tensor, versioned if the library asks for that."""
    payload = elements.packed(elements.flat(SAMPLE), "float32").ljust(256, b"\0")
    return crafter.Producer(lambda keywords: crafter.craft((2, 3), versioned="max_version" in keywords, payload=payload))
