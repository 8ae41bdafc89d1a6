"""MXNet, whose functions exchange capsules without ``__dlpack__``."""

from __future__ import annotations

from typing import Any

from dlbridge_conformance.adapter import Adapter


class MXNet(Adapter):
    """MXNet. Its functions import and export legacy capsules; its arrays lack ``__dlpack__``."""

    name = module = "mxnet"
    dtypes = ("int8", "int32", "int64", "uint8", "float16", "float32", "float64", "bool")
    produces = False
    asks = False
    mxnet: Any

    def array(self, values: Any, dtype: str = "float32") -> Any:
        return self.mxnet.nd.array(values, dtype=dtype)

    def from_dlpack(self, producer: Any, **keywords: Any) -> Any:
        return self.mxnet.nd.from_dlpack(producer.__dlpack__(), **keywords)

    def values(self, array: Any) -> Any:
        return array.asnumpy().tolist()
