"""The C exchange API of a type, called from Python as an extension would call it."""

from __future__ import annotations

import ctypes
from typing import Any

from check import Skipped, equal

OUT = ctypes.POINTER(ctypes.c_void_p)
FROM_OBJECT = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, OUT)
TO_OBJECT = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(ctypes.py_object))
WORK_STREAM = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int32, ctypes.c_int32, OUT)

CUDA = 2


class Functions(ctypes.Structure):
    """``DLPackExchangeAPI``; functions that are not called here are untyped. Source: ``dlpack.h`` 1.3."""

    _fields_ = [
        ("version", ctypes.c_uint32 * 2),
        ("before", ctypes.c_void_p),
        ("allocate", ctypes.c_void_p),
        ("from_object", FROM_OBJECT),
        ("to_object", TO_OBJECT),
        ("borrow", ctypes.c_void_p),
        ("work_stream", WORK_STREAM),
    ]


class Table:
    """The exchange API of a type."""

    def __init__(self, kind: type) -> None:
        capsule = getattr(kind, "__dlpack_c_exchange_api__", None)
        if capsule is None:
            raise Skipped(f"{kind.__name__} does not support the exchange API")
        get = ctypes.pythonapi.PyCapsule_GetPointer
        get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        self.functions = Functions.from_address(get(capsule, b"dlpack_exchange_api"))

    def work_stream(self, device: int = 0) -> int:
        """Returns the handle of the type's work stream."""
        handle = ctypes.c_void_p()
        equal(self.functions.work_stream(CUDA, device, ctypes.byref(handle)), 0, "the function's result")
        return handle.value or 0

    def lent(self, array: Any) -> int:
        """Returns the address of an array's managed tensor, whose deleter the caller must call."""
        managed = ctypes.c_void_p()
        equal(self.functions.from_object(array, ctypes.byref(managed)), 0, "the function's result")
        return managed.value or 0

    def taken(self, managed: int) -> Any:
        """Makes an array from a managed tensor, and takes ownership of it."""
        place = ctypes.py_object()
        equal(self.functions.to_object(managed, ctypes.byref(place)), 0, "the function's result")
        array = place.value
        # `place` held its own reference.
        ctypes.pythonapi.Py_DecRef(ctypes.py_object(array))
        return array
