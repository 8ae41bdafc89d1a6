"""Streams of the array API standard, on a stand-in for the driver. The stand-in runs work on a stream only when the caller
waits for it, so the bytes are right only if dlbridge requested every necessary wait. These tests need no GPU, and do
not replace tests on one."""

import contextlib
import sys
import time
from collections.abc import Callable
from typing import Any

import dlbridge
import native as n
import numpy as np
import pytest
from concurrently import concurrently
from dlbridge_conformance import crafter
from exchange_table import API, foreign
from native import Native
from producers import producer, raises
from shared_segments import wait_until
from stand_in import NEW, Array, Driver, InterfaceArray, array, driver, given_back, stand_in

# The stand-in for the driver of a GPU is loaded once in a process.
pytestmark = pytest.mark.alone

__all__ = ["array", "driver", "given_back", "stand_in"]

EVERY_STREAM = pytest.mark.parametrize("consumers", [None, 1, 2, "another"], ids=str)
Made = Callable[..., Array]


@EVERY_STREAM
@pytest.mark.parametrize("named", [None, 1, 2, "another"], ids=str)
def test_consumer_reads_the_pending_write(
    driver: Driver, native: Native, array: Made, named: Any, consumers: Any
) -> None:
    made = array()
    named = driver.stream() if named == "another" else named
    consumers = driver.stream() if consumers == "another" else consumers
    waits = driver.host_waits
    tensor = dlbridge.asdlpack(made, stream=named) if named else dlbridge.asdlpack(made)
    assert (made.asked, tensor.stream) == ([named or 1], named or 1)
    held = native.export(tensor, stream=consumers, max_version=(1, 3))
    assert driver.now(held.fields.data, 24) != NEW, "the write is still pending"
    assert driver.host_waits == waits, "the host does not wait"
    assert driver.seen_on(consumers or 1, held.fields.data, 24) == NEW
    held.delete()


def test_consumer_on_the_same_stream_does_not_wait(driver: Driver, native: Native, array: Made) -> None:
    ours = driver.stream()
    for number in (1, 2, ours):
        tensor = dlbridge.asdlpack(array(stream=number), stream=number)
        waits = driver.stream_waits
        for keywords in ({"stream": number}, {"stream": -1}):
            native.export(tensor, **keywords).delete()
        if number == 1:
            native.export(tensor).delete()
        assert driver.stream_waits == waits


def test_stream_minus_one_requests_no_wait(driver: Driver, native: Native, array: Made) -> None:
    made, waits = array(), driver.stream_waits
    tensor = dlbridge.asdlpack(made, stream=-1)
    assert (made.asked, tensor.stream) == ([-1], -1)
    native.export(tensor, stream=driver.stream()).delete()
    assert tensor.__cuda_array_interface__["stream"] is None
    assert driver.stream_waits == waits
    again = dlbridge.asdlpack(tensor, stream=1)
    assert (again.stream, again.address, driver.stream_waits) == (1, tensor.address, waits)


def test_invalid_stream_is_refused(driver: Driver, native: Native, array: Made) -> None:
    tensor = dlbridge.asdlpack(array())
    for stream, error, text in [
        (0, ValueError, "ambiguous on CUDA: 1 is the legacy"),
        (-2, ValueError, "not the number of a stream"),
        (2**64, ValueError, "not the number of a stream"),
        (True, TypeError, "stream must be None or an integer"),
        ("1", TypeError, "stream must be None or an integer"),
        (1.0, TypeError, "stream must be None or an integer"),
        (np.True_, TypeError, "stream must be None or an integer"),
        (np.array([1, 2]), TypeError, "stream must be None or an integer"),
        (np.int64(-2), ValueError, "not the number of a stream"),
    ]:
        with pytest.raises(error, match=text):
            tensor.__dlpack__(stream=stream)  # type: ignore[arg-type]
        made = array()
        with pytest.raises(error, match=text):
            dlbridge.asdlpack(made, stream=stream)  # type: ignore[arg-type]
        assert made.asked == []
        native.take(made.crafted.capsule()).delete()
    for stream in (1, 0, 5):
        with pytest.raises(ValueError, match="which has no numbered streams"):
            dlbridge.asdlpack(b"abc", stream=stream)
    assert dlbridge.asdlpack(b"abc", stream=-1).stream is None
    assert dlbridge.asdlpack(b"abc", stream=np.int64(-1)).stream is None
    with pytest.raises(ValueError, match="which has no numbered streams"):
        dlbridge.asdlpack(b"abc", stream=np.int64(1))
    assert dlbridge.asdlpack(b"abc").stream is None
    # The driver refuses.
    with pytest.raises(BufferError, match="CUDA's driver refused to find the device of a stream: error 400"):
        tensor.__dlpack__(stream=0xDEAD0)


def test_import_on_another_stream_synchronises_with_it(driver: Driver, array: Made) -> None:
    first, second = driver.stream(), driver.stream()
    tensor = dlbridge.asdlpack(array(), stream=first)
    again = dlbridge.asdlpack(tensor, stream=second)
    assert (again.stream, again.address, tensor.stream) == (second, tensor.address, first)
    assert driver.seen_on(second, again.address, 24) == NEW


def test_from_dlpack_has_a_stream_too(driver: Driver, array: Made) -> None:
    stream = driver.stream()
    for imports, named in ((dlbridge.from_dlpack, stream), (dlbridge.asdlpack, np.uint64(stream))):
        made = array()
        assert imports(made, stream=named).stream == stream  # type: ignore[arg-type]
        assert made.asked == [stream]


@EVERY_STREAM
def test_cuda_array_interface_is_imported_on_the_consumers_stream(driver: Driver, consumers: Any) -> None:
    address, producers = driver.memory(24), driver.stream()
    consumers = driver.stream() if consumers == "another" else consumers
    driver.write(producers, address, NEW)
    waits = driver.host_waits
    tensor = dlbridge.asdlpack(InterfaceArray(address, (2, 3), producers), stream=consumers)
    assert (tensor.device, tensor.protocol, tensor.stream) == ("cuda:0", "cuda-array-interface", consumers or 1)
    assert driver.host_waits == waits
    assert driver.seen_on(consumers or 1, address, 24) == NEW


def test_cuda_array_interface_is_exported_with_the_stream(driver: Driver, array: Made) -> None:
    stream = driver.stream()
    for named, told in [(None, 1), (1, 1), (2, 2), (stream, stream)]:
        tensor = dlbridge.asdlpack(array(), stream=named)
        interface = tensor.__cuda_array_interface__
        assert (interface["stream"], interface["data"]) == (told, (tensor.address, False))
        assert driver.seen_on(told, tensor.address, 24) == NEW


def test_captured_stream_is_not_invalidated(driver: Driver, native: Native, array: Made) -> None:
    captured, other = driver.stream(), driver.stream()
    on_other = dlbridge.asdlpack(array(), stream=other)
    on_captured = dlbridge.asdlpack(array(), stream=captured)
    address = driver.memory(24)
    with driver.capturing(captured):
        native.export(on_captured, stream=captured).delete()
        native.export(on_captured, stream=-1).delete()
        for tensor, stream in [(on_other, captured), (on_captured, other), (on_captured, 1)]:
            with pytest.raises(BufferError, match=r"is being captured in a graph"):
                tensor.__dlpack__(stream=stream)
        with pytest.raises(BufferError, match=r"captured in a graph"):
            dlbridge.asdlpack(InterfaceArray(address, (2, 3), other), stream=captured)
        with pytest.raises(BufferError, match=r"captured in a graph"):
            dlbridge.asdlpack(on_captured, device="cpu")
        # Work on other streams does not invalidate the capture.
        native.export(on_other, stream=driver.stream()).delete()
    blocking = driver.stream(non_blocking=False)
    with driver.capturing(blocking), pytest.raises(BufferError, match="the default stream cannot be used while a graph"):
        on_other.__dlpack__()


def test_two_streams_of_one_capture(driver: Driver, native: Native, array: Made) -> None:
    captured, joined = driver.stream(), driver.stream()
    tensor = dlbridge.asdlpack(array(), stream=captured)
    waits = driver.stream_waits
    with driver.capturing(captured):
        driver.order(captured, joined)
        native.export(tensor, stream=joined).delete()
        assert driver.stream_waits == waits + 2


@pytest.mark.parametrize("captured", [False, True])
def test_memory_is_released_when_the_named_stream_has_passed(driver: Driver, array: Made, captured: bool) -> None:
    made, stream = array(), driver.stream()
    tensor = dlbridge.asdlpack(made, stream=stream)
    driver.block(stream)
    with driver.capturing(stream) if captured else contextlib.nullcontext():
        del tensor
        time.sleep(0.05)
    time.sleep(0.05)
    assert made.crafted.record.calls == 0, "earlier work on the stream has not passed"
    driver.release()
    driver.until(lambda: made.crafted.record.calls == 1)


def test_memory_is_released_at_once_on_an_idle_stream(driver: Driver, array: Made) -> None:
    made, stream = array(), driver.stream()
    tensor = dlbridge.asdlpack(made, stream=stream)
    driver.wait(stream)
    # The stream is idle, except for the event that the deallocation records.
    del tensor
    driver.until(lambda: made.crafted.record.calls == 1)


def test_per_thread_stream_of_another_thread_becomes_the_legacy_stream(driver: Driver, native: Native, array: Made) -> None:
    there: list[Any] = []

    def import_there() -> None:
        made = array(stream=2)
        there.append(dlbridge.asdlpack(made, stream=2))
        assert there[0].stream == 2

    concurrently([import_there])
    tensor = there.pop()
    assert tensor.stream == 1, "stream 2 of this thread is another stream; the legacy stream waits for both"
    for stream in (2, driver.stream(), 1):
        held = native.export(tensor, stream=stream)
        assert driver.seen_on(stream, held.fields.data, 24) == NEW
        held.delete()


@EVERY_STREAM
def test_table_returns_the_stream_of_its_library(driver: Driver, native: Native, consumers: Any) -> None:
    address, theirs = driver.memory(24), driver.stream()
    driver.write(theirs, address, NEW)
    kind = foreign(native.craft((2, 3), device=n.CUDA, data=address), table={"stream": theirs})
    consumers = driver.stream() if consumers == "another" else consumers
    waits = driver.host_waits
    tensor = dlbridge.asdlpack(kind(), stream=consumers)
    assert set(crafter.native.stream_asked()) == {n.CUDA}
    assert (tensor.protocol, tensor.stream, driver.host_waits) == ("exchange-api", consumers or 1, waits)
    assert driver.seen_on(consumers or 1, address, 24) == NEW


def test_table_whose_stream_is_captured_is_refused_unless_named(driver: Driver, native: Native) -> None:
    theirs = driver.stream()
    for named, refused in [(None, True), (theirs, False), (-1, False)]:
        kind = foreign(native.craft((2, 3), device=n.CUDA), table={"stream": theirs})
        with driver.capturing(theirs):
            if refused:
                with pytest.raises(BufferError, match="being captured in a graph"):
                    dlbridge.asdlpack(kind(), stream=named)
            else:
                assert dlbridge.asdlpack(kind(), stream=named).stream == named


def test_stream_of_another_device_delays_the_release(driver: Driver, native: Native) -> None:
    # As with managed memory, whose device number is 0, and with devices that access each other's memory.
    for device in (n.CUDA, (13, 0)):
        theirs = driver.stream(1)
        crafted = native.craft((2, 3), device=device, data=driver.memory(24, kind="managed"))
        tensor = dlbridge.asdlpack(n.Producer(crafted, device), stream=theirs)
        driver.block(theirs, 1)
        del tensor
        time.sleep(0.05)
        assert crafted.record.calls == 0, "the stream has not passed"
        driver.release()
        driver.until(lambda crafted=crafted: crafted.record.calls == 1)  # type: ignore[misc]


def test_releases_on_different_streams_do_not_wait_for_each_other(driver: Driver, array: Made) -> None:
    busy, captured, idle = array(), array(), array()
    streams = [driver.stream(), driver.stream(), driver.stream()]
    driver.block(streams[0])
    tensors = [dlbridge.asdlpack(x, stream=s) for x, s in zip((busy, captured, idle), streams, strict=True)]
    with driver.capturing(streams[1]):
        tensors.clear()
        driver.wait(streams[2])
        wait_until(lambda: idle.crafted.record.calls == 1)
    assert busy.crafted.record.calls == 0
    driver.release()


def test_import_on_many_streams_in_turn_deletes_once(driver: Driver, array: Made) -> None:
    made, streams = array(), [driver.stream(), driver.stream()]
    tensor = dlbridge.asdlpack(made, stream=streams[0])
    assert dlbridge.asdlpack(tensor, stream=streams[0]) is tensor
    for turn in range(3000):
        tensor = dlbridge.asdlpack(tensor, stream=streams[turn % 2])
        if turn % 100 == 0:
            driver.finish()
    del tensor
    driver.until(lambda: made.crafted.record.calls == 1)


def test_capsule_on_a_device_is_refused_as_it_cannot_synchronise(driver: Driver, native: Native) -> None:
    with pytest.raises(BufferError, match="a capsule cannot synchronise"):
        dlbridge.asdlpack(native.craft(device=n.CUDA).capsule(), stream=driver.stream())
    assert dlbridge.asdlpack(native.craft(device=n.CUDA).capsule(), stream=-1).stream == -1
    assert dlbridge.asdlpack(native.craft(device=n.CUDA).capsule()).stream == 1


def test_pinned_memory_and_a_stream(driver: Driver) -> None:
    address, theirs, ours = driver.memory(24, kind="pinned"), driver.stream(), driver.stream()
    driver.write(theirs, address, NEW)
    tensor = dlbridge.asdlpack(InterfaceArray(address, (2, 3), theirs), stream=ours)
    assert (tensor.device, tensor.stream) == ("cuda_host", None)
    assert bytes(memoryview(tensor).cast("B")) == NEW


class Loud(int):
    def __str__(self) -> str:
        raise ZeroDivisionError

    __repr__ = __str__


HOSTILE: list[tuple[object, type[Exception]]] = [
    (2**63, ValueError), (2**64 - 1, ValueError), (-(2**63), ValueError), (-(2**200), ValueError), (2**200, ValueError),
    (10**5000, ValueError), (Loud(-7), ValueError),
    (float("nan"), TypeError), (2.0, TypeError), (1j, TypeError),
    (True, TypeError), (False, TypeError), (producer(__index__=raises(ZeroDivisionError)), ZeroDivisionError),
    (producer(__index__=lambda _: "1"), TypeError), ("", TypeError), (b"\x01", TypeError), ([1], TypeError), (int, TypeError), (..., TypeError),
]  # fmt: skip


@pytest.mark.parametrize(("stream", "error"), HOSTILE, ids=lambda value: type(value).__name__)
def test_hostile_stream_is_refused_before_the_producer_is_called(
    native: Native, array: Made, stream: Any, error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    tensor, made = dlbridge.asdlpack(array()), array()
    unraisable: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", unraisable.append)
    for call in (
        lambda: tensor.__dlpack__(stream=stream),
        lambda: dlbridge.asdlpack(made, stream=stream),
        lambda: dlbridge.from_dlpack(made, stream=stream),
        lambda: dlbridge.asdlpack(tensor, stream=stream),
    ):
        with pytest.raises(error):
            call()
    assert not unraisable, "Python printed an exception of the stream's __str__"
    assert made.asked == []
    native.take(made.crafted.capsule()).delete()
