"""The threads of large copies: their number, forks, the end of the program."""

import operator
import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import dlbridge
from processes import output, run
from producers import producer

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


@pytest.mark.parametrize("number", [1, 2, 1024, True + 1, producer(__index__=lambda _: 3)])
def test_set_num_threads_is_returned_by_get(number: Any) -> None:
    dlbridge.set_num_threads(number)
    assert dlbridge.get_num_threads() == operator.index(number)
    check_copy(source())


@pytest.mark.parametrize(
    ("value", "error", "found"),
    [
        *((number, ValueError, str(number)) for number in (0, -1, 1025, 2**31, 2**64, -(2**70))),
        *((value, TypeError, "") for value in (None, 2.0, "2", True, [2], b"2")),
    ],
)
def test_set_num_threads_refuses_a_wrong_number(value: Any, error: type[Exception], found: str) -> None:
    with pytest.raises(error, match=f"num_threads must be an integer from 1 to 1024, not {found}"):
        dlbridge.set_num_threads(value)
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
@pytest.mark.parametrize(("number", "size"), [(1, LARGE), (4, LARGE - 1)], ids=["one thread", "small copies"])
def test_copies_that_need_no_threads_start_none(number: int, size: int) -> None:
    dlbridge.set_num_threads(number)
    assert most_threads(size, 0) == 0


def test_several_python_threads_copy_at_once_while_the_number_changes() -> None:
    with ThreadPoolExecutor(4) as pool:
        copies = [pool.submit(check_copy, source(seed)) for seed in range(12)]
        number = 1
        while not all(copy.done() for copy in copies):
            dlbridge.set_num_threads(number)
            number = number % 5 + 1
        for copy in copies:
            copy.result()


#: Programs that set four threads, with the number of bytes of a large copy in LARGE.
FORK_DURING_COPIES = """
import os, signal, threading, warnings, dlbridge
# From Python 3.12 on, a fork warns of other threads.
warnings.simplefilter("ignore")
data = bytes(range(256)) * (LARGE // 256)
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
"""
FORK_AFTER_A_COPY = """
import os, warnings, dlbridge
dlbridge.asdlpack(bytes(LARGE), copy=True)
warnings.simplefilter("error")
child = os.fork()
if child == 0:
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
"""
DAEMON_THREADS = """
import threading, time, dlbridge
data = bytes(LARGE)
def copy():
    while True:
        dlbridge.asdlpack(data, copy=True)
for _ in range(2):
    threading.Thread(target=copy, daemon=True).start()
time.sleep(0.2)
"""
COPIES = """
import dlbridge
data = bytes(range(256)) * (LARGE // 256)
for _ in range(3):
    assert bytes(memoryview(dlbridge.asdlpack(data, copy=True))) == data
"""
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform does not have os.fork")


@pytest.mark.parametrize(
    ("code", "environment"),
    [
        pytest.param(FORK_DURING_COPIES, {}, marks=needs_fork, id="child copies after a fork during copies"),
        pytest.param(FORK_AFTER_A_COPY, {}, marks=needs_fork, id="fork after a copy warns of no other thread"),
        *[pytest.param(DAEMON_THREADS, {}, id="program ends while a daemon thread copies")] * 5,
        # Rust asks for stacks of this size, which no machine has.
        pytest.param(COPIES, {"RUST_MIN_STACK": str(1 << 46)}, marks=only_linux, id="no thread can start"),
    ],
)
def test_program_with_large_copies_completes(code: str, environment: dict[str, str]) -> None:
    begin = f"import dlbridge\ndlbridge.set_num_threads(4)\nLARGE = {LARGE}\n"
    assert output(begin + code + "print('done')", quiet=False, **environment) == "done\n"
