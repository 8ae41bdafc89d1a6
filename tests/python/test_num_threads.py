"""The threads of large copies: their number, forks, the end of the program."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import dlbridge
from processes import output, run

#: The smallest number of bytes of a copy that uses several threads.
LARGE = 1 << 24

TASKS = Path("/proc/self/task")
only_linux = pytest.mark.skipif(not TASKS.is_dir(), reason="this platform does not list the threads of a process")


@pytest.fixture(autouse=True)
def several_threads() -> Iterator[None]:
    """Copies with four threads, also on a machine with one processor."""
    before = dlbridge.get_num_threads()
    dlbridge.set_num_threads(4)
    yield
    dlbridge.set_num_threads(before)


def names() -> list[str]:
    """The names of the threads of copies."""
    found = []
    for task in TASKS.iterdir():
        try:
            found.append((task / "comm").read_text().strip())
        except (FileNotFoundError, ProcessLookupError):
            continue
    return [name for name in found if name == "dlbridge-copy"]


def most_threads(nbytes: int, expected: int) -> int:
    """The most threads that copies of this size start; stops at the expected number, or after some seconds."""
    most, data, done = 0, bytes(nbytes), threading.Event()
    end = time.monotonic() + (10 if expected else 0.5)

    def copy() -> None:
        while not done.is_set() and time.monotonic() < end:
            dlbridge.asdlpack(data, copy=True)

    with ThreadPoolExecutor(1) as pool:
        copying = pool.submit(copy)
        while not copying.done() and (most < expected or expected == 0):
            most = max(most, len(names()))
        done.set()
    copying.result()
    return most


def source(seed: int = 0) -> bytes:
    return (bytes(range(seed, 251)) * (LARGE // 200))[:LARGE]


def check_copy(data: bytes) -> None:
    tensor = dlbridge.asdlpack(data, copy=True)
    assert memoryview(tensor) == data


def test_default_is_the_number_of_processors_up_to_eight() -> None:
    code = "import dlbridge; print(dlbridge.get_num_threads())"
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    # A limit of a control group may be lower.
    assert 1 <= int(run(code).stdout) <= min(8, processors)


@pytest.mark.parametrize("number", [1, 2, 1024, True + 1])
def test_set_num_threads_is_returned_by_get(number: int) -> None:
    dlbridge.set_num_threads(number)
    assert dlbridge.get_num_threads() == number
    check_copy(source())


class Index:
    def __index__(self) -> int:
        return 3


def test_set_num_threads_accepts_an_object_with_index() -> None:
    dlbridge.set_num_threads(Index())
    assert dlbridge.get_num_threads() == 3


@pytest.mark.parametrize("number", [0, -1, 1025, 2**31, 2**64, -(2**70)])
def test_set_num_threads_refuses_a_wrong_number(number: int) -> None:
    with pytest.raises(ValueError, match=rf"num_threads must be an integer from 1 to 1024, not {number}"):
        dlbridge.set_num_threads(number)
    assert dlbridge.get_num_threads() == 4


@pytest.mark.parametrize("value", [None, 2.0, "2", True, [2], b"2"], ids=repr)
def test_set_num_threads_refuses_anything_but_an_integer(value: object) -> None:
    with pytest.raises(TypeError, match="num_threads must be an integer from 1 to 1024, not"):
        dlbridge.set_num_threads(value)  # type: ignore[arg-type]
    assert dlbridge.get_num_threads() == 4


@only_linux
@pytest.mark.parametrize("number", [2, 4])
def test_large_copy_starts_threads_and_ends_them(number: int) -> None:
    dlbridge.set_num_threads(number)
    # Of the smallest large copy the first thread may end before the last one begins.
    assert most_threads(8 * LARGE, number - 1) == number - 1
    # The system may list a thread for a moment after it has ended its work.
    end = time.monotonic() + 10
    while names() and time.monotonic() < end:
        time.sleep(0.01)
    assert names() == []


@only_linux
def test_one_thread_copies_alone() -> None:
    dlbridge.set_num_threads(1)
    assert most_threads(LARGE, 0) == 0


@only_linux
def test_small_copies_start_no_threads() -> None:
    assert most_threads(LARGE - 1, 0) == 0


def test_several_python_threads_copy_at_once_while_the_number_changes() -> None:
    with ThreadPoolExecutor(4) as pool:
        copies = [pool.submit(check_copy, source(seed)) for seed in range(12)]
        number = 1
        while not all(copy.done() for copy in copies):
            dlbridge.set_num_threads(number)
            number = number % 5 + 1
        for copy in copies:
            copy.result()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform does not have os.fork")
def test_child_process_copies_after_a_fork_during_copies() -> None:
    code = f"""
import os, signal, threading, warnings, dlbridge
# From Python 3.12 on, a fork warns of other threads.
warnings.simplefilter("ignore")
dlbridge.set_num_threads(4)
data = bytes(range(256)) * ({LARGE} // 256)
def check():
    assert bytes(memoryview(dlbridge.asdlpack(data, copy=True))) == data
stop = threading.Event()
def copy():
    while not stop.is_set():
        check()
threads = [threading.Thread(target=copy) for _ in range(3)]
for thread in threads: thread.start()
for _ in range(10):
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        check()
        check()
        os._exit(17)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 17
stop.set()
for thread in threads: thread.join()
check()
print("done")
"""
    assert output(code, quiet=False) == "done\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform does not have os.fork")
def test_fork_after_a_copy_warns_of_no_other_thread() -> None:
    code = f"""
import os, sys, warnings, dlbridge
dlbridge.set_num_threads(4)
dlbridge.asdlpack(bytes({LARGE}), copy=True)
warnings.simplefilter("error")
child = os.fork()
if child == 0:
    os._exit(0)
sys.exit(os.waitpid(child, 0)[1])
"""
    output(code, quiet=False)


def test_program_ends_while_a_daemon_thread_copies() -> None:
    code = f"""
import threading, time, dlbridge
dlbridge.set_num_threads(4)
data = bytes({LARGE})
def copy():
    while True:
        dlbridge.asdlpack(data, copy=True)
for _ in range(2):
    threading.Thread(target=copy, daemon=True).start()
time.sleep(0.2)
"""
    for _ in range(5):
        output(code, quiet=False)


@only_linux
def test_copy_is_complete_if_no_thread_can_start(monkeypatch: pytest.MonkeyPatch) -> None:
    # Rust asks for stacks of this size, which no machine has.
    monkeypatch.setenv("RUST_MIN_STACK", str(1 << 46))
    code = f"""
import dlbridge
dlbridge.set_num_threads(4)
data = bytes(range(256)) * ({LARGE} // 256)
for _ in range(3):
    assert bytes(memoryview(dlbridge.asdlpack(data, copy=True))) == data
print("done")
"""
    assert output(code, quiet=False) == "done\n"
