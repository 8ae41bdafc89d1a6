"""``managed_tensor_allocator``: new tensors, and how it reports a failure."""

from __future__ import annotations

from collections.abc import Iterable

from dlbridge_conformance import crafter
from dlbridge_conformance.context import Context
from dlbridge_conformance.crafter import DTYPES, Flags, Held, c_strides
from dlbridge_conformance.exchange import ALLOCATOR, table_of
from dlbridge_conformance.exports import address_of, needs_host_memory
from dlbridge_conformance.memory import expect_bounded
from dlbridge_conformance.outcome import NotApplicable
from dlbridge_conformance.rule import Level, Role, rule

MAKES = "dlpack.h 1.3, DLPackManagedTensorAllocator"
STRIDES = "dlpack.h 1.3, DLTensor::strides"

FLOAT32 = DTYPES["float32"]
#: a device that hardly any library has: a Verilog simulator buffer
FOREIGN = (9, 0)
#: tensors that cannot exist, as (shape, dtype): float4_e2m1fn with 8 bits instead of 4; a negative extent; more memory
#: than the address space
UNDEFINED = ((2, 3), (17, 8, 1))
NEGATIVE = ((2, -3), FLOAT32)
TOO_LARGE = ((1 << 40, 1 << 40), FLOAT32)

#: the arguments of each call of SetError, as (kind, message)
Reports = list[tuple[str, str]]


def _asked(
    c: Context,
    shape: Iterable[int],
    dtype: tuple[int, int, int],
    device: tuple[int, int],
    native_thread: bool = False,
) -> tuple[Held | None, Reports]:
    """Allocates a tensor. Returns it without reported errors, or None with the reported errors."""
    table = table_of(c, c.array(), ALLOCATOR)
    shape = list(shape)
    c.fed(f"{ALLOCATOR} for {shape}, {dtype}, {device}{' on a native thread' if native_thread else ''}")
    (status, made, error), reports = table.allocated(shape, dtype, device, native_thread=native_thread)
    c.got(f"status {status}, SetError {reports}, exception {error!r}")
    if status:
        c.expect(made is None, f"it returned {status} and a tensor")
        return None, reports
    c.expect(made is not None, "it returned 0 and no tensor")
    c.expect(not reports, f"it returned a tensor and called SetError: {reports}")
    c.expect(error is None, f"it returned a tensor with an exception set: {error!r}")
    return c.hold(Held(made)), []


def _allocated(c: Context, shape: Iterable[int], native_thread: bool = False) -> Held:
    """Expects a tensor of float32 on the library's device."""
    held, reports = _asked(c, shape, FLOAT32, c.lib.device, native_thread)
    c.expect(held, f"it is refused: {reports}")
    assert held is not None
    return held


def _unless_refused(c: Context, shape: Iterable[int]) -> Held:
    """Allocates a tensor of float32 on the library's device; the rule does not apply if it is refused."""
    held, reports = _asked(c, shape, FLOAT32, c.lib.device)
    if held is None:
        raise NotApplicable(f"it is refused: {reports}")
    return held


def _refused(c: Context, native_thread: bool = False) -> Reports:
    """The reported errors for the first tensor that is refused, among tensors that cannot exist."""
    for shape, dtype in (TOO_LARGE, UNDEFINED, NEGATIVE):
        held, reports = _asked(c, shape, dtype, c.lib.device, native_thread)
        if held is None:
            return reports
    raise NotApplicable("it allocates all tensors that were tried")


def _expect_refused(c: Context, shape: Iterable[int], dtype: tuple[int, int, int]) -> None:
    """Expects that it returns no tensor, and reports an error."""
    held, reports = _asked(c, shape, dtype, c.lib.device)
    c.expect(held is None, "it is not refused")
    c.expect(reports, "it returned no tensor and did not call SetError")


@rule("X-ALLOCATOR-SHAPE", Role.EXCHANGE_API, Level.MUST,
      "The tensor has the shape of the prototype.", MAKES)  # fmt: skip
def shape(c: Context) -> None:
    for wanted in [(3,), (2, 3), (2, 1, 3)]:
        fields = _allocated(c, wanted).fields
        c.expect(fields.shape == wanted, f"the shape of {wanted} is {fields.shape}")
        c.expect(fields.ndim == len(wanted), f"ndim of {wanted} is {fields.ndim}")


@rule("X-ALLOCATOR-DTYPE", Role.EXCHANGE_API, Level.MUST,
      "A tensor has the dtype of the prototype, for every dtype of the library.", MAKES)  # fmt: skip
def dtype(c: Context) -> None:
    _allocated(c, (2, 2))
    for name in c.lib.dtypes:
        held, _ = _asked(c, (2, 2), DTYPES[name], c.lib.device)
        found = held and held.fields.dtype
        c.expect(found in (None, DTYPES[name]), f"{name} is {found}, and not {DTYPES[name]}")


@rule("X-ALLOCATOR-DEVICE", Role.EXCHANGE_API, Level.MUST,
      "The tensor is on the device of the prototype.", MAKES)  # fmt: skip
def device(c: Context) -> None:
    found = _allocated(c, (2, 3)).fields.device
    c.expect(found == c.lib.device, f"the device is {found}, and not {c.lib.device}")


@rule("X-ALLOCATOR-VERSION", Role.EXCHANGE_API, Level.MUST,
      "The tensor is versioned, with major version 1.", "dlpack.h 1.3, DLPackVersion")  # fmt: skip
def version(c: Context) -> None:
    found = _allocated(c, (2, 3)).fields.version
    c.expect(found is not None and found[0] == 1, f"the version is {found}")


@rule("X-ALLOCATOR-STRIDES", Role.EXCHANGE_API, Level.MUST,
      "Strides are not NULL unless ndim is 0.", STRIDES)  # fmt: skip
def strides(c: Context) -> None:
    for wanted in [(3,), (2, 3), (2, 0)]:
        fields = _allocated(c, wanted).fields
        c.expect(fields.strides is not None, f"the strides of {wanted} are NULL")


@rule("X-ALLOCATOR-C-ORDER", Role.EXCHANGE_API, Level.MAY,
      "The tensor is in C order.", "no text; consumers that ask for a tensor assume it")  # fmt: skip
def c_order(c: Context) -> None:
    found = _allocated(c, (2, 3)).fields.strides
    c.expect(found in (None, c_strides((2, 3))), f"the strides are {found}")


@rule("X-ALLOCATOR-WRITABLE", Role.EXCHANGE_API, Level.MUST,
      "The memory is writable: the flag READ_ONLY is not set, and written bytes stay.", MAKES)  # fmt: skip
def writable(c: Context) -> None:
    held = _allocated(c, (64,))
    c.expect(not held.fields.flags & Flags.READ_ONLY, f"the flags are {held.fields.flags}")
    needs_host_memory(c, held.fields)
    data = bytes(range(256))
    held.write(data)
    c.settle()
    c.expect(held.read(256) == data, "the bytes differ")


@rule("X-ALLOCATOR-APART", Role.EXCHANGE_API, Level.MUST,
      "Tensors that live at once do not share memory.", MAKES)  # fmt: skip
def apart(c: Context) -> None:
    places = sorted(address_of(_allocated(c, (16,)).fields) for _ in range(20))
    nearest = min(after - before for before, after in zip(places, places[1:], strict=False))
    c.expect(nearest >= 64, f"two tensors of 64 bytes begin {nearest} bytes apart")


@rule("X-ALLOCATOR-SCALAR", Role.EXCHANGE_API, Level.MUST,
      "For a prototype of ndim 0, the tensor is 0-d.", MAKES)  # fmt: skip
def scalar(c: Context) -> None:
    fields = _unless_refused(c, ()).fields
    c.expect(fields.ndim == 0, f"ndim is {fields.ndim}")
    c.expect(fields.data, "data is NULL")


@rule("X-ALLOCATOR-ZERO-SIZE", Role.EXCHANGE_API, Level.MUST,
      "For a prototype with an extent of 0, the tensor has that shape.", MAKES)  # fmt: skip
def zero_size(c: Context) -> None:
    fields = _unless_refused(c, (2, 0)).fields
    c.expect(fields.shape == (2, 0), f"the shape is {fields.shape}")


@rule("X-ALLOCATOR-ALIGNED", Role.EXCHANGE_API, Level.SHOULD,
      "data is a multiple of 256.", "dlpack.h 1.3, DLTensor::data")  # fmt: skip
def aligned(c: Context) -> None:
    for data in [_allocated(c, (6,)).fields.data for _ in range(16)]:
        c.expect(data % 256 == 0, f"data is {data:#x}, a multiple of {data & -data}")


@rule("X-ALLOCATOR-FREES", Role.EXCHANGE_API, Level.MUST,
      "The deleter gives the memory back.", "dlpack.h 1.3, DLManagedTensorVersioned::deleter")  # fmt: skip
def frees(c: Context) -> None:
    _allocated(c, (6,)).delete()
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
        _allocated(c, (6,)).delete(way)
    found = _allocated(c, (6,)).fields.shape
    c.expect(found == (6,), f"the shape of the next tensor is {found}")


@rule("X-ALLOCATOR-WITHOUT-GIL", Role.EXCHANGE_API, Level.SHOULD,
      "It makes a tensor on a thread that Python does not know, without the GIL.",
      f"{MAKES}: no direct need of Python API")  # fmt: skip
def without_gil(c: Context) -> None:
    _allocated(c, (2, 3))
    found = _allocated(c, (2, 3), native_thread=True).fields.shape
    c.expect(found == (2, 3), f"the shape is {found}")


@rule("X-ALLOCATOR-REFUSAL", Role.EXCHANGE_API, Level.SHOULD,
      "float4_e2m1fn with 8 bits, an undefined width, is refused by SetError.",
      "dlpack.h 1.3, DLDataTypeCode: FP4 data types")  # fmt: skip
def refusal(c: Context) -> None:
    _expect_refused(c, *UNDEFINED)


@rule("X-ALLOCATOR-ERROR-ONCE", Role.EXCHANGE_API, Level.MUST,
      "SetError is called once if no tensor is returned, and never otherwise.", MAKES)  # fmt: skip
def error_once(c: Context) -> None:
    _allocated(c, (2, 3))
    reports = _refused(c)
    c.expect(len(reports) == 1, f"SetError was called {len(reports)} times")


@rule("X-ALLOCATOR-ERROR-TEXT", Role.EXCHANGE_API, Level.MAY,
      "SetError gets a kind and a message that are not empty.", MAKES)  # fmt: skip
def error_text(c: Context) -> None:
    for kind, message in _refused(c):
        c.expect(kind and message, f"the kind is {kind!r}, and the message {message!r}")


@rule("X-ALLOCATOR-ERROR-WITHOUT-GIL", Role.EXCHANGE_API, Level.SHOULD,
      "It calls SetError on a thread that Python does not know, without the GIL, as it does elsewhere.",
      f"{MAKES}: SetError may have to ensure the GIL is held")  # fmt: skip
def error_without_gil(c: Context) -> None:
    reports = _refused(c)
    found = _refused(c, native_thread=True)
    c.expect(len(found) == len(reports), f"SetError was called {len(found)} times, and {len(reports)} times elsewhere")


@rule("X-ALLOCATOR-NEGATIVE", Role.EXCHANGE_API, Level.SHOULD,
      "A negative extent is refused by SetError.", "no text; no tensor has such a shape")  # fmt: skip
def negative(c: Context) -> None:
    _expect_refused(c, *NEGATIVE)


@rule("X-ALLOCATOR-TOO-LARGE", Role.EXCHANGE_API, Level.MUST,
      "More memory than the address space is refused by SetError.", MAKES)  # fmt: skip
def too_large(c: Context) -> None:
    _expect_refused(c, *TOO_LARGE)


@rule("X-ALLOCATOR-FOREIGN-DEVICE", Role.EXCHANGE_API, Level.MUST,
      "For a rare device, it returns a tensor on that device or none, never one on another device.",
      MAKES)  # fmt: skip
def foreign_device(c: Context) -> None:
    held, reports = _asked(c, (2, 3), FLOAT32, FOREIGN)
    if held is None:
        c.expect(reports, "it returned no tensor and did not call SetError")
    else:
        c.expect(held.fields.device == FOREIGN, f"the device is {held.fields.device}, and not {FOREIGN}")
