"""Adapters connect the kit to a library. An adapter has about ten lines; see :class:`Adapter`."""

from __future__ import annotations

import ctypes
import importlib
import importlib.metadata
import importlib.util
from pathlib import Path
from typing import Any

from dlbridge_conformance.crafter import CUDA, Ints
from dlbridge_conformance.isolation import apart
from dlbridge_conformance.outcome import NotApplicable

#: names of dtypes, for adapters
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
FLOATS = ("float16", "float32", "float64")
COMPLEX = ("complex64", "complex128")


class Adapter:
    """Connects the kit to a library.

    A subclass sets the attributes and overrides the methods that its library supports. All other methods raise
    :class:`NotApplicable`, so that the rules about them do not apply. Arguments and results are the library's own arrays.
    """

    #: the name of the library on the command line
    name: str
    #: the module to import before anything else
    module: str
    #: the distribution to read the version from, or several that provide the module; if empty, the one called ``name``
    distribution: str | tuple[str, ...] = ""
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
    #: the module, after :meth:`load`
    library: Any

    def load(self) -> None:
        """Imports the library. It must not compute anything yet, because the process is forked afterwards."""
        first = self.module.partition(".")[0]
        setattr(self, first, importlib.import_module(first))
        self.library = importlib.import_module(self.module)

    def version(self) -> str:
        """The version of the library, by the first installed distribution; "unknown" without one."""
        names = self.distribution or type(self).name
        for name in (names,) if isinstance(names, str) else names:
            try:
                return importlib.metadata.version(name)
            except importlib.metadata.PackageNotFoundError:
                continue
        return "unknown"

    def is_installed(self) -> bool:
        """Returns whether the library can be imported, and finds a GPU if its arrays are on CUDA."""
        found = importlib.util.find_spec(self.module.partition(".")[0])
        return found is not None and (self.device[0] != CUDA[0] or has_cuda())

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


class WithNumPy(Adapter):
    """An adapter that reads arrays through NumPy."""

    numpy: Any

    def load(self) -> None:
        super().load()
        self.numpy = importlib.import_module("numpy")

    def as_numpy(self, array: Any) -> Any:
        """The array as a NumPy array."""
        return self.numpy.asarray(array)

    def values(self, array: Any) -> Any:
        return self.as_numpy(array).tolist()

    def address(self, array: Any) -> int:
        return int(self.as_numpy(array).ctypes.data)


class WithStrides(Adapter):
    """An adapter that makes a view from its shape and strides, in elements."""

    def layout(self, array: Any) -> tuple[Ints, Ints]:
        """The shape and the strides of an array."""
        return tuple(array.shape), tuple(array.strides)

    def view(self, array: Any, shape: Ints, strides: Ints, first: int = 0) -> Any:
        """Makes a view that begins ``first`` elements after the array."""
        raise NotImplementedError

    def transposed(self, array: Any) -> Any:
        shape, strides = self.layout(array)
        return self.view(array, shape[::-1], strides[::-1])

    def stepped(self, array: Any) -> Any:
        shape, strides = self.layout(array)
        return self.view(array, (-(-shape[0] // 2), *shape[1:]), (2 * strides[0], *strides[1:]))

    def reversed(self, array: Any) -> Any:
        shape, strides = self.layout(array)
        return self.view(array, shape, (-strides[0], *strides[1:]), (shape[0] - 1) * strides[0])

    def sliced(self, array: Any) -> Any:
        shape, strides = self.layout(array)
        return self.view(array, (shape[0] - 1, *shape[1:]), strides, strides[0])

    def broadcast(self, array: Any, extent: int) -> Any:
        shape, strides = self.layout(array)
        return self.view(array, (extent, *shape), (0, *strides))


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
    """Returns whether CUDA's driver finds a GPU. It is asked in a fork, because a process that has asked cannot fork."""
    return bool(apart(_gpus)[0])


def _gpus() -> int:
    """How many GPUs CUDA's driver finds. Raises OSError without a driver."""
    driver, count = ctypes.CDLL("libcuda.so.1"), ctypes.c_int()
    return 0 if driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count)) else count.value
