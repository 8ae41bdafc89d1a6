"""NVIDIA Warp, on the CPU."""

from __future__ import annotations

from typing import Any

from dlbridge_conformance.adapter import Adapter
from dlbridge_conformance.outcome import NotApplicable


class Warp(Adapter):
    """Warp, whose arrays have one to four dimensions."""

    name = "warp-lang"
    module = "warp"
    dtypes = (
        "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
        "float16", "float32", "float64", "bfloat16", "bool",
    )  # fmt: skip
    ndims = (1, 4)
    warp: Any

    def load(self) -> None:
        super().load()
        self.warp.config.log_level = self.warp.LOG_ERROR
        self.warp.init()

    def array(self, values: Any, dtype: str = "float32") -> Any:
        if not isinstance(values, list):
            raise NotApplicable("warp-lang does not support 0-d arrays")
        return self.warp.array(values, dtype=getattr(self.warp, dtype), device="cpu")

    def from_dlpack(self, producer: Any, **keywords: Any) -> Any:
        return self.warp.from_dlpack(producer, **keywords)

    def values(self, array: Any) -> Any:
        return array.numpy().tolist()

    def address(self, array: Any) -> int:
        return int(array.ptr)

    def transposed(self, array: Any) -> Any:
        return array.transpose()

    def stepped(self, array: Any) -> Any:
        return array[::2]

    def sliced(self, array: Any) -> Any:
        if array.shape[0] < 2:
            raise NotApplicable("warp-lang does not support empty slices")
        return array[1:]

    def broadcast(self, array: Any, extent: int) -> Any:
        shape, strides = (extent, *array.shape), (0, *array.strides)
        view = self.warp.array(ptr=array.ptr, dtype=array.dtype, shape=shape, strides=strides, device="cpu")
        view.base = array
        return view

    def write(self, array: Any, value: float) -> None:
        array.numpy()[(0,) * array.ndim] = value
