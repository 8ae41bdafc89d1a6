"""NumPy."""

from __future__ import annotations

from typing import Any

from dlbridge_conformance.adapter import Adapter


class NumPy(Adapter):
    """NumPy, in any version."""

    name = module = "numpy"
    dtypes = (
        "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
        "float16", "float32", "float64", "complex64", "complex128", "bool",
    )  # fmt: skip
    numpy: Any

    def array(self, values: Any, dtype: str = "float32") -> Any:
        return self.numpy.array(values, dtype=dtype)

    def from_dlpack(self, producer: Any, **keywords: Any) -> Any:
        return self.numpy.from_dlpack(producer, **keywords)

    def address(self, array: Any) -> int:
        return int(array.ctypes.data)

    def transposed(self, array: Any) -> Any:
        return array.T

    def stepped(self, array: Any) -> Any:
        return array[::2]

    def reversed(self, array: Any) -> Any:
        return array[::-1]

    def sliced(self, array: Any) -> Any:
        return array[1:]

    def broadcast(self, array: Any, extent: int) -> Any:
        return self.numpy.broadcast_to(array, (extent, *array.shape))

    def read_only(self, array: Any) -> Any:
        view = array.view()
        view.flags.writeable = False
        return view

    def is_read_only(self, array: Any) -> bool:
        return not array.flags.writeable

    def write(self, array: Any, value: float) -> None:
        array[(0,) * array.ndim] = value
