"""Large copies: other Python threads run meanwhile, and the call that copies raises an interrupt."""

import functools
import operator
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from conftest import require
from interrupts import interrupted, let_in, repeat
from processes import output

import dlbridge
from dlbridge._core import _copy

#: Elements of one byte each: four times the size from which a copy lets other threads run.
COUNT = 1 << 24

#: Maximum number of calls. The other thread runs during the first one, unless the machine is busy.
CALLS = 50

Copy = Callable[[], object]


def square() -> memoryview:
    return memoryview(bytearray(COUNT)).cast("B", (4096, COUNT // 4096))


def aligned() -> Copy:
    data = memoryview(bytearray(COUNT + 256))
    offset = 1 + -dlbridge.asdlpack(data).address % 256
    return functools.partial(dlbridge.asdlpack, data[offset : offset + COUNT], align=256)


def byte_swapped() -> Copy:
    return functools.partial(dlbridge.asdlpack, require("numpy").zeros(COUNT // 4, ">f4"))


def swapped_in_place() -> Copy:
    class Producer:
        @property
        def __array_interface__(self) -> dict[str, Any]:
            other = "<>"[sys.byteorder == "little"]
            return {"version": 3, "shape": (COUNT // 2,), "typestr": f"{other}u2", "data": bytes(COUNT)}

    return functools.partial(dlbridge.asdlpack, Producer())


def of_records(dtype: str) -> Copy:
    records = require("numpy").zeros(COUNT // 4, [("flag", "u1"), ("value", dtype)])
    return functools.partial(dlbridge.asdlpack, records["value"])


def booleans() -> Copy:
    numpy = require("numpy")
    values = numpy.full(COUNT, 2, "u1").view("?")
    return functools.partial(dlbridge.asdlpack, values, protocol="buffer")


def to_numpy() -> Copy:
    require("numpy")
    return functools.partial(dlbridge.asdlpack(bytearray(COUNT)).numpy, copy=True)


def unpacked() -> Copy:
    require("ml_dtypes")
    return functools.partial(dlbridge.empty(COUNT, "int4").to, "numpy")


def arrow_booleans() -> Copy:
    values = require("pyarrow").array(require("numpy").zeros(COUNT, "?"))
    return functools.partial(dlbridge.asdlpack, values, protocol="arrow")


COPIES: dict[str, Callable[[], Copy]] = {
    "a buffer": lambda: functools.partial(dlbridge.asdlpack, bytearray(COUNT), copy=True),
    "writable": lambda: functools.partial(dlbridge.asdlpack, bytes(COUNT), writable=True),
    "transposed": lambda: functools.partial(dlbridge.asdlpack, square(), contiguous="F"),
    "our dlpack": lambda: functools.partial(dlbridge.asdlpack(bytearray(COUNT)).__dlpack__, copy=True),
    "our legacy dlpack": lambda: dlbridge.asdlpack(bytes(COUNT)).__dlpack__,
    "pickled": lambda: functools.partial(dlbridge.asdlpack(bytearray(COUNT)).__reduce_ex__, 4),
    "shared": lambda: functools.partial(_copy, bytearray(COUNT), bytes(COUNT)),
    "by bytes": lambda: of_records("f4"),
    "by swapped bytes": lambda: of_records(">f4"),
    "to bytes": lambda: dlbridge.asdlpack(square()).T.__bytes__,
    "checked": lambda: functools.partial(dlbridge.asdlpack, memoryview(bytearray(COUNT)).cast("?")),
    **{
        make.__name__: make
        for make in (aligned, byte_swapped, swapped_in_place, booleans, to_numpy, unpacked, arrow_booleans)
    },
}


@pytest.mark.parametrize("kind", COPIES)
def test_large_copy_lets_another_thread_run(kind: str) -> None:
    copy, seen = COPIES[kind](), []
    copy()
    with let_in(lambda: seen.append(True)):
        for _ in range(CALLS):
            copy()
            if seen:
                break
        during = list(seen)
    assert during == [True]


def test_small_copy_lets_no_other_thread_run() -> None:
    small, seen = bytearray(1000), []
    with let_in(lambda: seen.append(True)):
        for _ in range(CALLS):
            dlbridge.asdlpack(small, copy=True)
        during = list(seen)
    assert (during, seen) == ([], [True])


@pytest.mark.parametrize("error", [KeyboardInterrupt, TimeoutError, TypeError])
@pytest.mark.parametrize("kind", COPIES)
def test_interrupted_copy_raises_in_the_call(kind: str, error: type[BaseException]) -> None:
    copy = COPIES[kind]()
    copy()
    calls = iter([copy] * CALLS)
    with interrupted(error):
        repeat(calls)
    assert operator.length_hint(calls) > 0


@pytest.mark.parametrize("error", [RuntimeError, TypeError, ValueError])
def test_refusal_after_an_interrupted_copy_is_explained(error: type[Exception]) -> None:
    """An exception of a producer may have the address of the handler's exception, which was freed."""
    sparse = require("torch").eye(3).to_sparse()
    copy = byte_swapped()
    for _ in range(20):
        with interrupted(error):
            repeat([copy] * CALLS)
        with pytest.raises(BufferError, match="sparse or has another layout") as refused:
            dlbridge.asdlpack(sparse)
        assert isinstance(refused.value.__cause__, RuntimeError)
        del refused


def test_interrupted_copy_leaves_no_borrow() -> None:
    source = bytearray(COUNT)
    with interrupted():
        repeat([functools.partial(dlbridge.asdlpack, source, copy=True)] * CALLS)
    # An exported bytearray cannot be resized, and borrowed memory cannot be written.
    source.append(1)
    _copy(source, bytes(len(source)))


def test_arrow_booleans_are_borrowed_while_they_are_unpacked() -> None:
    pyarrow, memory = require("pyarrow"), bytearray(COUNT // 8)
    values = pyarrow.Array.from_buffers(pyarrow.bool_(), COUNT, [None, pyarrow.py_buffer(memory)])
    refused: list[str] = []
    done = threading.Event()

    def write() -> None:
        # Before dlbridge reads the elements, while it allocates memory, they may be written.
        while not refused and not done.is_set():
            try:
                _copy(memory, b"\1" * len(memory))
            except BufferError as error:
                refused.append(str(error))
            time.sleep(0.001)

    with let_in(write):
        for _ in range(CALLS):
            dlbridge.asdlpack(values)
            if refused:
                break
        done.set()
    assert len(refused) == 1
    assert "borrowed for reading" in refused[0]


#: Prints whether a timer has interrupted an action after its begin and before its end, by what `measure` returns.
INTERRUPTED = """
import mmap, pathlib, resource, signal
import dlbridge

def peak():
    # That of getrusage begins with the memory of the process that started this one.
    status = pathlib.Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) << 10

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

class Interrupted(Exception):
    pass

def interrupt(*_):
    if measure() - before > begun:
        # Once: a signal may be waiting already.
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_IGN)
        raise Interrupted

def zeros(size):
    return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)

%s
before = measure()
signal.signal(signal.SIGALRM, interrupt)
signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
try:
    %s
    print("complete")
except Interrupted:
    print("before its end" if measure() - before < most else "at its end")
"""

#: Copies of a GiB of zeros, which themselves take no memory.
COPY = """
import numpy
SIDE = 1 << 15
measure, begun, most = peak, 1 << 24, SIDE * SIDE * 3 // 4
memory = zeros(SIDE * SIDE)
square = dlbridge.asdlpack(memoryview(memory).cast("B", (SIDE, SIDE)))
def swapped():
    return dlbridge.asdlpack(numpy.frombuffer(memory, ">u2").reshape(SIDE // 2, SIDE).T)
"""

CHECK = """
BYTES = 1 << 32
PAGES = BYTES // mmap.PAGESIZE
measure, begun, most = faults, PAGES // 256, PAGES * 3 // 4
# Never written, so all pages are the shared zero page: each costs a fault, and no memory.
memory = zeros(BYTES)
memory.madvise(mmap.MADV_NOHUGEPAGE)
view = memoryview(memory).cast("?")
"""

LIST = """
COUNT = 1 << 25
# Begun after more than the bytes that are copied first, when the list is being made.
measure, begun, most = peak, 2 * COUNT, 7 * COUNT
tensor = dlbridge.asdlpack(bytes(COUNT))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the progress is seen in the memory of the process")
@pytest.mark.parametrize(
    ("begin", "action"),
    [
        (COPY, "dlbridge.asdlpack(square, contiguous='F')"),
        (COPY, "dlbridge.asdlpack(square.T, copy=True)"),
        (COPY, "swapped()"),
        (COPY, "dlbridge._core._copy(zeros(SIDE * SIDE), memory)"),
        (CHECK, "dlbridge.asdlpack(view)"),
        (CHECK, "dlbridge.asdlpack(view[::2])"),
        (LIST, "tensor.tolist()"),
    ],
)
def test_interrupt_ends_an_action_before_it_is_complete(begin: str, action: str) -> None:
    if "numpy" in begin:
        require("numpy")
    assert output(INTERRUPTED % (begin, action)) == "before its end\n"
