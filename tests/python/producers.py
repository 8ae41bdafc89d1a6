"""Producers for protocols that a test breaks: of one line, or with only an array interface."""

import array
import ctypes
import sys
from collections.abc import Callable
from typing import Any

import dlbridge

ORDER = "<" if sys.byteorder == "little" else ">"


def producer(**members: Any) -> Any:
    """An object whose class has these members."""
    return type("Producer", (), members)()


def raises(error: BaseException | type[BaseException]) -> Callable[..., Any]:
    def function(*_: Any, **keywords: Any) -> Any:
        raise error

    return function


def numbers() -> memoryview:
    """Six writable numbers in two rows."""
    return memoryview(array.array("f", range(6))).cast("B").cast("f", (2, 3))


class Only:
    """An object that has only the named attributes of another one, which it keeps."""

    def __init__(self, source: object, *names: str) -> None:
        self.source = source
        for name in names:
            setattr(self, name, getattr(source, name))


class Wrapper:
    """An object that forwards all attributes to another one."""

    def __init__(self, inner: object) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


class Memory:
    """A producer that has only `__array_interface__`, with the given fields."""

    def __init__(self, content: bytes = bytes(range(24)), /, **fields: Any) -> None:
        self.buffer = (ctypes.c_uint8 * len(content)).from_buffer_copy(content)
        self.address = ctypes.addressof(self.buffer)
        whole = {"version": 3, "shape": (24,), "typestr": "|u1", "data": (self.address, False)}
        self.fields = {**whole, **fields}

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return self.fields


def values(tensor: dlbridge.Tensor) -> Any:
    """The elements as nested lists."""
    return memoryview(tensor).tolist()
