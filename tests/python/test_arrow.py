"""Import and export by the Arrow PyCapsule interface, with pyarrow, polars and nanoarrow."""

import gc
import weakref
from collections.abc import Callable
from typing import Any

import dlbridge
import pytest
from conftest import require
from producers import Only

pa = require("pyarrow")
np = require("numpy")

DTYPES = [
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64"),
]


def arrow(source: Any, **keywords: Any) -> dlbridge.Tensor:
    """Imports a tensor by Arrow."""
    tensor = dlbridge.asdlpack(source, protocol="arrow", **keywords)
    assert tensor.protocol == "arrow"
    return tensor


@pytest.mark.parametrize("dtype", DTYPES)
def test_numbers_make_a_round_trip(dtype: str) -> None:
    source = pa.array(np.arange(10).astype(dtype))
    tensor = arrow(source)
    assert (tensor.dtype, tensor.shape, tensor.readonly, tensor.copied) == (dtype, (10,), True, False)
    assert tensor.address == source.buffers()[1].address
    back = pa.array(tensor)
    assert back.type == source.type
    assert back.equals(source)
    assert back.buffers()[1].address == tensor.address


def test_slices_and_bitmaps_without_nulls() -> None:
    with_bitmap = pa.array([1, 2, None, 4, 5], pa.int32())[3:]
    assert arrow(with_bitmap).numpy().tolist() == [4, 5]
    assert arrow(pa.array(range(10))[2:5]).numpy().tolist() == [2, 3, 4]
    assert arrow(pa.array([], pa.int16())).shape == (0,)


def test_nulls_are_refused_with_the_fix() -> None:
    for source in [pa.array([1, None, 3, None]), pa.array([1, None, 3, None])[1:]]:
        with pytest.raises(BufferError, match=r"has 2 nulls.*fill_null"):
            dlbridge.asdlpack(source)
    inner = pa.FixedSizeListArray.from_arrays(pa.array([1, None, 3, 4]), 2)
    with pytest.raises(BufferError, match="has 1 null, "):
        dlbridge.asdlpack(inner)
    assert arrow(inner[1:]).numpy().tolist() == [[3, 4]]
    outer = pa.array([[1, 2], None], pa.list_(pa.int8(), 2))
    with pytest.raises(BufferError, match="has 1 null, "):
        dlbridge.asdlpack(outer)


def test_booleans_are_unpacked_as_a_reported_copy() -> None:
    values = [True, False, True, True, False, False, True, False, True, True]
    source = pa.array(values)
    tensor = dlbridge.asdlpack(source[1:])
    assert (tensor.dtype, tensor.copied) == ("bool", True)
    assert tensor.copy_reason == "the elements were packed, eight to a byte"
    assert tensor.numpy().tolist() == values[1:]
    with pytest.raises(BufferError, match="packs booleans eight to a byte"):
        dlbridge.asdlpack(source, copy=False)
    pairs = pa.FixedSizeListArray.from_arrays(source, 2)
    assert dlbridge.asdlpack(pairs[1:]).numpy().tolist() == [values[i : i + 2] for i in (2, 4, 6, 8)]
    with pytest.raises(BufferError, match="no type with the memory layout of bool"):
        pa.array(tensor)


def test_lists_of_a_fixed_size_are_axes() -> None:
    numbers = np.arange(24, dtype="float32")
    lists = pa.FixedSizeListArray.from_arrays(pa.array(numbers), 4)
    nested = pa.FixedSizeListArray.from_arrays(lists, 3)
    tensor = arrow(nested)
    assert (tensor.shape, tensor.strides) == ((2, 3, 4), (12, 4, 1))
    assert tensor.address == numbers.ctypes.data
    assert arrow(nested[1:]).numpy().tolist() == numbers.reshape(2, 3, 4)[1:].tolist()
    assert arrow(nested.flatten()[2:5]).numpy().tolist() == numbers.reshape(6, 4)[2:5].tolist()
    sliced_inside = pa.FixedSizeListArray.from_arrays(pa.array(numbers)[4:12], 2)
    assert arrow(sliced_inside[1:3]).numpy().tolist() == [[6, 7], [8, 9]]


def test_tensors_of_a_fixed_shape() -> None:
    numbers = np.arange(24, dtype="int32").reshape(2, 3, 4)
    source = pa.FixedShapeTensorArray.from_numpy_ndarray(numbers)
    tensor = arrow(source)
    assert (tensor.shape, tensor.strides) == ((2, 3, 4), (12, 4, 1))
    assert np.array_equal(tensor.numpy(), numbers)
    back = pa.array(dlbridge.asdlpack(numbers))
    assert back.type == source.type
    assert np.array_equal(back.to_numpy_ndarray(), numbers)
    assert back.storage.flatten().buffers()[1].address == numbers.ctypes.data


@pytest.mark.parametrize(
    "permutation", [[0, 1, 2], [0, 2, 1], [1, 0, 2], [2, 1, 0], [1, 2, 0], [2, 0, 1]], ids=str
)
def test_permutation_becomes_strides(permutation: list[int]) -> None:
    kind = pa.fixed_shape_tensor(pa.int32(), [2, 3, 4], permutation=permutation)
    storage = pa.FixedSizeListArray.from_arrays(pa.array(range(48), pa.int32()), 24)
    source = pa.ExtensionArray.from_storage(kind, storage)
    tensor = arrow(source)
    # In the format, the logical axis i is the physical axis permutation[i].
    expected = np.arange(48).reshape(2, 2, 3, 4).transpose(0, *(axis + 1 for axis in permutation))
    assert np.array_equal(tensor.numpy(), expected)
    assert tensor.address == storage.flatten().buffers()[1].address
    if np.argsort(permutation).tolist() == permutation:
        # pyarrow 26 returns other elements for a permutation that is not its own inverse.
        assert np.array_equal(tensor.numpy(), source.to_numpy_ndarray())


def test_tensors_of_a_fixed_shape_elsewhere_are_refused() -> None:
    kind = pa.fixed_shape_tensor(pa.int32(), [3, 4], permutation=[1, 0])
    storage = pa.FixedSizeListArray.from_arrays(pa.array(range(48), pa.int32()), 12)
    tensors = pa.ExtensionArray.from_storage(kind, storage)
    with pytest.raises(BufferError, match="lists of tensors of a fixed shape.*take the storage"):
        arrow(pa.FixedSizeListArray.from_arrays(tensors, 2))
    kind = pa.fixed_shape_tensor(pa.list_(pa.int32(), 2), [3, 2], permutation=[1, 0])
    pairs = pa.FixedSizeListArray.from_arrays(pa.array(range(24), pa.int32()), 2)
    storage = pa.FixedSizeListArray.from_arrays(pairs, 6)
    with pytest.raises(BufferError, match="whose elements are not numbers.*take the storage"):
        arrow(pa.ExtensionArray.from_storage(kind, storage))
    assert arrow(storage).shape == (2, 6, 2)


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: pa.array(["text"]), "'u' .*convert it to numbers first"),
        (lambda: pa.array([1], pa.decimal128(5)), "'d:5,0' .*cast it to floats first"),
        (lambda: pa.record_batch({"a": [1]}), r"is a table, .*take one column of it first"),
        (lambda: pa.table({"a": [1]}), r"is a table, .*take one column of it first"),
        (lambda: pa.chunked_array([[1], [2]]), r"several chunks.*combine_chunks\(\) or rechunk\(\)"),
        (lambda: pa.chunked_array([], pa.list_(pa.int8(), 2)), r"lacks chunks; make one.*combine_chunks\(\)"),
    ],
)
def test_unsupported_object_is_refused_with_the_fix(make: Callable[[], Any], match: str) -> None:
    with pytest.raises(BufferError, match=match):
        dlbridge.asdlpack(make())


def test_streams_of_one_chunk() -> None:
    chunk = pa.array([1, 2, 3])
    tensor = dlbridge.asdlpack(pa.chunked_array([chunk]))
    assert (tensor.protocol, tensor.address) == ("arrow", chunk.buffers()[1].address)
    empty = pa.array([], pa.int64())
    assert dlbridge.asdlpack(pa.chunked_array([empty, chunk, empty])).numpy().tolist() == [1, 2, 3]
    assert dlbridge.asdlpack(pa.chunked_array([empty, empty])).shape == (0,)


@pytest.mark.parametrize("copy", [None, True, False])
def test_streams_without_chunks_are_empty(copy: bool | None) -> None:
    for made, dtype in [(pa.int8(), "int8"), (pa.float64(), "float64"), (pa.bool_(), "bool")]:
        without, of_one = (pa.chunked_array(chunks, made) for chunks in ([], [pa.array([], made)]))
        assert dlbridge.explain(without).tensor == dlbridge.explain(of_one).tensor
        if copy is False and dtype == "bool":
            for stream in (without, of_one):
                with pytest.raises(BufferError, match="Arrow packs booleans"):
                    dlbridge.asdlpack(stream, copy=copy)
            continue
        tensor, expected = (dlbridge.asdlpack(stream, copy=copy) for stream in (without, of_one))
        assert (tensor.dtype, tensor.shape, tensor.protocol) == (dtype, (0,), "arrow")
        for fact in ("readonly", "copied", "copy_reason", "address"):
            assert getattr(tensor, fact) == getattr(expected, fact), fact
    table = pa.table({"a": [1, 2]})
    assert dlbridge.asdlpack(table.filter(pa.array([False, False]))["a"]).shape == (0,)


def test_arrow_device_array() -> None:
    source = pa.array([1, 2, 3])
    tensor = arrow(Only(source, "__arrow_c_device_array__"))
    assert (tensor.address, tensor.device) == (source.buffers()[1].address, "cpu")
    with pytest.raises(BufferError, match="an Arrow array is on the CPU"):
        dlbridge.asdlpack(Only(source, "__arrow_c_array__"), device="metal")


def test_polars() -> None:
    polars = require("polars")
    series = polars.Series([1.5, 2.5, 3.5])
    tensor = dlbridge.asdlpack(series)
    assert (tensor.protocol, tensor.readonly) == ("arrow", True)
    assert tensor.address == series.to_numpy(allow_copy=False).ctypes.data
    with pytest.raises(BufferError, match="several chunks"):
        dlbridge.asdlpack(polars.concat([series, series], rechunk=False))
    matrix = dlbridge.asdlpack(polars.Series([[1, 2], [3, 4]], dtype=polars.Array(polars.Int32, 2)))
    assert matrix.numpy().tolist() == [[1, 2], [3, 4]]
    back = polars.Series(dlbridge.asdlpack(np.arange(3.0)))
    assert back.to_list() == [0, 1, 2]


def test_nanoarrow() -> None:
    nanoarrow = require("nanoarrow")
    source = np.arange(5)
    made = nanoarrow.c_array(dlbridge.asdlpack(source))
    assert made.buffers[1] == source.ctypes.data
    assert dlbridge.asdlpack(nanoarrow.Array([1, 2], nanoarrow.int32())).numpy().tolist() == [1, 2]


@pytest.mark.parametrize(
    ("tensor", "match"),
    [
        (lambda: dlbridge.empty((3, 2), "bfloat16"), "no type with the memory layout of bfloat16"),
        (lambda: dlbridge.asdlpack(np.arange(6)[::2]), "not contiguous.*contiguous='C'"),
        (lambda: dlbridge.asdlpack(np.zeros((2, 3)).T), "not contiguous"),
        (lambda: dlbridge.empty(()), "give the tensor a dimension"),
        (lambda: dlbridge.asdlpack(np.broadcast_to(np.int8(0), (1, 2**32))), "not contiguous"),
    ],
)
def test_export_that_arrow_cannot_express_is_refused(tensor: Callable[[], dlbridge.Tensor], match: str) -> None:
    for ask in (lambda t: t.__arrow_c_array__(), lambda t: t.__arrow_c_schema__()):
        with pytest.raises(BufferError, match=match):
            ask(tensor())


def test_exported_memory_outlives_the_tensor() -> None:
    source = np.arange(6, dtype="int32")
    gone = weakref.ref(source)
    made = pa.array(dlbridge.asdlpack(source.reshape(2, 3)))
    part = made.storage.flatten()
    del source, made
    gc.collect()
    assert gone() is not None
    assert part.to_pylist() == [0, 1, 2, 3, 4, 5]
    del part
    gc.collect()
    assert gone() is None


def test_unused_capsules_free_the_memory() -> None:
    source = np.arange(6)
    gone = weakref.ref(source)
    tensor = dlbridge.asdlpack(source)
    capsules = [tensor.__arrow_c_array__(), tensor.__arrow_c_schema__()]
    del source, tensor
    assert gone() is not None
    del capsules
    assert gone() is None
