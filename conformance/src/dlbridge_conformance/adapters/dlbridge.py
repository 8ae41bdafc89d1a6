"""dlbridge itself, over memory that Python objects own."""

from __future__ import annotations

import ctypes
from typing import Any

from dlbridge_conformance import elements
from dlbridge_conformance.adapter import WithStrides
from dlbridge_conformance.crafter import DTYPES, Ints
from dlbridge_conformance.outcome import NotApplicable


class View:
    """An object with an array interface over another object's memory. It keeps that object alive."""

    def __init__(self, base: Any, shape: Ints, strides: Ints, first: int) -> None:
        self.base = base
        try:
            interface = base.__array_interface__
        except AttributeError as error:
            raise NotApplicable(f"no views: {error}") from None
        size = DTYPES[base.dtype][1] // 8
        data, in_bytes = (base.address + first * size, base.readonly), tuple(stride * size for stride in strides)
        self.__array_interface__ = {**interface, "shape": shape, "strides": in_bytes, "data": data}


class DLBridge(WithStrides):
    """dlbridge."""

    name = module = "dlbridge"
    dtypes = tuple(DTYPES)

    def array(self, values: Any, dtype: str = "float32") -> Any:
        return elements.tensor(values, dtype)

    def from_dlpack(self, producer: Any, **keywords: Any) -> Any:
        return self.library.from_dlpack(producer, **keywords)

    def from_exchange_api(self, producer: Any) -> Any:
        return self.library.asdlpack(producer)

    def values(self, array: Any) -> Any:
        return elements.at(array.address, array.dtype, array.shape, array.strides)

    def address(self, array: Any) -> int:
        return int(array.address)

    def view(self, array: Any, shape: Ints, strides: Ints, first: int = 0) -> Any:
        return self.library.asdlpack(View(array, shape, strides, first), copy=False)

    def read_only(self, array: Any) -> Any:
        return self.library.asdlpack(array, writable=False, copy=False)

    def is_read_only(self, array: Any) -> bool:
        return bool(array.readonly)

    def write(self, array: Any, value: float) -> None:
        if array.readonly:
            raise ValueError("the tensor is read-only")
        data = elements.packed([value], array.dtype)
        ctypes.memmove(array.address, data, len(data))
