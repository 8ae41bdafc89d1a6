"""TensorFlow."""

from __future__ import annotations

import os
from typing import Any

from dlbridge_conformance import elements
from dlbridge_conformance.adapter import Adapter, first_version


class TensorFlow(Adapter):
    """TensorFlow. It imports only capsules, its tensors are immutable, and it does not make views."""

    name = module = "tensorflow"
    dtypes = (
        "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
        "float16", "float32", "float64", "bfloat16", "complex64", "complex128", "bool",
    )  # fmt: skip
    asks = False
    tensorflow: Any
    numpy: Any

    def load(self) -> None:
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
        super().load()
        import numpy

        self.numpy = numpy

    def version(self) -> str:
        return first_version("tensorflow", "tensorflow-cpu", "tensorflow-intel")

    def array(self, values: Any, dtype: str = "float32") -> Any:
        if dtype == "bool":
            values = elements.nested([bool(value) for value in elements.flat(values)], elements.shape_of(values))
        return self.tensorflow.constant(values, dtype=dtype)

    def from_dlpack(self, producer: Any, **keywords: Any) -> Any:
        return self.tensorflow.experimental.dlpack.from_dlpack(producer.__dlpack__(), **keywords)

    def values(self, array: Any) -> Any:
        return array.numpy().tolist()

    def address(self, array: Any) -> int:
        return int(self.numpy.asarray(array).ctypes.data)

    def read_only(self, array: Any) -> Any:
        return array

    def is_read_only(self, array: Any) -> bool:
        return True
