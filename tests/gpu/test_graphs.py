"""Graphs: an exchange is captured, and one that cannot be captured leaves the capture valid."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import dlbridge
import pytest
from arrays import NEW, Array, InterfaceArray, packed, unpacked
from conftest import Bench
from driver import DriverError

OLD = [0.0] * len(NEW)


class Captured:
    """A capture of a stream, and its graph after the end."""

    graph = 0


@contextmanager
def capturing(bench: Bench, stream: int) -> Iterator[Captured]:
    """Captures a stream; raises DriverError at the end if something has invalidated the capture."""
    captured = Captured()
    bench.driver.begin_capture(stream)
    try:
        yield captured
    except BaseException:
        # The first error matters.
        with suppress(DriverError):
            bench.driver.end_capture(stream)
        raise
    captured.graph = bench.driver.end_capture(stream)


def array_on(bench: Bench, stream: int) -> Array:
    return Array(bench.driver, bench.driver.filled(packed(NEW)), (6,), stream=stream)


@pytest.mark.only("driver", "torch", "cupy", "numba")
def test_exchange_in_a_graph_is_replayed(bench: Bench) -> None:
    """Import and export work on a captured stream, and the graph replays the captured work."""
    driver, library = bench.driver, bench.library
    stream = driver.stream()
    source, result = driver.filled(packed(OLD)), driver.filled(packed(OLD))
    with library.on(stream):
        array = library.made(OLD, (6,))
        # One-time work happens before the capture.
        warm = dlbridge.asdlpack(array, stream=stream)
        back = library.from_dlpack(warm) if library.takes else None
        del warm, back
        driver.wait_for_all()
        with capturing(bench, stream) as captured:
            driver.copy(library.address(array), source, 24, stream)
            tensor = dlbridge.asdlpack(array, stream=stream)
            taken: Any = tensor
            if library.takes:
                taken = dlbridge.asdlpack(library.from_dlpack(tensor), stream=stream)
            driver.copy(result, taken.address, 24, stream)
    assert unpacked(driver.read(driver.fills[0], result, 24)) == OLD, "the result before the graph runs"
    for values in (NEW, NEW[::-1]):
        new = driver.filled(packed(values))
        driver.copy(source, new, 24, driver.fills[0])
        driver.wait(driver.fills[0])
        driver.launch(captured.graph, stream)
        driver.wait(stream)
        assert unpacked(driver.read(driver.fills[0], result, 24)) == values, "the result of the graph"


@pytest.mark.only("driver")
def test_refusal_in_a_capture_leaves_it_valid(bench: Bench) -> None:
    """An exchange that cannot be captured is refused with the reason, and the capture continues unchanged."""
    driver = bench.driver
    stream, other = driver.stream(), driver.stream()
    on_other = dlbridge.asdlpack(array_on(bench, other), stream=other)
    on_captured = dlbridge.asdlpack(array_on(bench, stream), stream=stream)
    interface = InterfaceArray.only(array_on(bench, other))
    dlbridge.asdlpack(on_other, device="cpu")
    result, source = driver.filled(packed(OLD)), driver.filled(packed(NEW))
    driver.wait_for_all()
    with capturing(bench, stream) as captured:
        for tensor, named in [(on_other, stream), (on_captured, other), (on_captured, 1)]:
            with pytest.raises(BufferError, match="captured in a graph"):
                tensor.__dlpack__(stream=named)
        with pytest.raises(BufferError, match="captured in a graph"):
            dlbridge.asdlpack(interface, stream=stream)
        with pytest.raises(BufferError, match="captured in a graph"):
            dlbridge.asdlpack(on_captured, device="cpu")
        with pytest.raises(BufferError, match="captured in a graph"):
            on_captured.__dlpack__(stream=stream, copy=True)
        with pytest.raises(BufferError, match="captured in a graph"):
            dlbridge.asdlpack(bytearray(24), device="cuda:0", stream=stream)
        driver.copy(result, source, 24, stream)
    driver.launch(captured.graph, stream)
    assert unpacked(driver.read(stream, result, 24)) == NEW, "the result of the graph"


@pytest.mark.only("driver")
def test_work_on_other_streams_leaves_a_capture_valid(bench: Bench) -> None:
    """Work on other streams does not spoil a capture, nor does the release of a tensor of the captured stream."""
    driver = bench.driver
    stream, other = driver.stream(), driver.stream()
    on_other = dlbridge.asdlpack(array_on(bench, other), stream=other)
    on_captured = dlbridge.asdlpack(array_on(bench, stream), stream=stream)
    host = bytearray(packed(NEW))
    dlbridge.asdlpack(host, device="cuda:0", stream=other)
    driver.wait_for_all()
    with capturing(bench, stream):
        third = driver.stream()
        Array.taken(driver, on_other.__dlpack__(stream=third, max_version=(1, 3)), third)
        there = dlbridge.asdlpack(host, device="cuda:0", stream=other)
        back = dlbridge.asdlpack(there, device="cpu")
        del there, on_other, on_captured
    assert bytes(memoryview(back)) == packed(NEW), "the copy made during the capture"


@pytest.mark.only("driver")
def test_tensor_is_passed_to_another_stream_of_the_graph(bench: Bench) -> None:
    driver = bench.driver
    stream, joined = driver.stream(), driver.stream()
    tensor = dlbridge.asdlpack(array_on(bench, stream), stream=stream)
    result = driver.filled(packed(OLD))
    driver.wait_for_all()
    with capturing(bench, stream) as captured:
        driver.order(stream, joined)
        taken = Array.taken(driver, tensor.__dlpack__(stream=joined, max_version=(1, 3)), joined)
        if bench.is_hardware:
            driver.copy(result, taken.address, 24, joined)
        driver.order(joined, stream)
    if not bench.is_hardware:
        return  # The stand-in's graphs contain the work of one stream.
    driver.launch(captured.graph, stream)
    assert unpacked(driver.read(stream, result, 24)) == NEW, "the result of the graph"


@pytest.mark.only("torch")
def test_graph_of_torch_captures_an_exchange(bench: Bench) -> None:
    torch: Any = bench.library.torch  # type: ignore[attr-defined]
    stream = torch.cuda.Stream()
    given, result = torch.zeros(6, device="cuda"), torch.zeros(6, device="cuda")

    def work() -> None:
        doubled = given * 2
        tensor = dlbridge.asdlpack(doubled, stream=stream.cuda_stream)
        result.copy_(torch.from_dlpack(tensor) + 1)

    with torch.cuda.stream(stream):
        for _ in range(3):
            work()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        work()
    for values in (NEW, NEW[::-1]):
        given.copy_(torch.tensor(values))
        torch.cuda.synchronize()
        graph.replay()
        torch.cuda.synchronize()
        assert result.tolist() == [2 * value + 1 for value in values], "the result of the graph"


@pytest.mark.only("torch")
def test_import_without_a_stream_leaves_a_graph_of_torch_valid(bench: Bench) -> None:
    """asdlpack(x) without a stream, in torch.cuda.graph, works or is refused; either leaves the capture valid."""
    torch: Any = bench.library.torch  # type: ignore[attr-defined]
    stream = torch.cuda.Stream()
    given, result = torch.ones(6, device="cuda"), torch.zeros(6, device="cuda")
    dlbridge.asdlpack(given)
    torch.cuda.synchronize()
    graph, said = torch.cuda.CUDAGraph(), ""
    try:
        with torch.cuda.graph(graph, stream=stream):
            result.copy_(given)
            try:
                dlbridge.asdlpack(given)
            except Exception as error:
                said = f" after {type(error).__name__}: {error}"
    except Exception as error:
        raise AssertionError(f"the capture was invalidated{said}: {error}") from None
    graph.replay()
    torch.cuda.synchronize()
    assert result.tolist() == [1.0] * 6, "the result of the graph"
