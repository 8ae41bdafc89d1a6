"""ndonnx, whose arrays have a ``__dlpack__`` that refuses every export."""

from __future__ import annotations

from typing import Any

from dlbridge_conformance.adapter import Adapter


class NDONNX(Adapter):
    """ndonnx. It does not have ``from_dlpack``."""

    name = module = "ndonnx"
    dtypes = (
        "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
        "float16", "float32", "float64", "bool",
    )  # fmt: skip
    consumes = False
    ndonnx: Any

    def array(self, values: Any, dtype: str = "float32") -> Any:
        return self.ndonnx.asarray(values, dtype=getattr(self.ndonnx, dtype))

    def values(self, array: Any) -> Any:
        return array.unwrap_numpy().tolist()
