"""Copies from, to and between CUDA devices, on the stand-in for the driver. These tests need no GPU, and do not replace
tests on one."""

import array as arrays
import ctypes
import threading
from collections.abc import Callable
from typing import Any

import dlbridge
import native as n
import pytest
from native import Flags, Native
from stand_in import NEW, Array, Driver, InterfaceArray, array, driver, given_back, stand_in

# The stand-in for the driver of a GPU is loaded once in a process.
pytestmark = pytest.mark.alone

__all__ = ["array", "driver", "given_back", "stand_in"]

Made = Callable[..., Array]


def on_device(driver: Driver, native: Native, content: bytes, shape: n.Ints, **fields: Any) -> dlbridge.Tensor:
    """A CUDA tensor over new memory with this content."""
    address = driver.memory(len(content))
    stream = driver.stream()
    driver.write(stream, address, content)
    driver.wait(stream)
    fields = {"origin": 0, **fields}
    data = address + fields.pop("origin")
    return dlbridge.asdlpack(n.Producer(native.craft(shape, device=n.CUDA, data=data, **fields), n.CUDA))


def floats(tensor: dlbridge.Tensor) -> list[Any]:
    """The elements as nested lists."""
    return memoryview(tensor).tolist()


def test_copy_to_the_cpu_has_the_values(driver: Driver, native: Native, array: Made) -> None:
    expected = memoryview(NEW).cast("f", (2, 3)).tolist()
    for ask in (
        lambda x: dlbridge.asdlpack(x, device="cpu"),
        lambda x: dlbridge.asdlpack(x, device=(1, 0)),
        lambda x: dlbridge.asdlpack(x, device="cpu", stream=driver.stream()),
        lambda x: dlbridge.asdlpack(dlbridge.asdlpack(x), device="cpu"),
        lambda x: dlbridge.asdlpack(dlbridge.asdlpack(x, stream=driver.stream()), device="cpu"),
        lambda x: dlbridge.asdlpack(dlbridge.asdlpack(x).__dlpack__(dl_device=(1, 0), max_version=(1, 3))),
    ):
        made = array()
        there = ask(made)
        assert (there.device, floats(there)) == ("cpu", expected)
        assert there.strides == (3, 1)
        del there
    there = dlbridge.asdlpack(array(), device="cpu")
    assert (there.copied, there.copy_reason) == (True, "the data was in memory of another device")
    assert there.address % 256 == 0
    assert not there.readonly
    assert floats(dlbridge.asdlpack(array(kind="managed"), device="cpu")) == expected


def test_capsule_of_a_copy_is_marked(native: Native, array: Made) -> None:
    tensor = dlbridge.asdlpack(array())
    for keywords in ({"dl_device": (1, 0)}, {"copy": True}, {"dl_device": (2, 1)}):
        held = native.export(tensor, max_version=(1, 3), **keywords)
        assert held.fields.flags & Flags.IS_COPIED
        held.delete()
    legacy = native.export(tensor, dl_device=(1, 0))
    assert (legacy.fields.version, legacy.fields.device) == (None, (1, 0))
    legacy.delete()


def test_copy_to_the_cpu_with_a_stream_is_refused(array: Made) -> None:
    tensor = dlbridge.asdlpack(array())
    with pytest.raises(ValueError, match="stream must be None for a tensor on the CPU, not 1"):
        tensor.__dlpack__(dl_device=(1, 0), stream=1)


def test_copies_that_are_forbidden(native: Native, array: Made) -> None:
    tensor = dlbridge.asdlpack(array())
    for ask in (
        lambda: dlbridge.asdlpack(tensor, device="cpu", copy=False),
        lambda: tensor.__dlpack__(dl_device=(1, 0), copy=False),
        lambda: tensor.__dlpack__(dl_device=(2, 1), copy=False),
        lambda: dlbridge.asdlpack(b"abc", device="cuda:0", copy=False),
    ):
        with pytest.raises(BufferError):
            ask()
    made = array()
    with pytest.raises(BufferError, match="moves nothing"):
        dlbridge.asdlpack(made, device="cpu", copy=False)
    native.take(made.crafted.capsule()).delete()


def test_views_of_the_memory(driver: Driver, native: Native) -> None:
    content = n.numbers(24)
    whole = memoryview(content).cast("f", (4, 6)).tolist()
    transposed = [list(column) for column in zip(*whole, strict=True)]
    cases: list[tuple[Any, dict[str, Any]]] = [
        (transposed, {"shape": (6, 4), "strides": (1, 6)}),
        (whole[::-1], {"shape": (4, 6), "strides": (-6, 1), "origin": 3 * 24}),
        ([row[1::2] for row in whole[1::2]], {"shape": (2, 3), "strides": (12, 2), "byte_offset": 28}),
        ([[whole[0][0]] * 5], {"shape": (1, 5), "strides": (0, 0)}),
        (whole[1][2], {"shape": (), "byte_offset": 32}),
    ]
    for expected, fields in cases:
        tensor = on_device(driver, native, content, **fields)
        assert floats(dlbridge.asdlpack(tensor, device="cpu")) == expected
        # A copy on a device keeps the strides.
        for keywords in ({"device": "cuda:1"}, {"device": "cuda:1", "copy": True}, {"copy": True}):
            twin = dlbridge.asdlpack(tensor, **keywords)
            assert (twin.device, twin.copied) == (keywords.get("device", "cuda:0"), True)
            assert (twin.strides, twin.shape) == (tensor.strides, tensor.shape)
            assert floats(dlbridge.asdlpack(twin, device="cpu")) == expected
        del tensor, twin


def test_tensor_without_elements_is_copied(native: Native) -> None:
    tensor = dlbridge.asdlpack(n.Producer(native.craft((0, 3), device=n.CUDA, data=0), n.CUDA))
    for device in ("cpu", "cuda:1"):
        there = dlbridge.asdlpack(tensor, device=device)
        assert (there.device, there.shape, there.address) == (device, (0, 3), 0)
    assert dlbridge.asdlpack(dlbridge.empty((0, 3)), device="cuda:0").shape == (0, 3)


def test_packed_elements(driver: Driver, native: Native) -> None:
    for flags in (0, Flags.SUBBYTE_PADDED):
        content = bytes([0x21, 0x43, 5, 6, 7])
        tensor = on_device(driver, native, content, (5,), dtype=(1, 4, 1), flags=flags)
        held = native.export(dlbridge.asdlpack(tensor, device="cpu"), max_version=(1, 3))
        assert (held.fields.dtype, held.fields.flags & Flags.SUBBYTE_PADDED) == ((1, 4, 1), flags)
        size = 5 if flags else 3
        assert ctypes.string_at(held.fields.data, size) == content[:size]
        held.delete()
        del tensor


def test_copy_to_a_device_is_on_the_named_stream(driver: Driver, native: Native) -> None:
    x = arrays.array("f", range(6))
    stream = driver.stream()
    for named, told in [(None, 1), (2, 2), (stream, stream)]:
        waits = driver.host_waits
        there = dlbridge.asdlpack(x, device="cuda:0", stream=named)
        assert (there.device, there.stream, there.shape) == ("cuda:0", told, (6,))
        assert there.copy_reason == "the data was in memory of another device"
        assert (there.readonly, there.address % 64) == (False, 0)
        assert driver.now(there.address, 24) != n.numbers(6), "the copy has not run yet"
        assert driver.host_waits == waits or named != 2
        # A consumer's stream waits.
        held = native.export(there, stream=driver.stream())
        held.delete()
        assert driver.seen_on(told, there.address, 24) == n.numbers(6)
        assert floats(dlbridge.asdlpack(there, device="cpu")) == list(range(6))
        address = there.address
        assert driver.lives(address)
        del there
        driver.until(lambda: not driver.lives(address))


def test_copy_to_a_device_is_in_c_order(driver: Driver) -> None:
    x = dlbridge.asdlpack(memoryview(n.numbers(6)).cast("f", (2, 3)), contiguous="F")
    there = dlbridge.asdlpack(x, device="cuda:1")
    assert (there.device, there.strides) == ("cuda:1", (3, 1))
    assert floats(dlbridge.asdlpack(there, device="cpu")) == [[0, 1, 2], [3, 4, 5]]


def test_source_may_change_when_the_call_returns(driver: Driver) -> None:
    x = bytearray(n.numbers(6))
    there = dlbridge.asdlpack(x, device="cuda:0")
    x[:] = bytes(24)
    assert driver.seen_on(1, there.address, 24) == n.numbers(6)


def test_copy_on_the_same_device_is_ordered_on_the_stream(driver: Driver, native: Native, array: Made) -> None:
    made = array()
    tensor = dlbridge.asdlpack(made, copy=True)
    assert (tensor.device, tensor.copy_reason) == ("cuda:0", "a copy was requested")
    assert tensor.address != made.fields.data
    assert driver.seen_on(1, tensor.address, 24) == NEW
    driver.until(lambda: made.crafted.record.calls == 1)
    assert made.asked == [1], "dlbridge makes the copy, not the producer"
    stream = driver.stream()
    held = native.export(tensor, copy=True, stream=stream, max_version=(1, 3))
    assert held.fields.data != tensor.address
    assert driver.seen_on(stream, held.fields.data, 24) == NEW
    held.delete()


def test_source_of_a_copy_is_kept_until_it_was_read(driver: Driver, array: Made) -> None:
    made, stream = array(), driver.stream()
    driver.block(stream)
    tensor = dlbridge.asdlpack(made, copy=True, stream=stream)
    assert made.crafted.record.calls == 0
    driver.release()
    assert driver.seen_on(stream, tensor.address, 24) == NEW
    driver.until(lambda: made.crafted.record.calls == 1)


def test_copy_between_devices_is_on_the_consumers_stream(driver: Driver, native: Native, array: Made) -> None:
    tensor = dlbridge.asdlpack(array(device=0))
    theirs = driver.stream(1)
    held = native.export(tensor, dl_device=(2, 1), stream=theirs, max_version=(1, 3))
    assert held.fields.device == (2, 1)
    assert driver.seen_on(theirs, held.fields.data, 24, 1) == NEW
    held.delete()
    with pytest.raises(BufferError, match="refused to name the context of the device: error 101"):
        tensor.__dlpack__(dl_device=(2, 7))


def test_copy_to_a_device_other_than_cuda_is_refused(array: Made) -> None:
    tensor = dlbridge.asdlpack(array())
    for device in ("metal:0", "rocm:0", "opencl:0", "cuda_host"):
        with pytest.raises(BufferError, match=r"cuda:0"):
            dlbridge.asdlpack(tensor, device=device)
    with pytest.raises(BufferError, match="cannot be imported on metal:0"):
        dlbridge.asdlpack(b"abc", device="metal:0")


def test_order_of_a_tensor_that_stays_on_the_device_is_not_changed(array: Made) -> None:
    tensor = dlbridge.asdlpack(array())
    with pytest.raises(BufferError, match="cuda:0"):
        dlbridge.asdlpack(tensor, contiguous="F")
    assert dlbridge.asdlpack(tensor, contiguous="C").address == tensor.address
    assert dlbridge.asdlpack(tensor, device="cpu", contiguous="F").strides == (1, 2)


def test_stream_of_the_target_device_is_used_for_the_copy(driver: Driver, array: Made) -> None:
    theirs = driver.stream(1)
    for keywords in ({}, {"copy": True}):
        made = array()
        there = dlbridge.asdlpack(made, device="cuda:1", stream=theirs, **keywords)
        assert (there.device, there.stream, made.asked) == ("cuda:1", theirs, [1])
        assert driver.seen_on(theirs, there.address, 24, 1) == NEW
        there = dlbridge.asdlpack(dlbridge.asdlpack(made.again()), device="cuda:1", stream=theirs, **keywords)
        assert driver.seen_on(theirs, there.address, 24, 1) == NEW
    address, producers = driver.memory(24), driver.stream()
    driver.write(producers, address, NEW)
    there = dlbridge.asdlpack(InterfaceArray(address, (6,), producers), device="cuda:1", stream=theirs)
    assert driver.seen_on(theirs, there.address, 24, 1) == NEW
    with pytest.raises(BufferError, match="is of cuda:1, and the copy is made on cuda:0"):
        dlbridge.asdlpack(b"abc", device="cuda:0", stream=theirs)


def test_copy_to_the_cpu_with_a_stream_is_complete(driver: Driver, array: Made) -> None:
    stream, expected = driver.stream(), memoryview(NEW).cast("f", (2, 3)).tolist()
    for keywords in ({}, {"copy": True}):
        for ask in (dlbridge.asdlpack, dlbridge.from_dlpack):
            for source in (array(), dlbridge.asdlpack(array())):
                there = ask(source, device="cpu", stream=stream, **keywords)
                assert (there.device, there.stream, floats(there)) == ("cpu", None, expected)


def test_copies_on_two_devices_do_not_wait_for_each_other(driver: Driver, array: Made) -> None:
    blocked, other = array(0), array(1)
    driver.block(blocked.stream)
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(dlbridge.asdlpack(blocked, device="cpu")))
    thread.start()
    expected = memoryview(NEW).cast("f", (2, 3)).tolist()
    assert floats(dlbridge.asdlpack(other, device="cpu")) == expected
    driver.release()
    thread.join()
    assert floats(results[0]) == expected


def test_booleans_that_are_neither_0_nor_1_are_repaired(driver: Driver) -> None:
    address, stream = driver.memory(4), driver.stream()
    driver.write(stream, address, bytes([0, 1, 2, 255]))
    there = dlbridge.asdlpack(InterfaceArray(address, (4,), stream, typestr="|b1"), device="cpu")
    assert bytes(memoryview(there).cast("B")) == bytes([0, 1, 1, 1])
