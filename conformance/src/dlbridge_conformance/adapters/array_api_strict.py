"""array-api-strict, which implements exactly the array API standard."""

from __future__ import annotations

from typing import Any

from dlbridge_conformance.adapter import Adapter


class ArrayAPIStrict(Adapter):
    """array-api-strict. The adapter reads elements through NumPy, which the library wraps."""

    name = "array-api-strict"
    module = "array_api_strict"
    dtypes = (
        "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
        "float32", "float64", "complex64", "complex128", "bool",
    )  # fmt: skip
    array_api_strict: Any
    numpy: Any

    def load(self) -> None:
        super().load()
        import numpy

        self.numpy = numpy

    def array(self, values: Any, dtype: str = "float32") -> Any:
        return self.array_api_strict.asarray(values, dtype=getattr(self.array_api_strict, dtype))

    def from_dlpack(self, producer: Any, **keywords: Any) -> Any:
        return self.array_api_strict.from_dlpack(producer, **keywords)

    def values(self, array: Any) -> Any:
        return self.numpy.asarray(array).tolist()

    def address(self, array: Any) -> int:
        return int(self.numpy.asarray(array).ctypes.data)

    def transposed(self, array: Any) -> Any:
        return array.T

    def stepped(self, array: Any) -> Any:
        return self._first(array, slice(None, None, 2))

    def reversed(self, array: Any) -> Any:
        return self._first(array, slice(None, None, -1))

    def sliced(self, array: Any) -> Any:
        return self._first(array, slice(1, None))

    def broadcast(self, array: Any, extent: int) -> Any:
        return self.array_api_strict.broadcast_to(array, (extent, *array.shape))

    def is_read_only(self, array: Any) -> bool:
        return not self.numpy.asarray(array).flags.writeable

    def write(self, array: Any, value: float) -> None:
        array[(0,) * array.ndim] = value

    def _first(self, array: Any, part: slice) -> Any:
        """Slices the first axis. The standard requires an index for every axis."""
        return array[(part, *(slice(None),) * (array.ndim - 1))]
