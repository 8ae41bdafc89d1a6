"""Threads that use the same objects at once, on a Python without the GIL. Skipped on other Pythons."""

import gc
import os
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dlbridge
import pytest
from concurrently import concurrently, repeatedly, require_no_gil
from conftest import require
from native import Native
from processes import run

require_no_gil()

np = require("numpy")

THREADS = 8
ROUNDS = 300


class Array(np.ndarray):  # type: ignore[misc]
    """A NumPy array with attributes and weak references."""


def test_import_of_package_leaves_gil_off(monkeypatch: pytest.MonkeyPatch) -> None:
    code = "import sys, dlbridge; sys.exit(sys._is_gil_enabled())"
    monkeypatch.delenv("PYTHON_GIL", raising=False)
    done = run(code, options=["-W", "error"])
    assert (done.returncode, done.stderr) == (0, ""), "build the wheel with the feature `free-threaded`"


@pytest.mark.parametrize("use", ["asdlpack", "numpy", "slice", "buffer", "iterate", "struct", "alias", "to", "hash"])
def test_threads_share_one_tensor(use: str) -> None:
    tensor = dlbridge.asdlpack(np.arange(12.0).reshape(3, 4))
    uses: dict[str, Callable[[], Any]] = {
        "asdlpack": lambda: dlbridge.asdlpack(tensor),
        "numpy": lambda: np.from_dlpack(tensor),
        "slice": lambda: tensor[1:, ::2],
        "buffer": lambda: memoryview(tensor)[1, 2],
        "iterate": lambda: [row.tolist() for row in tensor],
        "struct": lambda: np.asarray(tensor),
        "alias": lambda: tensor.__dlpack__(max_version=(1, 3)),
        "to": lambda: tensor.to("numpy"),
        "hash": lambda: (tensor.shape, tensor.dtype, repr(tensor), tensor.__dlpack_device__()),
    }
    repeatedly([uses[use]] * THREADS, ROUNDS)
    assert tensor.tolist() == np.arange(12.0).reshape(3, 4).tolist()


def test_threads_mix_imports_of_one_array() -> None:
    array = np.arange(12.0).view(Array)
    end = weakref.ref(array)
    tensor = dlbridge.asdlpack(array)
    memory: Any = bytearray(96)
    repeatedly(
        [
            lambda: dlbridge.asdlpack(array),
            lambda: dlbridge.asdlpack(np.asarray(array)),
            lambda: np.from_dlpack(tensor[2:]),
            lambda: dlbridge.asdlpack(array, copy=True),
            lambda: dlbridge.asdlpack(memory),
            lambda: memoryview(dlbridge.asdlpack(memoryview(memory))),
            lambda: dlbridge.asdlpack(dlbridge.asdlpack(tensor)).numpy(),
            lambda: dlbridge.empty((3,)).numpy(),
        ],
        ROUNDS,
    )
    del array, tensor
    gc.collect()
    assert end() is None
    memory.append(1)


def test_last_handles_dropped_at_once_delete_once(native: Native) -> None:
    for versioned in (True, False):
        for _ in range(100):
            tensor = dlbridge.asdlpack(native.craft(versioned=versioned).capsule())
            held = [[dlbridge.asdlpack(tensor), tensor[0:1], memoryview(tensor)] for _ in range(4)]
            del tensor
            concurrently([each.clear for each in held])
            assert native.all_deleted()


@pytest.mark.parametrize("max_version", [None, (1, 3)])
def test_capsule_consumed_by_threads_has_one_owner(native: Native, max_version: Any) -> None:
    def consume(capsule: Any) -> Any:
        try:
            return dlbridge.asdlpack(capsule)
        except ValueError as error:
            # The exception itself would keep this frame.
            return str(error)

    for _ in range(200):
        capsule = native.craft(versioned=max_version is not None).capsule()
        results = concurrently([lambda: consume(capsule)] * 4)
        refused = [result for result in results if isinstance(result, str)]
        assert len(refused) == 3
        assert all("consumed before" in text for text in refused)
        del results
        assert native.all_deleted()


def test_first_imports_of_a_process_at_once() -> None:
    code = """
import sys, threading
import numpy as np
import dlbridge
from concurrently import concurrently
class Own(np.ndarray): pass
class Interface:
    def __init__(self): self.array = np.arange(3.0); self.__array_interface__ = self.array.__array_interface__
def use():
    for make in (lambda: np.arange(3.0), lambda: np.arange(3.0).view(Own), lambda: bytearray(8), Interface):
        tensor = dlbridge.asdlpack(make())
        np.from_dlpack(tensor), memoryview(tensor), tensor.to("numpy"), tensor.dtype, repr(tensor), tensor[0:1]
    try: dlbridge.asdlpack(object())
    except TypeError: pass
    dlbridge.ragged, dlbridge.explain, dlbridge.load, dlbridge.TensorMismatchError
results = concurrently([use] * 8)
assert results == [None] * 8, results
"""
    for _ in range(5):
        done = run(code, options=["-W", "error"])
        assert done.returncode == 0, done.stderr


def test_types_made_by_threads_are_imported() -> None:
    def use() -> None:
        for number in range(100):
            kind = type(f"Array{number}", (np.ndarray,), {})
            assert dlbridge.asdlpack(np.arange(3.0).view(kind)).tolist() == [0.0, 1.0, 2.0]

    repeatedly([use] * 4, 2)


def test_collector_frees_cycles_made_by_threads() -> None:
    ends = []

    def cycle() -> None:
        array = np.arange(4.0).view(Array)
        array.tensor = dlbridge.asdlpack(array)
        ends.append(weakref.ref(array))

    repeatedly([cycle, cycle, cycle, lambda: gc.collect()], 60)
    gc.collect()
    assert len(ends) == 180
    assert [end for end in ends if end() is not None] == []


def test_weak_reference_races_with_last_reference() -> None:
    for _ in range(ROUNDS):
        held = [dlbridge.asdlpack(np.arange(3.0))]
        end = weakref.ref(held[0])

        def resurrect(end: Any = end) -> Any:
            tensor = end()
            return None if tensor is None else tensor.tolist()

        *found, _ = concurrently([resurrect, resurrect, held.clear])
        assert all(numbers in (None, [0.0, 1.0, 2.0]) for numbers in found)
        assert end() is None


def test_chunks_shared_by_threads_are_returned_once() -> None:
    pa = require("pyarrow")
    column = pa.chunked_array([[number] for number in range(200)])
    busy = threading.Event()

    def take(chunks: Any) -> list[int]:
        found = []
        while True:
            try:
                found += next(chunks).tolist()
            except StopIteration:
                return found
            except ValueError as error:
                assert "requested already" in str(error)
                busy.set()

    for _ in range(10):
        chunks = dlbridge.chunks(column)
        found = concurrently([lambda: take(chunks)] * 4)
        assert sorted(number for numbers in found for number in numbers) == list(range(200))


def test_buffer_resized_by_thread_is_refused_or_whole() -> None:
    memory = bytearray(64)

    def resize() -> None:
        try:
            memory.append(0)
            memory.pop()
        except BufferError:
            pass

    def use() -> None:
        assert dlbridge.asdlpack(memory).shape[0] in (64, 65)

    repeatedly([resize, use, use], 2000)


def test_dictionary_changed_by_thread_is_old_or_new() -> None:
    arrays = [np.arange(4.0), np.arange(8.0)]

    class Changing:
        def __init__(self) -> None:
            self.change()

        def change(self) -> None:
            for array in arrays:
                self.array = array
                self.__array_interface__ = array.__array_interface__

    changing = Changing()

    def use() -> None:
        assert dlbridge.asdlpack(changing).shape in ((4,), (8,))

    repeatedly([changing.change, use, use], ROUNDS)


def test_large_copies_of_threads_are_right() -> None:
    array = np.arange(1 << 21).reshape(1 << 10, 1 << 11)

    def copy(source: Any) -> None:
        copied = dlbridge.asdlpack(source, copy=True).numpy()
        assert np.array_equal(copied, source)

    repeatedly([lambda: copy(array.T), lambda: copy(array), lambda: dlbridge.set_num_threads(2)], 10)


def test_file_written_by_threads_is_whole(tmp_path: Path) -> None:
    array = np.arange(1000.0)

    def write(place: int) -> None:
        path = tmp_path / f"{place}.npz"
        dlbridge.save(path, {"x": array, "y": array[::2]})
        with dlbridge.load(path) as file:
            assert np.array_equal(file["x"].numpy(), array)

    repeatedly([lambda place=place: write(place) for place in range(4)], 10)  # type: ignore[misc]


def test_one_file_read_by_threads(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    dlbridge.save(path, {str(number): np.arange(float(number)) for number in range(20)})
    file = dlbridge.load(path)

    def read() -> None:
        for number in range(20):
            assert file[str(number)].shape == (number,)

    repeatedly([read] * 4, 50)


def test_shared_memory_attached_by_threads_is_one_map() -> None:
    with dlbridge.share_memory(np.arange(8.0)) as shared:
        found = concurrently([lambda: dlbridge.attach(shared.name).tensor.address] * THREADS)
        assert set(found) == {shared.tensor.address}
        shared.unlink()


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_child_of_process_with_threads_imports() -> None:
    stop = threading.Event()

    def use() -> None:
        while not stop.is_set():
            dlbridge.asdlpack(np.arange(3.0).view(type("Array", (np.ndarray,), {})))

    threads = [threading.Thread(target=use) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(20):
            child = os.fork()
            if child == 0:
                os._exit(dlbridge.asdlpack(np.arange(3.0).view(Array)).shape != (3,))
            _, status = os.waitpid(child, 0)
            assert status == 0
    finally:
        stop.set()
        for thread in threads:
            thread.join()
