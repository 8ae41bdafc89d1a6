"""CuPy, where there is a GPU."""

from __future__ import annotations

from typing import Any

from dlbridge_conformance.adapter import Adapter, first_version, has_cuda


class CuPy(Adapter):
    """CuPy. It refuses tensors on the CPU, which are all that the kit crafts: only how it asks is seen of its consumer.

    Written after its documentation, and not run yet on a machine with a GPU.
    """

    name = module = "cupy"
    device = (2, 0)
    dtypes = (
        "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
        "float16", "float32", "float64", "complex64", "complex128", "bool",
    )  # fmt: skip
    takes_host_memory = False
    cupy: Any

    def is_installed(self) -> bool:
        return super().is_installed() and has_cuda()

    def version(self) -> str:
        return first_version("cupy-cuda13x", "cupy-cuda12x", "cupy-cuda11x", "cupy")

    def array(self, values: Any, dtype: str = "float32") -> Any:
        return self.cupy.array(values, dtype=dtype)

    def from_dlpack(self, producer: Any, **keywords: Any) -> Any:
        return self.cupy.from_dlpack(producer, **keywords)

    def address(self, array: Any) -> int:
        return int(array.data.ptr)

    def transposed(self, array: Any) -> Any:
        return array.T

    def stepped(self, array: Any) -> Any:
        return array[::2]

    def reversed(self, array: Any) -> Any:
        return array[::-1]

    def sliced(self, array: Any) -> Any:
        return array[1:]

    def broadcast(self, array: Any, extent: int) -> Any:
        return self.cupy.broadcast_to(array, (extent, *array.shape))

    def write(self, array: Any, value: float) -> None:
        array[(0,) * array.ndim] = value
