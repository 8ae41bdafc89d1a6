"""DLPack's C exchange API: our table, called as C code calls it, and tables of other libraries."""

from __future__ import annotations

import array
import ctypes
import gc
import weakref
from collections.abc import Iterator
from typing import Any

import dlbridge
import native as n
import pytest
from conftest import require
from exchange_table import (
    ALLOCATE,
    API,
    BORROW,
    FROM_OBJECT,
    KEPT,
    NAME,
    SET_ERROR,
    STREAM,
    TO_OBJECT,
    DLTensor,
    Table,
    foreign,
    table_over,
)
from native import Flags, Native

def pointer(capsule: Any, name: bytes = NAME) -> int:
    """The address in a capsule."""
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return int(get(capsule, name))


@pytest.fixture
def table() -> Table:
    """Our table."""
    return Table.from_address(pointer(getattr(dlbridge.Tensor, API)))


def numbers() -> dlbridge.Tensor:
    """Six writable numbers."""
    return dlbridge.asdlpack(memoryview(array.array("f", range(6))).cast("B").cast("f", (2, 3)))


def test_table_is_the_same_for_the_class_and_all_objects(table: Table) -> None:
    assert (table.major, table.minor, table.prev_api) == (1, 3, None)
    assert pointer(getattr(numbers(), API)) == ctypes.addressof(table)


def test_table_exports_a_managed_tensor(table: Table, native: Native) -> None:
    tensor = numbers()
    out = ctypes.c_void_p()
    assert table.from_object(tensor, out) == 0
    held = n.Held(native.library, out.value or 0, True)
    assert (held.fields.data, held.fields.shape, held.fields.flags) == (tensor.address, (2, 3), 0)
    gone = weakref.ref(tensor)
    del tensor
    assert gone() is None, "an export keeps the memory, not the Tensor object"
    assert n.floats(held.fields.data, 6) == [0, 1, 2, 3, 4, 5]
    held.delete(n.Way.NATIVE_THREAD)


def test_read_only_data_is_marked(table: Table, native: Native) -> None:
    out = ctypes.c_void_p()
    assert table.from_object(dlbridge.asdlpack(b"abc"), out) == 0
    held = n.Held(native.library, out.value or 0, True)
    assert held.fields.flags == Flags.READ_ONLY
    held.delete()
    with pytest.raises(BufferError, match="read-only, which a borrowed DLTensor cannot express"):
        table.borrow(dlbridge.asdlpack(b"abc"), DLTensor())


def test_table_borrows_a_tensor(table: Table) -> None:
    tensor = numbers()
    borrowed = DLTensor()
    assert table.borrow(tensor, borrowed) == 0
    assert (borrowed.data, borrowed.ndim, borrowed.byte_offset) == (tensor.address, 2, 0)
    assert (borrowed.device_type, borrowed.device_id) == (1, 0)
    assert (borrowed.code, borrowed.bits, borrowed.lanes) == (2, 32, 1)
    assert (borrowed.shape[:2], borrowed.strides[:2]) == ([2, 3], [3, 1])


@pytest.mark.parametrize("function", ["from_object", "borrow"])
def test_table_refuses_other_objects(table: Table, function: str) -> None:
    out: Any = DLTensor() if function == "borrow" else ctypes.c_void_p()
    with pytest.raises(TypeError):
        getattr(table, function)(b"abc", out)


def test_table_imports_a_managed_tensor(table: Table, native: Native) -> None:
    crafted = native.craft((2, 3), flags=Flags.READ_ONLY)
    out = ctypes.py_object()
    assert table.to_object(crafted.address, out) == 0
    tensor = out.value
    assert isinstance(tensor, dlbridge.Tensor)
    assert (tensor.protocol, tensor.shape, tensor.readonly) == ("exchange-api", (2, 3), True)
    # ctypes does not count the reference that the function returned.
    ctypes.pythonapi.Py_DecRef(ctypes.py_object(tensor))
    del tensor, out
    assert crafted.record.calls == 1


@pytest.mark.parametrize("fields", [{"shape": (-1,)}, {"version": (2, 0)}, {"dtype": (2, 0, 1)}], ids=str)
def test_broken_tensor_is_refused_and_deleted(
    table: Table, native: Native, fields: dict[str, Any]
) -> None:
    crafted = native.craft(**fields)
    with pytest.raises(BufferError):
        table.to_object(crafted.address, ctypes.py_object())
    assert crafted.record.calls == 1


def prototype(shape: tuple[int, ...], dtype: tuple[int, int, int], device: int = 1) -> DLTensor:
    """The prototype that a consumer passes to an allocator."""
    extents = (ctypes.c_int64 * max(len(shape), 1))(*shape)
    return DLTensor(None, device, 0, len(shape), *dtype, extents, None, 0)


def test_allocator_makes_an_aligned_tensor(table: Table, native: Native) -> None:
    out = ctypes.c_void_p()
    asked = prototype((2, 3), n.FLOAT32)
    assert table.allocate(ctypes.addressof(asked), out, None, SET_ERROR()) == 0
    held = n.Held(native.library, out.value or 0, True)
    assert (held.fields.shape, held.fields.strides, held.fields.dtype) == ((2, 3), (3, 1), n.FLOAT32)
    assert held.fields.data % 256 == 0
    assert held.fields.flags == Flags.IS_COPIED
    held.delete(n.Way.NATIVE_THREAD)


@pytest.mark.parametrize(
    ("asked", "match"),
    [
        (prototype((2,), n.FLOAT32, device=2), "cuda:0"),
        (prototype((-2,), n.FLOAT32), "extent of axis 0 is -2"),
        (prototype((2,), (2, 0, 1)), "dtype"),
        (prototype((2**40, 2**40), n.FLOAT32), "address space"),
        (None, "NULL"),
    ],
)
def test_allocator_refuses_a_wrong_prototype_with_a_reason(table: Table, asked: Any, match: str) -> None:
    errors = []

    @SET_ERROR
    def remember(context: int, kind: bytes, message: bytes) -> None:
        errors.append((context, kind, message.decode()))

    address = ctypes.addressof(asked) if asked else None
    assert table.allocate(address, ctypes.c_void_p(), 7, remember) == -1
    [(context, kind, message)] = errors
    assert (context, kind) == (7, b"BufferError")
    assert match in message
    assert table.allocate(address, ctypes.c_void_p(), None, SET_ERROR()) == -1


def test_table_returns_the_default_stream(table: Table) -> None:
    for device in (1, 2, 10):
        out = ctypes.c_void_p(5)
        assert table.stream(device, 0, out) == 0
        assert out.value is None


@pytest.fixture
def exported(native: Native) -> Iterator[list[Any]]:
    """The objects that a foreign table exported."""
    yield []


def test_foreign_table_is_used_before_dlpack_method(native: Native, exported: list[Any]) -> None:
    crafted = native.craft((2, 3))
    kind = foreign(table_over(crafted, exported), __dlpack__=lambda self: 1 / 0)
    obj = kind()
    tensor = dlbridge.asdlpack(obj)
    assert (tensor.protocol, tensor.address) == ("exchange-api", crafted.fields.data)
    assert exported == [obj]
    del tensor
    assert crafted.record.calls == 1


def test_subclass_with_its_own_method_is_imported_by_the_method(
    native: Native, exported: list[Any]
) -> None:
    crafted = native.craft((2, 3))
    base = foreign(table_over(crafted, exported))
    plain = type("Plain", (base,), {})
    own = type("Own", (base,), {"__dlpack__": lambda self, **_: crafted.capsule()})
    assert dlbridge.asdlpack(own()).protocol == "dlpack"
    assert exported == []
    crafted = native.craft((2, 3))
    kind = type("Plain", (foreign(table_over(crafted, exported)),), {})
    assert dlbridge.asdlpack(kind()).protocol == "exchange-api"
    assert plain is not kind


@pytest.mark.parametrize("how", ["major 2", "major 0", "older table", "name", "no capsule", "hole"])
def test_unusable_table_is_skipped(native: Native, exported: list[Any], how: str) -> None:
    crafted = native.craft((2, 3))
    table = table_over(crafted, exported)
    KEPT.append(table)
    name = NAME
    if how == "major 2":
        table.major = 2
    elif how == "major 0":
        table.major = 0
    elif how == "older table":
        newer = Table(2, 0, ctypes.addressof(table))
        KEPT.append(newer)
        table = newer
    elif how == "name":
        name = b"something_else"
    elif how == "hole":
        table.from_object = FROM_OBJECT()
    kind = foreign(table, name, __dlpack__=lambda self, **_: crafted.capsule())
    if how == "no capsule":
        kind = type("Foreign", (), {API: 5, "__dlpack__": lambda self, **_: crafted.capsule()})
    tensor = dlbridge.asdlpack(kind())
    assert tensor.protocol == ("exchange-api" if how == "older table" else "dlpack")
    del tensor
    assert crafted.record.calls == 1


def test_table_that_fails_without_a_reason_raises_buffer_error() -> None:
    silent = FROM_OBJECT(lambda obj, out: -1)
    to_object = TO_OBJECT(lambda managed, out: -1)
    table = Table(1, 3, None, ALLOCATE(), silent, to_object, BORROW(), STREAM())
    with pytest.raises(BufferError, match="from_py_object_no_sync failed without a reason"):
        dlbridge.asdlpack(foreign(table)())


def test_data_on_a_device_is_imported_by_the_method_with_a_stream(native: Native, exported: list[Any]) -> None:
    crafted = native.craft((6,), device=n.CUDA)
    answered = native.craft((6,), device=n.CUDA)
    streams = []

    class OnDevice:
        """A producer on CUDA with a table."""

        def __dlpack__(self, *, stream: Any = None, max_version: Any = None) -> Any:
            """A capsule, after waiting."""
            streams.append(stream)
            return answered.capsule()

        def __dlpack_device__(self) -> tuple[int, int]:
            """CUDA."""
            return n.CUDA

    kind = type("Kind", (foreign(table_over(crafted, exported), **vars(OnDevice)),), {})
    # The table and the methods are in one class.
    tensor = dlbridge.asdlpack(kind())
    assert (tensor.protocol, tensor.device, streams) == ("dlpack", "cuda:0", [1])
    assert crafted.record.calls == 1


def test_cache_of_types_is_bounded() -> None:
    def refuse() -> weakref.ref[type]:
        kind = type("Short", (), {})
        with pytest.raises(TypeError):
            dlbridge.asdlpack(kind())
        return weakref.ref(kind)

    kinds = [refuse() for _ in range(1000)]
    gc.collect()
    assert sum(kind() is not None for kind in kinds) <= 256


def test_tvm_ffi_uses_our_table() -> None:
    tvm_ffi = require("tvm_ffi")
    echo = tvm_ffi.get_global_func("testing.echo")
    tensor = numbers()
    answer = echo(tensor)
    assert isinstance(answer, dlbridge.Tensor), "made through our own table"
    assert (answer.address, answer.protocol) == (tensor.address, "exchange-api")
    read_only = echo(dlbridge.asdlpack(b"abc"))
    assert bytes(read_only) == b"abc"
    taken = tvm_ffi.from_dlpack(tensor)
    assert dlbridge.asdlpack(taken).address == tensor.address
    gone = weakref.ref(tensor)
    del tensor
    gc.collect()
    assert gone() is None
    assert n.floats(dlbridge.asdlpack(taken).address, 6) == [0, 1, 2, 3, 4, 5]


def test_padded_elements_are_not_borrowed(table: Table) -> None:
    ml_dtypes, np = require("ml_dtypes"), require("numpy")
    padded = dlbridge.asdlpack(np.array([1, 2, 3], ml_dtypes.int4))
    with pytest.raises(BufferError, match="take a byte each although they are narrower"):
        table.borrow(padded, DLTensor())


def test_asdlpack_device_data_with_exchange_api_alone(native: Native, exported: list[Any]) -> None:
    for protocol in (None, "exchange-api"):
        crafted = native.craft((6,), device=n.CUDA)
        obj = foreign(table_over(crafted, exported))()
        with pytest.raises(BufferError, match="on cuda:0, and the exchange API does not synchronise"):
            dlbridge.asdlpack(obj, protocol=protocol)
        assert crafted.record.calls == 1


def test_table_that_points_to_itself_is_skipped(native: Native, exported: list[Any]) -> None:
    crafted = native.craft((2, 3))
    table = table_over(crafted, exported)
    KEPT.append(table)
    table.major, table.previous = 2, ctypes.addressof(table)
    kind = foreign(table, __dlpack__=lambda self, **_: crafted.capsule())
    assert dlbridge.asdlpack(kind()).protocol == "dlpack"
