"""Lists of different lengths: from Arrow, from PyTorch, from two tensors, and back."""

import ctypes
import gc
import pickle
import random
import re
import warnings
import weakref
from array import array
from typing import Any

import dlbridge
import pytest
from conftest import require
from crafted_arrow import RELEASE, Pair, lists_of_three

pa = require("pyarrow")
np = require("numpy")

ROWS = [[1.5, 2.5], [], [3.5], [4.5, 5.5, 6.5]]


def lists(ragged: dlbridge.Ragged) -> list[Any]:
    """The values of each list as Python numbers."""
    return [part.tolist() for part in ragged]


@pytest.mark.parametrize(("kind", "dtype"), [(pa.list_, "int32"), (pa.large_list, "int64")])
def test_lists_of_arrow_share_the_memory(kind: Any, dtype: str) -> None:
    source = pa.array(ROWS, kind(pa.float32()))
    ragged = dlbridge.ragged(source)
    assert lists(ragged) == ROWS
    assert (ragged.offsets.dtype, ragged.values.dtype, len(ragged)) == (dtype, "float32", 4)
    assert ragged.offsets.address == source.buffers()[1].address
    assert ragged.values.address == source.buffers()[3].address
    for tensor in (ragged.offsets, ragged.values):
        assert (tensor.protocol, tensor.copied, tensor.readonly) == ("arrow", False, True)
    back = pa.array(ragged)
    assert back.equals(source)
    back.validate(full=True)
    assert [back.buffers()[place].address for place in (1, 3)] == [ragged.offsets.address, ragged.values.address]


def test_slices_keep_the_offsets_of_the_array() -> None:
    source = pa.array(ROWS, pa.list_(pa.float32()))
    part = dlbridge.ragged(source[2:])
    assert (part.offsets.tolist(), lists(part)) == ([2, 3, 6], ROWS[2:])
    assert part.values.address == source.buffers()[3].address
    assert pa.array(part).equals(source[2:])
    middle = dlbridge.ragged(source[1:3])
    assert (middle.offsets.tolist(), middle.values.shape, lists(middle)) == ([2, 2, 3], (3,), ROWS[1:3])
    shifted = pa.ListArray.from_arrays([0, 1, 3], pa.array([9, 1, 2, 3])[1:])
    assert lists(dlbridge.ragged(shifted)) == [[1], [2, 3]]


def test_arrays_without_lists_have_one_offset() -> None:
    source = pa.array(ROWS, pa.list_(pa.float32()))
    for empty in (pa.array([], pa.list_(pa.float32())), source[:0], source[4:]):
        ragged = dlbridge.ragged(empty)
        assert (len(ragged), lists(ragged), ragged.offsets.shape) == (0, [], (1,))
        assert pa.array(ragged).to_pylist() == []


def test_fixed_size_lists_inside_are_dimensions() -> None:
    rows = [[[1, 2], [3, 4]], [], [[5, 6]]]
    source = pa.array(rows, pa.large_list(pa.list_(pa.int16(), 2)))
    ragged = dlbridge.ragged(source)
    assert (ragged.values.shape, lists(ragged)) == ((3, 2), rows)
    assert pa.array(ragged).equals(source)
    assert lists(dlbridge.ragged(source[2:])) == rows[2:]
    images = dlbridge.Ragged(array("q", [0, 1, 3]), np.arange(36).reshape(3, 3, 4))
    back = pa.array(images)
    assert back.type == pa.large_list(pa.list_(pa.list_(pa.int64(), 4), 3))
    assert np.array_equal(dlbridge.ragged(back).values.numpy(), images.values.numpy())


def test_booleans_are_unpacked_as_a_reported_copy() -> None:
    source = pa.array([[True], [], [False, True]])
    ragged = dlbridge.ragged(source[1:])
    assert lists(ragged) == [[], [False, True]]
    assert ragged.values.copy_reason == "the elements were packed, eight to a byte"
    with pytest.raises(BufferError, match="packs booleans eight to a byte"):
        dlbridge.ragged(source, copy=False)


def test_copy_copies_offsets_and_values() -> None:
    source = pa.array(ROWS)
    ragged = dlbridge.ragged(source, copy=True)
    assert (ragged.offsets.copied, ragged.values.copied, ragged.values.readonly) == (True, True, False)
    assert lists(ragged) == ROWS
    shared = dlbridge.ragged(source, copy=False)
    assert (shared.offsets.copied, shared.values.copied) == (False, False)
    assert dlbridge.ragged(shared) is shared
    assert dlbridge.ragged(shared, copy=True).values.address != shared.values.address


@pytest.mark.parametrize("kind", [pa.string, pa.large_string, pa.binary, pa.large_binary])
def test_texts_are_offsets_and_bytes(kind: Any) -> None:
    texts = ["ab", "", "cdé"]
    source = pa.array([text.encode() for text in texts]).cast(kind())
    ragged = dlbridge.ragged(source)
    assert [bytes(part).decode() for part in ragged] == texts
    assert ragged.values.address == source.buffers()[2].address
    assert [bytes(part).decode() for part in dlbridge.ragged(source[1:])] == texts[1:]
    assert lists(dlbridge.ragged(pa.array(["", ""]))) == [[], []]


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: pa.array([[1], None, None]), r"2 nulls among its lists.*drop_null\(\)"),
        (lambda: pa.array(["a", None]), "1 null among its lists"),
        (lambda: pa.array([[1, None], [2]]), "has 1 null, "),
        (lambda: pa.array([[[1]], [[2, 3]]]), r"lists of lists.*array\.flatten\(\)"),
        (lambda: pa.array([["a"]]), "'u' "),
        (lambda: pa.array([[1, 2]], pa.list_(pa.int8(), 2)), r"'\+w:2' has no offsets; dlbridge\.asdlpack imports"),
        (lambda: pa.array([1, 2]), "'l' has no offsets; dlbridge.asdlpack imports numbers"),
        (lambda: pa.array([[1]], pa.list_view(pa.int8())), r"'\+vl' has no offsets; cast it to a list"),
        (lambda: pa.array(["a"], pa.string_view()), "'vu' has no offsets; cast it to large_string"),
        (lambda: pa.table({"a": [[1]]}), r"'\+s' has no offsets; take one column"),
        (lambda: pa.array(["a"]).dictionary_encode(), "dictionary-encoded"),
        (lambda: pa.chunked_array([[[1]], [[2]]]), r"several chunks, whose offsets.*combine_chunks\(\)"),
    ],
)
def test_unsupported_column_is_refused_with_the_fix(make: Any, match: str) -> None:
    with pytest.raises(BufferError, match=match):
        dlbridge.ragged(make())


def test_nulls_outside_of_the_lists_do_not_matter() -> None:
    source = pa.array([[1, None], [2, 3], [None]])
    assert lists(dlbridge.ragged(source[1:2])) == [[2, 3]]
    assert lists(dlbridge.ragged(pa.array([None, [1]])[1:])) == [[1]]


@pytest.mark.parametrize("thing", [[1, 2], b"abc", np.arange(3), dlbridge.empty(3), None])
def test_object_without_lists_is_refused(thing: Any) -> None:
    with pytest.raises(TypeError, match=r"is not a column of Arrow.*dlbridge\.Ragged\(offsets, values\)"):
        dlbridge.ragged(thing)


def test_polars() -> None:
    polars = require("polars")
    series = polars.Series([[1, 2], [], [3]], dtype=polars.List(polars.Int32))
    ragged = dlbridge.ragged(series)
    assert (ragged.offsets.dtype, lists(ragged)) == ("int64", [[1, 2], [], [3]])
    back = polars.Series(ragged)
    assert back.to_list() == series.to_list()
    assert dlbridge.ragged(back).values.address == ragged.values.address
    twice = polars.concat([series, series], rechunk=False)
    with pytest.raises(BufferError, match=r"several chunks.*rechunk\(\)"):
        dlbridge.ragged(twice)
    assert len(dlbridge.ragged(twice.rechunk())) == 6


def test_pandas() -> None:
    pandas = require("pandas")
    column = pandas.Series(pa.array([[1, 2], [3]]), dtype=pandas.ArrowDtype(pa.list_(pa.int64())))
    assert lists(dlbridge.ragged(column)) == [[1, 2], [3]]
    with pytest.raises(BufferError, match=r"no lists; pass pyarrow\.array\(x\)"):
        dlbridge.ragged(pandas.Series([[1, 2], [3]]))


def test_jagged_tensor_of_pytorch_makes_a_round_trip() -> None:
    torch = require("torch")
    parts = [torch.arange(2.0), torch.zeros(0), torch.arange(3.0)]
    jagged = torch.nested.nested_tensor(parts, layout=torch.jagged)
    ragged = dlbridge.ragged(jagged)
    assert lists(ragged) == [[0, 1], [], [0, 1, 2]]
    assert (ragged.offsets.address, ragged.values.address) == (jagged.offsets().data_ptr(), jagged.values().data_ptr())
    back = ragged.torch(copy=False)
    assert (back.is_nested, back.layout) == (True, torch.jagged)
    assert back.values().data_ptr() == jagged.values().data_ptr()
    assert back.offsets().data_ptr() == jagged.offsets().data_ptr()
    assert [part.tolist() for part in back.unbind()] == [[0, 1], [], [0, 1, 2]]
    assert pa.array(ragged).to_pylist() == [[0, 1], [], [0, 1, 2]]
    assert pa.array(ragged).flatten().buffers()[1].address == jagged.values().data_ptr()
    moved = ragged.torch(copy=True)
    assert moved.values().data_ptr() != jagged.values().data_ptr()
    assert moved.offsets().data_ptr() != jagged.offsets().data_ptr()


def test_arrow_becomes_a_jagged_tensor() -> None:
    torch = require("torch")
    rows = [[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0]], [[7.0, 8.0]] * 3]
    for kind in (pa.list_, pa.large_list):
        source = pa.array(rows, kind(pa.list_(pa.float32(), 2)))
        for begin in range(4):
            jagged = dlbridge.ragged(source[begin:]).torch()
            assert jagged.offsets().dtype == torch.int64
            assert jagged.shape[0] == 3 - begin
            assert [part.tolist() for part in jagged.unbind()] == rows[begin:]
            if begin < 3:
                padded = jagged.to_padded_tensor(0.0)
                assert padded[-1].sum() == 45
    with pytest.raises(BufferError, match="these are int32, and copy=False forbids"):
        dlbridge.ragged(pa.array([[1]])).torch(copy=False)
    with pytest.raises(BufferError, match="these begin at 1, and copy=False forbids"):
        dlbridge.ragged(pa.array([[1], [2]], pa.large_list(pa.int8()))[1:]).torch(copy=False)
    with pytest.raises(BufferError, match="read-only"):
        dlbridge.ragged(pa.array([[1]], pa.large_list(pa.int8()))).torch(copy=False)


def test_read_only_values_are_shared_with_pytorch_by_its_own_function() -> None:
    torch = require("torch")
    source = pa.array(ROWS, pa.large_list(pa.float32()))
    ragged = dlbridge.ragged(source)
    values, offsets = torch.from_dlpack(ragged.values), torch.from_dlpack(ragged.offsets)
    jagged = torch.nested.nested_tensor_from_jagged(values, offsets)
    assert jagged.values().data_ptr() == source.buffers()[3].address
    assert [part.tolist() for part in jagged.unbind()] == ROWS


def test_nested_tensor_that_offsets_do_not_describe_is_refused() -> None:
    torch = require("torch")
    parts = [torch.ones(2, 3), torch.ones(1, 3)]
    with warnings.catch_warnings(action="ignore"):
        # PyTorch warns of a prototype, once in a process.
        strided = torch.nested.nested_tensor(parts, layout=torch.strided)
    with pytest.raises(BufferError, match="strided, not jagged"):
        dlbridge.ragged(strided)
    jagged = torch.nested.nested_tensor(parts, layout=torch.jagged)
    with pytest.raises(BufferError, match="transpose it back"):
        dlbridge.ragged(jagged.transpose(1, 2))
    padded = torch.nested.narrow(torch.ones(2, 4), 1, torch.tensor([0, 1]), torch.tensor([2, 1]), layout=torch.jagged)
    with pytest.raises(BufferError, match=r"values between its lists.*contiguous\(\)"):
        dlbridge.ragged(padded)
    assert lists(dlbridge.ragged(padded.contiguous())) == [[1, 1], [1]]
    with pytest.raises(TypeError, match="the tensor of PyTorch is not nested"):
        dlbridge.ragged(torch.ones(2))
    with pytest.raises(BufferError, match="detach"):
        dlbridge.ragged(torch.nested.nested_tensor(parts, layout=torch.jagged, requires_grad=True))
    wrong = torch.nested.nested_tensor_from_jagged(torch.ones(3), torch.tensor([0, 2, 1, 3]))
    with pytest.raises(BufferError, match="the offsets decrease from 2 to 1 at index 2"):
        dlbridge.ragged(wrong)


def test_two_tensors_make_lists() -> None:
    values = np.arange(5)
    ragged = dlbridge.Ragged(np.array([0, 2, 2, 4]), values)
    assert (lists(ragged), len(ragged)) == ([[0, 1], [], [2, 3]], 3)
    assert ragged[-1].tolist() == [2, 3]
    assert ragged[0].address == values.ctypes.data
    values[0] = 7
    assert ragged[0].tolist() == [7, 1]
    assert pa.array(ragged).to_pylist() == [[7, 1], [], [2, 3]]
    assert "offsets=" in repr(ragged)
    again = pickle.loads(pickle.dumps(ragged))
    assert lists(again) == lists(ragged)


@pytest.mark.parametrize(
    ("offsets", "match"),
    [
        (np.array([], "int32"), "at least one"),
        (np.array([[0, 1]]), r"int32 or int64 in one dimension, and at least one, not int64 in the shape \(1, 2\)"),
        (np.array([0, 1], "uint32"), "not uint32"),
        (np.array([0.0, 1.0]), "not float64"),
        (np.array([-1, 1]), "the first offset is -1, below 0"),
        (np.array([0, 2, 1], "int32"), "the offsets decrease from 2 to 1 at index 2"),
        (np.array([0, 4]), "the last offset is 4, beyond the 3 values"),
        (np.array([0, 2**62]), "beyond the 3 values"),
    ],
    ids=str,
)
def test_wrong_offsets_are_refused(offsets: Any, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        dlbridge.Ragged(offsets, np.zeros(3))


def test_offsets_of_many_blocks_are_checked() -> None:
    offsets = np.arange(200_001)
    assert len(dlbridge.Ragged(offsets, np.zeros(200_000))) == 200_000
    for place in (4_095, 4_096, 4_097, 200_000):
        offsets = np.arange(200_001)
        offsets[place] = place - 2
        with pytest.raises(ValueError, match=f"decrease from {place - 1} to {place - 2} at index {place}"):
            dlbridge.Ragged(offsets, np.zeros(200_001))


def test_strided_offsets_are_read_with_their_stride() -> None:
    ragged = dlbridge.Ragged(np.array([0, 9, 2, 9, 3])[::2], np.arange(3))
    assert lists(ragged) == [[0, 1], [2]]
    with pytest.raises(BufferError, match="contiguous"):
        pa.array(ragged)


def test_wrong_indices_are_refused() -> None:
    ragged = dlbridge.Ragged(array("i", [0, 1]), b"a")
    for index in (1, -2):
        with pytest.raises(IndexError, match=f"index {index} is out of bounds for 1 lists"):
            ragged[index]
    with pytest.raises(TypeError, match="is an integer, not slice"):
        ragged[0:1]  # type: ignore[index]
    with pytest.raises(ValueError, match="must have a dimension"):
        dlbridge.Ragged(array("i", [0, 1]), np.float32(1))


def test_dtypes_that_arrow_lacks_are_refused_by_the_export() -> None:
    ragged = dlbridge.Ragged(array("i", [0, 1]), np.array([True]))
    with pytest.raises(BufferError, match="no type with the memory layout of bool"):
        pa.array(ragged)


def test_loops_keep_one_owner() -> None:
    numbers = np.arange(5.0)
    gone = weakref.ref(numbers)
    ragged = dlbridge.Ragged(array("q", [0, 2, 5]), numbers)
    for _ in range(3):
        ragged = dlbridge.ragged(Pair(ragged.__arrow_c_array__()))
    assert ragged.values.address == numbers.ctypes.data
    del numbers
    gc.collect()
    assert gone() is not None
    del ragged
    gc.collect()
    assert gone() is None


def test_either_tensor_keeps_the_memory() -> None:
    for name in ("offsets", "values"):
        crafted = lists_of_three()
        kept = getattr(dlbridge.ragged(crafted), name)
        gc.collect()
        assert crafted.released["array"] == 0
        assert kept.tolist() == ([0, 2, 2, 6] if name == "offsets" else [0, 1, 2, 3, 4, 5])
        del kept
        gc.collect()
        assert crafted.released == {"schema": 1, "array": 1}


@pytest.mark.parametrize(
    ("fields", "match"),
    [
        ({"offsets": (0, 3, 2, 6)}, "the offsets decrease from 3 to 2 at index 2 of the Arrow array"),
        ({"offsets": (-1, 2, 2, 6)}, "the first offset is -1, below 0"),
        ({"offsets": (0, 2, 2, 7)}, "fewer items than its lists need"),
        ({"format": b"+L", "offsets": (0, 2, 2, 2**62)}, "fewer items than its lists need"),
        ({"length": -1}, "negative length"),
        ({"offset": -1}, "negative length or offset"),
        ({"length": 2**62}, "more lists than the address space"),
        ({"offset": 2**62}, "more lists than the address space"),
        ({"offset": 2**63 - 1}, "more lists than the address space"),
        ({"n_buffers": 1}, "lists without their two buffers and their one child"),
        ({"n_buffers": 3}, "lists without their two buffers and their one child"),
        ({"buffers": None}, "no list of buffers"),
        ({"buffers": (ctypes.c_void_p * 2)()}, "no offsets although it has lists"),
        ({"n_children": 0}, "lists without their two buffers and their one child"),
        ({"children": None}, "a child that is NULL or not aligned"),
        ({"null_count": 2}, "2 nulls among its lists"),
    ],
)
def test_wrong_struct_is_refused_and_released_once(fields: dict[str, Any], match: str) -> None:
    crafted = lists_of_three(**fields)
    with pytest.raises(BufferError, match=match):
        dlbridge.ragged(crafted)
    assert crafted.released == {"schema": 1, "array": 1}


@pytest.mark.parametrize("which", [0, 1])
def test_children_that_were_released_are_refused(which: int) -> None:
    crafted = lists_of_three()
    crafted.inner[which].release = RELEASE()
    with pytest.raises(BufferError, match="a child that was released"):
        dlbridge.ragged(crafted)
    assert crafted.released == {"schema": 1, "array": 1}


def test_random_offsets_are_imported_or_refused_as_pyarrow_does() -> None:
    """pyarrow's full validation decides which offsets are right."""
    rng = random.Random(7)
    outcomes = set()
    for _ in range(300):
        kind, dtype = rng.choice([(pa.list_, "int32"), (pa.large_list, "int64")])
        count = rng.randrange(1, 6)
        numbers = sorted(rng.randrange(9) for _ in range(count))
        offsets = np.array(numbers, dtype)
        buffers, items = [None, pa.py_buffer(offsets)], pa.array(range(8), pa.int16())
        source = pa.Array.from_buffers(kind(pa.int16()), count - 1, buffers, children=[items])
        if rng.random() < 0.4:
            # The array shares this memory, and pyarrow has checked it already.
            numbers[rng.randrange(count)] = rng.choice([-1, 0, 5, 9, 100])
            offsets[:] = numbers
        begin = rng.randrange(0, len(source) + 1)
        part = source[begin:]
        try:
            part.validate(full=True)
            right = True
        except pa.ArrowInvalid:
            right = False
        try:
            ragged = dlbridge.ragged(part)
        except BufferError:
            imported = False
        else:
            imported = True
            assert lists(ragged) == part.to_pylist()
            assert pa.array(ragged).equals(part)
        if len(part):
            assert imported == right, (numbers, begin)
        outcomes.add(imported)
    assert outcomes == {True, False}


@pytest.mark.parametrize("shape", [(), (2,), (2, 1)])
def test_advice_for_text_is_right(shape: tuple[int, ...]) -> None:
    x = np.full(shape, "ab")
    advice = "dlbridge.ragged(pyarrow.array(numpy.asarray(x).ravel()))"
    with pytest.raises(BufferError, match=re.escape(advice)):
        dlbridge.asdlpack(x)
    ragged = eval(advice, {"dlbridge": dlbridge, "pyarrow": pa, "numpy": np, "x": x})
    assert [bytes(text) for text in ragged] == [b"ab"] * x.size


def test_offsets_in_reverse_are_copied_for_pytorch() -> None:
    require("torch")
    for offsets in (np.array([5, 2, 2, 0], "i4")[::-1], np.array([6, 3, 3, 1])[::-1]):
        ragged = dlbridge.Ragged(offsets, np.arange(6.0)[: offsets.max()])
        expected = [part.tolist() for part in ragged]
        for copy in (None, True):
            assert [part.tolist() for part in ragged.torch(copy=copy).unbind()] == expected


def test_option_copy_of_a_ragged_is_checked() -> None:
    ragged = dlbridge.Ragged(np.array([0, 2, 5]), np.arange(5.0))
    wrong: Any
    for wrong in ("x", 1, 0):
        with pytest.raises(TypeError, match="copy must be None, True or False, not "):
            dlbridge.ragged(ragged, copy=wrong)


def test_time_of_the_check_grows_with_the_bytes_of_the_offsets() -> None:
    offsets = np.lib.stride_tricks.as_strided(np.array([2]), (1 << 40,), (0,))
    assert len(dlbridge.Ragged(offsets, np.ones(3))) == (1 << 40) - 1
