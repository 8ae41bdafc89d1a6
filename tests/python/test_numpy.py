"""NumPy: round trips at the same address, read-only marks, and refusals."""

import copy
import functools
import hashlib
import mmap
import pickle
from pathlib import Path
from typing import Any

import dlbridge
import native as n
import pytest
from conftest import require
from native import Flags, Native
from producers import Wrapper, producer

np = require("numpy")

DTYPES = [
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "complex64", "complex128"),
]
LAYOUTS: dict[str, Any] = {
    "C order": lambda a: a,
    "F order": lambda a: a.T,
    "axes swapped": lambda a: a.transpose(1, 0, 2),
    "negative strides": lambda a: a[::-1, ::-1, ::-1],
    "one negative stride": lambda a: a[:, ::-1],
    "steps": lambda a: a[::2, ::3, 1::2],
    "part": lambda a: a[1:, 1:3, 2:],
    "broadcast": lambda a: np.lib.stride_tricks.as_strided(a, (3, 4), (0, a.strides[2])),
    "windows": lambda a: np.lib.stride_tricks.as_strided(a, (3, 4), (a.itemsize,) * 2),
    "a new axis": lambda a: a[:, None, :, None],
    "one element": lambda a: a[1:2, 2:3, 3:4],
    "a column": lambda a: a[:, 1, 1],
    "no dimension": lambda a: a[1, 2, 3, ...],
    "nothing": lambda a: a[:, 2:2],
    "nothing, backwards": lambda a: a[:0:-1, ::-1][:0],
}


def filled(dtype: str) -> Any:
    return (np.arange(40).reshape(2, 4, 5) % 7).astype(dtype)


def same(array: Any, tensor: dlbridge.Tensor) -> bool:
    """Returns whether array and tensor share their elements. Without elements the addresses do not count."""
    return bool(array.size == 0 or array.ctypes.data == tensor.address)


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_makes_a_round_trip(dtype: str) -> None:
    array = filled(dtype)
    tensor = dlbridge.asdlpack(array)
    assert (tensor.dtype, tensor.shape, tensor.nbytes) == (dtype, array.shape, array.nbytes)
    assert (tensor.protocol, tensor.copied, tensor.readonly) == ("dlpack", False, False)
    back = np.from_dlpack(tensor)
    assert back.dtype == array.dtype
    assert same(array, tensor)
    assert same(back, tensor)
    assert np.array_equal(back, array)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", ["uint8", "float32", "complex128"])
def test_every_layout_makes_a_round_trip(dtype: str, layout: str) -> None:
    array = LAYOUTS[layout](filled(dtype))
    tensor = dlbridge.asdlpack(array)
    back = np.from_dlpack(tensor)
    assert (tensor.shape, back.shape) == (array.shape, array.shape)
    assert same(array, tensor)
    assert same(back, tensor)
    assert np.array_equal(back, array)
    if array.size:
        assert tensor.strides == tuple(stride // array.itemsize for stride in array.strides)
        assert all(
            mine == yours
            for mine, yours, extent in zip(back.strides, array.strides, array.shape, strict=True)
            if extent > 1
        )


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("readonly", [True, False])
def test_copies_of_every_layout(layout: str, readonly: bool) -> None:
    array = LAYOUTS[layout](filled("float64"))
    if readonly:
        array.flags.writeable = False
    tensor = dlbridge.asdlpack(array, copy=True)
    assert (tensor.copied, tensor.readonly, tensor.address % 256) == (True, False, 0)
    copy = np.from_dlpack(tensor)
    assert copy.flags.c_contiguous
    assert copy.flags.writeable
    assert not np.shares_memory(copy, array)
    assert np.array_equal(copy, array)
    # The export supports both of NumPy's protocols too.
    lent = dlbridge.asdlpack(array)
    assert np.array_equal(np.from_dlpack(lent, copy=True), array)
    assert not np.shares_memory(np.from_dlpack(lent, copy=True), array)


def test_read_only_stays_read_only() -> None:
    array = np.arange(3)
    array.flags.writeable = False
    tensor = dlbridge.asdlpack(array)
    assert tensor.readonly
    for copy in (None, False):
        back = np.from_dlpack(tensor, copy=copy)
        assert same(back, tensor)
        assert not back.flags.writeable
        with pytest.raises(ValueError, match="read-only"):
            back[0] = 1
    assert np.from_dlpack(dlbridge.asdlpack(b"abc")).flags.writeable is False
    assert dlbridge.asdlpack(np.broadcast_to(np.arange(3), (2, 3))).readonly


def test_many_dimensions_and_long_axes() -> None:
    for ndim in (0, 1, 32, 64):
        array = np.ones((1,) * ndim)
        assert np.from_dlpack(dlbridge.asdlpack(array)).shape == (1,) * ndim
    array = np.lib.stride_tricks.as_strided(np.zeros(1, "int8"), (2**40,), (0,))
    tensor = dlbridge.asdlpack(array)
    assert (tensor.shape, tensor.nbytes) == ((2**40,), 2**40)


def test_misaligned_elements() -> None:
    array = np.frombuffer(bytearray(range(17)), "uint8")[1:].view("float32")
    assert not array.flags.aligned
    tensor = dlbridge.asdlpack(array)
    assert same(array, tensor)
    assert np.array_equal(np.from_dlpack(tensor), array)
    assert np.array_equal(np.from_dlpack(dlbridge.asdlpack(array, copy=True)), array)


@pytest.mark.parametrize("device", ["cpu", None])
def test_device_keyword_of_numpy_is_accepted(device: str | None) -> None:
    tensor = dlbridge.asdlpack(np.arange(3))
    assert same(np.from_dlpack(tensor, device=device), tensor)
    for here in ((1, 0), None):
        assert dlbridge.from_dlpack(np.arange(3), device=here).device == "cpu"
    with pytest.raises(BufferError):
        dlbridge.from_dlpack(np.arange(3), device=(2, 0))


@pytest.mark.parametrize("order", ["<", ">"])
def test_field_of_records_is_repaired_by_a_copy(order: str) -> None:
    records = np.zeros((2, 3), [("a", "u1"), ("b", f"{order}f4")])
    records["b"] = np.arange(6).reshape(2, 3)
    tensor = dlbridge.asdlpack(records["b"][:, ::-1])
    assert tensor.copy_reason == "the strides were not multiples of the element size"
    assert np.from_dlpack(tensor).tolist() == [[2, 1, 0], [5, 4, 3]]
    with pytest.raises(BufferError):
        dlbridge.asdlpack(records["b"], copy=False)


def test_masked_elements_are_refused() -> None:
    masked = np.ma.array([1, 2, 3], mask=[False, True, False])
    with pytest.raises(BufferError, match=r"a\.filled\(value\)"):
        dlbridge.asdlpack(masked)
    with pytest.raises(BufferError, match="masked"):
        dlbridge.asdlpack(masked, protocol="array-interface")
    unmasked = dlbridge.asdlpack(np.ma.array([1, 2, 3]))
    assert np.from_dlpack(unmasked).tolist() == [1, 2, 3]


def test_numbers() -> None:
    tensor = dlbridge.asdlpack(np.float32(1.5))
    assert (tensor.shape, tensor.dtype, tensor.protocol) == ((), "float32", "array-interface")
    assert np.from_dlpack(tensor) == 1.5
    assert dlbridge.asdlpack(np.float32(1.5), protocol="buffer").readonly


def test_memmap_array_is_imported_read_only(tmp_path: Path) -> None:
    path = tmp_path / "array"
    path.write_bytes(n.numbers(6))
    array = np.memmap(path, "float32", "r", shape=(2, 3))
    tensor = dlbridge.asdlpack(array)
    assert tensor.readonly
    assert tensor.address % mmap.PAGESIZE == 0
    assert np.from_dlpack(tensor).tolist() == [[0, 1, 2], [3, 4, 5]]


@pytest.mark.parametrize("versioned", [True, False])
def test_crafted_tensors_reach_numpy(native: Native, versioned: bool) -> None:
    tensor, crafted = native.tensor((2, 2), strides=(-1, 3), origin=16, versioned=versioned)
    array = np.from_dlpack(tensor)
    assert array.tolist() == [[4, 7], [3, 6]]
    assert array.flags.writeable == versioned, "a legacy producer cannot say that its data is writable"
    del tensor
    assert crafted.record.calls == 0
    del array
    assert crafted.record.calls == 1


def test_legacy_consumer_gets_a_copy_of_read_only_data(native: Native) -> None:
    tensor, crafted = native.tensor((6,), flags=Flags.READ_ONLY)
    array = np.from_dlpack(n.OldProducer(lambda _: tensor.__dlpack__()))
    assert array.ctypes.data != crafted.fields.data
    assert array.tolist() == [0, 1, 2, 3, 4, 5]


def test_masked_elements_behind_a_wrapper_are_refused() -> None:
    masked = np.ma.array([1, 2], mask=[1, 0])
    for protocol in (None, "dlpack-legacy"):
        with pytest.raises(BufferError, match="masked"):
            dlbridge.asdlpack(Wrapper(masked), protocol=protocol)
    assert np.from_dlpack(dlbridge.asdlpack(Wrapper(np.arange(3)))).tolist() == [0, 1, 2]


def test_memoryview_of_masked_elements_is_refused() -> None:
    masked = np.ma.array([1, 2, 3], mask=[0, 1, 0])
    with pytest.raises(BufferError, match="masked elements"):
        dlbridge.asdlpack(memoryview(masked))
    assert dlbridge.asdlpack(memoryview(np.ma.array([1, 2]))).shape == (2,)


def test_row_of_masked_records_is_refused() -> None:
    record = np.ma.array([(1, 2)], dtype="i4,i4", mask=[(0, 1)])[0]
    with pytest.raises(BufferError, match="element type"):
        dlbridge.asdlpack(record)


def test_functions_that_call_asarray() -> None:
    tensor = dlbridge.asdlpack(np.arange(3.0))
    assert np.shares_memory(np.asarray(tensor), tensor.numpy())
    assert np.array(tensor, dtype="i4").tolist() == [0, 1, 2]
    assert tensor.__array__("f4").dtype == "float32"
    assert tensor.__array__(copy=True).ctypes.data != tensor.address
    assert tensor.__array__(np.float64, copy=False).ctypes.data == tensor.address
    with pytest.raises(ValueError, match="copy=False forbids"):
        tensor.__array__("f4", copy=False)
    require("ml_dtypes")
    bfloat16 = np.asarray(dlbridge.empty(3, "bfloat16"))
    assert (bfloat16.shape, bfloat16.dtype.name) == ((3,), "bfloat16")


def test_booleans_without_memory_to_repair_raise_memory_error() -> None:
    odd = np.broadcast_to(np.array([2], np.uint8).view(bool), (1 << 45,))
    for source in (memoryview(odd), producer(__array_interface__=odd.__array_interface__)):
        with pytest.raises(MemoryError, match="35184372088832 bytes"):
            dlbridge.asdlpack(source)


def test_repaired_booleans_are_aligned_like_all_copies() -> None:
    odd = np.full(5, 2, np.uint8).view(bool)
    for protocol in ("buffer", "array-interface"):
        tensor = dlbridge.asdlpack(odd, protocol=protocol)
        assert tensor.copied
        assert tensor.address % 256 == 0


def test_complex32_makes_a_round_trip() -> None:
    ml_dtypes = require("ml_dtypes")
    source = np.array([1 + 2j, 3j], ml_dtypes.complex32)
    tensor = dlbridge.asdlpack(source)
    assert (tensor.dtype, tensor.address) == ("complex32", source.ctypes.data)
    assert tensor.numpy().tolist() == source.tolist()


def test_time_of_a_call_grows_with_the_bytes_not_the_indices() -> None:
    t = dlbridge.asdlpack(np.lib.stride_tricks.as_strided(np.ones(1), (1 << 58,), (0,)))
    for call in (hash, repr, copy.copy, lambda t: dlbridge.explain(t, to=["numpy", "torch"])):
        call(t)
    ordered = functools.partial(dlbridge.asdlpack, contiguous="C")
    for refused in (bytes, copy.deepcopy, pickle.dumps, hashlib.sha256, ordered):
        with pytest.raises((MemoryError, BufferError)):
            refused(t)


@pytest.mark.parametrize("protocol", ["dlpack", "buffer", "array-interface", "array-struct"])
def test_time_of_an_import_grows_with_the_bytes_not_the_indices(protocol: Any) -> None:
    for byte in (1, 2):
        flags = np.lib.stride_tricks.as_strided(np.array([byte], "u1").view(bool), (1 << 40, 3), (0, 0))
        if byte == 1 or protocol == "dlpack":
            t = dlbridge.asdlpack(flags, protocol=protocol)
            assert (t.shape, t.strides, t.address) == ((1 << 40, 3), (0, 0), flags.ctypes.data)
        else:
            with pytest.raises(BufferError, match="some booleans are neither 0 nor 1"):
                dlbridge.asdlpack(flags, protocol=protocol, copy=False)
    beside = np.lib.stride_tricks.as_strided(np.zeros(1 << 31, bool), (1 << 40, 2), (0, (1 << 31) - 1))
    assert dlbridge.asdlpack(beside, protocol=protocol).address == beside.ctypes.data
    overlapping = np.lib.stride_tricks.as_strided(np.ones(1 << 10, bool), (512, 257, 257), (1, 1, 1))
    assert dlbridge.asdlpack(overlapping, protocol=protocol).address == overlapping.ctypes.data
