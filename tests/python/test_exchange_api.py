"""DLPack's C exchange API: our table, called as C code calls it, and tables of other libraries."""

import ctypes
import gc
import weakref
from typing import Any

import dlbridge
import native as n
import pytest
from conftest import require
from dlbridge_conformance import crafter
from exchange_table import API, foreign
from native import Flags, Held, Native, Way
from producers import numbers


@pytest.fixture
def table() -> Any:
    return crafter.native.Table(getattr(dlbridge.Tensor, API))


def exported(table: Any, obj: Any) -> Held:
    status, held, error = table.exported(obj)
    assert (status, error) == (0, None)
    return Held(held)


def refused(answer: tuple[int, Any, Any], kind: type[Exception], match: str | None = None) -> None:
    """Asserts that a function of a table failed with an exception."""
    status, _, error = answer
    with pytest.raises(kind, match=match):
        raise error
    assert status == -1


def test_table_is_the_same_for_the_class_and_all_objects(table: Any) -> None:
    assert table.versions == [(1, 3)]
    assert crafter.native.Table(getattr(dlbridge.empty(3), API)).address == table.address


def test_table_exports_a_managed_tensor(table: Any) -> None:
    tensor = dlbridge.asdlpack(numbers())
    held = exported(table, tensor)
    assert (held.fields.data, held.fields.shape, held.fields.flags) == (tensor.address, (2, 3), 0)
    gone = weakref.ref(tensor)
    del tensor
    assert gone() is None, "an export keeps the memory, not the Tensor object"
    assert n.floats(held.fields.data, 6) == [0, 1, 2, 3, 4, 5]
    held.delete(Way.NATIVE_THREAD)


def test_read_only_data_is_marked(table: Any) -> None:
    held = exported(table, dlbridge.asdlpack(b"abc"))
    assert held.fields.flags == Flags.READ_ONLY
    held.delete()
    answer = table.borrowed(dlbridge.asdlpack(b"abc"))
    refused(answer, BufferError, "read-only, which a borrowed DLTensor cannot express")


def test_table_borrows_a_tensor(table: Any) -> None:
    tensor = dlbridge.asdlpack(numbers())
    status, borrowed, _ = table.borrowed(tensor)
    expected = {"data": tensor.address, "ndim": 2, "byte_offset": 0, "shape": (2, 3), "strides": (3, 1)}
    assert (status, borrowed) == (0, {**expected, "device": n.CPU, "dtype": n.FLOAT32})


def test_table_refuses_other_objects(table: Any) -> None:
    refused(table.exported(b"abc"), TypeError)
    refused(table.borrowed(b"abc"), TypeError)


def test_table_imports_a_managed_tensor(table: Any, native: Native) -> None:
    crafted = native.craft((2, 3), flags=Flags.READ_ONLY)
    status, tensor, _ = table.imported(crafted.native)
    assert (status, type(tensor)) == (0, dlbridge.Tensor)
    assert (tensor.protocol, tensor.shape, tensor.readonly) == ("exchange-api", (2, 3), True)
    del tensor
    assert crafted.record.calls == 1


@pytest.mark.parametrize("fields", [{"shape": (-1,)}, {"version": (2, 0)}, {"dtype": (2, 0, 1)}], ids=str)
def test_broken_tensor_is_refused_and_deleted(table: Any, native: Native, fields: dict[str, Any]) -> None:
    crafted = native.craft(**fields)
    refused(table.imported(crafted.native), BufferError)
    assert crafted.record.calls == 1


def test_allocator_makes_an_aligned_tensor(table: Any) -> None:
    (status, made, _), errors = table.allocated((2, 3), n.FLOAT32, n.CPU)
    held = Held(made)
    assert (status, errors) == (0, [])
    assert (held.fields.shape, held.fields.strides, held.fields.dtype) == ((2, 3), (3, 1), n.FLOAT32)
    assert held.fields.data % 256 == 0
    assert held.fields.flags == Flags.IS_COPIED
    held.delete(Way.NATIVE_THREAD)


@pytest.mark.parametrize(
    ("shape", "dtype", "device", "match"),
    [
        ((2,), n.FLOAT32, n.CUDA, "cuda:0"),
        ((-2,), n.FLOAT32, n.CPU, "extent of axis 0 is -2"),
        ((2,), (2, 0, 1), n.CPU, "dtype"),
        ((2**40, 2**40), n.FLOAT32, n.CPU, "address space"),
    ],
)
def test_allocator_refuses_a_wrong_prototype_with_a_reason(
    table: Any, shape: n.Ints, dtype: n.Ints, device: n.Ints, match: str
) -> None:
    (status, made, _), [(kind, message)] = table.allocated(shape, dtype, device)
    assert (status, made, kind) == (-1, None, "BufferError")
    assert match in message


def test_allocator_without_a_prototype_or_a_place_for_the_reason_fails(table: Any) -> None:
    # The first function of the table, after the version and the previous table.
    address = ctypes.c_void_p.from_address(table.address + 16).value
    allocate = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 4)(address or 0)
    assert allocate(None, ctypes.addressof(ctypes.c_void_p()), None, None) == -1
    errors = []

    @ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p)
    def remember(context: int, kind: bytes, message: bytes) -> None:
        errors.append((context, kind, b"NULL" in message))

    assert allocate(None, ctypes.addressof(ctypes.c_void_p()), 7, ctypes.cast(remember, ctypes.c_void_p)) == -1
    assert errors == [(7, b"BufferError", True)]


def test_table_returns_the_default_stream(table: Any) -> None:
    for device in (n.CPU, n.CUDA, n.ROCM):
        assert table.work_stream(device) == (0, 0, None)


def test_foreign_table_is_used_before_dlpack_method(native: Native) -> None:
    crafted, asked = native.craft((2, 3)), []
    obj = foreign(crafted, asked, __dlpack__=lambda self: 1 / 0)()
    tensor = dlbridge.asdlpack(obj)
    assert (tensor.protocol, tensor.address) == ("exchange-api", crafted.fields.data)
    assert asked == [obj]
    del tensor
    assert crafted.record.calls == 1


def test_subclass_with_its_own_method_is_imported_by_the_method(native: Native) -> None:
    crafted, asked = native.craft((2, 3)), []
    own = type("Own", (foreign(crafted, asked),), {"__dlpack__": lambda self, **_: crafted.capsule()})
    assert dlbridge.asdlpack(own()).protocol == "dlpack"
    assert asked == []
    kind = type("Plain", (foreign(native.craft((2, 3))),), {})
    assert dlbridge.asdlpack(kind()).protocol == "exchange-api"


@pytest.mark.parametrize(
    "fields",
    [
        {"version": (2, 0)}, {"version": (0, 9)}, {"name": "something_else"},
        {"missing": ["managed_tensor_from_py_object_no_sync"]}, "not a table", "previous is itself",
    ],
    ids=str,
)  # fmt: skip
def test_unusable_table_is_skipped(native: Native, fields: Any) -> None:
    crafted = native.craft((2, 3))
    table = fields if isinstance(fields, dict) else {"version": (2, 0)}
    kind = foreign(None, table=table, __dlpack__=lambda self, **_: crafted.capsule())
    if fields == "not a table":
        setattr(kind, API, 5)
    if fields == "previous is itself":
        address = crafter.native.Table(getattr(kind, API)).address
        # The previous table, after the version.
        ctypes.c_void_p.from_address(address + 8).value = address
    assert dlbridge.asdlpack(kind()).protocol == "dlpack"
    assert crafted.record.calls == 1


def test_older_table_behind_a_newer_one_is_used(native: Native) -> None:
    kind = foreign(native.craft((2, 3)))
    older = crafter.native.Table(getattr(kind, API)).address
    setattr(kind, API, crafter.native.craft_table(version=(2, 0), previous=older))
    assert dlbridge.asdlpack(kind()).protocol == "exchange-api"


def test_table_that_fails_without_a_reason_raises_buffer_error() -> None:
    with pytest.raises(BufferError, match="from_py_object_no_sync failed without a reason"):
        dlbridge.asdlpack(foreign(None)())


def test_data_on_a_device_is_imported_by_the_method_with_a_stream(native: Native) -> None:
    crafted = native.craft((6,), device=n.CUDA)
    answered = native.craft((6,), device=n.CUDA)
    streams = []

    def export(_: object, *, stream: Any = None, max_version: Any = None) -> Any:
        streams.append(stream)
        return answered.capsule()

    # The table and the methods are in one class.
    kind = type("Kind", (foreign(crafted, __dlpack__=export, __dlpack_device__=lambda _: n.CUDA),), {})
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
    tensor = dlbridge.asdlpack(numbers())
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


def test_padded_elements_are_not_borrowed(table: Any) -> None:
    ml_dtypes, np = require("ml_dtypes"), require("numpy")
    padded = dlbridge.asdlpack(np.array([1, 2, 3], ml_dtypes.int4))
    refused(table.borrowed(padded), BufferError, "take a byte each although they are narrower")


def test_asdlpack_device_data_with_exchange_api_alone(native: Native) -> None:
    for protocol in (None, "exchange-api"):
        crafted = native.craft((6,), device=n.CUDA)
        obj = foreign(crafted)()
        with pytest.raises(BufferError, match="on cuda:0, and the exchange API does not synchronise"):
            dlbridge.asdlpack(obj, protocol=protocol)
        assert crafted.record.calls == 1
