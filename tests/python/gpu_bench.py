"""Every exchange and copy on a device, with a driver that may fail, and a check that nothing is left over afterwards."""

import ctypes
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import dlbridge
import native as n
from dlbridge_conformance import crafter
from exchange_table import API, foreign
from faults import ELSEWHERE, Fault, Faults
from native import Crafted, Native
from stand_in import NEW, Array, Driver, InterfaceArray

#: More bytes than both buffers of pinned memory hold, so that a copy uses the first one again.
LARGE = bytes(range(256)) * ((8 << 20) // 256) + NEW


class Bench:
    """The stand-in, with the streams and memory that the operations use, and the library that sets faults."""

    def __init__(self, driver: Driver, faults: Faults) -> None:
        self.driver, self.faults = driver, faults
        self.theirs, self.ours, self.others = driver.stream(), driver.stream(), driver.stream()
        self.second = driver.stream(1)
        self.small, self.large = driver.memory(len(NEW)), driver.memory(len(LARGE))
        self.pinned = driver.memory(len(NEW), kind="pinned")
        self.native: Native
        self.made: list[Array] = []

    def array(self, content: bytes = NEW) -> Array:
        """An array of a library that writes the elements on its own stream."""
        address = self.small if content is NEW else self.large
        self.write(address, content)
        crafted = self.native.craft((len(content) // 4,), device=n.CUDA, data=address)
        array = Array(self.driver, self.native, crafted, self.theirs, n.CUDA)
        self.made.append(array)
        return array

    def write(self, address: int, content: bytes) -> None:
        """Queues a write of these bytes on their stream. Until the write runs, the last bytes differ."""
        self.driver.write(self.theirs, address + len(content) - len(NEW), bytes(len(NEW)))
        self.driver.wait(self.theirs)
        self.driver.write(self.theirs, address, content)

    def interface(self, *, pinned: bool = False) -> InterfaceArray:
        """An array with only `__cuda_array_interface__`, written on its stream."""
        address = self.pinned if pinned else self.small
        self.write(address, NEW)
        return InterfaceArray(address, (len(NEW) // 4,), self.theirs)

    def seen(self, tensor: dlbridge.Tensor) -> bytes:
        """The bytes that a kernel on the tensor's stream reads, or that the CPU reads."""
        if tensor.device in ("cpu", "cuda_host"):
            return bytes(memoryview(tensor).cast("B"))
        device = int(tensor.device.rpartition(":")[2])
        self.driver.wait(tensor.stream, device)
        return self.driver.now(tensor.address, tensor.nbytes)

    def until(self, is_so: Callable[[], bool], seconds: float = 10) -> bool:
        """Finishes the work on all streams until a condition holds or the time is up; returns the condition."""
        deadline = time.monotonic() + seconds
        while True:
            self.driver.finish()
            if is_so():
                return True
            if time.monotonic() > deadline:
                return False
            time.sleep(0.0005)

    def rest(self) -> None:
        """Waits until other threads make no more calls."""
        before, now = -1, 0
        while before != now:
            self.driver.finish()
            time.sleep(0.015)
            before, now = now, len(self.faults.calls(ELSEWHERE))
        self.driver.finish()

    def settle(self) -> None:
        """Clears all faults, and waits until the thread that releases memory has processed its queue. It releases in order,
        so the last tensor that it gets is released last. A tensor inside another one needs a second turn."""
        self.faults.clear()
        for _ in range(2):
            self.driver.finish()
            tensor = dlbridge.asdlpack(self.array(), stream=self.ours)
            crafted = self.made.pop().crafted
            self.driver.finish()
            del tensor
            assert self.until(partial(is_deleted, crafted)), "the thread that releases memory has stopped"

    def give_back(self, function: str, argument: int) -> None:
        """Frees or destroys an object that the driver refused to free, because dlbridge does not try again."""
        self.driver.finish()
        with self.driver.on(0):
            self.driver.check(getattr(self.driver.library, function.replace("Async", "_v2"))(ctypes.c_uint64(argument)))

    def not_given_back(self) -> list[Array]:
        """The arrays whose deleter was not called."""
        return [array for array in self.made if array.crafted.record.calls == 0]


def is_deleted(crafted: Crafted) -> bool:
    """True if the deleter was called."""
    return crafted.record.calls == 1


class Kept:
    """The memory and events of the driver at the beginning. At the end no others may be alive, except a new event for each of
    the two buffers of pinned memory."""

    def __init__(self, bench: Bench, new_events: int = 2) -> None:
        self.bench, self.driver, self.new_events = bench, bench.driver, new_events
        bench.rest()
        self.regions, self.events, self.faults = self.driver.live_regions, self.driver.live_events, self.driver.faults
        self.not_put_back = self.driver.not_put_back

    def left_over(self) -> list[str]:
        """The kinds of objects that are left over. Another thread may still be releasing them."""
        driver, events = self.driver, self.events + self.new_events
        found = {
            "a source was not released": bool(self.bench.not_given_back()),
            "a thread did not restore a context or a capture mode": driver.not_put_back > self.not_put_back,
            "an event was not destroyed": driver.live_events > events,
            "memory was not freed": driver.live_regions > self.regions,
        }
        return [kind for kind, is_found in found.items() if is_found]

    def check(self, what: str, *, may_leak: bool) -> None:
        """Waits until nothing is left over, and asserts it. With `may_leak`, calls the deleters of leaked sources first."""
        self.bench.settle()
        if may_leak:
            # Memory that is not released by now is leaked: that of a source, or dlbridge's own.
            for array in self.bench.not_given_back():
                array.crafted.native.held().delete(n.Way.WITH_GIL)
            self.regions += self.driver.live_regions > self.regions
        is_clean = self.bench.until(lambda: not self.left_over())
        assert is_clean, f"{what}: {self.left_over()}"
        assert self.driver.faults == self.faults, f"{what}: freed memory was used"
        self.bench.made.clear()


def imported(bench: Bench) -> bytes:
    """Imports on a stream that still has work when the tensor is dropped."""
    tensor = dlbridge.asdlpack(bench.array(), stream=bench.ours)
    content = bench.seen(tensor)
    bench.driver.write(bench.ours, tensor.address, NEW)
    return content


def reordered(bench: Bench) -> bytes:
    """Imports a tensor again on another stream."""
    return bench.seen(dlbridge.asdlpack(dlbridge.asdlpack(bench.array(), stream=bench.ours), stream=bench.others))


def exported(bench: Bench, **keywords: Any) -> bytes:
    """Exports to a consumer on its own stream, or to the CPU."""
    held = bench.native.export(dlbridge.asdlpack(bench.array()), max_version=(1, 3), **keywords)
    try:
        if held.fields.device == n.CPU:
            return ctypes.string_at(held.fields.data, len(NEW))
        return bench.driver.seen_on(bench.others, held.fields.data, len(NEW))
    finally:
        held.delete()


def by_their_table(bench: Bench) -> bytes:
    """Imports by the exchange API of a library that works on its own stream."""
    kind = foreign(bench.array().crafted, table={"stream": bench.theirs})
    return bench.seen(dlbridge.asdlpack(kind(), stream=bench.ours))


def by_our_table(bench: Bench) -> bytes:
    """Exports by our exchange API, on the default stream."""

    def answer(status: int, found: Any, error: Exception | None) -> Any:
        if error is not None:
            raise error
        return found

    table = crafter.native.Table(getattr(dlbridge.Tensor, API))
    tensor = dlbridge.asdlpack(bench.array(), stream=bench.ours)
    held = answer(*table.exported(tensor))
    content = bench.driver.seen_on(1, tensor.address, len(NEW))
    assert answer(*table.imported(held)).stream == 1
    return content


def sent(bench: Bench, content: bytes) -> bytes:
    """Copies from the CPU to a device."""
    return bench.seen(dlbridge.asdlpack(content, device="cuda:0", stream=bench.ours))


def sent_without_pools(bench: Bench) -> bytes:
    """Copies from the CPU to a device whose driver lacks memory pools."""
    bench.driver.library.stand_in_without_pools()
    try:
        return sent(bench, NEW)
    finally:
        bench.driver.library.stand_in_with_pools()


def fetched(bench: Bench, content: bytes) -> bytes:
    """Copies from a device to the CPU."""
    return bench.seen(dlbridge.asdlpack(bench.array(content), device="cpu"))


def copied(bench: Bench, content: bytes, **keywords: Any) -> bytes:
    """Copies from a device to the same or another device."""
    return bench.seen(dlbridge.asdlpack(bench.array(content), **keywords))


Operation = Callable[[Bench], bytes]

#: Together these call every function of the driver that dlbridge uses after the first use of a device.
OPERATIONS: dict[str, Operation] = {
    "import": imported,
    "import on another stream": reordered,
    "import by the CUDA array interface": lambda b: b.seen(dlbridge.asdlpack(b.interface(), stream=b.ours)),
    "import of pinned memory": lambda b: b.seen(dlbridge.asdlpack(b.interface(pinned=True))),
    "import by a table": by_their_table,
    "export by our table": by_our_table,
    "export": lambda b: exported(b, stream=b.others),
    "export to the CPU": partial(exported, dl_device=n.CPU),
    "copy to a device": partial(sent, content=NEW),
    "copy to a device without pools": sent_without_pools,
    "large copy to a device": partial(sent, content=LARGE),
    "copy to the CPU": partial(fetched, content=NEW),
    "large copy to the CPU": partial(fetched, content=LARGE),
    "copy on a device": lambda b: copied(b, NEW, copy=True, stream=b.ours),
    "copy to another device": lambda b: copied(b, NEW, device="cuda:1", stream=b.second),
}  # fmt: skip


def attempt(bench: Bench, operation: Operation, *faults: Fault) -> tuple[bytes | None, Exception | None]:
    """The result of an operation with these faults, or its error without the traceback, which would keep tensors alive."""
    bench.faults.set(*faults)
    try:
        return operation(bench), None
    except (BufferError, MemoryError) as error:
        return None, error.with_traceback(None)


def recorded(bench: Bench, operation: Operation) -> list[str]:
    """The calls of an operation without faults."""
    content, error = attempt(bench, operation)
    calls = bench.faults.calls()
    assert error is None
    assert content == (LARGE if len(content or b"") > len(NEW) else NEW)
    assert bench.until(lambda: not bench.not_given_back()), "a deleter was not called"
    bench.made.clear()
    return calls
