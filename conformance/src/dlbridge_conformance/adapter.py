"""Adapters connect the kit to a library. An adapter has about ten lines; see :class:`Adapter`."""

from __future__ import annotations

import ctypes
import importlib
import importlib.metadata
import importlib.util
import pkgutil
import sys
import warnings
from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import Any

from dlbridge_conformance.outcome import NotApplicable


class Adapter:
    """Connects the kit to a library.

    A subclass sets the attributes and overrides the methods that its library supports. All other methods raise
    :class:`NotApplicable`, so that the rules about them do not apply. Arguments and results are the library's own arrays.
    """

    #: the name of the library on the command line
    name: str
    #: the module to import before anything else
    module: str
    #: the distribution to read the version from; if empty, the one called ``name``
    distribution: str = ""
    #: the DLPack device of its arrays
    device: tuple[int, int] = (1, 0)
    #: the dtypes that :meth:`array` accepts, by their names in DLPack
    dtypes: tuple[str, ...] = ("float32",)
    #: whether its arrays have ``__dlpack__``
    produces: bool = True
    #: whether it has a ``from_dlpack``
    consumes: bool = True
    #: the minimum and maximum number of dimensions of its arrays
    ndims: tuple[int, int] = (0, 64)
    #: whether its ``from_dlpack`` calls ``__dlpack__``; False if it takes capsules, so that the adapter calls it
    asks: bool = True
    #: whether its ``from_dlpack`` accepts CPU memory; the kit crafts no other memory
    takes_host_memory: bool = True

    def load(self) -> None:
        """Imports the library. It must not compute anything yet, because the process is forked afterwards."""
        setattr(self, self.module.partition(".")[0], importlib.import_module(self.module.partition(".")[0]))
        importlib.import_module(self.module)

    def version(self) -> str:
        """The version of the library; "unknown" if its distribution is not installed."""
        try:
            return importlib.metadata.version(self.distribution or type(self).name)
        except importlib.metadata.PackageNotFoundError:
            return "unknown"

    def is_installed(self) -> bool:
        """Returns whether the library can be imported."""
        return importlib.util.find_spec(self.module.partition(".")[0]) is not None

    def array(self, values: Any, dtype: str = "float32") -> Any:
        """Makes an array in C order from nested lists of numbers, or from one number."""
        raise NotApplicable(f"{self.name} does not make arrays here")

    def from_dlpack(self, producer: Any, **keywords: Any) -> Any:
        """Calls the library's ``from_dlpack`` with exactly these keywords."""
        raise NotApplicable(f"{self.name} does not consume")

    def from_exchange_api(self, producer: Any) -> Any:
        """Imports an object by its C exchange API, with the library's function for that; ``from_dlpack`` by default."""
        return self.from_dlpack(producer)

    def values(self, array: Any) -> Any:
        """Returns the elements as nested lists, or as one number."""
        return array.tolist()

    def address(self, array: Any) -> int:
        """Returns the address of the element at index zero, as the library reports it."""
        raise NotApplicable(f"{self.name} does not report addresses")

    def transposed(self, array: Any) -> Any:
        """Transposes a matrix without a copy."""
        raise NotApplicable(f"{self.name} cannot transpose without a copy")

    def stepped(self, array: Any) -> Any:
        """Takes every second element of the first axis without a copy."""
        raise NotApplicable(f"{self.name} cannot slice with a step without a copy")

    def reversed(self, array: Any) -> Any:
        """Reverses the first axis without a copy."""
        raise NotApplicable(f"{self.name} does not support negative strides")

    def sliced(self, array: Any) -> Any:
        """Drops the first element of the first axis without a copy."""
        raise NotApplicable(f"{self.name} cannot slice without a copy")

    def broadcast(self, array: Any, extent: int) -> Any:
        """Repeats the array along a new first axis, with stride 0."""
        raise NotApplicable(f"{self.name} cannot broadcast without a copy")

    def read_only(self, array: Any) -> Any:
        """Makes a read-only array over the same memory."""
        raise NotApplicable(f"{self.name} does not support read-only arrays")

    def is_read_only(self, array: Any) -> bool:
        """Returns whether the array is marked as read-only."""
        raise NotApplicable(f"{self.name} does not mark read-only arrays")

    def write(self, array: Any, value: float) -> None:
        """Writes the element at index zero, in place."""
        raise NotApplicable(f"{self.name} cannot change its arrays")


def first_version(*distributions: str) -> str:
    """The version of the first installed distribution, for a module that several distributions provide."""
    for name in distributions:
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    raise importlib.metadata.PackageNotFoundError(distributions[0])


def library_path(distribution: str, name: str) -> Path | None:
    """Finds the shared library in a distribution whose file name begins with ``name``; None if it is not installed."""
    try:
        files = importlib.metadata.files(distribution) or []
    except importlib.metadata.PackageNotFoundError:
        return None
    found = [Path(str(file.locate())).resolve() for file in files if file.name.startswith(name)]
    # In archives without links, names without a version are small text files with the name of the real library.
    return max(found, key=lambda path: path.stat().st_size, default=None)


def has_cuda() -> bool:
    """Returns whether a CUDA driver is installed and finds a GPU."""
    try:
        driver = ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    except OSError:
        return False
    count = ctypes.c_int()
    return driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0 and count.value > 0


def known_adapters() -> dict[str, Adapter]:
    """Returns all adapters of the kit and of installed plugins, by name.

    A plugin is an entry point of the group ``dlbridge_conformance`` that names a subclass of :class:`Adapter`. A plugin
    that cannot be loaded is left out with a warning, because the others still work.
    """
    from dlbridge_conformance import adapters as own

    found: dict[str, Adapter] = {}
    for info in pkgutil.iter_modules(own.__path__):
        module = importlib.import_module(f"{own.__name__}.{info.name}")
        for value in vars(module).values():
            if isinstance(value, type) and issubclass(value, Adapter) and value.__module__ == module.__name__:
                found[value.name] = value()
    for entry in importlib.metadata.entry_points(group="dlbridge_conformance"):
        try:
            adapter = _made(_loaded(entry.load, entry.value), entry.value)
            # The process of the library finds the adapter by this name.
            adapter.name = entry.name
            found[entry.name] = adapter
        except LookupError as error:
            warnings.warn(f"the adapter {entry.name} of an installed plugin is left out: {error.args[0]}", stacklevel=2)
    return dict(sorted(found.items()))


def installed_adapters() -> list[Adapter]:
    """Returns the known adapters whose libraries can be imported. Leaves out a faulty adapter, with a warning."""
    found = []
    for adapter in known_adapters().values():
        try:
            if ask(adapter.is_installed, adapter):
                version_of(adapter)
                found.append(adapter)
        except LookupError as error:
            warnings.warn(f"the adapter {adapter.name} is left out: {error.args[0]}", stacklevel=2)
    return found


def version_of(adapter: Adapter) -> str:
    """Returns the version of a library as text. Raises LookupError if the adapter's ``version`` raises."""
    try:
        return str(ask(adapter.version, adapter))
    except LookupError as error:
        if isinstance(error.__cause__, importlib.metadata.PackageNotFoundError):
            return "unknown"
        raise


def ask(method: Callable[[], Any], adapter: Adapter) -> Any:
    """Returns the result of a method of an adapter. Raises LookupError if the method raises."""
    try:
        return method()
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        # SystemExit too: its status would be taken for the kit's own.
        name = getattr(method, "__name__", repr(method))
        raise LookupError(f"{name}() of the adapter {adapter.name} raised {described(error)}") from error


def described(error: BaseException) -> str:
    """Returns the type of an exception, and the first line of its text."""
    first = (str(error).strip().splitlines() or [""])[0][:300]
    return f"{type(error).__name__}: {first}".rstrip(": ")


def adapter_named(library: str) -> Adapter:
    """Returns the adapter that a name means.

    A name is that of a known adapter, or of a module that has ``from_dlpack``. ``module:attribute`` is a subclass of
    :class:`Adapter`, a class that has ``from_dlpack``, or a function that imports arrays. An adapter of the last three
    kinds gets the whole text as its name, so that commands with this name find it again.

    Raises LookupError if the name means nothing of these.
    """
    from dlbridge_conformance.module_adapter import GUIDE, ModuleAdapter

    module, colon, attribute = library.partition(":")
    if not colon:
        known = known_adapters()
        if library in known:
            return known[library]
        if not _is_module(library):
            raise LookupError(
                f"unknown library {library!r}: neither an adapter of the kit nor a module of {sys.executable}; "
                f"install it there, or name its environment with --python PATH; adapters: {', '.join(known)}"
            )
        return ModuleAdapter(library)
    found = _loaded(lambda: reduce(getattr, attribute.split("."), importlib.import_module(module)), library)
    if isinstance(found, type) and issubclass(found, Adapter):
        adapter = _made(found, library)
        adapter.name = library
        return adapter
    if isinstance(found, type) and not hasattr(found, "from_dlpack"):
        raise LookupError(
            f"{library} is not a subclass of dlbridge_conformance.Adapter, and lacks from_dlpack; to write an adapter: {GUIDE}"
        )
    if not callable(found):
        raise LookupError(f"{library} is not an adapter, a class or a function, but of {type(found).__name__}; to write an adapter: {GUIDE}")
    return ModuleAdapter(library)


def _loaded(load: Callable[[], Any], library: str) -> Any:
    """Returns what the text ``module:attribute`` names. Raises LookupError for any error in the module."""
    try:
        return load()
    except KeyboardInterrupt:
        raise
    except (ImportError, AttributeError) as error:
        raise LookupError(f"cannot load the adapter {library}: {error}") from error
    except BaseException as error:
        # A module may also call sys.exit, whose status would be taken for the kit's own.
        raise LookupError(f"cannot load the adapter {library}: {described(error)}") from error


def _made(found: Any, library: str) -> Adapter:
    """Makes an adapter of a class. Raises LookupError if that fails, or if the class lacks what every adapter needs."""
    if not (isinstance(found, type) and issubclass(found, Adapter)):
        raise LookupError(f"{library} is not a subclass of dlbridge_conformance.Adapter")
    try:
        adapter = found()
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        if hasattr(found, "module"):
            raise LookupError(f"cannot make the adapter {library}: {described(error)}") from error
    else:
        if isinstance(getattr(adapter, "module", None), str) and adapter.module:
            return adapter
    raise LookupError(f"the adapter {library} lacks the attribute module, the name of the module to import")


def _is_module(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        # The search for a.b imports a.
        raise LookupError(f"cannot import the package of {name}: {described(error)}") from error
