"""Arrays, tensors and scalars as items of lists: dlbridge stacks them, and keeps their dtype."""

import array
from typing import Any

import dlbridge
import numpy as np
import pytest
import typed_arguments as typed
from sequence_checks import assert_same

ml_dtypes = pytest.importorskip("ml_dtypes")
torch = pytest.importorskip("torch")
jax = pytest.importorskip("jax")
pa, pd, pl = pytest.importorskip("pyarrow"), pytest.importorskip("pandas"), pytest.importorskip("polars")

#: Functions that make arrays and tensors, which a list may have as items.
PRODUCERS: dict[str, Any] = {
    "numpy": np.asarray,
    "torch": torch.as_tensor,
    "jax": jax.numpy.asarray,
    "dlbridge": lambda x: dlbridge.asdlpack(np.asarray(x)),
    "pandas": pd.Series,
    "polars": pl.Series,
    "pyarrow": pa.array,
    "array": lambda x: array.array(np.asarray(x).dtype.char, x),
}


@pytest.mark.parametrize("name", PRODUCERS)
def test_arrays_in_a_list_are_stacked(name: str) -> None:
    make = PRODUCERS[name]
    rows = [make(np.array([1.5, 2.5, -3], "f4")), make(np.zeros(3, "f4")), make(np.array([4, 5, 6], "f4"))]
    expected = np.array([[1.5, 2.5, -3], [0, 0, 0], [4, 5, 6]])
    for sequence in [rows, tuple(rows), [rows[0], [0, 0.0, 0], rows[2]]]:
        made = typed.matrix_of_lists(sequence).numpy()
        assert made.dtype == "f8"
        np.testing.assert_array_equal(made, expected)
    assert typed.matrix_by_columns(rows) == expected.T.ravel().tolist()
    assert typed.as_float32([rows, rows]).numpy().tolist() == [expected.tolist()] * 2
    with pytest.raises(TypeError, match=r"element \[0\] is an? .* of float32, which does not fit"):
        typed.as_int64(rows)


def test_arrays_of_every_layout_in_a_list_are_stacked() -> None:
    matrix = np.arange(24.0).reshape(4, 6)
    rows = [matrix[0, ::2], matrix[1, ::-2], matrix[:3, 4], matrix[3, 3:].astype(">f8"), matrix[2, :3].astype("f4")]
    np.testing.assert_array_equal(typed.matrix_of_lists(rows).numpy(), np.array(rows))
    np.testing.assert_array_equal(typed.as_float64([matrix.T, matrix.T]).numpy(), np.array([matrix.T, matrix.T]))
    assert typed.matrix_of_lists([np.zeros(0), np.zeros(0)]).shape == (2, 0)
    assert typed.as_bool([np.array([True, False]), torch.tensor([False, True])]).tolist() == [[True, False], [False, True]]


def test_tensors_without_dimensions_in_a_list_are_numbers() -> None:
    for one in [torch.tensor(1.5), np.array(1.5), jax.numpy.float32(1.5), dlbridge.asdlpack(np.array(1.5))]:
        assert typed.vector_of_list([one, 2, one]) == ([1.5, 2, 1.5], False)
        assert typed.as_float32([one, one]).tolist() == [1.5, 1.5]
    assert typed.as_uint8([torch.tensor(7), np.array(8, "i8")]).tolist() == [7, 8]
    with pytest.raises(TypeError, match=r"element \[1\] is -1, which is out of range for uint8"):
        typed.as_uint8([torch.tensor(7), torch.tensor(-1)])


def test_arrays_in_a_list_are_read_under_a_borrow() -> None:
    x = np.zeros(3)
    with pytest.raises(BufferError, match="overlaps"):
        typed.while_writing(x, lambda: typed.matrix_of_lists([x, x]))
    for items in [[x.view(">f8")], [[0] * 3, x.view(">f8")], [np.array(1.0), x[1:2].reshape(())]]:
        with pytest.raises(dlbridge.TensorBorrowError, match="overlaps"):
            typed.while_writing(x, lambda items=items: typed.as_float64(items))  # type: ignore[misc]


def test_integers_of_several_dtypes_that_no_integer_type_has_become_floats() -> None:
    large, small = np.array([2**63], "u8"), np.array([-1], "i8")
    for items in [
        [2**63, -1], [np.uint64(2**63), -1], [large, small], [np.array([1], "u8"), small], [small, [2**63]], [large, [-1]],
        [np.array([1], "u8"), np.array([1], "i1")],
    ]:
        assert_same(typed.as_any(items), np.array(items))
        assert np.array(items).dtype == "f8"
        assert typed.as_double_or_int(items).dtype == "float64"
        assert typed.as_single_or_byte(items).dtype == "float32"
    for items, dtype in [
        ([2**63], "uint64"), ([np.uint64(1), -1], "float64"), ([np.array([1], "u8"), [1]], "float64"),
        ([2**63, 1], "float64"), ([np.array([1], "u4"), small], "int64"),
    ]:
        assert typed.as_any(items).dtype == np.array(items).dtype == dtype, items
    # An integer type that has all values is not rounded to.
    assert typed.as_uint64([2**63 + 1, 1]).tolist() == [2**63 + 1, 1]
    assert typed.as_int64([np.uint64(2**53 + 1), -1]).tolist() == [2**53 + 1, -1]
    assert typed.as_uint64([np.array([2**64 - 1], "u8"), [1]]).tolist() == [[2**64 - 1], [1]]
    for function, place, dtype in [(typed.as_int64, 0, "int64"), (typed.as_uint64, 1, "uint64")]:
        with pytest.raises(TypeError, match=rf"element \[{place}\] is -?\d+, which is out of range for {dtype}"):
            function([2**63, -1])
    with pytest.raises(TypeError, match=r"element \[0\] is \d+, which is out of range for uint64"):
        typed.as_any([2**64, -1])


def test_scalars_and_arrays_keep_their_dtype_among_several() -> None:
    for items, dtype in [
        ([np.float32(1), np.float32(2)], "float32"), ([np.float32(1), 2], "float64"), ([1, np.float32(1)], "float64"),
        ([np.zeros(2, "f4")], "float32"), ([np.zeros(2, "f4"), np.zeros(2)], "float64"), ([np.uint8(1)], "uint8"),
        ([np.zeros(2, "u8")], "uint64"), ([np.int16(1), np.int8(1)], "int16"), ([torch.tensor(1.0)], "float32"),
        ([np.bool_(True)], "bool"), ([np.clongdouble(1 + 2j)], "complex128"), ([ml_dtypes.bfloat16(1)], "float64"), ([np.longdouble(1)], "float64"),
        ([np.float32(1), np.int16(2)], "float32"), ([torch.tensor([1.0], dtype=torch.bfloat16)], "float32"),
    ]:
        assert typed.as_any(items).dtype == dtype, items
    assert typed.as_single_or_byte([np.float32(1)]).dtype == "float32"
    assert typed.as_single_or_byte([np.uint8(1)]).dtype == "uint8"
    assert typed.as_double_or_int([np.int32(1), np.int32(2)]).dtype == "int32"
    assert typed.as_double_or_int([np.int32(1), np.int64(2)]).dtype == "int64"
    assert typed.as_double_or_int([np.float32(1)]).dtype == "float64"


NUMPY_SCALARS = ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "e", "f", "d", "q", "Q", "F", "D"]


@pytest.mark.parametrize("dtype", NUMPY_SCALARS)
def test_numpy_scalars_and_arrays_are_converted_like_their_numbers(dtype: str) -> None:
    values = np.array([0, 1, 1], "?") if dtype == "?" else np.array([0, 1, 100], dtype)
    if dtype in {"u8", "Q"}:
        values[2] = 2**64 - 1
    elif values.dtype.kind not in "bu":
        values[2] = -3
    if values.dtype.kind in "fcd":
        values[1] = 1.5
    if values.dtype.kind == "c":
        values[0] = 2 - 3j
    functions = [typed.as_bool, typed.as_int8, typed.as_uint8, typed.as_int64, typed.as_uint64, typed.as_float16, typed.as_float32,
                 typed.as_float64, typed.as_complex64, typed.as_complex128]
    matrix = np.stack([values, values[::-1]])
    for function in functions:
        expected = outcome(function, values.tolist())
        assert outcome(function, list(values)) == expected
        assert outcome(function, [np.array(value) for value in values]) == expected
        rows = outcome(function, matrix.tolist())
        for items in (list(matrix), list(np.repeat(matrix, 2, axis=1)[:, ::2]), [list(row) for row in matrix], [list(matrix[0]), matrix[1]]):
            assert outcome(function, items) == rows


def outcome(function: Any, items: list[Any]) -> Any:
    """The elements of a tensor; or whether an item that does not fit is out of range."""
    try:
        return np.from_dlpack(function(items)).tolist()
    except dlbridge.TensorMismatchError as error:
        assert "but element [0]" in str(error) or "out of range" in str(error)
        return "out of range" in str(error)


def test_scalars_of_classes_derived_from_numpys_are_read_as_by_numpy() -> None:
    class Single(np.float32):
        def __float__(self) -> float:
            return 0.5

    items = [Single(2), np.float32(3), Single(2)]
    assert typed.as_float64(items).numpy().tolist() == np.asarray(items).tolist()


def test_element_of_an_array_without_dimensions_is_read_with_its_bits() -> None:
    for function, bits, dtype in [(typed.as_float32, 0x7FA00001, "u4"), (typed.as_float64, 0x7FF4000000000001, "u8")]:
        # A signalling NaN, which a conversion would change.
        array = np.array(bits, dtype).view(dtype.replace("u", "f"))
        made = np.from_dlpack(function([array, array]))
        assert made.view(dtype).tolist() == [bits, bits]
    large = np.array(2**64 - 1, "u8")
    assert np.from_dlpack(typed.as_uint64([large, large])).tolist() == [2**64 - 1] * 2
    with pytest.raises(dlbridge.TensorMismatchError, match=r"element \[1\] is .* out of range"):
        typed.as_int64([np.array(1), large])


def test_arrays_without_dimensions_of_every_kind_in_a_list_are_numbers() -> None:
    padded = np.zeros(9, "u1")
    unaligned = padded[1:].view("f8").reshape(())
    unaligned[...] = 1.5
    read_only = np.array(1.5)
    read_only.flags.writeable = False
    items = [np.array(1.5), np.array(1.5, ">f8"), unaligned, read_only, np.ones((1, 2))[0, 1] * np.array(1.5), np.array(1.5, "f4")]
    items += [np.array(1.5, "e"), np.float64(1.5), 1.5, np.array(3, "u1") * 0.5, np.broadcast_to(1.5, ())]
    for numbers in (items, tuple(reversed(items)), [[item, item] for item in items]):
        made = np.from_dlpack(typed.as_float64(numbers))
        assert made.tolist() == np.full(made.shape, 1.5).tolist()
    flags = [np.array(True), np.array(False)]
    assert np.from_dlpack(typed.as_bool(flags)).tolist() == [True, False]
    assert np.from_dlpack(typed.as_float64(flags)).tolist() == [1.0, 0.0]
    with pytest.raises(dlbridge.TensorMismatchError, match=r"element \[1\]"):
        typed.as_float64([np.array(1.0), np.array("1.0")])
    with pytest.raises(dlbridge.TensorMismatchError, match="inhomogeneous"):
        typed.as_float64([np.array(1.0), np.array([1.0])])
