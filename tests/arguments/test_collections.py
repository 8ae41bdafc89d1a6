"""Lists and dicts of tensors as arguments, of every framework."""

import traceback
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import dlbridge
import numpy as np
import pytest
import typed_arguments as typed
from native import Producer


def torch_tensor(values: list[float]) -> Any:
    return pytest.importorskip("torch").tensor(values)


def jax_array(values: list[float]) -> Any:
    return pytest.importorskip("jax").numpy.array(values, "float32")


def numpy_array(values: list[float]) -> Any:
    return np.array(values, "float32")


def own_tensor(values: list[float]) -> Any:
    return dlbridge.asdlpack(numpy_array(values))


MAKERS = [numpy_array, torch_tensor, jax_array, own_tensor]


@pytest.fixture(params=MAKERS, ids=lambda make: make.__name__)
def make(request: pytest.FixtureRequest) -> Callable[[list[float]], Any]:
    return request.param


def test_read_only_items_of_every_library_are_extracted(make: Any) -> None:
    x, y = make([1.0, 2.0]), make([4.0])
    for sums in (typed.sums_of_list, typed.sums_of_vec):
        assert sums([x, y]) == sums((x, y)) == [3.0, 4.0]
        assert sums([]) == []
    for sums in (typed.sums_of_dict, typed.sums_of_map):
        assert sums({"x": x, "y": y}) == sums(OrderedDict(x=x, y=y)) == {"x": 3.0, "y": 4.0}
        assert sums({}) == {}
    assert typed.sums_of_entries({"y": y, "x": x}) == [("y", 4.0), ("x", 3.0)]
    assert typed.sums_of_dict_of_lists({7: [x], -1: [y, x], 0: []}) == [(-1, [4.0, 3.0]), (0, []), (7, [3.0])]
    assert typed.sums_with_gaps([None, x, None]) == [None, 3.0, None]
    assert typed.sums_with_gaps(()) == []


def test_items_of_several_libraries_are_extracted_together() -> None:
    assert typed.sums_of_list([make([1.0, 2.0]) for make in MAKERS]) == [3.0] * len(MAKERS)


def test_pairs_of_tensors_are_extracted() -> None:
    pair = np.ones((2, 3), "float32"), np.ones(2, "float32")
    assert typed.sums_of_pairs([pair, list(pair)]) == [8.0, 8.0]
    with pytest.raises(TypeError, match=r"item \[1\]: expected a list or tuple of 2 items; got 1 item$"):
        typed.sums_of_pairs([pair, pair[:1]])
    with pytest.raises(TypeError, match=r"item \[0\]\[1\]: expected float32\[_\] on cpu; got float32\[2, 3\]"):
        typed.sums_of_pairs([(pair[0], pair[0])])


@pytest.mark.parametrize("make", [numpy_array, torch_tensor], ids=lambda make: make.__name__)
def test_writable_items_are_written_in_place(make: Any) -> None:
    x, y = make([1.0, 2.0]), make([4.0])
    typed.negate_list([x, y])
    assert (x.tolist(), y.tolist()) == ([-1.0, -2.0], [-4.0])
    typed.negate_dict({"y": y})
    assert y.tolist() == [4.0]
    typed.subtract_lists({"a": [x], "b": (y,)}, {"a": [make([1.0, 1.0])], "b": (make([3.0]),)})
    assert (x.tolist(), y.tolist()) == ([-2.0, -3.0], [1.0])


def test_one_array_twice_is_read_and_not_written() -> None:
    x = np.ones(4, "float32")
    assert typed.sums_of_list([x, x, x[:2]]) == [4.0, 4.0, 2.0]
    conflict = r"the memory of this numpy.ndarray, borrowed for writing, overlaps that of a numpy.ndarray, borrowed for writing"
    with pytest.raises(BufferError, match=rf"^argument 'x': item \[2\]: {conflict}"):
        typed.negate_list([x[:2], np.ones(2, "float32"), x[1:]])
    with pytest.raises(BufferError, match=rf"^argument 'x': item \['b'\]: {conflict}"):
        typed.negate_dict({"a": x, "b": x})
    with pytest.raises(BufferError, match=conflict):
        typed.negate_vec([x, x])
    with pytest.raises(BufferError, match=r"^argument 'y': item \['a'\]\[0\]: .* borrowed for reading, overlaps"):
        typed.subtract_lists({"a": [x]}, {"a": [x]})
    # Nothing was written, and nothing stays borrowed.
    assert x.tolist() == [1.0] * 4
    typed.negate_list([x[:2], x[2:]])
    assert x.tolist() == [-1.0] * 4


def test_many_writable_items_are_borrowed_at_once() -> None:
    memory = np.ones((3000, 4), "float32")
    rows = list(memory)
    typed.negate_list(rows)
    assert (memory == -1).all()
    # Columns share no byte, but their spans overlap.
    typed.negate_list(list(np.ones((4, 300), "float32").T))
    with pytest.raises(BufferError, match=r"item \[3000\]: .* overlaps"):
        typed.negate_list([*rows, memory[1234, 1:2]])
    with pytest.raises(BufferError, match=r"^argument 'y': item \['a'\]\[0\]: .* overlaps"):
        typed.subtract_lists({"a": rows}, {"a": [memory]})
    assert (memory == -1).all()
    typed.negate_list([memory])


def test_error_of_an_item_names_its_place() -> None:
    good, bad = np.ones(2, "float32"), np.ones(2)
    error = r"expected float32\[\.\.\.\] on cpu; got float64\[2\] on cpu"
    for call, argument, place in [
        (typed.sums_of_list, [good, bad], r"\[1\]"),
        (typed.sums_of_list, (bad,), r"\[0\]"),
        (typed.sums_of_dict, {"a": good, "b'c": bad}, r"\[\"b'c\"\]"),
        (typed.sums_of_entries, {"a": good, "b": bad}, r"\['b'\]"),
        (typed.sums_of_dict_of_lists, {3: [good], -4: [good, good, bad]}, r"\[-4\]\[2\]"),
        (typed.sums_with_gaps, [None, good, bad], r"\[2\]"),
    ]:
        with pytest.raises(dlbridge.TensorMismatchError, match=rf"^argument 'x': item {place}: {error}") as caught:
            call(argument)
        assert caught.value.argument == "x"


def test_collection_of_another_type_is_refused() -> None:
    x = np.ones((2, 2), "float32")
    for call, expected in [(typed.sums_of_list, "a list or tuple"), (typed.sums_of_dict, "a dict")]:
        for argument in (x, "text", None, 3, {1, 2}):
            with pytest.raises(TypeError, match=rf"^argument 'x': expected {expected}; got an? .*; (pass|put it into)"):
                call(argument)
    with pytest.raises(TypeError, match=r"^argument 'x': expected a list or tuple; got a generator; put it into a list, or pass list\(x\)$"):
        typed.sums_of_list(row for row in x)
    with pytest.raises(TypeError, match=r"^argument 'x': item \[0\]: expected a list or tuple; got a numpy.ndarray"):
        typed.sums_of_dict_of_lists({0: x})
    with pytest.raises(TypeError, match=r"item \['a'\]: .*int"):
        typed.sums_of_dict_of_lists({"a": [x]})


class Broken(Exception):
    pass


def test_exception_of_a_producer_is_raised_with_its_place() -> None:
    for error in (Broken("no"), KeyboardInterrupt(), ZeroDivisionError(1, 2)):
        before = error.args
        with pytest.raises(type(error)) as caught:
            typed.sums_of_list([np.ones(1, "float32"), Producer(error)])
        assert caught.value is error and error.args == before
        assert any("while processing item [1]" in line for line in traceback.format_exception(error))
    with pytest.raises(BufferError, match=r"item \[0\]: on strike"):
        typed.sums_of_list([Producer(BufferError("on strike"))])


def test_place_is_in_the_message_once_if_a_producer_raises_one_exception_again() -> None:
    for error in (TypeError("no"), RuntimeError("no")):
        for _ in range(3):
            with pytest.raises(type(error)) as caught:
                typed.sums_of_list([np.ones(1, "float32"), Producer(error)])
        assert "".join(traceback.format_exception_only(caught.value)).count("item [1]") == 1


def test_keys_that_become_equal_are_refused() -> None:
    class Key:
        def __index__(self) -> int:
            return 5

    one = [np.ones(1, "float32")]
    with pytest.raises(ValueError, match=r"item \[5\]: an earlier key of the dict is equal to this one"):
        typed.sums_of_dict_of_lists({Key(): one, 5: one})


def tensor_that(changes: Callable[[], Any]) -> Producer:
    """A tensor that changes its collection when it is exported."""

    def export(keywords: dict[str, Any]) -> Any:
        changes()
        return np.ones(2, "float32").__dlpack__(**keywords)

    return Producer(export)


def test_collection_that_a_producer_changes_is_extracted_as_it_was() -> None:
    items: list[Any] = [np.ones(1, "float32")] * 3
    items.insert(0, tensor_that(items.clear))
    assert typed.sums_of_list(items) == [2.0, 1.0, 1.0, 1.0]
    assert items == []
    named: dict[str, Any] = {"a": tensor_that(lambda: named.clear()), "b": np.ones(1, "float32")}
    assert typed.sums_of_dict(named) == {"a": 2.0, "b": 1.0}


def test_module_state_dict_is_a_dict() -> None:
    torch = pytest.importorskip("torch")
    state = torch.nn.Linear(3, 2).state_dict()
    sums = typed.sums_of_dict(state)
    assert sums == pytest.approx({name: float(value.sum()) for name, value in state.items()})
    with pytest.raises(BufferError, match=r"item \[0\]: .*requires grad"):
        typed.sums_of_list(list(torch.nn.Linear(3, 2).parameters()))
