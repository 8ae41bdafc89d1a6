"""Loops that export a tensor and import the result: memory does not grow, and no deleter needs a deep stack."""

import os
import subprocess
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from pickle import PickleBuffer

import dlbridge
import pytest
from chains_program import FLAT, GROWING, second_copy
from conftest import require

np = require("numpy")

PROGRAM = Path(__file__).with_name("chains_program.py")

TURNS = int(os.environ.get("DLBRIDGE_CHAIN_TURNS", "1000000"))
"""The number of turns of each loop. A debug build of dlbridge takes about 20 times as long for a turn, so use fewer there."""

GROWTH = 8 << 20
"""The limit of growth in bytes. One small block for each turn would take far more."""

JAX_TURNS = TURNS // 20
"""A turn through JAX takes 3.8 kB and 80 µs, so a million turns would take 3.8 GB and 80 s. PyTorch, the next largest, takes
1.1 kB and 10 µs. This number of turns is still enough for a recursive drop to overflow the stack."""

ALONE_TURNS = TURNS // 5
"""The maximum number of turns of a library alone. The test compares the growth for each turn."""

only_on_linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads memory from /proc")


class Program:
    """A process that ran some loops."""

    def __init__(self, loops: Iterable[tuple[str, int]]) -> None:
        command = [sys.executable, str(PROGRAM), *(str(word) for loop in loops for word in loop)]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=600)
        self.end = f"the process ended with {ended.returncode}: {ended.stdout}{ended.stderr}"
        self.grown: dict[str, int] = {}
        self.dropped: set[str] = set()
        for line in ended.stdout.splitlines():
            what, _, value = line.partition(" ")
            if what == "dropped":
                self.dropped.add(value)
            else:
                self.grown[what] = int(value)


@pytest.fixture(scope="module")
def programs() -> dict[str, Program]:
    """The processes of the loops whose source is known. There are few, because starting one takes as long as many turns."""
    loops = [(name, TURNS) for name in FLAT]
    count = min(os.cpu_count() or 1, 4)
    groups = [loops[start::count] for start in range(count)]
    with ThreadPoolExecutor(count) as side_by_side:
        ended = list(side_by_side.map(Program, groups))
    return {name: program for group, program in zip(groups, ended, strict=True) for name, _ in group}


@only_on_linux
@pytest.mark.parametrize("loop", FLAT)
def test_loop_whose_source_is_known_keeps_memory_flat(loop: str, programs: dict[str, Program]) -> None:
    program = programs[loop]
    assert loop in program.dropped, program.end
    assert program.grown[loop] < GROWTH


@only_on_linux
@pytest.mark.parametrize("library", GROWING)
def test_loop_through_a_library_grows_less_than_three_objects_of_the_library(library: str) -> None:
    """The chain drops on a small stack. A turn adds one object of the library and two of dlbridge, which must take less memory
    than three of the library's own.

    The library alone may need a deep stack to drop as many objects: pyarrow does.
    """
    require(library)
    through, alone = f"through-{library}", f"alone-{library}"
    turns = JAX_TURNS if library == "jax" else TURNS
    turns_alone = min(turns, ALONE_TURNS)
    with_dlbridge, without = Program([(through, turns)]), Program([(alone, turns_alone)])
    assert through in with_dlbridge.dropped, with_dlbridge.end
    assert alone in without.grown, without.end
    assert with_dlbridge.grown[through] / turns < 3 * without.grown[alone] / turns_alone


@only_on_linux
def test_loop_through_a_second_copy_of_dlbridge_drops_on_a_small_stack() -> None:
    program = Program([("second-copy", ALONE_TURNS)])
    assert "second-copy" in program.dropped, program.end


def test_array_of_an_export_keeps_the_source_alive() -> None:
    source = np.arange(6.0)
    tensor = dlbridge.asdlpack(dlbridge.like(source, source)[2:])
    del source
    assert tensor.numpy().tolist() == [2, 3, 4, 5]


def test_array_of_an_export_that_is_read_only_stays_read_only() -> None:
    array = dlbridge.like(np.arange(6.0), np.zeros(1))
    array.flags.writeable = False
    assert dlbridge.asdlpack(array).readonly
    view = memoryview(dlbridge.asdlpack(bytearray(8))).toreadonly()
    assert dlbridge.asdlpack(view).readonly
    assert not dlbridge.asdlpack(memoryview(dlbridge.asdlpack(bytearray(8)))).readonly


def test_view_of_an_export_has_its_own_shape() -> None:
    tensor = dlbridge.asdlpack(bytearray(range(8)))
    part = dlbridge.asdlpack(memoryview(tensor)[2:8:2])
    assert (part.numpy().tolist(), part.strides) == ([2, 4, 6], (2,))
    turned = dlbridge.asdlpack(tensor.numpy()[::-1])
    assert turned.numpy().tolist() == [7, 6, 5, 4, 3, 2, 1, 0]
    assert dlbridge.asdlpack(memoryview(tensor)[8:]).shape == (0,)


def test_buffer_of_a_tensor_is_released_once_its_source_is_kept() -> None:
    view = memoryview(dlbridge.asdlpack(bytearray(b"abc")))
    tensor = dlbridge.asdlpack(view)
    view.release()
    assert bytes(tensor.numpy()) == b"abc"


def test_pickle_buffer_of_a_tensor_is_imported_like_the_tensor() -> None:
    buffer = PickleBuffer(dlbridge.asdlpack(bytearray(b"abc")))
    tensor = dlbridge.asdlpack(buffer)
    buffer.release()
    assert (bytes(tensor.numpy()), tensor.readonly) == (b"abc", False)
    assert dlbridge.asdlpack(PickleBuffer(dlbridge.asdlpack(b"abc"))).readonly
    data = bytearray(b"abc")
    tensor = dlbridge.asdlpack(PickleBuffer(dlbridge.asdlpack(memoryview(data)[1:])))
    assert bytes(tensor.numpy()) == b"bc"
    with pytest.raises(BufferError):
        data.append(1)
    del tensor
    data.append(1)


def test_bytearray_stays_locked_while_a_tensor_of_a_tensor_lives() -> None:
    data = bytearray(b"abc")
    tensor = dlbridge.asdlpack(memoryview(dlbridge.asdlpack(data)))
    with pytest.raises(BufferError):
        data.append(1)
    del tensor
    data.append(1)


@only_on_linux
def test_tensor_through_second_copy_keeps_its_elements() -> None:
    second = second_copy()
    tensor = dlbridge.asdlpack(np.arange(6.0).reshape(2, 3).T)
    back = dlbridge.asdlpack(second.asdlpack(tensor)[1:])
    expected, address = tensor.numpy()[1:].tolist(), tensor.numpy()[1:].ctypes.data
    del tensor
    assert (back.numpy().tolist(), back.address, back.readonly) == (expected, address, False)
    empty = dlbridge.asdlpack(second.asdlpack(back)[2:])
    assert empty.shape == (0, 2)


@only_on_linux
def test_read_only_tensor_through_second_copy_stays_read_only() -> None:
    second = second_copy()
    assert dlbridge.asdlpack(second.asdlpack(dlbridge.asdlpack(b"abc"))).readonly
    array = np.arange(3.0)
    array.flags.writeable = False
    assert dlbridge.asdlpack(second.asdlpack(dlbridge.asdlpack(array))).readonly


@only_on_linux
def test_bytearray_stays_locked_while_a_tensor_through_second_copy_lives() -> None:
    second = second_copy()
    for first, other in ((dlbridge, second), (second, dlbridge)):
        data = bytearray(b"abc")
        tensor = first.asdlpack(other.asdlpack(first.asdlpack(data)))
        with pytest.raises(BufferError):
            data.append(1)
        del tensor
        data.append(1)
