"""Uses the C exchange API of an object's type for the Python consumer, without faults or with named faults."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

from dlbridge_conformance import crafter
from dlbridge_conformance.crafter import Fields, Held
from dlbridge_conformance.exchange import ATTRIBUTE

if TYPE_CHECKING:
    from python_consumer import PythonConsumer

OUT = ctypes.POINTER(ctypes.c_void_p)


class DLTensor(ctypes.Structure):
    """``DLTensor``."""

    _fields_ = [
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]  # fmt: skip


class Table(ctypes.Structure):
    """``DLPackExchangeAPI``. The consumer calls three of its functions."""

    _fields_ = [
        ("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("prev_api", ctypes.c_void_p),
        ("allocate", ctypes.c_void_p),
        ("from_object", ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, OUT)),
        ("to_object", ctypes.c_void_p),
        ("borrow", ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(DLTensor))),
        ("stream", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int32, ctypes.c_int32, OUT)),
    ]  # fmt: skip


def table_in(capsule: Any, any_name: bool) -> Table | None:
    """The table in a capsule; None if it does not hold one."""
    if type(capsule).__name__ != "PyCapsule":
        return None
    name = (crafter.capsule_name(capsule) or "").encode()
    if name != b"dlpack_exchange_api" and not any_name:
        return None
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return Table.from_address(get(capsule, name))


def usable_table(consumer: PythonConsumer, producer: Any) -> Table | None:
    """The table of an object's type; None if the type lacks a usable one."""
    if consumer.found is not None and consumer.has("has one table for all types"):
        return consumer.found
    holder = producer if consumer.has("looks for the table on the object") else type(producer)
    table = table_in(getattr(holder, ATTRIBUTE, None), consumer.has("takes tables of any name"))
    any_version = consumer.has("takes tables of any version")
    while table is not None and table.major > 1 and not any_version:
        older = None if consumer.has("knows only the newest table") else table.prev_api
        table = Table.from_address(older) if older else None
    if table is None or (table.minor > 3 and consumer.has("refuses tables of later minor versions")):
        return None
    if table.major != 1 and not any_version:
        return None
    consumer.found = table
    return table


def exported(table: Table, producer: Any) -> Held:
    """The managed tensor that a table exports."""
    out = ctypes.c_void_p()
    table.from_object(producer, out)
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    return crafter.take(new(out, b"dltensor_versioned", None))


def borrowed(table: Table, producer: Any) -> Fields:
    """The description that a table returns for a borrowed object. It is valid during a call."""
    tensor = DLTensor()
    table.borrow(producer, tensor)
    return Fields(
        version=None, flags=0, manager_ctx=0, deleter=0, device=(tensor.device_type, tensor.device_id),
        dtype=(tensor.code, tensor.bits, tensor.lanes), ndim=tensor.ndim, data=tensor.data or 0,
        shape=tuple(tensor.shape[: tensor.ndim]), strides=tuple(tensor.strides[: tensor.ndim]),
        byte_offset=tensor.byte_offset,
    )  # fmt: skip
