"""Copies: to the CPU, to a device, on one, between two, and the lifetime of a copy's memory."""

import gc
from typing import Any

import dlbridge
import pytest
from arrays import NEW, Array, packed, unpacked
from conftest import Bench, until
from test_streams import needs_order, seen, warm

#: More than the pinned buffers of large copies hold.
LARGE = 20 << 20


def on_cpu(tensor: Any) -> bytes:
    assert tensor.device == "cpu", "the device"
    return bytes(memoryview(tensor).cast("B"))


def test_copy_to_the_cpu_follows_pending_writes(bench: Bench) -> None:
    needs_order(bench)
    driver, library = bench.driver, bench.library
    warm(bench)
    for named in (None, *library.numbers, driver.stream()):
        own = driver.stream()
        with library.on(own):
            array = library.late(NEW, own)
            there = dlbridge.asdlpack(array, device="cpu", stream=named)
        assert on_cpu(there) == packed(NEW), f"the values with stream={named}"
        # jax makes legacy capsules, which cannot mark a copy.
        assert there.copied or library.name == "jax", "the tensor is not marked as a copy"


@pytest.mark.only("driver", "torch", "cupy", "jax")
def test_dlpack_to_the_cpu_copies_pending_writes_and_marks_the_copy(bench: Bench) -> None:
    """__dlpack__(dl_device=(1, 0)) copies pending writes to the CPU too, and marks the copy; a stream is refused."""
    driver, library = bench.driver, bench.library
    own = driver.stream()
    with library.on(own):
        tensor = dlbridge.asdlpack(library.late(NEW, own), stream=own)
    capsule = tensor.__dlpack__(dl_device=(1, 0), max_version=(1, 3))
    there = dlbridge.asdlpack(capsule)
    assert (on_cpu(there), there.copied) == (packed(NEW), True), "the values, and the mark of a copy"
    with pytest.raises((TypeError, ValueError), match="stream must be None"):
        tensor.__dlpack__(dl_device=(1, 0), stream=own)
    with pytest.raises(BufferError):
        tensor.__dlpack__(dl_device=(1, 0), copy=False)
    with pytest.raises(BufferError):
        dlbridge.asdlpack(tensor, device="cpu", copy=False)


@pytest.mark.only("driver")
def test_copy_to_a_device_is_on_the_named_stream(bench: Bench) -> None:
    """A CPU tensor is copied to a device on the named stream; the source may change at once."""
    driver = bench.driver
    for named in (None, 1, 2, driver.stream()):
        source = bytearray(packed(NEW))
        there = dlbridge.asdlpack(source, device="cuda:0", stream=named)
        source[:] = bytes(len(source))
        assert (there.device, there.stream, there.copied) == ("cuda:0", named or 1, True), "the copy"
        assert there.device == f"cuda:{driver.device_of(there.address)}", "the device that the driver reports"
        assert unpacked(driver.read(named or 1, there.address, 24)) == NEW, f"the values on the stream {named}"
        readers = driver.stream()
        Array.taken(driver, there.__dlpack__(stream=readers, max_version=(1, 3)), readers)
        assert unpacked(driver.read(readers, there.address, 24)) == NEW, "the values for a consumer's stream"


@pytest.mark.only("torch", "cupy", "jax")
def test_copy_on_a_device_is_imported_by_the_library(bench: Bench) -> None:
    source = memoryview(packed(NEW)).cast("f")
    taken = bench.library.from_dlpack(dlbridge.asdlpack(source, device="cuda:0", stream=bench.driver.stream()))
    assert bench.library.values(taken) == NEW, "the values"


@pytest.mark.only("driver", "torch", "cupy")
def test_copy_on_a_device_includes_pending_writes(bench: Bench) -> None:
    driver, library = bench.driver, bench.library
    warm(bench)
    own, named = driver.stream(), driver.stream()
    with library.on(own):
        array = library.late(NEW, own)
        by_us = dlbridge.asdlpack(dlbridge.asdlpack(array, stream=own), copy=True, stream=named)
        tensor = dlbridge.asdlpack(array, copy=True, stream=named)
    for copy in (by_us, tensor):
        assert copy.copied and copy.address != library.address(array), "it is not a copy"
        assert seen(bench, named, copy.address) == NEW, "the values of the copy"
    consumers = driver.stream()
    held = Array.taken(driver, tensor.__dlpack__(copy=True, stream=consumers, max_version=(1, 3)), consumers)
    assert held.address != tensor.address, "the consumer's tensor is not a copy"
    assert seen(bench, consumers, held.address) == NEW, "the values of the consumer's copy"


@pytest.mark.only("driver")
def test_copy_on_a_device_keeps_its_strides(bench: Bench) -> None:
    """A consumer's copy on a device has the strides of its source, and one on the CPU is in C order."""
    driver = bench.driver
    source = Array(driver, driver.filled(packed(NEW)), (3, 2), strides=(1, 3))
    expected = packed(source.values())
    twin = Array.taken(driver, dlbridge.asdlpack(source).__dlpack__(copy=True, max_version=(1, 3)), 1)
    assert twin.address != source.address, "it is not a copy"
    assert (twin.shape, twin.strides) == ((3, 2), (1, 3)), "shape and strides on the device"
    assert packed(twin.values()) == expected, "the values on the device"
    there = dlbridge.asdlpack(source, device="cpu")
    assert (there.strides, on_cpu(there)) == ((2, 1), expected), "strides and values on the CPU"


@pytest.mark.only("driver")
def test_large_copies_are_complete(bench: Bench) -> None:
    size = LARGE if bench.is_hardware else LARGE // 2
    content = (bytes(range(251)) * (size // 251 + 1))[:size]
    there = dlbridge.asdlpack(content, device="cuda:0", stream=bench.driver.stream())
    twin = dlbridge.asdlpack(there, copy=True)
    assert on_cpu(dlbridge.asdlpack(there, device="cpu")) == content, "the copy of the copy has other bytes"
    assert on_cpu(dlbridge.asdlpack(twin, device="cpu")) == content, "the copy on the device has other bytes"


@pytest.mark.only("driver")
def test_copy_between_devices_includes_pending_writes(bench: Bench) -> None:
    driver, device = bench.driver, bench.second_device()
    own, theirs = driver.stream(), driver.stream(device)
    source = Array(driver, driver.filled(bytes(24)), (6,), stream=own)
    driver.late(own, source.address, packed(NEW))
    tensor = dlbridge.asdlpack(source, stream=own)
    held = Array.taken(driver, tensor.__dlpack__(dl_device=(2, device), stream=theirs, max_version=(1, 3)), theirs)
    assert (held.device, driver.device_of(held.address)) == ((2, device), device), "the device of the copy"
    assert unpacked(driver.read(theirs, held.address, 24, device)) == NEW, "the values on the other device"
    twin = dlbridge.asdlpack(source, device=f"cuda:{device}")
    assert twin.device == f"cuda:{device}", "the device by name"
    assert on_cpu(dlbridge.asdlpack(twin, device="cpu")) == packed(NEW), "the values, back on the CPU"
    back = dlbridge.asdlpack(twin, device="cuda:0", stream=own)
    assert seen(bench, own, back.address) == NEW, "the values, back on the first device"


@pytest.mark.only("driver")
def test_copy_to_a_missing_device_is_refused(bench: Bench) -> None:
    tensor = dlbridge.asdlpack(Array(bench.driver, bench.driver.filled(packed(NEW)), (6,)))
    with pytest.raises(BufferError, match="error 101"):
        tensor.__dlpack__(dl_device=(2, 77))


@pytest.mark.only("driver")
def test_memory_of_a_copy_lives_until_its_last_reader(bench: Bench) -> None:
    """The memory of a copy lives until the stream has passed its last reader, and the source until it was read."""
    driver = bench.driver
    own = driver.stream()
    result = driver.filled(bytes(24))
    source = Array(driver, driver.filled(packed(NEW)), (6,))
    driver.sleep(own)
    copy = dlbridge.asdlpack(source, copy=True, stream=own)
    driver.copy(result, copy.address, 24, own)
    mark = driver.marked(own)
    del copy
    gc.collect()
    given_back = source.is_given_back
    assert driver.has_passed(mark) or not given_back, "the source's deleter ran before the copy had read it"
    assert seen(bench, own, result) == NEW, "the values read from the copy after its release"


@pytest.mark.only("cupy", "torch")
def test_memory_of_many_copies_is_freed(bench: Bench) -> None:
    runtime: Any = bench.library
    size = 1 << 20
    content = bytes(size)

    def free() -> int:
        if bench.library.name == "torch":
            return int(runtime.torch.cuda.mem_get_info()[0])
        return int(runtime.cupy.cuda.runtime.memGetInfo()[0])

    stream = bench.driver.stream()
    for _ in range(10):
        dlbridge.asdlpack(content, device="cuda:0", stream=stream)
    bench.driver.wait_for_all()
    before = free()
    for _ in range(1000):
        dlbridge.asdlpack(content, device="cuda:0", stream=stream)
    bench.driver.wait_for_all()
    until(lambda: before - free() < 100 * size, "more than a tenth of the memory was not freed")
