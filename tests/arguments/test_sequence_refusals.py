"""Lists and tuples that are refused: errors name the position, and exceptions of the items are raised."""

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

MATRIX = "expected float64[_, _] on cpu, C order, aligned to 64 bytes; got a"


@pytest.mark.parametrize(
    ("name", "x", "message"),
    [
        ("vector_of_list", [1.0, "a"], "{C} list, but element [1] is a str, which is not a number; convert it first"),
        ("vector_of_list", (1.0, None), "{C} tuple, but element [1] is a NoneType, which is not a number; convert it first"),
        ("vector_of_list", [Decimal(1)], "{C} list, but element [0] is a decimal.Decimal, which is not a number; convert it first"),
        ("vector_of_list", [np.datetime64(1, "s")], "{C} list, but element [0] is a numpy.datetime64, which is not a number; convert it first"),
        ("vector_of_list", [np.timedelta64(1, "s")], "{C} list, but element [0] is a numpy.timedelta64, which is not a number; convert it first"),
        ("vector_of_list", [1, 2j], "{C} list, but element [1] is a complex, which does not fit; convert it first"),
        ("vector_of_list", [10**400], "{C} list, but element [0] is a larger number, which is out of range for float64"),
        ("vector_of_list", [[1.0]], "{C} list of shape [1, 1]"),
        ("vector_of_list", [[1, 2], 5], "{C} list of shape [2, 2]"),
        ("matrix_of_lists", [1.0], "{M} list of shape [1]"),
        ("matrix_of_lists", [], "{M} list of shape [0]"),
        ("matrix_of_lists", [[1, 2], "ab"], "{M} list, but element [1] is a str, which is not a number; convert it first"),
        ("matrix_of_lists", [[0] * 3, [0, 1, "x"]], "{M} list, but element [1][2] is a str, which is not a number; convert it first"),
        ("matrix_of_lists", [[[1]]], "{M} list of shape [1, 1, 1]"),
        ("cube_of_lists", [[[1, 2]]], "expected uint8[_, _, 3] on cpu; got a list of shape [1, 1, 2]"),
        ("cube_of_lists", [[[1, 2, 3.0]]], "expected uint8[_, _, 3] on cpu; got a list, but element [0][0][2] is a float, which does not fit; convert it first"),
    ],
)
def test_list_that_does_not_fit_is_refused_with_the_position(name: str, x: Any, message: str) -> None:
    message = message.replace("{C}", "expected float64[_] on cpu, C order; got a").replace("{M}", MATRIX)
    refused(getattr(typed, name), x, message)


@pytest.mark.parametrize(
    ("name", "x"),
    [
        ("vector_of_list", [1, [2]]), ("vector_of_list", [1, [2, 3]]), ("matrix_of_lists", [[1], [2], [3, 4]]), ("matrix_of_lists", [[1, 2], 5]),
        ("matrix_of_lists", [np.zeros(3), np.zeros(2)]), ("matrix_of_lists", [np.zeros(3), [1, 2]]), ("matrix_of_lists", [[1, 2], np.zeros(3)]),
        ("matrix_of_lists", [np.zeros(3), 1.0]), ("matrix_of_lists", [np.zeros(3), np.zeros((3, 1))]), ("matrix_of_lists", [[1.0, np.zeros(1)]]),
        ("cube_of_lists", [[[1, 2, 3], [3]]]), ("as_any", [[1, 2], [3]]), ("as_bool", [[True], [True, False]]), ("as_float64", [[], [1]]),
        ("as_float64", [[], 1]), ("as_float64", [1, []]),
    ],
)  # fmt: skip
def test_ragged_list_is_refused(name: str, x: Any) -> None:
    with pytest.raises(dlbridge.TensorMismatchError, match=r"got a list, but (element .* is (of length|a list where)|.*inhomogeneous)"):
        getattr(typed, name)(x)


def test_ragged_list_that_contains_a_list_many_times_is_refused_at_once() -> None:
    items: list[Any] = [1.0]
    for _ in range(40):
        items = [items, items]
    for numbers in ([0.5, items], [[0.5], items]):
        with pytest.raises(TypeError, match=r"element \[1\] is (of length 2, and element \[0\] of length 1|a list where a number)"):
            typed.as_float64(numbers)


def test_list_that_contains_itself_is_refused() -> None:
    endless: list[Any] = []
    endless.append(endless)
    later: list[Any] = [[1.0]]
    later += [later, later]
    with pytest.raises(TypeError, match=r"element \[1\] is of length 3"):
        typed.as_float64(later)
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


class Index(np.int32):
    """An integer whose conversion by NumPy calls Python code."""

    happens: Any

    def __int__(self) -> int:
        self.happens()
        return 7


def index_that(happens: Callable[[], object]) -> Index:
    index = Index(1)
    index.happens = happens
    return index


def test_list_that_changes_while_it_is_read_is_read_as_it_was() -> None:
    class Float(float):
        def __float__(self) -> float:
            raise AssertionError("not called")

    assert typed.vector_of_list([Float(2)]) == ([2], False)
    numbers: list[Any] = []
    changes = [numbers.clear, lambda: numbers.append(1.0), lambda: numbers.__delitem__(slice(1, None))]
    for change in [*changes, lambda: numbers.__setitem__(slice(None), [2.0] * 4)]:
        numbers[:] = [index_that(change), 1.0, 2.0, 3.0]
        assert typed.vector_of_list(numbers) == ([7, 1, 2, 3], False)
        assert len(numbers) != 4 or numbers == [2.0] * 4
        numbers[:] = [index_that(change), 1.0, 2.0, 3.0]
        assert typed.matrix_of_lists([numbers, [1.0] * 4]).tolist() == [[7, 1, 2, 3], [1] * 4]


def interrupts() -> None:
    raise KeyboardInterrupt


def test_exceptions_of_numbers_are_passed_on() -> None:
    with pytest.raises(KeyboardInterrupt):
        typed.vector_of_list([index_that(interrupts), 2])
    with pytest.raises(KeyboardInterrupt):
        typed.matrix_of_lists([[1.0], [index_that(interrupts)]])


def test_shape_too_large_for_memory_is_a_memory_error() -> None:
    rows: list[Any] = [0.0] * 1000
    for _ in range(12):
        rows = [rows] * 1000
    with pytest.raises(MemoryError):
        typed.as_float64(rows)
    with pytest.raises(MemoryError):
        typed.as_float64([rows] * 1000)


@pytest.mark.parametrize("function", ["as_int64", "as_float64"])
def test_overflow_error_of_a_number_is_raised(function: str) -> None:
    def overflows() -> None:
        raise OverflowError("my own")

    with pytest.raises(OverflowError, match="my own"):
        getattr(typed, function)([index_that(overflows), 2])


@pytest.mark.parametrize(
    ("function", "items", "match"),
    [
        (typed.matrix_of_lists, [np.zeros((2, 2))], r"got a list of shape \[1, 2, 2\]"),
        (typed.matrix_of_lists, [np.array(1.0)], r"got a list of shape \[1\]"),
        (typed.matrix_of_lists, [np.zeros(2, "c8")], r"element \[0\] is a numpy.ndarray of complex64, which does not fit"),
        (typed.matrix_of_lists, [b"ab", b"cd"], r"element \[0\] is a bytes, which is not a number"),
        (typed.as_uint8, [b"ab"], r"element \[0\] is a bytes, which is not a number"),
        (typed.as_int64, [np.uint64(2**63)], "out of range for int64"),
    ],
)
def test_items_that_do_not_fit_are_refused(function: Any, items: list[Any], match: str) -> None:
    with pytest.raises(dlbridge.TensorMismatchError, match=match):
        function(items)


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


def test_list_that_an_item_changes_is_read_as_it_was() -> None:
    items: list[Any] = []
    for change in (lambda: items.clear(), lambda: items.append(1), lambda: items.__setitem__(slice(None), [1, 2, 3])):
        items[:] = [vector_that(change)]
        assert typed.as_float64(items).tolist() == [[1, 1, 1]]
        items[:] = [vector_that(change)]
        assert typed.as_any([items]).tolist() == [[[1, 1, 1]]]


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
        def __array__(self, *_: Any, **__: Any) -> Any:
            raise error

        __getitem__ = __len__ = __float__ = __index__ = __array__

    with pytest.raises(dlbridge.TensorMismatchError, match=r"element \[0\]\[1\] is a .*Raises, which is not a number"):
        typed.as_float64([[1.0, Raises()]])
