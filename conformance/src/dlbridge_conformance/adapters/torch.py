"""PyTorch, on the CPU and on a GPU."""

from __future__ import annotations

from typing import Any

from dlbridge_conformance.adapter import Adapter, has_cuda


class Torch(Adapter):
    """PyTorch. It supports neither read-only tensors nor negative strides."""

    name = module = distribution = "torch"
    dtypes = (
        "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
        "float16", "float32", "float64", "bfloat16", "complex64", "complex128", "bool",
        "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu",
    )  # fmt: skip
    torch: Any

    def array(self, values: Any, dtype: str = "float32") -> Any:
        return self.torch.tensor(values, dtype=getattr(self.torch, dtype))

    def from_dlpack(self, producer: Any, **keywords: Any) -> Any:
        return self.torch.from_dlpack(producer, **keywords)

    def address(self, array: Any) -> int:
        return int(array.data_ptr())

    def transposed(self, array: Any) -> Any:
        return array.T

    def stepped(self, array: Any) -> Any:
        return array[::2]

    def sliced(self, array: Any) -> Any:
        return array[1:]

    def broadcast(self, array: Any, extent: int) -> Any:
        return array.expand(extent, *array.shape)

    def write(self, array: Any, value: float) -> None:
        array[(0,) * array.ndim] = value


class TorchCUDA(Torch):
    """PyTorch on CUDA. It imports CPU memory without moving it.

    Written after its documentation, and not run yet on a machine with a GPU.
    """

    name = "torch-cuda"
    device = (2, 0)

    def is_installed(self) -> bool:
        return super().is_installed() and has_cuda()

    def array(self, values: Any, dtype: str = "float32") -> Any:
        return self.torch.tensor(values, dtype=getattr(self.torch, dtype), device="cuda:0")
