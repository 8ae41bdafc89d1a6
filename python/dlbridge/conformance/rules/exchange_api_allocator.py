"""``managed_tensor_allocator``: new tensors, and how it reports that there are none."""

from __future__ import annotations

from dlbridge.conformance import crafter
from dlbridge.conformance.context import Context
from dlbridge.conformance.crafter import CPU, DTYPES, Flags, Held, c_strides
from dlbridge.conformance.exchange import ALLOCATOR, allocated, refused_allocation, table_of
from dlbridge.conformance.exports import address_of, needs_host_memory
from dlbridge.conformance.memory import expect_bounded
from dlbridge.conformance.rule import Level, Role, rule

MAKES = "dlpack.h 1.3, DLPackManagedTensorAllocator"
STRIDES = "dlpack.h 1.3, DLTensor::strides"

FLOAT32 = DTYPES["float32"]
#: float4_e2m1fn, which has 4 bits, with 8
UNDEFINED = (17, 8, 1)


@rule("X-ALLOCATOR-SHAPE", Role.EXCHANGE_API, Level.MUST,
      "The tensor has the shape of the prototype.", MAKES)  # fmt: skip
def shape(c: Context) -> None:
    for wanted in [(3,), (2, 3), (2, 1, 3)]:
        fields = allocated(c, wanted).fields
        c.expect(fields.shape == wanted, f"the shape of {wanted} is {fields.shape}")
        c.expect(fields.ndim == len(wanted), f"ndim of {wanted} is {fields.ndim}")


@rule("X-ALLOCATOR-DTYPE", Role.EXCHANGE_API, Level.MUST,
      "The tensor has the dtype of the prototype, whichever the library has.", MAKES)  # fmt: skip
def dtype(c: Context) -> None:
    for name in c.lib.dtypes:
        found = allocated(c, (2, 2), name).fields.dtype
        c.expect(found == DTYPES[name], f"{name} is {found}, and not {DTYPES[name]}")


@rule("X-ALLOCATOR-DEVICE", Role.EXCHANGE_API, Level.MUST,
      "The tensor is on the device of the prototype.", MAKES)  # fmt: skip
def device(c: Context) -> None:
    found = allocated(c, (2, 3)).fields.device
    c.expect(found == c.lib.device, f"the device is {found}, and not {c.lib.device}")


@rule("X-ALLOCATOR-VERSION", Role.EXCHANGE_API, Level.MUST,
      "The tensor is versioned, of major 1.", "dlpack.h 1.3, DLPackVersion")  # fmt: skip
def version(c: Context) -> None:
    found = allocated(c, (2, 3)).fields.version
    c.expect(found is not None and found[0] == 1, f"the version is {found}")


@rule("X-ALLOCATOR-STRIDES", Role.EXCHANGE_API, Level.MUST,
      "Strides are not NULL where there are axes.", STRIDES)  # fmt: skip
def strides(c: Context) -> None:
    for wanted in [(3,), (2, 3), (2, 0)]:
        fields = allocated(c, wanted).fields
        c.expect(fields.strides is not None, f"the strides of {wanted} are NULL")


@rule("X-ALLOCATOR-C-ORDER", Role.EXCHANGE_API, Level.MAY,
      "The tensor is in C order.", "no text; what consumers that ask for one take for granted")  # fmt: skip
def c_order(c: Context) -> None:
    found = allocated(c, (2, 3)).fields.strides
    c.expect(found in (None, c_strides((2, 3))), f"the strides are {found}")


@rule("X-ALLOCATOR-WRITABLE", Role.EXCHANGE_API, Level.MUST,
      "The memory may be written: the flag READ_ONLY is not set, and what is written stays.", MAKES)  # fmt: skip
def writable(c: Context) -> None:
    held = allocated(c, (64,))
    c.expect(not held.fields.flags & Flags.READ_ONLY, f"the flags are {held.fields.flags}")
    needs_host_memory(c, held.fields)
    data = bytes(range(256))
    held.write(data)
    c.settle()
    c.expect(held.read(256) == data, "the bytes are others")


@rule("X-ALLOCATOR-APART", Role.EXCHANGE_API, Level.MUST,
      "Tensors that live at once do not share memory.", MAKES)  # fmt: skip
def apart(c: Context) -> None:
    places = sorted(address_of(allocated(c, (16,)).fields) for _ in range(20))
    nearest = min(after - before for before, after in zip(places, places[1:], strict=False))
    c.expect(nearest >= 64, f"two tensors of 64 bytes lie {nearest} bytes from each other")


@rule("X-ALLOCATOR-SCALAR", Role.EXCHANGE_API, Level.MUST,
      "A prototype of ndim 0 gives a 0-d tensor.", MAKES)  # fmt: skip
def scalar(c: Context) -> None:
    fields = allocated(c, ()).fields
    c.expect(fields.ndim == 0, f"ndim is {fields.ndim}")
    c.expect(fields.data, "data is NULL")


@rule("X-ALLOCATOR-ZERO-SIZE", Role.EXCHANGE_API, Level.MUST,
      "A prototype with an extent of 0 gives a tensor of that shape.", MAKES)  # fmt: skip
def zero_size(c: Context) -> None:
    fields = allocated(c, (2, 0)).fields
    c.expect(fields.shape == (2, 0), f"the shape is {fields.shape}")


@rule("X-ALLOCATOR-ALIGNED", Role.EXCHANGE_API, Level.SHOULD,
      "data is a multiple of 256.", "dlpack.h 1.3, DLTensor::data")  # fmt: skip
def aligned(c: Context) -> None:
    for data in [allocated(c, (6,)).fields.data for _ in range(16)]:
        c.expect(data % 256 == 0, f"data is {data:#x}, a multiple of {data & -data}")


@rule("X-ALLOCATOR-FREES", Role.EXCHANGE_API, Level.MUST,
      "The deleter gives the memory back.", "dlpack.h 1.3, DLManagedTensorVersioned::deleter")  # fmt: skip
def frees(c: Context) -> None:
    allocated(c, (6,)).delete()
    table = table_of(c, c.array(), ALLOCATOR)
    size = 1 << 20

    def step() -> None:
        held = Held(table.allocated([size], DTYPES["float32"], c.lib.device)[0][1])
        needs_host_memory(c, held.fields)
        held.write(b"\1" * (4 * size))
        held.delete()

    expect_bounded(c, step, 16, 4 * size, "the memory is kept after the deleter ran")


@rule("X-ALLOCATOR-DELETER-THREAD", Role.EXCHANGE_API, Level.MUST,
      "The deleter may be called on a thread that Python does not know.",
      "Python specification of DLPack, Implementation")  # fmt: skip
def deleter_thread(c: Context) -> None:
    for way in (crafter.Way.WITHOUT_GIL, crafter.Way.NATIVE_THREAD):
        allocated(c, (6,)).delete(way)
    found = allocated(c, (6,)).fields.shape
    c.expect(found == (6,), f"the shape of the next tensor is {found}")


@rule("X-ALLOCATOR-REFUSAL", Role.EXCHANGE_API, Level.MUST,
      "For float4_e2m1fn with 8 bits, which is no dtype, it returns -1 and gives no tensor.", MAKES)  # fmt: skip
def refusal(c: Context) -> None:
    refused_allocation(c, (2, 3), UNDEFINED, CPU)


@rule("X-ALLOCATOR-ERROR-ONCE", Role.EXCHANGE_API, Level.MUST,
      "SetError is called exactly when no tensor is given, and once.", MAKES)  # fmt: skip
def error_once(c: Context) -> None:
    reported = refused_allocation(c, (2, 3), UNDEFINED, CPU)
    c.expect(len(reported) == 1, f"SetError was called {len(reported)} times")


@rule("X-ALLOCATOR-ERROR-TEXT", Role.EXCHANGE_API, Level.MAY,
      "SetError is given a kind and a message that are not empty.", MAKES)  # fmt: skip
def error_text(c: Context) -> None:
    for kind, message in refused_allocation(c, (2, 3), UNDEFINED, CPU):
        c.expect(kind and message, f"the kind is {kind!r}, and the message {message!r}")


@rule("X-ALLOCATOR-NEGATIVE", Role.EXCHANGE_API, Level.MUST,
      "A negative extent is refused by SetError.", MAKES)  # fmt: skip
def negative(c: Context) -> None:
    reported = refused_allocation(c, (2, -3), FLOAT32, c.lib.device)
    c.expect(len(reported) == 1, f"SetError was called {len(reported)} times")


@rule("X-ALLOCATOR-TOO-LARGE", Role.EXCHANGE_API, Level.MUST,
      "More memory than there are addresses is refused by SetError.", MAKES)  # fmt: skip
def too_large(c: Context) -> None:
    reported = refused_allocation(c, (1 << 40, 1 << 40), FLOAT32, c.lib.device)
    c.expect(len(reported) == 1, f"SetError was called {len(reported)} times")


@rule("X-ALLOCATOR-FOREIGN-DEVICE", Role.EXCHANGE_API, Level.MUST,
      "A device that the library has not is refused by SetError.", MAKES)  # fmt: skip
def foreign_device(c: Context) -> None:
    reported = refused_allocation(c, (2, 3), FLOAT32, (9, 0))
    c.expect(len(reported) == 1, f"SetError was called {len(reported)} times")
