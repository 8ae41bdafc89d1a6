"""A producer that has only an array interface, for the tests of both array interfaces."""

from __future__ import annotations

import ctypes
import sys
from typing import Any

import dlbridge

ORDER = "<" if sys.byteorder == "little" else ">"


class Memory:
    """A producer that has only `__array_interface__`, with the given fields."""

    def __init__(self, content: bytes = bytes(range(24)), /, **fields: Any) -> None:
        self.buffer = (ctypes.c_uint8 * len(content)).from_buffer_copy(content)
        self.address = ctypes.addressof(self.buffer)
        whole = {"version": 3, "shape": (24,), "typestr": "|u1", "data": (self.address, False)}
        self.fields = {**whole, **fields}

    @property
    def __array_interface__(self) -> dict[str, Any]:
        """The dictionary."""
        return self.fields


def values(tensor: dlbridge.Tensor) -> Any:
    """The elements as nested lists."""
    return memoryview(tensor).tolist()
