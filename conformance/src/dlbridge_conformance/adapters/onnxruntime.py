"""ONNX Runtime."""

from __future__ import annotations

from typing import Any

from dlbridge_conformance.adapter import Adapter, first_version


class ONNXRuntime(Adapter):
    """``OrtValue`` of ONNX Runtime. It supports neither views nor read-only memory."""

    name = module = "onnxruntime"
    dtypes = (
        "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
        "float16", "float32", "float64", "bool",
    )  # fmt: skip
    onnxruntime: Any
    numpy: Any

    def load(self) -> None:
        super().load()
        import numpy

        self.numpy = numpy

    def version(self) -> str:
        return first_version("onnxruntime", "onnxruntime-gpu")

    def array(self, values: Any, dtype: str = "float32") -> Any:
        return self.onnxruntime.OrtValue.ortvalue_from_numpy(self.numpy.array(values, dtype))

    def from_dlpack(self, producer: Any, **keywords: Any) -> Any:
        return self.onnxruntime.OrtValue.from_dlpack(producer, **keywords)

    def values(self, array: Any) -> Any:
        return array.numpy().tolist()

    def address(self, array: Any) -> int:
        return int(array.data_ptr())
