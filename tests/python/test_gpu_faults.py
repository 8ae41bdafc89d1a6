"""A CUDA driver that fails: each call of each operation fails in turn, on the stand-in. These tests need no GPU, and do not
replace tests on one."""

import faulthandler
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dlbridge
import native as n
import pytest
from faults import ALLOCATING, BROKEN, ELSEWHERE, LATE, NO_MEMORY, Fault, Faults, load
from gpu_bench import LARGE, OPERATIONS, Bench, Kept, attempt, recorded
from native import Native
from processes import output
from stand_in import NEW, Driver, driver, given_back

# The stand-in for the driver of a GPU is loaded once in a process.
pytestmark = pytest.mark.alone

__all__ = ["driver", "given_back"]

#: Other errors of the driver.
CONTEXT_IS_DESTROYED, CAPTURE_UNSUPPORTED = 709, 900

#: The calls before memory returns to its producer. If one of them fails, dlbridge cannot know whether the memory is still in
#: use, so it leaks the memory on purpose (docs/exchange.md).
PASSAGE = {
    "cuCtxPushCurrent_v2", "cuThreadExchangeStreamCaptureMode", "cuStreamGetCaptureInfo", "cuEventCreate",
    "cuEventRecord", "cuEventQuery",
}  # fmt: skip

#: The calls that another thread repeats to learn whether a stream has passed.
QUESTION = ["cuCtxPushCurrent_v2", "cuThreadExchangeStreamCaptureMode", "cuEventQuery"]

#: The calls that release something. If one of them fails, the driver does not report whether it released it.
GIVING_BACK = {"cuEventDestroy_v2", "cuMemFree_v2", "cuMemFreeAsync"}

#: The calls that can fail without an exception: those that restore or release something, the calls before them, and queries
#: with an alternative.
QUIET = PASSAGE | GIVING_BACK | {"cuCtxPopCurrent_v2", "cuDeviceGetAttribute", "cuPointerGetAttribute"}


@pytest.fixture(scope="session")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Driver, Faults]:
    """The stand-in for the CUDA driver, and the library that lets its calls fail."""
    return load(tmp_path_factory.mktemp("driver"))


@pytest.fixture(scope="session")
def stand_in(loaded: tuple[Driver, Faults]) -> Driver:
    """The stand-in, which the fixture `driver` checks."""
    return loaded[0]


@pytest.fixture(scope="session")
def only_bench(loaded: tuple[Driver, Faults]) -> Bench:
    """One bench for all tests, because the stand-in has few streams."""
    return Bench(*loaded)


@pytest.fixture
def bench(only_bench: Bench, driver: Driver, native: Native) -> Iterator[Bench]:
    """The bench of a test. If the test hangs, the process ends with a traceback."""
    only_bench.native = native
    only_bench.made.clear()
    faulthandler.dump_traceback_later(120, exit=True, file=sys.__stderr__)
    yield only_bench
    faulthandler.cancel_dump_traceback_later()
    only_bench.faults.clear()
    driver.library.stand_in_with_pools()


@pytest.mark.parametrize("name", OPERATIONS)
def test_operation_with_any_failing_call_raises_and_leaks_nothing(bench: Bench, driver: Driver, name: str) -> None:
    operation, without_events = OPERATIONS[name], OPERATIONS["large copy to the CPU"]
    recorded(bench, operation)
    calls, raised = recorded(bench, operation), 0
    recorded(bench, without_events)
    kept = Kept(bench)
    for number, function in enumerate(calls):
        status = NO_MEMORY if function in ALLOCATING else BROKEN
        for late in (False, True) if function in LATE else (False,):
            what = f"call {number} of {len(calls)}, {function}, {late=}"
            content, error = attempt(bench, operation, Fault(function, calls[:number].count(function), status, late))
            argument = bench.faults.hit()
            assert argument is not None, f"{what}: it was not called"
            if error is None:
                assert function in QUIET, f"{what}: nothing was raised"
                assert content in (NEW, LARGE), f"{what}: the bytes are wrong"
            else:
                raised += 1
                assert type(error) is (MemoryError if status == NO_MEMORY else BufferError), what
                assert "CUDA's driver refused to " in str(error), what
                assert str(error).count(f": error {status}, AN_ERROR_OF_A_TEST") == 1, f"{what}: {error}"
            if function in GIVING_BACK and not late:
                bench.give_back(function, argument)
            kept.check(what, may_leak=error is None and function in PASSAGE)
            if content != LARGE:
                assert attempt(bench, operation)[1] is None, f"{what}: the next operation fails"
                kept.check(what, may_leak=False)
    assert raised, "no call failed"
    recorded(bench, operation)
    recorded(bench, without_events)
    assert bench.until(lambda: driver.live_events <= kept.events), "an event was not destroyed"


def pending(bench: Bench) -> dlbridge.Tensor:
    """A tensor whose memory another thread releases, because the event at the end of the stream is still pending when the
    tensor is dropped."""
    tensor = dlbridge.asdlpack(bench.array(), stream=bench.ours)
    bench.driver.finish()
    return tensor


def pending_copy(bench: Bench) -> dlbridge.Tensor:
    """A pending tensor as in `pending`, but with memory that dlbridge allocated."""
    tensor = dlbridge.asdlpack(NEW, device="cuda:0")
    bench.driver.finish()
    return tensor


@pytest.mark.parametrize("make", [pending, pending_copy])
def test_release_on_another_thread_with_any_failing_call_leaks_only_what_may_be_in_use(
    bench: Bench, make: Callable[[Bench], dlbridge.Tensor]
) -> None:
    recorded(bench, OPERATIONS["large copy to the CPU"])
    # The buffer has one event.
    kept, number = Kept(bench, new_events=int(make is pending_copy)), 0
    while True:
        tensor = make(bench)
        # The driver reports to the other thread at once that the stream has passed.
        bench.faults.set(Fault("cuEventQuery", status=0, thread=ELSEWHERE), Fault("", number, thread=ELSEWHERE))
        del tensor
        if not bench.until(lambda: bench.faults.hit(1) is not None, 2):
            break
        function, argument = bench.faults.calls(ELSEWHERE)[number], bench.faults.hit(1)
        if function in GIVING_BACK and argument is not None:
            bench.give_back(function, argument)
        # The first calls query whether the stream has passed. A failure after them leaks nothing.
        kept.check(f"call {number}, {function}", may_leak=number < len(QUESTION))
        number += 1
    assert bench.faults.calls(ELSEWHERE)[: len(QUESTION)] == QUESTION
    assert number >= 2 * len(QUESTION), "nothing was released on another thread"
    kept.check("the last one", may_leak=False)


@pytest.mark.parametrize(
    ("status", "given_back"),
    [(BROKEN, "never"), (CONTEXT_IS_DESTROYED, "at once"), (CAPTURE_UNSUPPORTED, "after the stream")],
)
def test_memory_whose_stream_cannot_be_queried_is_leaked_unless_all_work_has_ended(
    bench: Bench, status: int, given_back: str
) -> None:
    array = bench.array()
    tensor = dlbridge.asdlpack(array, stream=bench.ours)
    bench.driver.block(bench.ours)
    bench.faults.set(Fault("cuEventQuery", status=status))
    del tensor
    assert bench.faults.hit() is not None
    assert array.crafted.record.calls == (given_back == "at once")
    bench.driver.release()
    is_given_back = bench.until(lambda: array.crafted.record.calls == 1, 0.1 if given_back == "never" else 10)
    assert is_given_back == (given_back != "never")
    if not is_given_back:
        array.crafted.native.held().delete(n.Way.WITH_GIL)


def test_event_is_destroyed_although_its_context_cannot_be_pushed(bench: Bench) -> None:
    recorded(bench, OPERATIONS["export"])
    kept, calls = Kept(bench), recorded(bench, OPERATIONS["export"])
    destroyed = calls.index("cuEventDestroy_v2")
    entered = calls[:destroyed].count("cuCtxPushCurrent_v2") - 1
    assert attempt(bench, OPERATIONS["export"], Fault("cuCtxPushCurrent_v2", entered))[1] is None
    assert bench.faults.hit() is not None
    kept.check("the event", may_leak=False)
    assert bench.until(lambda: bench.driver.live_events <= kept.events), "the event was not destroyed"


@pytest.mark.parametrize(
    ("function", "keywords"),
    [("cuMemcpyAsync", {"copy": True}), ("cuMemcpyPeerAsync", {"device": "cuda:1"}), ("cuMemcpyAsync", {"device": "cpu"})],
)
def test_copy_that_reports_an_error_keeps_its_memory_until_the_stream_has_passed(
    bench: Bench, function: str, keywords: dict[str, Any]
) -> None:
    array, kept = bench.array(), Kept(bench)
    bench.driver.block(bench.theirs)
    bench.faults.set(Fault(function, late=True))
    with pytest.raises(BufferError, match="refused to copy.*: error 700"):
        dlbridge.asdlpack(array, **keywords)
    assert array.crafted.record.calls == 0, "the copy still reads the source"
    assert bench.driver.live_regions == kept.regions + ("cpu" not in keywords.values()), "the copy still writes to it"
    bench.driver.release()
    kept.check("afterwards", may_leak=False)
    assert array.crafted.record.calls == 1


FIRST_USE = """
import os, sys
from pathlib import Path
import dlbridge
from faults import NO_MEMORY, Fault, load
from stand_in import NEW

def there_and_back():
    there = dlbridge.asdlpack(NEW, device="cuda:0")
    assert bytes(memoryview(dlbridge.asdlpack(there, device="cpu")).cast("B")) == NEW

driver, faults = load(Path(sys.argv[1]))
for function, skip in [("cuInit", 0), ("cuDevicePrimaryCtxRetain", 0), ("cuMemHostAlloc", 0), ("cuMemHostAlloc", 1)]:
    child = os.fork()
    if not child:
        driver.library.stand_in_fail_init(3 if function == "cuInit" else 0)
        faults.set(Fault(function, skip, NO_MEMORY))
        try:
            there_and_back()
        except Exception as error:
            print(type(error).__name__, error, sep=": ", flush=True)
        driver.library.stand_in_fail_init(0)
        faults.clear()
        there_and_back()
        driver.until(lambda: driver.live_regions == 2)
        print(driver.live_regions, "regions,", faults.calls().count("cuMemHostAlloc"), "new", flush=True)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
"""


def test_first_use_of_a_failing_driver_is_tried_again_and_keeps_what_it_has(tmp_path: Path) -> None:
    first = "the data is on cpu and cannot be copied to cuda:0: CUDA's driver refused to"
    assert output(FIRST_USE, tmp_path, quiet=False).splitlines() == [
        "BufferError: a buffer is on the CPU and cannot be copied to cuda:0: the driver of CUDA cannot be used: cuInit "
        "failed with error 2",
        "2 regions, 2 new",
        f"MemoryError: {first} name the context of the device: error 2, AN_ERROR_OF_A_TEST",
        "2 regions, 2 new",
        f"MemoryError: {first} give 4194304 bytes of pinned memory: error 2, AN_ERROR_OF_A_TEST",
        "2 regions, 2 new",
        f"MemoryError: {first} give 4194304 bytes of pinned memory: error 2, AN_ERROR_OF_A_TEST",
        "2 regions, 1 new",
    ]
