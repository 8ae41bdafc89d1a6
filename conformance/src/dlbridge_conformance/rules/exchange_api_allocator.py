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
from dlbridge_conformance.rule import may, must, should

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


@must("X-ALLOCATOR-SHAPE", "The tensor has the shape of the prototype.", MAKES)
def shape(c: Context) -> None:
    for wanted in [(3,), (2, 3), (2, 1, 3)]:
        fields = _allocated(c, wanted).fields
        c.expect(fields.shape == wanted, f"the shape of {wanted} is {fields.shape}")
        c.expect(fields.ndim == len(wanted), f"ndim of {wanted} is {fields.ndim}")


@must("X-ALLOCATOR-DTYPE", "A tensor has the dtype of the prototype, for every dtype of the library.", MAKES)
def dtype(c: Context) -> None:
    _allocated(c, (2, 2))
    for name in c.lib.dtypes:
        held, _ = _asked(c, (2, 2), DTYPES[name], c.lib.device)
        found = held and held.fields.dtype
        c.expect(found in (None, DTYPES[name]), f"{name} is {found}, and not {DTYPES[name]}")


@must("X-ALLOCATOR-DEVICE", "The tensor is on the device of the prototype.", MAKES)
def device(c: Context) -> None:
    found = _allocated(c, (2, 3)).fields.device
    c.expect(found == c.lib.device, f"the device is {found}, and not {c.lib.device}")


@must("X-ALLOCATOR-VERSION", "The tensor is versioned, with major version 1.", "dlpack.h 1.3, DLPackVersion")
def version(c: Context) -> None:
    found = _allocated(c, (2, 3)).fields.version
    c.expect(found is not None and found[0] == 1, f"the version is {found}")


@must("X-ALLOCATOR-STRIDES", "Strides are not NULL unless ndim is 0.", STRIDES)
def strides(c: Context) -> None:
    for wanted in [(3,), (2, 3), (2, 0)]:
        fields = _allocated(c, wanted).fields
        c.expect(fields.strides is not None, f"the strides of {wanted} are NULL")


@may("X-ALLOCATOR-C-ORDER", "The tensor is in C order.", "no text; consumers that ask for a tensor assume it")
def c_order(c: Context) -> None:
    found = _allocated(c, (2, 3)).fields.strides
    c.expect(found in (None, c_strides((2, 3))), f"the strides are {found}")


@must("X-ALLOCATOR-WRITABLE", "The memory is writable: the flag READ_ONLY is not set, and written bytes stay.", MAKES)
def writable(c: Context) -> None:
    held = _allocated(c, (64,))
    c.expect(not held.fields.flags & Flags.READ_ONLY, f"the flags are {held.fields.flags}")
    needs_host_memory(c, held.fields)
    data = bytes(range(256))
    held.write(data)
    c.settle()
    c.expect(held.read(256) == data, "the bytes differ")


@must("X-ALLOCATOR-APART", "Tensors that live at once do not share memory.", MAKES)
def apart(c: Context) -> None:
    places = sorted(address_of(_allocated(c, (16,)).fields) for _ in range(20))
    nearest = min(after - before for before, after in zip(places, places[1:], strict=False))
    c.expect(nearest >= 64, f"two tensors of 64 bytes begin {nearest} bytes apart")


@must("X-ALLOCATOR-SCALAR", "For a prototype of ndim 0, the tensor is 0-d.", MAKES)
def scalar(c: Context) -> None:
    fields = _unless_refused(c, ()).fields
    c.expect(fields.ndim == 0, f"ndim is {fields.ndim}")
    c.expect(fields.data, "data is NULL")


@must("X-ALLOCATOR-ZERO-SIZE", "For a prototype with an extent of 0, the tensor has that shape.", MAKES)
def zero_size(c: Context) -> None:
    fields = _unless_refused(c, (2, 0)).fields
    c.expect(fields.shape == (2, 0), f"the shape is {fields.shape}")


@should("X-ALLOCATOR-ALIGNED", "data is a multiple of 256.", "dlpack.h 1.3, DLTensor::data")
def aligned(c: Context) -> None:
    for data in [_allocated(c, (6,)).fields.data for _ in range(16)]:
        c.expect(data % 256 == 0, f"data is {data:#x}, a multiple of {data & -data}")


@must("X-ALLOCATOR-FREES", "The deleter gives the memory back.", "dlpack.h 1.3, DLManagedTensorVersioned::deleter")
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


@must("X-ALLOCATOR-DELETER-THREAD", "The deleter may be called on a thread that Python does not know.",
      "Python specification of DLPack, Implementation")  # fmt: skip
def deleter_thread(c: Context) -> None:
    for way in (crafter.Way.WITHOUT_GIL, crafter.Way.NATIVE_THREAD):
        _allocated(c, (6,)).delete(way)
    found = _allocated(c, (6,)).fields.shape
    c.expect(found == (6,), f"the shape of the next tensor is {found}")


@should("X-ALLOCATOR-WITHOUT-GIL", "It makes a tensor on a thread that Python does not know, without the GIL.",
        f"{MAKES}: no direct need of Python API")  # fmt: skip
def without_gil(c: Context) -> None:
    _allocated(c, (2, 3))
    found = _allocated(c, (2, 3), native_thread=True).fields.shape
    c.expect(found == (2, 3), f"the shape is {found}")


should("X-ALLOCATOR-REFUSAL", "float4_e2m1fn with 8 bits, an undefined width, is refused by SetError.",
       "dlpack.h 1.3, DLDataTypeCode: FP4 data types", lambda c: _expect_refused(c, *UNDEFINED))  # fmt: skip


@must("X-ALLOCATOR-ERROR-ONCE", "SetError is called once if no tensor is returned, and never otherwise.", MAKES)
def error_once(c: Context) -> None:
    _allocated(c, (2, 3))
    reports = _refused(c)
    c.expect(len(reports) == 1, f"SetError was called {len(reports)} times")


@may("X-ALLOCATOR-ERROR-TEXT", "SetError gets a kind and a message that are not empty.", MAKES)
def error_text(c: Context) -> None:
    for kind, message in _refused(c):
        c.expect(kind and message, f"the kind is {kind!r}, and the message {message!r}")


@should("X-ALLOCATOR-ERROR-WITHOUT-GIL",
        "It calls SetError on a thread that Python does not know, without the GIL, as it does elsewhere.",
        f"{MAKES}: SetError may have to ensure the GIL is held")  # fmt: skip
def error_without_gil(c: Context) -> None:
    reports = _refused(c)
    found = _refused(c, native_thread=True)
    c.expect(len(found) == len(reports), f"SetError was called {len(found)} times, and {len(reports)} times elsewhere")


should("X-ALLOCATOR-NEGATIVE", "A negative extent is refused by SetError.", "no text; no tensor has such a shape",
       lambda c: _expect_refused(c, *NEGATIVE))  # fmt: skip
must("X-ALLOCATOR-TOO-LARGE", "More memory than the address space is refused by SetError.", MAKES,
     lambda c: _expect_refused(c, *TOO_LARGE))  # fmt: skip


@must("X-ALLOCATOR-FOREIGN-DEVICE",
      "For a rare device, it returns a tensor on that device or none, never one on another device.", MAKES)  # fmt: skip
def foreign_device(c: Context) -> None:
    held, reports = _asked(c, (2, 3), FLOAT32, FOREIGN)
    if held is None:
        c.expect(reports, "it returned no tensor and did not call SetError")
    else:
        c.expect(held.fields.device == FOREIGN, f"the device is {held.fields.device}, and not {FOREIGN}")
