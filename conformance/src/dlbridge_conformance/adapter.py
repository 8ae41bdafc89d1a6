"""Adapters: how the kit talks to a library. One is about ten lines; :class:`Adapter` says what is needed."""

from __future__ import annotations

import ctypes
import importlib
import importlib.metadata
import importlib.util
import pkgutil
import sys
from pathlib import Path
from typing import Any

from dlbridge_conformance.outcome import NotApplicable


class Adapter:
    """How the kit talks to a library.

    A subclass sets the attributes and overrides what its library can do; what it leaves alone raises
    :class:`NotApplicable`, and the rules about it do not apply. Methods take and give the library's own arrays.
    """

    #: what the library is called on the command line
    name: str
    #: the module to import before anything else
    module: str
    #: the distribution that has the version; the name if empty
    distribution: str = ""
    #: where its arrays are
    device: tuple[int, int] = (1, 0)
    #: what :meth:`array` takes for each dtype of DLPack that the library has
    dtypes: tuple[str, ...] = ("float32",)
    #: whether its arrays have ``__dlpack__``
    produces: bool = True
    #: whether it has a ``from_dlpack``
    consumes: bool = True
    #: how many dimensions its arrays may have: the fewest and the most
    ndims: tuple[int, int] = (0, 64)
    #: whether its ``from_dlpack`` calls ``__dlpack__``; not for those that take capsules, which the adapter asks for
    asks: bool = True
    #: whether its ``from_dlpack`` takes memory of the CPU, which is all that the kit crafts
    takes_host_memory: bool = True

    def load(self) -> None:
        """Imports the library. The process is forked after that, so that nothing may be computed yet."""
        setattr(self, self.module.partition(".")[0], importlib.import_module(self.module.partition(".")[0]))
        importlib.import_module(self.module)

    def version(self) -> str:
        """The version of the library; "unknown" where no distribution of its name is installed."""
        try:
            return importlib.metadata.version(self.distribution or type(self).name)
        except importlib.metadata.PackageNotFoundError:
            return "unknown"

    def is_installed(self) -> bool:
        """Whether the library can be imported."""
        return importlib.util.find_spec(self.module.partition(".")[0]) is not None

    def array(self, values: Any, dtype: str = "float32") -> Any:
        """A fresh array in C order of nested lists of numbers, or of one number."""
        raise NotApplicable(f"{self.name} makes no arrays here")

    def from_dlpack(self, producer: Any, **keywords: Any) -> Any:
        """The library's ``from_dlpack`` with the keywords as they are."""
        raise NotApplicable(f"{self.name} does not consume")

    def from_exchange_api(self, producer: Any) -> Any:
        """An array of an object whose type has a C exchange API, by the function that uses it, if one does."""
        return self.from_dlpack(producer)

    def values(self, array: Any) -> Any:
        """The elements as nested lists, or as one number."""
        return array.tolist()

    def address(self, array: Any) -> int:
        """The address of the element at index zero, as the library itself says."""
        raise NotApplicable(f"{self.name} tells no address")

    def transposed(self, array: Any) -> Any:
        """A matrix transposed, over the same memory."""
        raise NotApplicable(f"{self.name} has no transposed views")

    def stepped(self, array: Any) -> Any:
        """Every second element of the first axis, over the same memory."""
        raise NotApplicable(f"{self.name} has no stepped views")

    def reversed(self, array: Any) -> Any:
        """The first axis turned round, over the same memory."""
        raise NotApplicable(f"{self.name} has no negative strides")

    def sliced(self, array: Any) -> Any:
        """All but the first element of the first axis, over the same memory."""
        raise NotApplicable(f"{self.name} has no slices over the same memory")

    def broadcast(self, array: Any, extent: int) -> Any:
        """The array repeated along a new first axis, with stride 0."""
        raise NotApplicable(f"{self.name} has no broadcast views")

    def read_only(self, array: Any) -> Any:
        """The array as one that must not be written, over the same memory."""
        raise NotApplicable(f"{self.name} has no read-only arrays")

    def is_read_only(self, array: Any) -> bool:
        """Whether the array says that it must not be written."""
        raise NotApplicable(f"{self.name} does not say what must not be written")

    def write(self, array: Any, value: float) -> None:
        """Writes the element at index zero, in place."""
        raise NotApplicable(f"{self.name} has arrays that do not change")


def first_version(*distributions: str) -> str:
    """The version of the first of several distributions that is installed, for a module that has more than one."""
    for name in distributions:
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    raise importlib.metadata.PackageNotFoundError(distributions[0])


def library_path(distribution: str, name: str) -> Path | None:
    """Where a distribution has put a shared library whose name begins so; None without it."""
    try:
        files = importlib.metadata.files(distribution) or []
    except importlib.metadata.PackageNotFoundError:
        return None
    found = [Path(str(file.locate())).resolve() for file in files if file.name.startswith(name)]
    # Where archives have no links, the names without a version are small files that say what they would link to.
    return max(found, key=lambda path: path.stat().st_size, default=None)


def has_cuda() -> bool:
    """Whether there is a driver for CUDA that finds a GPU."""
    try:
        driver = ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    except OSError:
        return False
    count = ctypes.c_int()
    return driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0 and count.value > 0


def known_adapters() -> dict[str, Adapter]:
    """All adapters of the kit by name, those of installed plugins included.

    A plugin is an entry point of the group ``dlbridge_conformance`` that names a subclass of :class:`Adapter`.
    """
    from dlbridge_conformance import adapters as own

    found: dict[str, Adapter] = {}
    for info in pkgutil.iter_modules(own.__path__):
        module = importlib.import_module(f"{own.__name__}.{info.name}")
        for value in vars(module).values():
            if isinstance(value, type) and issubclass(value, Adapter) and value.__module__ == module.__name__:
                found[value.name] = value()
    for entry in importlib.metadata.entry_points(group="dlbridge_conformance"):
        found[entry.name] = entry.load()()
    return dict(sorted(found.items()))


def adapter_named(library: str) -> Adapter:
    """The adapter of a library that the kit knows, or an instance of the class that ``module:Class`` names.

    The latter is called as it is named here, so that commands with its name find it again. Raises LookupError if there
    is no such adapter.
    """
    module, colon, name = library.partition(":")
    if not colon:
        known = known_adapters()
        if library not in known:
            raise LookupError(f"there is no adapter for {library}; there are {', '.join(known)}")
        return known[library]
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise LookupError(f"there is no adapter {library}: {error}") from error
    if not (isinstance(found, type) and issubclass(found, Adapter)):
        raise LookupError(f"{library} is no subclass of dlbridge_conformance.Adapter")
    adapter = found()
    adapter.name = library
    return adapter
