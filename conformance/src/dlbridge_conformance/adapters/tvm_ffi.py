"""TVM FFI."""

from __future__ import annotations

from typing import Any

from dlbridge_conformance import elements
from dlbridge_conformance.adapter import Adapter
from dlbridge_conformance.crafter import DTYPES


class TVMFFI(Adapter):
    """TVM FFI. It cannot make arrays or show elements: dlbridge makes the arrays, and the kit reads their memory."""

    name = "tvm-ffi"
    module = "tvm_ffi"
    distribution = "apache-tvm-ffi"
    #: it imports complex tensors, but cannot report their dtype
    dtypes = tuple(name for name in DTYPES if not name.startswith("complex"))
    tvm_ffi: Any

    def array(self, values: Any, dtype: str = "float32") -> Any:
        return self.tvm_ffi.from_dlpack(elements.tensor(values, dtype))

    def from_dlpack(self, producer: Any, **keywords: Any) -> Any:
        return self.tvm_ffi.from_dlpack(producer, **keywords)

    def values(self, array: Any) -> Any:
        kind = array.dtype
        name = elements.name_of((kind.type_code, kind.bits, kind.lanes))
        return elements.at(array.data_ptr(), name, tuple(array.shape), tuple(array.strides))

    def address(self, array: Any) -> int:
        return int(array.data_ptr())
