"""dlbridge itself, over memory that Python objects own."""

from __future__ import annotations

import ctypes
from typing import Any

from dlbridge_conformance import elements
from dlbridge_conformance.adapter import Adapter
from dlbridge_conformance.crafter import DTYPES
from dlbridge_conformance.outcome import NotApplicable


class View:
    """An object with an array interface over another object's memory. It keeps that object alive."""

    def __init__(self, base: Any, shape: tuple[int, ...], strides: tuple[int, ...], start: int = 0) -> None:
        self.base = base
        try:
            interface = base.__array_interface__
        except AttributeError as error:
            raise NotApplicable(f"no views: {error}") from None
        address = (base.address + start, base.readonly)
        self.__array_interface__ = {**interface, "shape": shape, "strides": strides, "data": address}


class DLBridge(Adapter):
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

    def transposed(self, array: Any) -> Any:
        return self._view(array, array.shape[::-1], _bytes(array)[::-1])

    def stepped(self, array: Any) -> Any:
        first, *others = _bytes(array)
        return self._view(array, (-(-array.shape[0] // 2), *array.shape[1:]), (2 * first, *others))

    def reversed(self, array: Any) -> Any:
        first, *others = _bytes(array)
        return self._view(array, array.shape, (-first, *others), (array.shape[0] - 1) * first)

    def sliced(self, array: Any) -> Any:
        return self._view(array, (array.shape[0] - 1, *array.shape[1:]), _bytes(array), _bytes(array)[0])

    def broadcast(self, array: Any, extent: int) -> Any:
        return self._view(array, (extent, *array.shape), (0, *_bytes(array)))

    def read_only(self, array: Any) -> Any:
        return self.library.asdlpack(array, writable=False, copy=False)

    def is_read_only(self, array: Any) -> bool:
        return bool(array.readonly)

    def write(self, array: Any, value: float) -> None:
        if array.readonly:
            raise ValueError("the tensor is read-only")
        data = elements.packed([value], array.dtype)
        ctypes.memmove(array.address, data, len(data))

    def _view(self, array: Any, shape: tuple[int, ...], strides: tuple[int, ...], start: int = 0) -> Any:
        return self.library.asdlpack(View(array, shape, strides, start), copy=False)


def _bytes(array: Any) -> tuple[int, ...]:
    """The strides in bytes."""
    size = DTYPES[array.dtype][1] // 8
    return tuple(stride * size for stride in array.strides)
