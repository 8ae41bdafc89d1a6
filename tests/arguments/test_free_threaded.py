"""Threads that pass the same objects to functions in Rust at once, on a Python without the GIL. Skipped on other Pythons."""

import gc
import weakref
from collections.abc import Callable
from typing import Any

import dlbridge
import pytest

from concurrently import concurrently, repeatedly, require_no_gil

require_no_gil()

import numpy as np
import typed_arguments as typed

ROUNDS = 500


class Array(np.ndarray):  # type: ignore[misc]
    """A NumPy array with attributes and weak references."""


def tries(function: Callable[[Any], Any], x: Any, done: list[int], place: int) -> Callable[[], None]:
    """Calls the function with the memory that others use, and counts the calls that no borrow refused."""

    def run() -> None:
        try:
            function(x)
            done[place] += 1
        except BufferError as error:
            assert "borrowed" in str(error), error

    return run


@pytest.mark.parametrize("library", ["numpy", "torch", "dlbridge", "bytearray"])
def test_writers_of_one_memory_exclude_each_other(library: str) -> None:
    numbers = np.arange(1.0, 65.0)
    x: Any = numbers
    if library == "torch":
        x = pytest.importorskip("torch").from_numpy(numbers)
    elif library == "dlbridge":
        x = dlbridge.asdlpack(numbers)
    elif library == "bytearray":
        memory = bytearray(numbers.tobytes())
        x = memoryview(memory).cast("d")
        numbers = np.frombuffer(memory)
    done = [0] * 4
    for _ in range(3):
        repeatedly([tries(typed.negate, x, done, place) for place in range(4)], ROUNDS)
    sign = -1 if sum(done) % 2 else 1
    assert all(done), "a thread was always refused"
    assert numbers.tolist() == [sign * number for number in range(1, 65)]
    typed.negate(x)


def test_readers_see_no_half_written_memory() -> None:
    numbers = np.ones(1 << 12)
    done, totals = [0] * 4, set()

    def read(x: Any) -> None:
        totals.add(typed.total_detached(x))

    repeatedly(
        [
            *[tries(typed.negate, numbers, done, place) for place in range(2)],
            *[tries(read, numbers, done, place) for place in range(2, 4)],
        ],
        ROUNDS,
    )
    assert totals <= {4096.0, -4096.0}
    typed.negate(numbers)


def test_borrows_of_neighbours_are_independent() -> None:
    matrix = np.ones((8, 64))
    repeatedly([lambda row=row: typed.negate(matrix[row]) for row in range(8)], ROUNDS)  # type: ignore[misc]
    assert matrix.tolist() == np.ones((8, 64)).tolist()


def test_list_changed_by_thread_is_old_or_new_or_refused() -> None:
    numbers: list[Any] = [1.0] * 64

    def change() -> None:
        numbers.append(1.0)
        numbers[3] = 1
        numbers.pop()
        numbers[:] = [1.0] * 64

    def use() -> None:
        try:
            found, _ = typed.vector_of_list(numbers)
            assert len(found) in (64, 65)
            assert set(found) == {1.0}
        except RuntimeError as error:
            assert "the list changed while it was read" in str(error), error

    repeatedly([change, use, use, use], ROUNDS)


def test_nested_list_changed_by_thread_is_old_or_new_or_refused() -> None:
    rows: list[Any] = [[1.0] * 8 for _ in range(8)]

    def change() -> None:
        rows[2] = np.ones(8)
        rows[3] = (1, 2, 3, 4, 5, 6, 7, 8)
        rows[4].clear()
        rows[4] = [1.0] * 8
        rows.pop()
        rows.append([1.0] * 8)

    def use() -> None:
        try:
            assert typed.matrix_of_lists(rows).shape in ((8, 8), (7, 8))
        except RuntimeError as error:
            assert "changed while it was read" in str(error), error
        except (TypeError, ValueError) as error:
            # A row was empty at that moment.
            assert "row" in str(error) or "item" in str(error) or "length" in str(error), error

    repeatedly([change, use, use, use], ROUNDS)


@pytest.mark.parametrize("make", [dict, list], ids=["dict", "list"])
def test_collection_changed_by_thread_is_read_or_refused(make: Any) -> None:
    arrays: Any = {str(key): np.ones(3, "f4") for key in range(8)} if make is dict else [np.ones(3, "f4") for _ in range(8)]
    function = typed.sums_of_dict if make is dict else typed.sums_of_list

    def change() -> None:
        if make is dict:
            arrays["new"] = np.ones(3, "f4")
            arrays.pop("new")
        else:
            arrays.append(np.ones(3, "f4"))
            arrays.pop()

    def use() -> None:
        try:
            assert len(function(arrays)) in (8, 9)
        except RuntimeError as error:
            assert "chang" in str(error), error

    repeatedly([change, use, use, use], ROUNDS)


def test_results_made_by_threads_are_freed() -> None:
    ends = []

    def use() -> None:
        array = np.arange(64.0).view(Array)
        ends.append(weakref.ref(array))
        assert typed.total_of_vector(array) == 2016.0
        assert typed.twice(np.ones(3, "f4")).tolist() == [2.0, 2.0, 2.0]
        assert typed.ramp(3, "numpy").tolist() == [0.0, 1.0, 2.0]

    repeatedly([use] * 6, ROUNDS)
    gc.collect()
    assert [end for end in ends if end() is not None] == []


def test_tensor_of_pytorch_is_read_by_threads() -> None:
    torch = pytest.importorskip("torch")
    tensor = torch.ones((8, 8), dtype=torch.float64)
    repeatedly(
        [
            lambda: typed.total_of_vector(tensor[0]),
            lambda: typed.by_columns(tensor),
            lambda: typed.by_columns(tensor.T),
            lambda: dlbridge.asdlpack(tensor).torch(),
        ]
        * 2,
        ROUNDS,
    )
    assert tensor.sum() == 64
    typed.negate(tensor)


def test_first_calls_of_process_at_once_agree() -> None:
    # The first call of each kind of argument in this file may have been made before; the types below are new.
    def use() -> float:
        kind = type("New", (np.ndarray,), {})
        total: float = typed.total_of_vector(np.ones(3).view(kind))
        return total

    assert concurrently([use] * 8) == [3.0] * 8
