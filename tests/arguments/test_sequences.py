"""Lists and tuples as arguments: they become what NumPy would make of them, and errors name the position."""

from __future__ import annotations

import array
import ctypes
import functools
import gc
import operator
import signal
import sys
import weakref
from collections import deque, namedtuple
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import dlbridge
import numpy as np
import pytest
from typed_arguments import _native as typed

ml_dtypes = pytest.importorskip("ml_dtypes")
torch = pytest.importorskip("torch")
jax = pytest.importorskip("jax")
pa, pd, pl = pytest.importorskip("pyarrow"), pytest.importorskip("pandas"), pytest.importorskip("polars")

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
    # Half of a float32's last digit, and a little more: the half and the rest are rounded together.
    [2**60 + 2**36 + 1, -(2**60) - 2**36 - 1],
    [2**63 + 2**39 + 1],
    [np.float32(0.1), np.float64(0.1)],
    [np.int8(-3), np.uint16(7)],
    [np.bool_(True), np.bool_(False)],
    [np.complex64(1 + 2j), np.complex128(2)],
    [np.float16(1.5), np.longdouble(2)],
]


def cast(numbers: Any, dtype: str) -> Any:
    """What NumPy makes of numbers by a cast of the same kind; integers have no size of their own."""
    natural = np.asarray(numbers)
    if natural.size == 0:
        return np.asarray(numbers, dtype)
    if natural.dtype.kind in "iu" and np.dtype(dtype).kind in "iu":
        if natural.min() < np.iinfo(dtype).min or natural.max() > np.iinfo(dtype).max:
            raise OverflowError
        return natural.astype(dtype)
    with np.errstate(all="ignore"):
        return natural.astype(dtype, casting="same_kind")


def assert_same(made: Any, expected: Any) -> None:
    array = made.numpy()
    assert array.dtype == expected.dtype
    assert array.shape == expected.shape
    np.testing.assert_array_equal(array, expected)
    if array.dtype.kind == "f":
        np.testing.assert_array_equal(np.signbit(array), np.signbit(expected))


def refused(function: Callable[..., Any], x: Any, message: str) -> None:
    with pytest.raises(TypeError) as refusal:
        function(x)
    assert type(refusal.value).__name__ == "TensorMismatchError"
    assert str(refusal.value) == f"argument 'x': {message}"


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("numbers", NUMBERS, ids=str)
@pytest.mark.parametrize("shape", ["list", "tuple", "nested"])
def test_list_of_numbers_becomes_what_numpy_makes_of_it(dtype: str, numbers: list[Any], shape: str) -> None:
    x = {"list": numbers, "tuple": tuple(numbers), "nested": [numbers, tuple(numbers)]}[shape]
    function = getattr(typed, f"as_{dtype}")
    try:
        expected = cast(x, dtype)
    except (TypeError, OverflowError):
        with pytest.raises(TypeError, match=r"got a (list|tuple), but element \["):
            function(x)
    else:
        assert_same(function(x), expected)


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


def test_bfloat16_list_is_rounded_as_ml_dtypes_does() -> None:
    values = [0.1, 1 / 3, 1.00390625, 1e39, -0.0, 1, True, ml_dtypes.bfloat16(2.5), np.float32(7)]
    with np.errstate(all="ignore"):
        expected = np.array([float(value) for value in values]).astype(ml_dtypes.bfloat16)
    made = typed.as_bfloat16(values)
    assert made.dtype == "bfloat16"
    assert made.tolist() == expected.astype("f8").tolist()
    assert typed.as_float64([ml_dtypes.bfloat16(2.5), ml_dtypes.int4(3)]).tolist() == [2.5, 3]
    with pytest.raises(TypeError, match=r"element \[0\] is a ml_dtypes.bfloat16, which int8 cannot hold"):
        typed.as_int8([ml_dtypes.bfloat16(2.5)])


def test_list_of_several_dtypes_becomes_the_natural_one_or_the_first_that_fits() -> None:
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


def test_optional_list_may_be_left_out() -> None:
    assert typed.optional_list() is None
    assert typed.optional_list(None) is None
    assert typed.optional_list([1, 2]) == 3


FLOATS = "expected float64[_] on cpu; got a"
MATRIX = "expected float64[_, _] on cpu, C order, aligned to 64 bytes; got a"


@pytest.mark.parametrize(
    ("name", "x", "message"),
    [
        ("vector_of_list", [1.0, "a"], "{C} list, but element [1] is a str, which is not a number; convert it first"),
        ("vector_of_list", (1.0, None), "{C} tuple, but element [1] is a NoneType, which is not a number; convert it first"),
        ("vector_of_list", [Decimal(1)], "{C} list, but element [0] is a decimal.Decimal, which is not a number; convert it first"),
        ("vector_of_list", [np.datetime64(1, "s")], "{C} list, but element [0] is a numpy.datetime64, which is not a number; convert it first"),
        ("vector_of_list", [np.timedelta64(1, "s")], "{C} list, but element [0] is a numpy.timedelta64, which is not a number; convert it first"),
        ("vector_of_list", [1, [2]], "{C} list, but element [1] is a list where a number is expected"),
        ("vector_of_list", [1, 2j], "{C} list, but element [1] is a complex, which float64 cannot hold; convert it first"),
        ("vector_of_list", [10**400], "{C} list, but element [0] is a larger number, which is out of range for float64"),
        ("vector_of_list", [[1.0]], "{C} list of shape [1, 1]"),
        ("matrix_of_lists", [1.0], "{M} list of shape [1]"),
        ("matrix_of_lists", [], "{M} list of shape [0]"),
        ("matrix_of_lists", [[1], [2], [3, 4]], "{M} list, but element [2] has 2 elements, and the first list beside it 1"),
        ("matrix_of_lists", [[1, 2], 5], "{M} list, but element [1] is an int where a list of 2 is expected"),
        ("matrix_of_lists", [[1, 2], "ab"], "{M} list, but element [1] is a str where a list of 2 is expected"),
        ("matrix_of_lists", [[0] * 3, [0, 1, "x"]], "{M} list, but element [1][2] is a str, which is not a number; convert it first"),
        ("matrix_of_lists", [[[1]]], "{M} list of shape [1, 1, 1]"),
        ("cube_of_lists", [[[1, 2]]], "expected uint8[_, _, 3] on cpu; got a list of shape [1, 1, 2]"),
        ("cube_of_lists", [[[1, 2, 3.0]]], "expected uint8[_, _, 3] on cpu; got a list, but element [0][0][2] is a float, which uint8 cannot hold; convert it first"),
    ],
)
def test_list_that_does_not_fit_is_refused_with_the_position(name: str, x: Any, message: str) -> None:
    message = message.replace("{C}", "expected float64[_] on cpu, C order; got a").replace("{M}", MATRIX)
    refused(getattr(typed, name), x, message)


def test_list_that_contains_itself_is_refused() -> None:
    endless: list[Any] = []
    endless.append(endless)
    for function in (typed.as_float64, typed.as_any, typed.vector_of_list, typed.matrix_of_lists):
        with pytest.raises(TypeError, match="nested more than 64 deep"):
            function(endless)
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(TypeError, match="nested more than 64 deep"):
        typed.as_float64(deep)
    while deep:
        deep = deep.pop()


@pytest.mark.parametrize(
    "x", [iter([1.0]), (i for i in [1.0]), {1.0}, {1.0: 2}, deque([1.0]), "1", 1.0, map(float, [1])], ids=lambda x: type(x).__name__
)
def test_iterable_that_is_not_a_list_is_refused_with_what_to_do(x: Any) -> None:
    with pytest.raises(TypeError, match=r"expected float64\[_\] on cpu, C order; got a "):
        typed.vector_of_list(x)
    with pytest.raises(TypeError) as refusal:
        typed.vector_of_list(i for i in [1.0])
    assert str(refusal.value).endswith("pass list(x)")


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs a timer of the system")
@pytest.mark.parametrize("items", [[], [1.5] * 20])
def test_nested_lists_are_interrupted(items: list[Any]) -> None:
    def interrupt(*_: object) -> None:
        raise TimeoutError

    # The same list again and again, which takes no memory; without elements there is nothing else to stop it.
    for _ in range(7 if not items else 5):
        items = [items] * 20
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(TimeoutError):
            typed.as_float64(items)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_list_that_changes_while_it_is_read_is_refused() -> None:
    class Float(float):
        """Python's own conversion is not asked."""

        def __float__(self) -> float:
            raise AssertionError("not called")

    assert typed.vector_of_list([Float(2)]) == ([2], False)
    numbers: list[Any] = []

    class Changes(np.float32):
        """A subclass, so that Python code runs."""

        change: Any

        def __float__(self) -> float:
            self.change()
            return 7.0

    def of(change: Callable[[], Any], rest: int = 3) -> list[Any]:
        number = Changes(1)
        number.change = change  # type: ignore[attr-defined]
        numbers[:] = [number, *([1.0] * rest)]
        return numbers

    for change in (numbers.clear, lambda: numbers.append(1.0), lambda: numbers.__delitem__(slice(1, None))):
        with pytest.raises(RuntimeError, match="the list changed while it was read"):
            typed.vector_of_list(of(change))
    nested: list[Any] = []
    nested[:] = [of(lambda: nested.__delitem__(0)), [1.0] * 4]
    with pytest.raises(RuntimeError, match="the list changed"):
        typed.matrix_of_lists(nested)
    # Another list of the same length is read as it is by then.
    assert typed.vector_of_list(of(lambda: numbers.__setitem__(slice(None), [2.0] * 4))) == ([7, 2, 2, 2], False)


def test_exceptions_of_numbers_are_passed_on() -> None:
    class Fails(np.float32):
        def __float__(self) -> float:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        typed.vector_of_list([Fails(1)])
    with pytest.raises(KeyboardInterrupt):
        typed.matrix_of_lists([[1.0], [Fails(1)]])


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


def test_shape_too_large_for_memory_is_a_memory_error() -> None:
    rows: list[Any] = [0.0] * 1000
    for _ in range(12):
        rows = [rows] * 1000
    with pytest.raises(MemoryError):
        typed.as_float64(rows)
    with pytest.raises(MemoryError):
        typed.as_float64([rows] * 1000)


def test_lists_are_refused_without_the_constraint() -> None:
    for function in (typed.mean, typed.invert, typed.norm):
        with pytest.raises(TypeError, match="speaks no exchange protocol"):
            function([[1.0]])


class OwnIndex(np.int32):
    """An integer whose conversion fails."""

    def __index__(self) -> int:
        raise OverflowError("my own")


@pytest.mark.parametrize("function", ["as_int64", "as_float64"])
def test_overflow_error_of_a_number_is_raised(function: str) -> None:
    with pytest.raises(OverflowError, match="my own"):
        getattr(typed, function)([OwnIndex(1)])


def test_integer_of_numpy_that_is_out_of_range_is_named() -> None:
    with pytest.raises(TypeError, match="out of range for int64"):
        typed.as_int64([np.uint64(2**63)])


#: What makes arrays and tensors that a list may have as items.
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
    with pytest.raises(TypeError, match=r"element \[0\](\[0\] is a \w+, which int64 cannot hold| is a tensor float32\[3\] on cpu)"):
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


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: [np.zeros(3), np.zeros(2)], r"element \[1\] is a tensor float64\[2\] on cpu where numbers of shape \[3\] on cpu are expected"),
        (lambda: [np.zeros(3), [1, 2]], r"element \[1\] has 2 elements, and the first list beside it 3"),
        (lambda: [[1, 2], np.zeros(3)], r"element \[1\] is a tensor float64\[3\] on cpu where numbers of shape \[2\]"),
        (lambda: [np.zeros(3), 1.0], r"element \[1\] is a float where a list of 3 is expected"),
        (lambda: [np.zeros(3), np.zeros((3, 1))], r"element \[1\] is a tensor float64\[3, 1\] on cpu"),
        (lambda: [np.zeros((2, 2))], r"got a list of shape \[1, 2, 2\]"),
        (lambda: [np.array(1.0)], r"got a list of shape \[1\]"),
        (lambda: [[1.0, np.zeros(1)]], r"element \[0\]\[1\] is a tensor float64\[1\] on cpu where numbers of shape \[\]"),
        (lambda: [np.zeros(2, "c8")], r"element \[0\]\[0\] is a complex, which float64 cannot hold"),
        (lambda: [b"ab", b"cd"], r"got a list of shape \[2\]"),
    ],
)
def test_lists_of_arrays_that_do_not_fit_are_refused(make: Any, match: str) -> None:
    with pytest.raises(dlbridge.TensorMismatchError, match=match):
        typed.matrix_of_lists(make())


def test_bytes_in_a_list_are_not_numbers() -> None:
    with pytest.raises(dlbridge.TensorMismatchError, match=r"element \[0\] is a bytes, which is not a number"):
        typed.as_uint8([b"ab"])


def test_arrays_in_a_list_are_read_under_a_borrow() -> None:
    x = np.zeros(3)
    with pytest.raises(BufferError, match="overlaps"):
        typed.while_writing(x, lambda: typed.matrix_of_lists([x, x]))
    for items in [[x.view(">f8")], [[0] * 3, x.view(">f8")]]:
        with pytest.raises(dlbridge.TensorBorrowError, match="overlaps"):
            typed.while_writing(x, lambda items=items: typed.as_float64(items))  # type: ignore[misc]


class Producer:
    """A vector, and what happens when it is exported."""

    def __init__(self, happens: Callable[[], object]) -> None:
        self.array, self.happens = np.ones(3), happens

    def __dlpack__(self, **keywords: Any) -> Any:
        self.happens()
        return self.array.__dlpack__(**keywords)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


def raises(error: BaseException) -> Callable[[], object]:
    def raise_() -> None:
        raise error

    return raise_


@pytest.mark.parametrize(
    ("item", "reason"),
    [
        (np.array(["a"] * 3), "numpy.ndarray that cannot be imported: .*the elements are text"),
        (np.array([None] * 3), "numpy.ndarray that cannot be imported: .*Python objects"),
        (np.zeros(3, "M8[s]"), r"numpy.ndarray that cannot be imported: .*view\('int64'\)"),
        (np.ma.array([1.0] * 3, mask=[0, 1, 0]), "MaskedArray that cannot be imported: the array has masked elements"),
        (torch.zeros(3, requires_grad=True), "torch.Tensor that cannot be imported: the tensor requires grad"),
        (Producer(raises(BufferError("busy"))), "Producer that cannot be imported: .*busy"),
    ],
    ids=["text", "object", "time", "masked", "grad", "busy"],
)
def test_item_that_cannot_be_imported_is_refused_with_the_position(item: Any, reason: str) -> None:
    for items, place in [([item], "0"), ([[0] * 3, item], "1"), ([np.zeros(3), item], "1")]:
        for function in (typed.as_float64, typed.as_any, typed.matrix_of_lists):
            with pytest.raises(dlbridge.TensorMismatchError, match=rf"argument 'x': .*element \[{place}\] is a .*{reason}"):
                function(items)
    with pytest.raises(dlbridge.TensorMismatchError, match=rf"element \[0\]\[0\] is a .*{reason}"):
        typed.as_float64([[item], [item]])


@pytest.mark.parametrize("error", [KeyboardInterrupt(), MemoryError(), RuntimeError("broken")], ids=repr)
def test_exception_of_an_item_that_is_not_a_refusal_is_raised(error: BaseException) -> None:
    for items in [[Producer(raises(error))], [[0] * 3, Producer(raises(error))]]:
        with pytest.raises(type(error)) as raised:
            typed.as_float64(items)
        assert raised.value is error


def test_list_that_an_item_changes_is_a_runtime_error() -> None:
    items: list[Any] = []
    for change in (lambda: items.clear(), lambda: items.append(1), lambda: items.__setitem__(slice(None), [1, 2, 3])):
        items[:] = [Producer(change)]
        with pytest.raises(RuntimeError, match="changed while it was read"):
            typed.as_float64(items)
        items[:] = [Producer(change)]
        with pytest.raises(RuntimeError, match="changed while it was read"):
            typed.as_any([items])


def test_list_that_changes_between_the_passes_for_several_dtypes_is_a_runtime_error() -> None:
    items: list[Any] = []
    changes = {
        "text": lambda: items[0].__setitem__(1, "a"),
        "complex": lambda: items[0].__setitem__(1, 1j),
        "list": lambda: items[0].__setitem__(1, [1.0]),
        "length": lambda: items[0].__delitem__(slice(1, None)),
        "number": lambda: items.__setitem__(0, 1.0),
    }
    for change in changes.values():
        items[:] = [[1.0, 2.0, 3.0], Producer(change)]
        with pytest.raises(RuntimeError, match=r"element \[0\].* changed while it was read"):
            typed.as_double_or_int(items)
    # In the first pass these are what the list is.
    for first in (["a"] * 3, [1j] * 3):
        with pytest.raises(dlbridge.TensorMismatchError, match=r"element \[0\]\[0\] is a"):
            typed.as_double_or_int([first, first])


@pytest.mark.skipif(sys.platform == "win32", reason="needs the C library's name")
@pytest.mark.parametrize(
    "items",
    [[np.ones(3)] * (1 << 17), [np.array(1.0)] * (1 << 17), [dlbridge.empty(3, "float64")] * (1 << 13)],
    ids=["vectors", "numbers", "tensors"],
)
def test_lists_of_many_arrays_are_interrupted(items: list[Any]) -> None:
    def interrupt(*_: object) -> None:
        raise TimeoutError

    # A signal that arrives, and two calls, without a line of Python in between that would run the handler.
    signals = functools.partial(getattr(ctypes.CDLL(None), "raise"), int(signal.SIGINT))
    calls = iter([signals, *[functools.partial(typed.as_float64, items)] * 2])
    before = signal.signal(signal.SIGINT, interrupt)
    try:
        with pytest.raises(TimeoutError):
            deque(map(operator.methodcaller("__call__"), calls), maxlen=0)
    finally:
        signal.signal(signal.SIGINT, before)
    assert operator.length_hint(calls) == 1


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
        ([2**63, 1], "uint64"), ([np.uint64(1), -1], "int64"), ([np.array([1], "u8"), [1]], "uint64"),
        ([np.array([1], "u4"), small], "int64"),
    ]:
        assert typed.as_any(items).dtype == dtype, items
    with pytest.raises(TypeError, match=r"element \[0\] is \d+, which is out of range for uint64"):
        typed.as_any([2**64, -1])


def test_scalars_and_arrays_keep_their_dtype_among_several() -> None:
    for items, dtype in [
        ([np.float32(1), np.float32(2)], "float32"), ([np.float32(1), 2], "float64"), ([1, np.float32(1)], "float64"),
        ([np.zeros(2, "f4")], "float32"), ([np.zeros(2, "f4"), np.zeros(2)], "float64"), ([np.uint8(1)], "uint8"),
        ([np.zeros(2, "u8")], "uint64"), ([np.int16(1), np.int8(1)], "int64"), ([torch.tensor(1.0)], "float32"),
        ([np.bool_(True)], "bool"), ([np.clongdouble(1 + 2j)], "complex128"), ([ml_dtypes.bfloat16(1)], "bfloat16"), ([np.longdouble(1)], "float64"),
    ]:
        assert typed.as_any(items).dtype == dtype, items
    assert typed.as_single_or_byte([np.float32(1)]).dtype == "float32"
    assert typed.as_single_or_byte([np.uint8(1)]).dtype == "uint8"
    assert typed.as_double_or_int([np.int32(1), np.int32(2)]).dtype == "int32"
    assert typed.as_double_or_int([np.int32(1), np.int64(2)]).dtype == "int64"
    # NumPy has float32 for these.
    assert typed.as_any([np.float32(1), np.int16(2)]).dtype == "float64"
    assert typed.as_double_or_int([np.float32(1)]).dtype == "float64"


def test_tolist_of_an_item_is_not_asked_for_ever() -> None:
    class Itself:
        """An item whose numbers are itself."""

        def __init__(self, shape: tuple[int, ...]) -> None:
            # No type of 64 bits with a sign has the number, so it is read as Python's.
            self.held = np.full(shape, 2**63, "u8")

        @property
        def __array_interface__(self) -> Any:
            return self.held.__array_interface__

        def tolist(self) -> Any:
            return self

    with pytest.raises(dlbridge.TensorMismatchError, match="Itself where a list of 2 is expected"):
        typed.matrix_of_lists([Itself((2,))])
    with pytest.raises(dlbridge.TensorMismatchError, match="Itself, which is not a number"):
        typed.vector_of_list([Itself(())])


NUMPY_SCALARS = ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "e", "f", "d", "q", "Q", "F", "D"]


@pytest.mark.parametrize("dtype", NUMPY_SCALARS)
def test_scalars_and_arrays_of_numpy_become_what_their_numbers_become(dtype: str) -> None:
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
    """The elements of a tensor, or where the first item is that does not fit, and if its value or its kind is wrong."""
    try:
        return np.from_dlpack(function(items)).tolist()
    except dlbridge.TensorMismatchError as error:
        place = str(error).split("but element ")[1]
        return place.split(" is ")[0], "out of range" in place


def test_scalars_of_classes_derived_from_numpys_are_read_as_numbers() -> None:
    class Single(np.float32):
        def __float__(self) -> float:
            return 0.5

    assert typed.as_float64([Single(2), np.float32(3), Single(2)]).numpy().tolist() == [0.5, 3.0, 0.5]


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
    with pytest.raises(dlbridge.TensorMismatchError, match=r"element \[1\]"):
        typed.as_float64([np.array(1.0), np.array([1.0])])


def test_arrays_without_dimensions_in_a_list_are_read_under_a_borrow() -> None:
    x = np.zeros(3)
    items = [np.array(1.0), x[1:2].reshape(())]
    assert np.from_dlpack(typed.as_float64(items)).tolist() == [1.0, 0.0]
    with pytest.raises(dlbridge.TensorBorrowError, match="overlaps"):
        typed.while_writing(x, lambda: typed.as_float64(items))
