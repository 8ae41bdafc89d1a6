"""pyarrow: its tensors, and its one-dimensional arrays."""

from __future__ import annotations

from typing import Any

from dlbridge_conformance import elements
from dlbridge_conformance.adapter import Adapter
from dlbridge_conformance.outcome import NotApplicable

NUMBERS = (
    "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64",
)  # fmt: skip


class PyArrow(Adapter):
    """``pyarrow.Tensor``."""

    name = module = "pyarrow"
    dtypes = NUMBERS
    pyarrow: Any
    numpy: Any

    def load(self) -> None:
        super().load()
        import numpy

        self.numpy = numpy

    def array(self, values: Any, dtype: str = "float32") -> Any:
        return self.pyarrow.Tensor.from_numpy(self.numpy.array(values, dtype))

    def from_dlpack(self, producer: Any, **keywords: Any) -> Any:
        return self.pyarrow.Tensor.from_dlpack(producer, **keywords)

    def values(self, array: Any) -> Any:
        return array.to_numpy().tolist()

    def address(self, array: Any) -> int:
        return int(array.to_numpy().ctypes.data)

    def transposed(self, array: Any) -> Any:
        return self.pyarrow.Tensor.from_numpy(array.to_numpy().T)

    def stepped(self, array: Any) -> Any:
        return self.pyarrow.Tensor.from_numpy(array.to_numpy()[::2])

    def sliced(self, array: Any) -> Any:
        return self.pyarrow.Tensor.from_numpy(array.to_numpy()[1:])

    def broadcast(self, array: Any, extent: int) -> Any:
        return self.pyarrow.Tensor.from_numpy(self.numpy.broadcast_to(array.to_numpy(), (extent, *array.shape)))

    def read_only(self, array: Any) -> Any:
        source = array.to_numpy()
        source.flags.writeable = False
        return self.pyarrow.Tensor.from_numpy(source)

    def is_read_only(self, array: Any) -> bool:
        return not bool(array.is_mutable)

    def write(self, array: Any, value: float) -> None:
        array.to_numpy()[(0,) * array.ndim] = value


class PyArrowArray(Adapter):
    """``pyarrow.Array``, which is one-dimensional and immutable."""

    name = "pyarrow-array"
    module = distribution = "pyarrow"
    dtypes = NUMBERS
    ndims = (1, 1)
    pyarrow: Any

    def array(self, values: Any, dtype: str = "float32") -> Any:
        """Makes an array over a buffer, because ``pyarrow.array`` of a list imports other libraries."""
        numbers = elements.flat(values)
        if len(elements.shape_of(values)) != 1:
            raise NotApplicable("pyarrow.Array has one dimension")
        buffers = [None, self.pyarrow.py_buffer(elements.packed(numbers, dtype))]
        return self.pyarrow.Array.from_buffers(getattr(self.pyarrow, dtype)(), len(numbers), buffers)

    def from_dlpack(self, producer: Any, **keywords: Any) -> Any:
        return self.pyarrow.Array.from_dlpack(producer, **keywords)

    def values(self, array: Any) -> Any:
        return array.to_pylist()

    def address(self, array: Any) -> int:
        start: int = array.buffers()[1].address
        return start + int(array.offset) * int(array.type.bit_width) // 8

    def sliced(self, array: Any) -> Any:
        return array[1:]

    def read_only(self, array: Any) -> Any:
        return array

    def is_read_only(self, array: Any) -> bool:
        return True
