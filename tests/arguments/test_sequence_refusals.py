"""Lists and tuples that are refused: errors name the position, and exceptions of the items are raised."""

from __future__ import annotations

import ctypes
import functools
import operator
import signal
import sys
from collections import deque
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import dlbridge
import numpy as np
import pytest
import typed_arguments as typed
from native import Producer
from sequence_checks import refused

torch = pytest.importorskip("torch")

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
        ("matrix_of_lists", [[1], [2], [3, 4]], "{M} list, but element [2] has length 2, but element [0] has length 1; give both the same length"),
        ("vector_of_list", [[1, 2], [3]], "{C} list, but element [1] has length 1, but element [0] has length 2; give both the same length"),
        ("cube_of_lists", [[[1, 2], [3]]], "expected uint8[_, _, 3] on cpu; got a list, but element [0][1] has length 1, but element [0][0] has length 2; give both the same length"),
        ("vector_of_list", [[1, 2], 5], "{C} list, but element [1] is an int where a list of 2 is expected"),
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

    # The same list many times, which takes no memory. Without elements only an interrupt stops the loop.
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
        """A float whose `__float__` must not be called."""

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
    # A list that keeps its length is read with its new elements.
    assert typed.vector_of_list(of(lambda: numbers.__setitem__(slice(None), [2.0] * 4))) == ([7, 2, 2, 2], False)


def test_exceptions_of_numbers_are_passed_on() -> None:
    class Fails(np.float32):
        def __float__(self) -> float:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        typed.vector_of_list([Fails(1)])
    with pytest.raises(KeyboardInterrupt):
        typed.matrix_of_lists([[1.0], [Fails(1)]])


def test_shape_too_large_for_memory_is_a_memory_error() -> None:
    rows: list[Any] = [0.0] * 1000
    for _ in range(12):
        rows = [rows] * 1000
    with pytest.raises(MemoryError):
        typed.as_float64(rows)
    with pytest.raises(MemoryError):
        typed.as_float64([rows] * 1000)


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


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: [np.zeros(3), np.zeros(2)], r"element \[1\] is a tensor float64\[2\] on cpu where numbers of shape \[3\] on cpu are expected"),
        (lambda: [np.zeros(3), [1, 2]], r"element \[1\] has length 2, but element \[0\] has length 3"),
        (lambda: [[1, 2], np.zeros(3)], r"element \[1\] is a tensor float64\[3\] on cpu where numbers of shape \[2\]"),
        (lambda: [np.zeros(3), 1.0], r"element \[1\] is a float where a list of 3 is expected"),
        (lambda: [np.zeros(3), np.zeros((3, 1))], r"element \[1\] is a tensor float64\[3, 1\] on cpu"),
        (lambda: [np.zeros((2, 2))], r"got a list of shape \[1, 2, 2\]"),
        (lambda: [np.array(1.0)], r"got a list of shape \[1\]"),
        (lambda: [[1.0, np.zeros(1)]], r"element \[0\]\[1\] is a tensor float64\[1\] on cpu where numbers of shape \[\]"),
        (lambda: [np.zeros(2, "c8")], r"element \[0\]\[0\] is a complex64, which float64 cannot hold"),
        (lambda: [b"ab", b"cd"], r"got a list of shape \[2\]"),
    ],
)
def test_lists_of_arrays_that_do_not_fit_are_refused(make: Any, match: str) -> None:
    with pytest.raises(dlbridge.TensorMismatchError, match=match):
        typed.matrix_of_lists(make())


def test_bytes_in_a_list_are_not_numbers() -> None:
    with pytest.raises(dlbridge.TensorMismatchError, match=r"element \[0\] is a bytes, which is not a number"):
        typed.as_uint8([b"ab"])


def vector_that(happens: Callable[[], object]) -> Producer:
    """A vector that runs a function when it is exported."""

    def export(keywords: dict[str, Any]) -> Any:
        happens()
        return np.ones(3).__dlpack__(**keywords)

    return Producer(export)


@pytest.mark.parametrize(
    ("item", "reason"),
    [
        (np.array(["a"] * 3), "numpy.ndarray that cannot be imported: .*the elements are text"),
        (np.array([None] * 3), "numpy.ndarray that cannot be imported: .*Python objects"),
        (np.zeros(3, "M8[s]"), r"numpy.ndarray that cannot be imported: .*view\('int64'\)"),
        (np.ma.array([1.0] * 3, mask=[0, 1, 0]), "MaskedArray that cannot be imported: the array has masked elements"),
        (torch.zeros(3, requires_grad=True), "torch.Tensor that cannot be imported: the tensor requires grad"),
        (Producer(BufferError("busy")), "Producer that cannot be imported: .*busy"),
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
    for items in [[Producer(error)], [[0] * 3, Producer(error)]]:
        with pytest.raises(type(error)) as raised:
            typed.as_float64(items)
        assert raised.value is error


def test_list_that_an_item_changes_is_a_runtime_error() -> None:
    items: list[Any] = []
    for change in (lambda: items.clear(), lambda: items.append(1), lambda: items.__setitem__(slice(None), [1, 2, 3])):
        items[:] = [vector_that(change)]
        with pytest.raises(RuntimeError, match="changed while it was read"):
            typed.as_float64(items)
        items[:] = [vector_that(change)]
        with pytest.raises(RuntimeError, match="changed while it was read"):
            typed.as_any([items])


def test_row_that_changes_after_it_was_read_keeps_its_numbers() -> None:
    items: list[Any] = []
    for change in (lambda: items[0].__setitem__(1, "a"), lambda: items[0].clear(), lambda: items.__setitem__(0, 1.0)):
        items[:] = [[1.0, 2.0, 3.0], vector_that(change)]
        assert typed.as_double_or_int(items).tolist() == [[1, 2, 3], [1, 1, 1]]


@pytest.mark.skipif(sys.platform == "win32", reason="needs the C library's name")
@pytest.mark.parametrize(
    "items",
    [[np.ones(3)] * (1 << 17), [np.array(1.0)] * (1 << 17), [dlbridge.empty(3, "float64")] * (1 << 13)],
    ids=["vectors", "numbers", "tensors"],
)
def test_lists_of_many_arrays_are_interrupted(items: list[Any]) -> None:
    def interrupt(*_: object) -> None:
        raise TimeoutError

    # The first call imports modules, and their import would run the handler.
    typed.as_float64(items[:2])
    # A signal and two calls, without a line of Python in between that would run the handler.
    signals = functools.partial(getattr(ctypes.CDLL(None), "raise"), int(signal.SIGINT))
    calls = iter([signals, *[functools.partial(typed.as_float64, items)] * 2])
    before = signal.signal(signal.SIGINT, interrupt)
    try:
        with pytest.raises(TimeoutError):
            deque(map(operator.methodcaller("__call__"), calls), maxlen=0)
    finally:
        signal.signal(signal.SIGINT, before)
    assert operator.length_hint(calls) == 1


def test_attributes_of_an_item_with_a_protocol_are_not_called() -> None:
    class Exports:
        """An item that NumPy would read by `__array__`, without the protocol's checks."""

        def __init__(self, shape: tuple[int, ...]) -> None:
            self.held = np.full(shape, 2**63, "u8")

        @property
        def __array_interface__(self) -> Any:
            return self.held.__array_interface__

        def __array__(self, *_: Any, **__: Any) -> Any:
            raise AssertionError("not called")

        tolist = __getitem__ = __len__ = __float__ = __array__

    assert typed.matrix_of_lists([Exports((2,))]).tolist() == [[2.0**63] * 2]
    assert typed.vector_of_list([Exports(())]) == ([2.0**63], False)
    with pytest.raises(dlbridge.TensorMismatchError, match=r"element \[1\] is 9223372036854775808, which is out of range for int64"):
        typed.as_int64([1, Exports(())])


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_exception_of_an_item_without_a_protocol_is_not_caused(error: type[BaseException]) -> None:
    class Raises:
        """An item that is not a number, and that NumPy would call."""

        def __array__(self, *_: Any, **__: Any) -> Any:
            raise error

        __getitem__ = __len__ = __float__ = __index__ = __array__

    with pytest.raises(dlbridge.TensorMismatchError, match=r"element \[0\]\[1\] is a .*Raises, which is not a number"):
        typed.as_float64([[1.0, Raises()]])
