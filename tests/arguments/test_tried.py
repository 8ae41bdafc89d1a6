"""`try_extract`: returns `None` for an object that does not fit, and passes on the exceptions of the producer."""

import datetime
import gc
import io
import pickle
import sys
import traceback
import weakref
from collections.abc import Callable, Iterable
from contextlib import redirect_stderr
from typing import Any

import dlbridge
import numpy as np
import pytest
import typed_arguments as typed
from native import Producer
from processes import output

pandas = pytest.importorskip("pandas")
polars = pytest.importorskip("polars")
pyarrow = pytest.importorskip("pyarrow")
torch = pytest.importorskip("torch")


def test_try_extract_object_that_fits_is_returned() -> None:
    assert typed.dimensions(np.zeros(3)) == 1
    assert typed.dimensions(np.zeros((3, 2))) == 2
    assert typed.dimensions(torch.zeros(3, dtype=torch.float64)) == 1
    x = np.ones(3)
    assert typed.try_write(x)
    assert x.tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    "x",
    [[1.0], (1.0,), 5, 5.0, "text", b"bytes", None, True, {}, {1}, object(), int, np.zeros(3, "i4"), np.zeros((1, 1, 1)),
     np.zeros(3, ">f8"), torch.zeros(3), np.float64(1), range(3)],
    ids=lambda x: type(x).__name__,
)
def test_try_extract_object_that_does_not_fit_is_none(x: Any) -> None:
    assert typed.refusals(x) == (True, True)
    assert typed.dimensions(x) is None
    assert not typed.try_write(x)
    assert not typed.try_device(x)


# Arrays with elements that tensors cannot have, and words of the message of an extraction.
BEYOND_TENSORS = {
    "objects": (lambda: np.array([None]), "Python objects"),
    "text": (lambda: np.array(["a"]), "text"),
    "bytes": (lambda: np.array([b"a"]), "text"),
    "text of any length": (lambda: np.array(["a"], np.dtypes.StringDType()), "text"),
    "records": (lambda: np.zeros(3, "i4,f4"), "records"),
    "raw bytes": (lambda: np.zeros(3, "V3"), "raw bytes"),
    "dates": (lambda: np.array(["2020-01-01"], "M8[D]"), "dates or durations"),
    "durations": (lambda: np.array([1], "m8[s]"), "dates or durations"),
    "wide floats": (lambda: np.zeros(3, "g"), "wider than 64 bits"),
    "wide complex numbers": (lambda: np.zeros(3, "G"), "wider than 128 bits"),
    "masked objects": (lambda: np.ma.array([None]), "Python objects"),
    "scalar of text": (lambda: np.str_("a"), "text"),
    "date": (lambda: np.datetime64("2020-01-01"), "dates or durations"),
    "Series of text": (lambda: pandas.Series(["a"]), "dtype is str"),
    "Series of objects": (lambda: pandas.Series([None, 1], dtype=object), "Python objects"),
    "Series of categories": (lambda: pandas.Series(["a"], dtype="category"), "dtype is category"),
    "DataFrame": (lambda: pandas.DataFrame({"a": [1]}), "take one column"),
    "polars text": (lambda: polars.Series(["a"]), "convert it to numbers first"),
    "polars lists": (lambda: polars.Series([[1.0], [2.0, 3.0]]), "flatten it"),
    "polars dates": (lambda: polars.Series([datetime.date(2020, 1, 1)]), "cast it to integers first"),
    "polars DataFrame": (lambda: polars.DataFrame({"a": [1]}), "take one column"),
    "Arrow text": (lambda: pyarrow.array(["a"]), "convert it to numbers first"),
}


@pytest.mark.parametrize("name", BEYOND_TENSORS)
def test_try_extract_elements_that_tensors_lack_is_none(name: str) -> None:
    make, words = BEYOND_TENSORS[name]
    x = make()
    assert typed.dimensions(x) is None
    assert typed.refusals(x) == (True, True)
    assert not typed.try_write(x)
    assert not typed.try_device(x)
    assert typed.try_list(x) is None
    assert typed.numbers_or_times(x, True) is typed.numbers_or_times(x, False) is None
    message, debug, error = typed.refusal(x)
    assert type(error) is BufferError
    assert words in str(error)
    assert message == f"BufferError: {error}"
    assert words in debug


@pytest.mark.parametrize("times_first", [False, True])
def test_try_extract_numbers_or_times_are_found_in_either_order(times_first: bool) -> None:
    times = np.array(["2020-01-01", "NaT"], "M8[ns]")
    for x in (times, times[::-1], pandas.Series(times), polars.Series(times[:1]), pyarrow.array(times[:1])):
        assert typed.numbers_or_times(x, times_first) == "times"
    numbers = np.zeros(2)
    for x in (numbers, numbers[::-1], pandas.Series(numbers), polars.Series(numbers), torch.zeros(2, dtype=torch.float64)):
        assert typed.numbers_or_times(x, times_first) == "numbers"
    for x in (np.zeros(2, "i8"), times.astype("M8[s]"), times.reshape(2, 1), np.zeros((2, 2)), "text", object()):
        assert typed.numbers_or_times(x, times_first) is None


def test_try_extract_nulls_and_masked_elements_are_raised() -> None:
    for x in (polars.Series([1.0, None]), pyarrow.array([1.0, None]), np.ma.array([1.0, 2.0], mask=[True, False])):
        with pytest.raises(BufferError, match="null|masked"):
            typed.dimensions(x)


def test_try_extract_read_only_array_is_none() -> None:
    x = np.zeros(3)
    x.flags.writeable = False
    assert not typed.try_write(x)
    assert typed.dimensions(x) == 1


def test_try_extract_list_that_does_not_fit_is_none() -> None:
    assert list(typed.try_list([1, 2])) == [1, 2]
    refused = [np.array(["a"]), np.array([None]), np.array(1, "M8[s]"), Producer(BufferError("busy")), Producer(TypeError("of the producer"))]
    for x in ([1.5], [256], [[1]], ["a"], [None], [1, [2]], 5, [-1], *([1, item] for item in refused), *([item] for item in refused)):
        assert typed.try_list(x) is None


@pytest.mark.parametrize(
    "error", [KeyboardInterrupt(), MemoryError(), BufferError("busy"), RuntimeError("broken"), TypeError("of the producer")], ids=repr
)
def test_try_extract_exception_of_the_producer_is_raised(error: BaseException) -> None:
    for function in (typed.dimensions, typed.try_write, typed.try_list, typed.try_device, typed.refusals):
        with pytest.raises(type(error)) as raised:
            function(Producer(error))
        assert raised.value is error


@pytest.mark.parametrize("error", [KeyboardInterrupt(), MemoryError(), RuntimeError("broken")], ids=repr)
def test_try_extract_exception_of_an_item_is_raised(error: BaseException) -> None:
    for items in [[Producer(error)], [1, Producer(error)]]:
        with pytest.raises(type(error)) as raised:
            typed.try_list(items)
        assert raised.value is error


def test_try_extract_borrowed_memory_is_raised() -> None:
    x = np.zeros(3)
    with pytest.raises(BufferError, match="overlaps"):
        typed.while_writing(x, lambda: typed.dimensions(x))
    assert typed.dimensions(x) == 1
    with pytest.raises(BufferError, match="requires grad"):
        typed.dimensions(torch.zeros(3, dtype=torch.float64, requires_grad=True))


def test_enum_of_arguments_takes_the_first_that_fits() -> None:
    assert typed.either([1, 2.5]) == ("vector", 3.5)
    assert typed.either(np.ones(3)) == ("vector", 3)
    assert typed.either([[1, 2], [3, 4]]) == ("matrix", 10)
    assert typed.either(torch.ones(2, 2)) == ("matrix", 4)
    assert typed.either(5) == ("number", 5)
    with pytest.raises(TypeError) as refusal:
        typed.either("a")
    for words in ("expected float64[_] on cpu; got a str", "expected float32[_, _] on cpu; got a str"):
        assert words in "".join(map(str, chain(refusal.value)))


def shown_by_python(error: BaseException) -> list[str]:
    """The text that Python itself writes for an exception."""
    with redirect_stderr(io.StringIO()) as written:
        sys.__excepthook__(type(error), error, error.__traceback__)
    return [written.getvalue()]


def chain(error: BaseException | None) -> list[Any]:
    """An exception and its causes, with their notes."""
    found: list[Any] = []
    while error is not None:
        found += [error, *getattr(error, "__notes__", ())]
        error = error.__cause__
    return found


def test_argument_with_a_default_may_be_left_out() -> None:
    assert typed.default_or_sum() == 1
    assert typed.default_or_sum(scale=3.0) == 3
    assert typed.default_or_sum(None) == 1
    assert typed.default_or_sum([1, 2], scale=2.0) == 6
    assert typed.default_or_sum(x=np.ones(4)) == 4


def test_refusal_keeps_the_object_no_longer_than_its_exception() -> None:
    class Thing:
        pass

    thing = Thing()
    gone = weakref.ref(thing)
    assert typed.refusals(thing) == (True, True)
    with pytest.raises(TypeError, match="got a .*Thing, which supports no exchange protocol"):
        typed.mean(thing)
    del thing
    gc.collect()
    assert gone() is None


def test_message_names_the_argument_however_it_is_read_and_stays() -> None:
    message = "argument 'x': expected float32[_, _] on cpu; got float64[3] on cpu"
    for read in (str, repr, lambda error: error.args[0], lambda error: pickle.loads(pickle.dumps(error)).args[0]):
        with pytest.raises(dlbridge.TensorMismatchError) as refusal:
            typed.mean(np.zeros(3))
        assert message in read(refusal.value)
        assert str(refusal.value) == str(refusal.value) == message
        assert (refusal.value.args, refusal.value.argument) == ((message,), "x")
        assert not hasattr(refusal.value, "__notes__")


@pytest.mark.parametrize("show", [traceback.format_exception, shown_by_python])
def test_shown_exception_names_the_argument_once(show: Callable[[BaseException], Iterable[str]]) -> None:
    for more in ((), ("more",)):
        with pytest.raises(dlbridge.TensorMismatchError) as refusal:
            typed.mean(np.zeros(3))
        for note in more:
            refusal.value.add_note(note)
        lines = "".join(show(refusal.value)).splitlines()
        message = "dlbridge.TensorMismatchError: argument 'x': expected float32[_, _] on cpu; got float64[3] on cpu"
        assert lines[-1 - len(more) :] == [message, *more]


def test_arguments_of_a_refusal_cannot_be_deleted() -> None:
    for error in (dlbridge.TensorMismatchError("text"), ValueError("text")):
        with pytest.raises(TypeError, match="args may not be deleted"):
            del error.args
        assert error.args == ("text",)


def test_refusal_in_rust_has_the_message_of_its_exception() -> None:
    assert typed.refusal(np.zeros(3)) is None
    for x in (np.zeros((2, 2)), np.zeros(2, "i4"), [1.0], "text", object()):
        message, debug, error = typed.refusal(x)
        assert type(error) is dlbridge.TensorMismatchError
        assert message == f"TensorMismatchError: {error.args[0]}"
        assert message in debug
    message, _, error = typed.refusal(Producer(KeyError("key")))
    assert type(error) is KeyError
    assert message == "KeyError: 'key'"


class Interrupting:
    def __init__(self, name: str, nth: int = 1) -> None:
        self._name, self._left = name, nth

    def __getattr__(self, name: str) -> Any:
        if name == self._name:
            self._left -= 1
            if self._left == 0:
                raise KeyboardInterrupt
        raise AttributeError(name)


def test_interrupt_while_a_refusal_is_formatted_is_raised() -> None:
    with pytest.raises(KeyboardInterrupt):
        typed.mean(Interrupting("__iter__"))
    message, _, error = typed.refusal(Interrupting("__iter__"))
    assert message.startswith("KeyboardInterrupt")
    assert type(error) is dlbridge.TensorMismatchError


def test_interrupt_while_protocols_are_looked_up_is_raised() -> None:
    asked = 0
    while True:
        asked += 1
        x = Interrupting("__dlpack__", asked)
        try:
            typed.mean(x)
        except KeyboardInterrupt:
            continue
        except TypeError:
            # Every lookup was interrupted once; the last object had fewer lookups.
            assert x._left > 0
            break
    assert asked > 1


def test_object_whose_attributes_raise_is_refused() -> None:
    class Broken:
        @property
        def __iter__(self) -> Any:
            raise RuntimeError

    with pytest.raises(dlbridge.TensorMismatchError, match="supports no exchange protocol"):
        typed.mean(Broken())


def test_message_of_a_number_does_not_call_its_methods() -> None:
    class Large(int):
        def __str__(self) -> str:
            raise KeyboardInterrupt

        __repr__ = __index__ = __int__ = __str__  # type: ignore[assignment]

    for number in (Large(1 << 70), Large(1 << 700)):
        with pytest.raises(dlbridge.TensorMismatchError, match="out of range"):
            typed.as_int32([number])


def test_refusal_has_the_exception_that_is_being_handled_as_its_context() -> None:
    try:
        raise ValueError
    except ValueError as handled:
        with pytest.raises(dlbridge.TensorMismatchError) as refusal:
            typed.mean(np.zeros(3))
        assert refusal.value.__context__ is handled


def test_mismatch_of_an_array_that_only_an_import_describes() -> None:
    field = np.zeros(5, [("x", "<f4"), ("attribute", "<u2")])["x"]
    with pytest.raises(dlbridge.TensorMismatchError) as refusal:
        typed.trace(field)
    assert str(refusal.value).startswith("argument 'x': expected float64[_, _] on cpu; got float32[5] on cpu")


def test_name_of_the_argument_survives_an_interrupt() -> None:
    class Notes(list[str]):
        interrupted = False

        def remove(self, note: str) -> None:
            if not self.interrupted:
                self.interrupted = True
                raise KeyboardInterrupt
            super().remove(note)

    with pytest.raises(dlbridge.TensorMismatchError) as refusal:
        typed.trace([1.0])
    error = refusal.value
    error.__notes__ = Notes(["while processing 'x'", "mine"])
    with pytest.raises(KeyboardInterrupt):
        str(error)
    assert str(error).startswith("argument 'x': expected float64[_, _]")
    assert str(error).count("argument 'x'") == 1
    assert error.__notes__ == ["mine"]


def test_exception_during_the_first_import_of_the_class_is_raised() -> None:
    code = """
import sys

import numpy as np
import typed_arguments as typed


class Timeout(Exception):
    pass


class Interrupted:
    def find_spec(self, name, path=None, target=None):
        if name == "dlbridge._errors":
            sys.meta_path.remove(self)
            raise Timeout


sys.meta_path.insert(0, Interrupted())
try:
    typed.trace([1.0])
except Timeout:
    pass
else:
    raise AssertionError("the exception was dropped")
import dlbridge

try:
    typed.trace([1.0])
except dlbridge.TensorMismatchError:
    print("mismatch")
"""
    assert output(code, options=(), quiet=False) == "mismatch\n"
