"""Tables of DLPack's C exchange API, made in Python for types of the tests."""

from __future__ import annotations

import ctypes
from typing import Any

import native as n

API = "__dlpack_c_exchange_api__"
NAME = b"dlpack_exchange_api"

class DLTensor(ctypes.Structure):
    """``DLTensor``."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


SET_ERROR = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p)
OUT = ctypes.POINTER(ctypes.c_void_p)
ALLOCATE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, OUT, ctypes.c_void_p, SET_ERROR)
FROM_OBJECT = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, OUT)
TO_OBJECT = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(ctypes.py_object))
BORROW = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(DLTensor))
STREAM = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int32, ctypes.c_int32, OUT)


class Table(ctypes.Structure):
    """``DLPackExchangeAPI``."""

    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("prev_api", ctypes.c_void_p),
        ("allocate", ALLOCATE),
        ("from_object", FROM_OBJECT),
        ("to_object", TO_OBJECT),
        ("borrow", BORROW),
        ("stream", STREAM),
    ]


def capsule_of(address: int, name: bytes = NAME) -> Any:
    """A capsule that holds the address of a table."""
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    return new(address, name, None)


KEPT: list[Any] = []


def foreign(table: Table, name: bytes = NAME, **attributes: Any) -> type:
    """A new type with an exchange table."""
    KEPT.append((table, name))
    return type("Foreign", (), {API: capsule_of(ctypes.addressof(table), name), **attributes})


def table_over(crafted: n.Crafted, asked: list[Any], stream: Any = None) -> Table:
    """A table that exports one crafted tensor for every object; `stream` is its function for the stream, if any."""

    @FROM_OBJECT
    def from_object(obj: Any, out: Any) -> int:
        asked.append(obj)
        out[0] = crafted.address
        return 0

    @TO_OBJECT
    def to_object(managed: int, out: Any) -> int:
        raise AssertionError("not called")

    return Table(1, 3, None, ALLOCATE(), from_object, to_object, BORROW(), stream or STREAM())
