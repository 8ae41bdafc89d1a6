"""Checks of copies: to the CPU, to a device, on one, between two, and the lifetime of a copy's memory."""

from __future__ import annotations

import gc
from typing import Any

import dlbridge
from arrays import Array
from check import NEW, Bench, check, equal, holds, packed, refused, unpacked, until
from streams import needs_order, seen, warm

#: More than the pinned buffers of large copies hold.
LARGE = 20 << 20


def on_cpu(tensor: Any) -> bytes:
    """Returns the bytes of a tensor on the CPU."""
    equal(tensor.device, "cpu", "the device")
    return bytes(memoryview(tensor).cast("B"))


@check()
def to_the_cpu(bench: Bench) -> None:
    """device="cpu" copies to the CPU after pending writes are done, with a stream and without."""
    needs_order(bench)
    driver, library = bench.driver, bench.library
    warm(bench)
    for named in (None, *library.numbers, driver.stream()):
        own = driver.stream()
        with library.on(own):
            array = library.late(NEW, own)
            there = dlbridge.asdlpack(array, device="cpu", stream=named)
        equal(on_cpu(there), packed(NEW), f"the values with stream={named}")
        # jax makes legacy capsules, which cannot mark a copy.
        holds(there.copied or library.name == "jax", "the tensor is not marked as a copy")


@check("driver", "torch", "cupy", "jax")
def to_the_cpu_by_the_standard(bench: Bench) -> None:
    """__dlpack__(dl_device=(1, 0)) copies pending writes to the CPU too, and marks the copy; a stream is refused."""
    driver, library = bench.driver, bench.library
    own = driver.stream()
    with library.on(own):
        tensor = dlbridge.asdlpack(library.late(NEW, own), stream=own)
    capsule = tensor.__dlpack__(dl_device=(1, 0), max_version=(1, 3))
    there = dlbridge.asdlpack(capsule)
    equal((on_cpu(there), there.copied), (packed(NEW), True), "the values, and the mark of a copy")
    refused(lambda: tensor.__dlpack__(dl_device=(1, 0), stream=own), (TypeError, ValueError), "stream must be None")
    refused(lambda: tensor.__dlpack__(dl_device=(1, 0), copy=False))
    refused(lambda: dlbridge.asdlpack(tensor, device="cpu", copy=False))


@check("driver")
def to_a_device(bench: Bench) -> None:
    """A CPU tensor is copied to a device on the named stream; the source may change at once."""
    driver = bench.driver
    for named in (None, 1, 2, driver.stream()):
        source = bytearray(packed(NEW))
        there = dlbridge.asdlpack(source, device="cuda:0", stream=named)
        source[:] = bytes(len(source))
        equal((there.device, there.stream, there.copied), ("cuda:0", named or 1, True), "the copy")
        equal(there.device, f"cuda:{driver.device_of(there.address)}", "the device that the driver reports")
        equal(unpacked(driver.read(named or 1, there.address, 24)), NEW, f"the values on the stream {named}")
        readers = driver.stream()
        Array.taken(driver, there.__dlpack__(stream=readers, max_version=(1, 3)), readers)
        equal(unpacked(driver.read(readers, there.address, 24)), NEW, "the values for a consumer's stream")


@check("torch", "cupy", "jax")
def to_a_device_and_into_the_library(bench: Bench) -> None:
    """The library imports a CPU tensor that was copied to the device."""
    source = memoryview(packed(NEW)).cast("f")
    taken = bench.library.from_dlpack(dlbridge.asdlpack(source, device="cuda:0", stream=bench.driver.stream()))
    equal(bench.library.values(taken), NEW, "the values")


@check("driver", "torch", "cupy")
def a_copy_on_the_device(bench: Bench) -> None:
    """copy=True copies on the device, on the consumer's stream, and the copy includes pending writes."""
    driver, library = bench.driver, bench.library
    warm(bench)
    own, named = driver.stream(), driver.stream()
    with library.on(own):
        array = library.late(NEW, own)
        by_us = dlbridge.asdlpack(dlbridge.asdlpack(array, stream=own), copy=True, stream=named)
        tensor = dlbridge.asdlpack(array, copy=True, stream=named)
    for copy in (by_us, tensor):
        holds(copy.copied and copy.address != library.address(array), "it is not a copy")
        equal(seen(bench, named, copy.address), NEW, "the values of the copy")
    consumers = driver.stream()
    held = Array.taken(driver, tensor.__dlpack__(copy=True, stream=consumers, max_version=(1, 3)), consumers)
    holds(held.address != tensor.address, "the consumer's tensor is not a copy")
    equal(seen(bench, consumers, held.address), NEW, "the values of the consumer's copy")


@check("driver")
def a_copy_keeps_its_strides(bench: Bench) -> None:
    """A consumer's copy on a device has the strides of its source, and one on the CPU is in C order."""
    driver = bench.driver
    source = Array(driver, driver.filled(packed(NEW)), (3, 2), strides=(1, 3))
    expected = packed(source.values())
    twin = Array.taken(driver, dlbridge.asdlpack(source).__dlpack__(copy=True, max_version=(1, 3)), 1)
    holds(twin.address != source.address, "it is not a copy")
    equal((twin.shape, twin.strides), ((3, 2), (1, 3)), "shape and strides on the device")
    equal(packed(twin.values()), expected, "the values on the device")
    there = dlbridge.asdlpack(source, device="cpu")
    equal((there.strides, on_cpu(there)), ((2, 1), expected), "strides and values on the CPU")


@check("driver")
def large_copies(bench: Bench) -> None:
    """Copies larger than the pinned buffers arrive complete, to the device, on it and back."""
    size = LARGE if bench.is_hardware else LARGE // 2
    content = (bytes(range(251)) * (size // 251 + 1))[:size]
    there = dlbridge.asdlpack(content, device="cuda:0", stream=bench.driver.stream())
    twin = dlbridge.asdlpack(there, copy=True)
    holds(on_cpu(dlbridge.asdlpack(there, device="cpu")) == content, "the copy of the copy has other bytes")
    holds(on_cpu(dlbridge.asdlpack(twin, device="cpu")) == content, "the copy on the device has other bytes")


@check("driver")
def between_devices(bench: Bench) -> None:
    """A tensor is copied to another device, on a stream of that device, and back, with pending writes."""
    driver, device = bench.driver, bench.second_device()
    own, theirs = driver.stream(), driver.stream(device)
    source = Array(driver, driver.filled(bytes(24)), (6,), stream=own)
    driver.late(own, source.address, packed(NEW))
    tensor = dlbridge.asdlpack(source, stream=own)
    held = Array.taken(driver, tensor.__dlpack__(dl_device=(2, device), stream=theirs, max_version=(1, 3)), theirs)
    equal((held.device, driver.device_of(held.address)), ((2, device), device), "the device of the copy")
    equal(unpacked(driver.read(theirs, held.address, 24, device)), NEW, "the values on the other device")
    twin = dlbridge.asdlpack(source, device=f"cuda:{device}")
    equal(twin.device, f"cuda:{device}", "the device by name")
    equal(on_cpu(dlbridge.asdlpack(twin, device="cpu")), packed(NEW), "the values, back on the CPU")
    back = dlbridge.asdlpack(twin, device="cuda:0", stream=own)
    equal(seen(bench, own, back.address), NEW, "the values, back on the first device")


@check("driver")
def missing_device(bench: Bench) -> None:
    """A copy to a device that does not exist is refused with the driver's reason."""
    tensor = dlbridge.asdlpack(Array(bench.driver, bench.driver.filled(packed(NEW)), (6,)))
    refused(lambda: tensor.__dlpack__(dl_device=(2, 77)), word="error 101")


@check("driver")
def the_memory_of_a_copy(bench: Bench) -> None:
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
    holds(driver.has_passed(mark) or not given_back, "the source's deleter ran before the copy had read it")
    equal(seen(bench, own, result), NEW, "the values read from the copy after its release")


@check("cupy", "torch")
def many_copies_are_given_back(bench: Bench) -> None:
    """The memory of a thousand copies of a megabyte is freed."""
    runtime: Any = bench.library
    size = 1 << 20
    content = bytes(size)

    def free() -> int:
        """Returns the number of free bytes on the device."""
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
