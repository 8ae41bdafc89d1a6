"""How a consumer treats devices: in the struct, from the producer, and as a keyword."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dlbridge_conformance.context import Context
from dlbridge_conformance.crafter import CPU, CUDA, CUDA_HOST, OPENCL, ROCM, Crafted, Producer
from dlbridge_conformance.outcome import Broken, NotApplicable
from dlbridge_conformance.rule import each, must, should
from dlbridge_conformance.rules.consumer_copy import knows_copy
from dlbridge_conformance.rules.consumer_outcome import (
    HEADER, PLAIN, PYTHON, STANDARD, asking, feed, given_back, plain, right, right_or_refused,
)  # fmt: skip

TYPE = f"{HEADER}, DLDeviceType"
ID = f"{HEADER}, DLDevice::device_id"
UNSUPPORTED = f"{PYTHON}, Semantics"
DEVICE = f"{STANDARD}, from_dlpack, device"


def is_kept(c: Context, array: Any, device: tuple[int, int]) -> bool:
    """Returns whether an array stays on a foreign device.

    It compares the device that the array reports. Without one, readable elements mean that the array did not stay there.
    """
    try:
        found = tuple(int(number) for number in array.__dlpack_device__())
    except Exception as error:
        c.got(f"it does not say its device: {type(error).__name__}: {error}")
        try:
            c.values(array)
        except Exception as unread:
            raise NotApplicable(f"accepted, but its device is unknown: {unread}") from None
        return False
    c.got(f"it is on the device {found}")
    return found == device


def kept_or_refused(c: Context, crafted: Crafted, says: Any = None) -> None:
    """Expects that a tensor on a foreign device is refused or stays there, and that it is given back in both cases."""
    device = crafted.device
    array, said = feed(c, Producer(crafted, device if says is None else says))
    if said is None:
        kept = is_kept(c, array, device)
        del array
        c.expect(kept, f"the tensor on device {device} was treated as one on another device")
    given_back(c, crafted, "after everything was gone")


must("C-DEVICE-UNKNOWN-TYPE", "Memory of a device type that does not exist is never read as CPU memory.", TYPE,
     each((0, 5, 99, -1, 2**31 - 1), lambda c, kind: kept_or_refused(c, plain(c, device=(kind, 0)))))  # fmt: skip


@should("C-DEVICE-UNKNOWN-CLASS", "The exception for a device that a library does not support is a BufferError.",
        UNSUPPORTED)  # fmt: skip
def unknown_class(c: Context) -> None:
    array, said = feed(c, plain(c, device=(99, 0)))
    del array
    c.needs(said, f"{c.lib.name} accepts any device")
    c.expect((said or "").startswith("BufferError"), f"refused with {said}")


def needs_cpu(c: Context) -> None:
    """Raises :class:`NotApplicable` for a library that is not on the CPU."""
    c.needs(c.lib.device == CPU, f"{c.lib.name} is not on the CPU")


def foreign(device: tuple[int, int], says: Any = None) -> Callable[[Context], None]:
    """A check of a library on the CPU with a tensor on another device, which the producer may report wrongly."""

    def check(c: Context) -> None:
        needs_cpu(c)
        kept_or_refused(c, plain(c, device=device), says)

    return check


must("C-DEVICE-OPENCL", "An OpenCL buffer is a handle, not an address: it is refused, or stays on its device.", TYPE,
     foreign(OPENCL))  # fmt: skip
for _name, _device in (("CUDA", CUDA), ("ROCm", ROCM)):
    must(f"C-DEVICE-{_name.upper()}",
         f"A library without {_name} refuses a tensor on {_name}, or leaves it there: it never reads it as CPU memory.",
         UNSUPPORTED, foreign(_device))  # fmt: skip
should("C-DEVICE-STRUCT-DISAGREES",
       "A struct on CUDA whose producer says CPU is refused, or stays on CUDA: the struct is what describes the memory.",
       f"{HEADER}, DLTensor::device", foreign(CUDA, says=CPU))  # fmt: skip


@must("C-DEVICE-HOST-VISIBLE", "Pinned host memory, which the CPU can read, is read correctly or refused.", TYPE)
def host_visible(c: Context) -> None:
    for device in (CUDA_HOST, (11, 0)):
        crafted = plain(c, device=device)
        array, said = feed(c, crafted)
        if said is None:
            try:
                right(c, array, PLAIN)
            except (Broken, NotApplicable):
                raise
            except Exception as error:
                c.got(f"its elements are not read: {type(error).__name__}: {error}")
        del array
        given_back(c, crafted, "after everything was gone")


should("C-DEVICE-ID", "The CPU has only the device id 0: a tensor with another id is refused, or read correctly.", ID,
       each((1, 3, -1), lambda c, number: right_or_refused(c, plain(c, device=(1, number)), PLAIN)))  # fmt: skip


@should("C-DEVICE-PRODUCER-DISAGREES", "A struct on the CPU whose producer says CUDA is refused, or read correctly.",
        f"{STANDARD}, __dlpack_device__")  # fmt: skip
def producer_disagrees(c: Context) -> None:
    needs_cpu(c)
    right_or_refused(c, plain(c), PLAIN, says=CUDA)


@should("C-DEVICE-MALFORMED",
        "A __dlpack_device__ that does not return a pair of integers causes an exception, or is ignored.",
        f"{STANDARD}, __dlpack_device__")  # fmt: skip
def malformed(c: Context) -> None:
    for device in (None, 1, (1,), ("cpu", 0), (1, None), (2**70, 0)):
        c.fed(f"a producer whose __dlpack_device__ returns {device!r}")
        right_or_refused(c, plain(c), PLAIN, says=device)


def own_device(c: Context) -> Any:
    """The attribute device of the library's arrays; the rule does not apply without it."""
    own = getattr(c.consume(plain(c)), "device", None)
    c.needs(own is not None, f"the arrays of {c.lib.name} do not have a device")
    return own


@must("C-DEVICE-SAME", "Without device, the array is on the device of the producer.", DEVICE)
def same(c: Context) -> None:
    needs_cpu(c)
    array = c.consume(plain(c))
    c.needs(hasattr(array, "__dlpack_device__"), f"{c.lib.name} does not say where its arrays are")
    found = array.__dlpack_device__()
    c.got(f"it is on the device {found!r}")
    c.expect(int(found[0]) == 1, f"the array is on the device {found!r}")


@should("C-DEVICE-KEYWORD",
        "from_dlpack has the keyword device, which takes None and the device of the library's own arrays.",
        "array API standard 2023.12, from_dlpack, device")  # fmt: skip
def keyword(c: Context) -> None:
    asking(c, None)
    right(c, c.consume(plain(c), device=None), PLAIN)
    right(c, c.consume(plain(c), device=own_device(c)), PLAIN)


@must("C-DEVICE-PASSED-ON", "A consumer passes None as dl_device, or a tuple of device type and device id.",
      f"{STANDARD}, __dlpack__, dl_device")  # fmt: skip
def passed_on(c: Context) -> None:
    own = own_device(c)
    producer = asking(c, Producer(c.as_asked))
    array, said = feed(c, producer, device=own)
    c.got(f"called with {producer.asked}")
    c.needs(producer.asked, f"from_dlpack of {c.lib.name} does not know device: {said}")
    for keywords in producer.asked:
        device = keywords.get("dl_device", CPU)
        whole = isinstance(device, tuple) and len(device) == 2 and all(isinstance(number, int) for number in device)
        c.expect(whole, f"called with dl_device={device!r}")
    del array


@must("C-DEVICE-COPY-FALSE",
      "With copy=False, a tensor on another device than the requested one raises BufferError or ValueError.",
      f"{DEVICE} and copy")  # fmt: skip
def copy_false(c: Context) -> None:
    needs_cpu(c)
    knows_copy(c)
    own = own_device(c)
    try:
        c.consume(plain(c), device=own)
    except TypeError as error:
        raise NotApplicable(f"from_dlpack of {c.lib.name} does not know device: {error}") from None
    crafted = plain(c, device=CUDA)

    def answer(keywords: dict[str, Any]) -> Any:
        return BufferError("a copy would be needed") if "dl_device" in keywords else crafted

    producer = asking(c, Producer(answer, CUDA))
    c.refused(lambda: c.consume(producer, device=own, copy=False), BufferError, ValueError)
    given_back(c, crafted, "after the refusal")
