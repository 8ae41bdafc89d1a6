"""Streams: a reader on one stream sees pending writes of another, and the host does not wait.

Slow work writes the values, so a reader that does not wait sees the old ones. The first test shows that it does;
without that, the other tests would prove nothing.
"""

import gc
from collections.abc import Callable
from typing import Any

import dlbridge
import pytest
from arrays import NEW, Array, InterfaceArray, interface, packed, unpacked
from conftest import Bench, until
from dlbridge_conformance import crafter

Handle = int | None


def seen(bench: Bench, stream: int, address: int) -> list[float]:
    """Returns the values that a reader on a stream sees, without any other wait."""
    return unpacked(bench.driver.read(stream, address, 4 * len(NEW)))


def warm(bench: Bench) -> None:
    """Makes an unchecked exchange, because one-time work, such as loading a library's kernels, may wait for the
    device."""
    library = bench.library
    tensor = dlbridge.asdlpack(library.made(NEW, (6,)), stream=bench.driver.stream())
    if library.takes:
        library.copied(library.from_dlpack(tensor))
    bench.driver.wait_for_all()


def under_way(bench: Bench, own: int, take: Callable[[Any], dlbridge.Tensor]) -> dlbridge.Tensor:
    """Imports an array that gets its values late on the stream `own`. The host must not wait."""
    library, driver = bench.library, bench.driver
    with library.on(own):
        array = library.late(NEW, own)
        mark = driver.marked(own) if library.has_streams else None
        tensor = take(array)
    if mark is not None:
        assert not driver.has_passed(mark), "the host waited for pending work, or the work finished too early"
    return tensor


def needs_streams(bench: Bench) -> None:
    """Skips libraries that work only on their own streams."""
    if not bench.library.has_streams:
        pytest.skip(f"{bench.library.name} uses only its own streams")


def needs_order(bench: Bench) -> None:
    """Skips libraries whose arrays do not name the stream of their work."""
    if not bench.library.lends and not bench.library.names_stream:
        pytest.skip(f"{bench.library.name} does not name the stream of its work")


def test_missing_wait_is_detected(bench: Bench) -> None:
    """With stream=-1 nothing waits, and a reader sees old values here: the stream checks can fail."""
    needs_streams(bench)
    if bench.library.name == "numba":
        pytest.skip("numba's arrays are synchronised by the stream that they name")
    warm(bench)
    own, readers = bench.driver.stream(), bench.driver.stream()
    tensor = under_way(bench, own, lambda array: dlbridge.asdlpack(array, stream=-1))
    assert tensor.stream == -1, "the stream"
    assert seen(bench, readers, tensor.address) != NEW, "a reader without a wait sees the new values"
    assert seen(bench, own, tensor.address) == NEW, "the values on the stream of the work"


def test_consumers_stream_sees_pending_writes(bench: Bench) -> None:
    """asdlpack(x, stream=None/1/2/n): the named stream sees pending writes of the producer's stream."""
    needs_order(bench)
    warm(bench)
    driver = bench.driver
    for named in (None, *bench.library.numbers, driver.stream()):
        own = driver.stream()
        tensor = under_way(bench, own, lambda array, named=named: dlbridge.asdlpack(array, stream=named))  # type: ignore[misc]
        assert tensor.stream == (named or 1), "the tensor's stream"
        assert seen(bench, named or 1, tensor.address) == NEW, f"the values on the stream {named}"


def test_consumers_stream_sees_pending_writes_of_default_streams(bench: Bench) -> None:
    needs_order(bench)
    needs_streams(bench)
    warm(bench)
    for own in bench.library.numbers:
        named = bench.driver.stream()
        tensor = under_way(bench, own, lambda array, named=named: dlbridge.asdlpack(array, stream=named))  # type: ignore[misc]
        assert seen(bench, named, tensor.address) == NEW, f"the values after work on the stream {own}"


def test_producers_pending_writes_are_seen_by_each_consumer(bench: Bench) -> None:
    """__dlpack__(stream=None/1/2/n): the consumer's stream sees pending writes of the tensor's stream."""
    needs_order(bench)
    warm(bench)
    driver = bench.driver
    for named in (None, *bench.library.numbers, driver.stream()):
        for consumers in (None, 1, 2, driver.stream()):
            take = lambda array, named=named: dlbridge.asdlpack(array, stream=named)  # noqa: E731
            tensor = under_way(bench, driver.stream(), take)
            taken = Array.taken(driver, tensor.__dlpack__(stream=consumers, max_version=(1, 3)), consumers or 1)
            found = seen(bench, consumers or 1, taken.address)
            assert found == NEW, f"the values for a consumer on {consumers}, of a tensor on {named}"


@pytest.mark.only("driver", "torch", "cupy")
def test_library_sees_pending_writes(bench: Bench) -> None:
    warm(bench)
    driver, library = bench.driver, bench.library
    for consumers in (1, driver.stream()):
        own = driver.stream()
        address = driver.filled(bytes(4 * len(NEW)))
        with library.on(consumers):
            library.copied(library.made(NEW, (6,)))
            driver.wait_for_all()
            driver.late(own, address, packed(NEW))
            mark = driver.marked(own)
            tensor = dlbridge.asdlpack(Array(driver, address, (6,), stream=own), stream=own)
            taken = library.copied(library.from_dlpack(tensor))
            assert not driver.has_passed(mark), "the host waited"
            driver.wait(consumers)
        assert library.values(taken) == NEW, "the values that the library's kernel read"


def test_library_sees_pending_writes_by_the_cuda_array_interface(bench: Bench) -> None:
    if bench.library.name in ("torch", "jax"):
        pytest.skip(f"{bench.library.name} ignores the stream of the interface")
    driver, library = bench.driver, bench.library
    own, consumers = driver.stream(), driver.stream()
    address = driver.filled(bytes(4 * len(NEW)))
    with library.on(consumers):
        library.copied(library.made(NEW, (6,)))
        driver.wait_for_all()
        driver.late(own, address, packed(NEW))
        tensor = dlbridge.asdlpack(Array(driver, address, (6,), stream=own), stream=own)
        assert tensor.__cuda_array_interface__["stream"] == own, "the stream in the interface"
        taken = library.copied(library.from_interface(InterfaceArray.only(tensor)))
        driver.wait(consumers)
    assert library.values(taken) == NEW, "the values that the library read"


@pytest.mark.only("driver", "cupy", "numba")
def test_stream_of_the_cuda_array_interface_is_waited_for(bench: Bench) -> None:
    """The named stream waits for the stream that __cuda_array_interface__ names, and the host does not wait."""
    warm(bench)
    driver = bench.driver
    for named in (None, 1, 2, driver.stream()):
        own = driver.stream()

        def take(array: Any, named: Handle = named) -> dlbridge.Tensor:
            return dlbridge.asdlpack(InterfaceArray.only(array), stream=named)

        tensor = under_way(bench, own, take)
        assert (tensor.stream, tensor.protocol) == (named or 1, "cuda-array-interface"), "stream and protocol"
        assert seen(bench, named or 1, tensor.address) == NEW, f"the values on the stream {named}"


@pytest.mark.only("driver")
def test_pinned_memory_with_pending_writes_is_complete(bench: Bench) -> None:
    driver = bench.driver
    address, own = driver.filled(bytes(24), kind="pinned"), driver.stream()
    driver.late(own, address, packed(NEW))
    tensor = dlbridge.asdlpack(InterfaceArray(interface(address, (6,), own)))
    assert bytes(memoryview(tensor).cast("B")) == packed(NEW), "the values on the CPU"


@pytest.mark.only("driver")
def test_consumer_on_the_same_stream_does_not_wait(bench: Bench) -> None:
    """A consumer on the tensor's stream, or with -1, causes no wait and no synchronisation of a stream."""
    driver = bench.driver
    own = driver.stream()
    array = Array(driver, driver.filled(packed(NEW)), (6,), stream=own)
    tensor = dlbridge.asdlpack(array, stream=own)
    assert array.asked == [own], "the streams that the consumer requested"
    driver.sleep(own)
    for consumers in (own, -1):
        Array.taken(driver, tensor.__dlpack__(stream=consumers, max_version=(1, 3)), own)
    mark, end = driver.marked(1), driver.marked(own)
    if bench.is_hardware:
        until(lambda: driver.has_passed(mark), "the default stream does not finish")
        assert not driver.has_passed(end), "the default stream was made to wait"
    assert dlbridge.asdlpack(tensor, stream=-1).stream == -1, "the stream after stream=-1"


@pytest.mark.only("driver")
def test_memory_is_released_after_the_stream(bench: Bench) -> None:
    driver = bench.driver
    array, own = Array(driver, driver.filled(packed(NEW)), (6,)), driver.stream()
    tensor = dlbridge.asdlpack(array, stream=own)
    driver.sleep(own)
    mark = driver.marked(own)
    del tensor
    gc.collect()
    given_back, passed = array.is_given_back, driver.has_passed(mark)
    assert passed or not given_back, "the deleter ran before the stream had finished"
    driver.wait(own)
    until(lambda: array.is_given_back, "the deleter did not run after the stream had finished")


@pytest.mark.only("torch")
def test_memory_is_released_to_torch_after_the_stream(bench: Bench) -> None:
    driver, library = bench.driver, bench.library
    torch: Any = library.torch  # type: ignore[attr-defined]
    warm(bench)
    own = driver.stream()
    array = torch.zeros(1 << 20, device="cuda")
    tensor = dlbridge.asdlpack(array, stream=own)
    driver.sleep(own)
    mark, before = driver.marked(own), torch.cuda.memory_allocated()
    del array, tensor
    gc.collect()
    held = torch.cuda.memory_allocated() == before
    assert driver.has_passed(mark) or held, "the memory was freed before the stream had finished"
    driver.wait(own)
    until(lambda: bool(torch.cuda.memory_allocated() < before), "the memory was not freed afterwards")


def table_of(kind: type) -> Any:
    if (capsule := getattr(kind, "__dlpack_c_exchange_api__", None)) is None:
        pytest.skip(f"{kind.__name__} does not support the exchange API")
    return crafter.native.Table(capsule)


def answer(answered: tuple[int, Any, Any]) -> Any:
    status, found, error = answered
    assert (status, error) == (0, None)
    return found


@pytest.mark.only("driver")
def test_work_stream_of_our_exchange_api_is_the_default_stream(bench: Bench) -> None:
    """dlbridge's exchange API returns the default stream, and work on that stream runs after pending writes."""
    table = table_of(dlbridge.Tensor)
    assert answer(table.work_stream(crafter.CUDA)) == 0, "the work stream"
    own = bench.driver.stream()
    tensor = under_way(bench, own, lambda array: dlbridge.asdlpack(array, stream=own))
    again = answer(table.imported(answer(table.exported(tensor))))
    assert (again.address, again.stream) == (tensor.address, 1), "address and stream of the exported tensor"
    assert seen(bench, 1, again.address) == NEW, "the values on the default stream"


@pytest.mark.only("torch")
def test_work_stream_of_torchs_exchange_api_is_its_current_stream(bench: Bench) -> None:
    """PyTorch's exchange API returns its current stream, and asdlpack(x) still sees pending writes."""
    library: Any = bench.library
    table, own = table_of(library.torch.Tensor), bench.driver.stream()
    with library.on(own):
        assert answer(table.work_stream(crafter.CUDA)) == own, "the work stream"
    warm(bench)
    tensor = under_way(bench, own, dlbridge.asdlpack)
    assert seen(bench, tensor.stream or 1, tensor.address) == NEW, "the values on the tensor's stream"


@pytest.mark.only("torch")
def test_tensor_passes_through_both_exchange_apis(bench: Bench) -> None:
    library: Any = bench.library
    ours, theirs = table_of(dlbridge.Tensor), table_of(library.torch.Tensor)
    array = library.made(NEW, (6,))
    tensor = answer(ours.imported(answer(theirs.exported(array))))
    assert (tensor.address, tensor.device) == (library.address(array), "cuda:0"), "address and device in dlbridge"
    back = answer(theirs.imported(answer(ours.exported(tensor))))
    assert (library.address(back), library.values(back)) == (tensor.address, NEW), "address and values in torch"
