"""Consumers of the matrix: libraries and functions that import objects."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from dlbridge_conformance import elements
from dlbridge_conformance.adapter import FLOATS, INTEGERS, Adapter
from dlbridge_conformance.crafter import FORMATS
from dlbridge_conformance.elements import flat
from dlbridge_conformance.matrix.party import (
    MODES, Party, adapters, address_of, arrow_address, buffer_address, picture_rows,
)  # fmt: skip
from dlbridge_conformance.matrix.samples import swapped

#: the names of libraries in ``Tensor.to``, by adapter; a ``pyarrow.Array`` has none
TO = {
    **{name: name for name in ("numpy", "torch", "jax", "tensorflow", "paddle", "cupy", "pyarrow", "mlx", "onnxruntime", "dpnp")},
    "tvm-ffi": "tvm_ffi", "warp-lang": "warp", "array-api-strict": "array_api_strict",
}  # fmt: skip

#: dtypes by the letters of the buffer protocol
LETTERS = {letter: dtype for dtype, letter in FORMATS.items()} | {
    "l": "int64", "L": "uint64", "Zf": "complex64", "Zd": "complex128",
}  # fmt: skip


class Consumer(Party):
    """Imports objects. A subclass sets the attributes and overrides what its library supports."""

    #: the library's name for ``Tensor.to``; None if dlbridge does not know the library
    to: str | None = None
    #: whether a dlbridge.Tensor is passed as a NumPy array, because the library accepts no other arrays
    by_numpy: bool = False
    #: the dtypes to exchange; None for all; a library that converts other dtypes lists its own
    dtypes: tuple[str, ...] | None = None

    def scope(self) -> AbstractContextManager[object]:
        """The context manager that an exchange runs in."""
        return nullcontext()

    def take(self, obj: Any, expected: Any) -> Any:
        """Imports an object. ``expected`` are its elements; an override may use only the number of their axes."""
        raise NotImplementedError

    def values(self, array: Any, expected: Any) -> Any:
        """Returns the elements as nested lists."""
        return array.tolist()

    def address(self, array: Any) -> int | None:
        """The address of the first element as the library reports it; None if it does not report one."""
        return None

    def set_first(self, array: Any, value: Any) -> None:
        """Writes the element at index zero."""
        raise TypeError("the arrays never change")

    def write(self, array: Any, value: Any) -> bool:
        """Writes the element at index zero. Returns False if the library refuses."""
        try:
            self.set_first(array, value)
        except Exception:
            return False
        return True


class AdapterConsumer(Consumer):
    """The ``from_dlpack`` of a library that has an adapter."""

    adapter: Adapter

    def __init__(self, adapter: Adapter) -> None:
        super().__init__(adapter)
        self.to = TO.get(adapter.name)

    def take(self, obj: Any, expected: Any) -> Any:
        return self.adapter.from_dlpack(obj)

    def values(self, array: Any, expected: Any) -> Any:
        return self.adapter.values(array)

    def address(self, array: Any) -> int | None:
        return address_of(self.adapter, array)

    def set_first(self, array: Any, value: Any) -> None:
        self.adapter.write(array, value)


class NarrowJAX(AdapterConsumer):
    """JAX with its default settings, which disable 64-bit dtypes."""

    def __init__(self, adapter: Adapter) -> None:
        super().__init__(adapter)
        self.name = "jax, x64 off"

    def scope(self) -> AbstractContextManager[object]:
        scope: AbstractContextManager[object] = self.adapter.jax.enable_x64(False)  # type: ignore[attr-defined]
        return scope


class View(Consumer):
    """memoryview."""

    name = "memoryview"

    def take(self, obj: Any, expected: Any) -> Any:
        return memoryview(obj)

    def values(self, array: Any, expected: Any) -> Any:
        dtype = LETTERS[array.format.lstrip("<>=@|")]
        data = array.tobytes()
        data = swapped(data, dtype) if array.format.startswith(">") else data
        return elements.nested(elements.unpacked(data, dtype), array.shape)

    def address(self, array: Any) -> int | None:
        return buffer_address(array)

    def set_first(self, array: Any, value: Any) -> None:
        array[(0,) * array.ndim] = value


class AsArray(Consumer):
    """numpy.asarray, which tries every protocol that NumPy knows."""

    name = "numpy.asarray"
    module = "numpy"

    def take(self, obj: Any, expected: Any) -> Any:
        return self.lib.asarray(obj)

    def address(self, array: Any) -> int | None:
        return int(array.ctypes.data)

    def set_first(self, array: Any, value: Any) -> None:
        array[(0,) * array.ndim] = value


class ToArrow(Consumer):
    """pyarrow.array, which tries Arrow's protocols, NumPy's protocols, and iteration."""

    name = "pyarrow.array"
    module = "pyarrow"

    def take(self, obj: Any, expected: Any) -> Any:
        return self.lib.array(obj)

    def values(self, array: Any, expected: Any) -> Any:
        return array.to_numpy_ndarray().tolist() if hasattr(array, "to_numpy_ndarray") else array.to_pylist()

    def address(self, array: Any) -> int | None:
        storage = getattr(array, "storage", array)
        while hasattr(storage, "flatten") and storage.type.num_fields:
            storage = storage.flatten()
        data = storage.buffers()[1]
        return None if data is None else data.address + storage.offset * storage.type.bit_width // 8


class ToPolars(Consumer):
    """polars.Series, with the dtypes that it supports."""

    name = "polars.Series"
    module = "polars"
    by_numpy = True
    dtypes = (*INTEGERS, *FLOATS, "bool")

    def take(self, obj: Any, expected: Any) -> Any:
        return self.lib.Series(obj)

    def values(self, array: Any, expected: Any) -> Any:
        # A 0-d array becomes a column of one row.
        return array.to_list() if isinstance(expected, list) else array.item()

    def address(self, array: Any) -> int | None:
        try:
            return int(array.to_numpy(allow_copy=False).ctypes.data)
        except Exception:
            return None


class ToPandas(Consumer):
    """pandas.Series, or pandas.DataFrame for two dimensions."""

    name = "pandas"
    module = "pandas"
    by_numpy = True

    def take(self, obj: Any, expected: Any) -> Any:
        two = bool(expected) and isinstance(expected, list) and isinstance(expected[0], list)
        return (self.lib.DataFrame if two else self.lib.Series)(obj, copy=False)

    def values(self, array: Any, expected: Any) -> Any:
        numbers = array.to_numpy().tolist()
        # A 0-d array becomes a column of one row.
        return numbers if isinstance(expected, list) else numbers[0]

    def address(self, array: Any) -> int | None:
        return int(array.to_numpy().ctypes.data)


class ToPicture(Consumer):
    """PIL.Image.fromarray, with the dtypes that have a mode."""

    name = "pillow"
    module = "PIL.Image"
    dtypes = (*MODES, "bool")
    by_numpy = True

    def take(self, obj: Any, expected: Any) -> Any:
        return self.lib.fromarray(obj)

    def values(self, array: Any, expected: Any) -> Any:
        rows = picture_rows(array)
        if not isinstance(expected, list):
            return rows[0][0]
        # A one-dimensional array becomes a column.
        return rows if array.width > 1 or not expected or isinstance(expected[0], list) else flat(rows)

    def address(self, array: Any) -> int | None:
        return arrow_address(array)


def consumers() -> dict[str, Consumer]:
    """All consumers by name: the libraries whose adapter makes arrays, and functions that use other protocols."""
    takers = [adapter for adapter in adapters() if adapter.consumes and adapter.name != "mpi4py"]
    found: list[Consumer] = [AdapterConsumer(adapter) for adapter in takers]
    found += [NarrowJAX(adapter) for adapter in takers if adapter.name == "jax"]
    found += [View(), AsArray(), ToArrow(), ToPolars(), ToPandas(), ToPicture()]
    return {consumer.name: consumer for consumer in found}
