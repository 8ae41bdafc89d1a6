"""Columns of several chunks: one tensor for each, or one copy on request."""

import gc
import weakref
from array import array
from typing import Any

import dlbridge
import pytest
from concurrently import concurrently
from conftest import require
from crafted_arrow import Crafted
from test_arrow_streams import CALL, Chunks

pa = require("pyarrow")
np = require("numpy")

REASON = "the elements were in several chunks of memory"


def addresses(column: Any) -> list[int]:
    return [chunk.buffers()[1].address + chunk.offset * chunk.type.bit_width // 8 for chunk in column.chunks]


def test_chunks_of_pyarrow_share_the_memory() -> None:
    column = pa.chunked_array([[1, 2], [], [3, 4, 5], pa.array([0, 6, 7])[1:]], pa.int64())
    tensors = list(dlbridge.chunks(column))
    assert [tensor.tolist() for tensor in tensors] == [[1, 2], [], [3, 4, 5], [6, 7]]
    places = addresses(column)
    assert [tensor.address for tensor in tensors if len(tensor)] == [places[0], *places[2:]]
    assert {(tensor.protocol, tensor.copied, tensor.readonly) for tensor in tensors} == {("arrow", False, True)}


def test_chunks_of_polars_share_the_memory() -> None:
    polars = require("polars")
    parts = [polars.Series([1.5, 2.5]), polars.Series([3.5])]
    column = polars.concat(parts, rechunk=False)
    tensors = list(dlbridge.chunks(column))
    assert [tensor.tolist() for tensor in tensors] == [[1.5, 2.5], [3.5]]
    assert [tensor.address for tensor in tensors] == [part.to_numpy(allow_copy=False).ctypes.data for part in parts]


def test_chunks_of_pandas() -> None:
    pandas = require("pandas")
    column = pandas.Series(pa.chunked_array([[1, 2], [3]]), dtype=pandas.ArrowDtype(pa.int64()))
    assert [value for tensor in dlbridge.chunks(column) for value in tensor.tolist()] == [1, 2, 3]
    [tensor] = dlbridge.chunks(pandas.Series([1.5, float("nan")]))
    assert (tensor.shape, tensor.protocol) == ((2,), "dlpack"), "the array of NumPy, whose NaN are not nulls"


@pytest.mark.parametrize("make", [bytes, array, np.array, pa.array, lambda numbers: dlbridge.asdlpack(bytes(numbers))])
def test_object_without_a_stream_is_one_chunk(make: Any) -> None:
    numbers = [97, 98, 99]
    [tensor] = dlbridge.chunks(make("b", numbers) if make is array else make(numbers))
    assert tensor.tolist() == numbers


def test_column_without_a_chunk_gives_no_tensor() -> None:
    assert list(dlbridge.chunks(pa.chunked_array([], pa.int8()))) == []


def test_chunks_are_imported_when_they_are_requested() -> None:
    crafted = [Crafted(), Crafted()]
    source = Chunks(*crafted)
    iterator = dlbridge.chunks(source)
    assert (source.asked, source.released) == (0, 0)
    first = next(iterator)
    assert (source.asked, [chunk.released["array"] for chunk in crafted]) == (1, [0, 0])
    del first
    assert [chunk.released["array"] for chunk in crafted] == [1, 0]
    assert [tensor.tolist() for tensor in iterator] == [[0, 1, 2, 3, 4, 5]]
    assert (source.asked, source.released, source.kind.released["schema"]) == (3, 1, 1)
    assert next(iterator, None) is None


def test_abandoned_iterator_releases_the_stream() -> None:
    crafted = [Crafted(), Crafted()]
    source = Chunks(*crafted)
    iterator = dlbridge.chunks(source)
    tensor = next(iterator)
    del iterator
    gc.collect()
    assert (source.released, source.kind.released["schema"]) == (1, 1)
    assert tensor.tolist() == [0, 1, 2, 3, 4, 5]
    del tensor
    assert [chunk.released["array"] for chunk in crafted] == [1, 0]


def test_refused_chunk_ends_the_iteration() -> None:
    iterator = dlbridge.chunks(pa.chunked_array([[1], [None], [3]], pa.int8()))
    assert next(iterator).tolist() == [1]
    with pytest.raises(BufferError, match="has 1 null, "):
        next(iterator)
    assert list(iterator) == []


def test_wrong_objects_are_refused_by_the_call() -> None:
    with pytest.raises(TypeError, match="supports no exchange protocol"):
        dlbridge.chunks([1, 2])  # type: ignore[arg-type]
    with pytest.raises(BufferError, match="take one column of it first"):
        dlbridge.chunks(pa.table({"a": [1]}))
    with pytest.raises(TypeError, match="copy must be None, True or False, not 1"):
        dlbridge.chunks(b"", copy=1)  # type: ignore[arg-type]


def test_copy_applies_to_each_chunk() -> None:
    column = pa.chunked_array([[True, False], [True]])
    assert [tensor.copied for tensor in dlbridge.chunks(column)] == [True, True]
    with pytest.raises(BufferError, match="packs booleans eight to a byte"):
        next(dlbridge.chunks(column, copy=False))
    numbers = pa.chunked_array([[1, 2], [3]])
    tensors = list(dlbridge.chunks(numbers, copy=True))
    assert [(tensor.copied, tensor.readonly, tensor.tolist()) for tensor in tensors] == [
        (True, False, [1, 2]),
        (True, False, [3]),
    ]
    assert [tensor.copied for tensor in dlbridge.chunks(numbers, copy=False)] == [False, False]


def test_iterator_is_refused_to_a_second_thread_during_a_request() -> None:
    crafted = Crafted()
    source = Chunks(crafted)
    refusals: list[Any] = []

    def get_next(self: int, place: int) -> int:
        refusals.extend(concurrently([lambda: next(iterator)], raises=False))
        return source.get_next(self, place)

    source.stream.get_next = CALL(get_next)
    iterator = dlbridge.chunks(source)
    assert next(iterator).shape == (6,)
    assert [type(refusal) for refusal in refusals] == [ValueError]
    assert "is being requested already" in str(refusals[0])
    assert crafted.released["array"] == 1
    # Otherwise the collector frees a cycle, and may free the source's C functions before the iterator calls them.
    del iterator


def test_chunks_keep_the_memory_of_the_column() -> None:
    numbers = np.arange(6)
    gone = weakref.ref(numbers)
    column = pa.chunked_array([pa.array(dlbridge.asdlpack(numbers)), pa.array([1])])
    first = next(dlbridge.chunks(column))
    del numbers, column
    gc.collect()
    assert gone() is not None
    assert first.tolist() == list(range(6))
    del first
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("copy", [None, False])
def test_several_chunks_are_not_copied_unless_requested(copy: bool | None) -> None:
    with pytest.raises(BufferError, match=r"several chunks.*dlbridge\.chunks\(x\).*copy=True\)"):
        dlbridge.asdlpack(pa.chunked_array([[1], [2]]), copy=copy)


def test_several_chunks_are_copied_on_request() -> None:
    column = pa.chunked_array([[1, 2], [], [3, 4, 5], pa.array([0, 6, 7], pa.int16())[1:]], pa.int16())
    tensor = dlbridge.asdlpack(column, copy=True)
    assert (tensor.tolist(), tensor.dtype) == ([1, 2, 3, 4, 5, 6, 7], "int16")
    assert (tensor.copied, tensor.copy_reason, tensor.protocol) == (True, REASON, "arrow")
    assert not tensor.readonly
    assert tensor.address % 256 == 0


def test_one_chunk_is_copied_for_the_usual_reason() -> None:
    tensor = dlbridge.asdlpack(pa.chunked_array([[], [1, 2]], pa.int8()), copy=True)
    assert (tensor.tolist(), tensor.copy_reason) == ([1, 2], "a copy was requested")
    assert dlbridge.asdlpack(pa.chunked_array([[], []], pa.int8()), copy=True).shape == (0,)


def test_copy_of_chunks_has_the_other_options() -> None:
    column = pa.chunked_array([[1, 2], [3]])
    tensor = dlbridge.asdlpack(column, copy=True, align=4096, writable=False)
    assert (tensor.address % 4096, tensor.readonly, tensor.copy_reason) == (0, True, REASON)


def test_chunks_of_booleans_lists_and_permuted_tensors_are_copied_on_request() -> None:
    booleans = dlbridge.asdlpack(pa.chunked_array([[True, False], [True]]), copy=True)
    assert (booleans.dtype, booleans.tolist(), booleans.copy_reason) == ("bool", [True, False, True], REASON)
    pairs = pa.chunked_array([[[1, 2]], [[3, 4], [5, 6]]], pa.list_(pa.int8(), 2))
    assert dlbridge.asdlpack(pairs, copy=True).tolist() == [[1, 2], [3, 4], [5, 6]]
    kind = pa.fixed_shape_tensor(pa.int32(), [2, 3], permutation=[1, 0])
    storage = pa.FixedSizeListArray.from_arrays(pa.array(range(12), pa.int32()), 6)
    chunk = pa.ExtensionArray.from_storage(kind, storage)
    tensor = dlbridge.asdlpack(pa.chunked_array([chunk, chunk[1:]]), copy=True)
    one = np.arange(12).reshape(2, 2, 3).transpose(0, 2, 1)
    assert tensor.strides == (6, 2, 1)
    assert np.array_equal(tensor.numpy(), np.concatenate([one, one[1:]]))


def test_large_chunks_are_copied_detached() -> None:
    parts = [np.full(700_001, number) for number in range(3)]
    tensor = dlbridge.asdlpack(pa.chunked_array([pa.array(part) for part in parts]), copy=True)
    assert np.array_equal(tensor.numpy(), np.concatenate(parts))


def test_failed_stream_raises_its_error_while_chunks_are_copied() -> None:
    source = Chunks(Crafted(), fails=5)
    with pytest.raises(BufferError, match="failed with code 5: the disk is gone"):
        dlbridge.asdlpack(source, copy=True)
    assert source.released == 1
