"""Lists and tuples of numbers as arguments: dlbridge converts them as NumPy does."""

import gc
import weakref
from collections import namedtuple
from typing import Any

import numpy as np
import pytest
import typed_arguments as typed
from processes import output
from sequence_checks import assert_same, refused

ml_dtypes = pytest.importorskip("ml_dtypes")

DTYPES = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
DTYPES += ["float16", "float32", "float64", "complex64", "complex128"]

NUMBERS: list[list[Any]] = [
    [],
    [True, False],
    [0, 1, 100],
    [True, 2],
    [0.1, -0.0, 1e-40, 3.5],
    [float("inf"), float("-inf"), float("nan")],
    [1, 2.5, False],
    [1 + 2j, 3, 0.5],
    [65504.0, 65520.0, 1e-8, 6e-8, 1e39, -1e300],
    [2**53 + 1, -(2**53) - 3],
    # Half of a float32's last digit plus a little more. Both must be rounded together.
    [2**60 + 2**36 + 1, -(2**60) - 2**36 - 1],
    [2**63 + 2**39 + 1],
    [np.float32(0.1), np.float64(0.1)],
    [np.int8(-3), np.uint16(7)],
    [np.bool_(True), np.bool_(False)],
    [np.complex64(1 + 2j), np.complex128(2)],
    [np.float16(1.5), np.longdouble(2)],
]


def cast(numbers: Any, dtype: str) -> Any:
    """Converts numbers with NumPy's `same_kind` rule; integers may have any size that fits, and do not become infinite."""
    natural = np.asarray(numbers)
    if natural.size == 0:
        return np.asarray(numbers, dtype)
    if natural.dtype.kind in "iu" and np.dtype(dtype).kind in "iu":
        if natural.min() < np.iinfo(dtype).min or natural.max() > np.iinfo(dtype).max:
            raise OverflowError
        return natural.astype(dtype)
    with np.errstate(all="ignore"):
        result = natural.astype(dtype, casting="same_kind")
    if natural.dtype.kind in "iu" and not np.isfinite(result).all():
        raise OverflowError
    return result


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("numbers", NUMBERS, ids=str)
@pytest.mark.parametrize("shape", ["list", "tuple", "nested"])
@np.errstate(all="ignore")
def test_list_of_numbers_is_converted_as_by_numpy(dtype: str, numbers: list[Any], shape: str) -> None:
    x = {"list": numbers, "tuple": tuple(numbers), "nested": [numbers, tuple(numbers)]}[shape]
    function = getattr(typed, f"as_{dtype}")
    try:
        expected = cast(x, dtype)
    except (TypeError, OverflowError):
        with pytest.raises(TypeError, match=r"got a (list|tuple), but element \["):
            function(x)
    else:
        assert_same(function(x), expected)


PLAIN: list[list[Any]] = [
    [0.1, 1 / 3, 1e-40, 1e39, -1e300, 5e-324, float("inf"), float("nan"), -0.0, 16777217.0],
    [2**24 + 1, 2**53 + 1, -(2**53) - 3, 2**60 + 2**36 + 1, 2**63 - 1, -(2**63)],
    [2**53 + 1, 0.5, -7, 2**24 + 1, 16777217.5],
    [0, 1, 100, 127],
    [np.float32(0.1), np.float64(0.1), np.float16(0.1), 3],
    [np.int8(-3), np.uint16(7), 2**40],
]


@pytest.mark.parametrize("numbers", PLAIN, ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "int64", "uint32", "uint64"])
@np.errstate(all="ignore")
def test_list_of_pythons_numbers_is_converted_as_one_that_numpy_reads(dtype: str, numbers: list[Any]) -> None:
    function = getattr(typed, f"as_{dtype}")
    try:
        # NumPy reads a list with one of its own booleans.
        expected = function([*numbers, np.True_]).numpy()[:-1]
    except TypeError as error:
        with pytest.raises(TypeError) as refusal:
            function(numbers)
        assert str(refusal.value) == str(error)
    else:
        np.testing.assert_array_equal(function(numbers).numpy().view("u1"), expected.view("u1"))


@pytest.mark.parametrize("dtype", DTYPES[1:9])
def test_integer_at_the_end_of_the_range_is_accepted_and_the_next_one_refused(dtype: str) -> None:
    function = getattr(typed, f"as_{dtype}")
    info = np.iinfo(dtype)
    low, high = int(info.min), int(info.max)
    assert function([low, high]).tolist() == [low, high]
    refused(
        function, [0, high + 1],
        f"expected {dtype}[...] on cpu; got a list, but element [1] is {high + 1}, which is out of range for {dtype}",
    )
    refused(
        function, [[low - 1]],
        f"expected {dtype}[...] on cpu; got a list, but element [0][0] is {low - 1}, which is out of range for {dtype}",
    )
    assert function([np.uint64(5)]).tolist() == [5]


@pytest.mark.parametrize(
    ("dtype", "largest", "beyond"),
    [
        ("float16", 65504, 65536), ("bfloat16", 2**127, 2**128), ("float32", 2**127, 2**128),
        ("float64", 2**1023, 2**1024), ("complex64", 2**127, 2**128), ("complex128", 2**1023, 2**1024),
    ],
)
def test_integer_whose_nearest_float_is_infinite_is_refused(dtype: str, largest: int, beyond: int) -> None:
    function = getattr(typed, f"as_{dtype}")
    assert function([largest, -largest]).tolist() == [largest, -largest]
    for sign in (1, -1):
        with pytest.raises(TypeError, match=f"element .0. is .*, which is out of range for {dtype}"):
            function([sign * beyond])


def test_bfloat16_list_is_rounded_as_ml_dtypes_does() -> None:
    values = [0.1, 1 / 3, 1.00390625, 1e39, -0.0, 1, True, ml_dtypes.bfloat16(2.5), np.float32(7)]
    with np.errstate(all="ignore"):
        expected = np.array([float(value) for value in values]).astype(ml_dtypes.bfloat16)
    made = typed.as_bfloat16(values)
    assert made.dtype == "bfloat16"
    assert made.tolist() == expected.astype("f8").tolist()
    assert typed.as_float64([ml_dtypes.bfloat16(2.5), ml_dtypes.int4(3)]).tolist() == [2.5, 3]
    with pytest.raises(TypeError, match=r"element \[0\] is a ml_dtypes.bfloat16, which does not fit"):
        typed.as_int8([ml_dtypes.bfloat16(2.5)])


def test_list_for_several_dtypes_becomes_numpys_dtype_or_the_first_that_fits() -> None:
    for numbers, single_or_byte, double_or_int, anything in [
        ([1.5], "float32", "float64", "float64"),
        ([1], "uint8", "int64", "int64"),
        ([True], "uint8", "int32", "bool"),
        ([], "float32", "float64", "float64"),
        ([1, 2.0], "float32", "float64", "float64"),
        ([2**63], None, None, "uint64"),
        ([1j], None, None, "complex128"),
    ]:
        for name, expected in [
            ("as_single_or_byte", single_or_byte), ("as_double_or_int", double_or_int), ("as_any", anything)
        ]:
            function = getattr(typed, name)
            if expected is None:
                with pytest.raises(TypeError, match=r"element \[0\]"):
                    function(numbers)
            else:
                assert function(numbers).dtype == expected, (numbers, name)


def test_vector_of_list_is_not_borrowed() -> None:
    assert typed.vector_of_list([1, 2.5]) == ([1, 2.5], False)
    assert typed.vector_of_list((1, 2.5)) == ([1, 2.5], False)
    assert typed.vector_of_list(np.array([1, 2.5])) == ([1, 2.5], True)
    assert typed.vector_of_list(range(3)) == ([0, 1, 2], False)
    assert typed.vector_of_list([]) == ([], False)


def test_matrix_of_lists_has_the_alignment_and_order_demanded() -> None:
    for count in range(1, 20):
        rows = [[float(i * j) for j in range(count)] for i in range(3)]
        assert typed.matrix_of_lists(rows).tolist() == rows
        assert typed.matrix_by_columns(rows) == np.array(rows).T.ravel().tolist()
    assert typed.matrix_of_lists([range(2), range(2)]).tolist() == [[0, 1], [0, 1]]
    assert typed.matrix_of_lists([[], []]).shape == (2, 0)
    assert typed.as_float64([[[]], [[]]]).shape == (2, 1, 0)


def test_classes_derived_from_list_and_tuple_are_read_as_these() -> None:
    class Numbers(list[float]):
        def __iter__(self) -> Any:
            raise AssertionError("not called")

        def __len__(self) -> int:
            raise AssertionError("not called")

    point = namedtuple("point", "x y")
    assert typed.vector_of_list(Numbers([1.0, 2.0])) == ([1, 2], False)
    assert typed.vector_of_list(point(1.0, 2.0)) == ([1, 2], False)

    class Exports(list[float]):
        def __dlpack__(self, **keywords: Any) -> Any:
            return np.array([5.0]).__dlpack__(**keywords)

        def __dlpack_device__(self) -> tuple[int, int]:
            return (1, 0)

    assert typed.vector_of_list(Exports([1.0, 2.0])) == ([5], True)


def test_without_numpy_lists_of_numbers_are_read_and_others_say_what_to_install() -> None:
    program = """
import array, sys
sys.modules["numpy"] = None
import typed_arguments as typed
print(typed.vector_of_list([1, 2.5]), typed.cast_list(array.array("q", [1, 2])))
for call in (lambda: typed.as_bool([True]), lambda: typed.as_any([1]), lambda: typed.cast_to_float32(array.array("d", [1]))):
    try:
        call()
    except ImportError as error:
        print(error)
"""
    sentence = "NumPy converts lists and other dtypes, and is not installed: pip install numpy\n"
    assert output(program, options=(), quiet=False) == "([1.0, 2.5], False) ([1.0, 2.0], False)\n" + 3 * sentence


def test_optional_list_may_be_left_out() -> None:
    assert typed.optional_list() is None
    assert typed.optional_list(None) is None
    assert typed.optional_list([1, 2]) == 3


def test_list_keeps_nothing_after_the_call() -> None:
    class Number(float):
        pass

    number = Number(1)
    gone = weakref.ref(number)
    for x in ([number], [[number], ["a"]]):
        try:
            typed.as_float64(x)
        except TypeError:
            pass
    del number, x
    gc.collect()
    assert gone() is None
