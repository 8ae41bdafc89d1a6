"""``managed_tensor_from_py_object_no_sync``: an array as a managed tensor."""

from __future__ import annotations

from typing import Any

from dlbridge_conformance import crafter, exchange
from dlbridge_conformance.context import Context
from dlbridge_conformance.crafter import Flags, Held, Way
from dlbridge_conformance.exchange import exported, exported_unless_refused, table_of
from dlbridge_conformance.exports import address_of, expect_elements, expect_same_memory, memory_reused, strides_of
from dlbridge_conformance.memory import expect_arrays_freed, expect_bounded, watch
from dlbridge_conformance.outcome import NotApplicable
from dlbridge_conformance.rule import each, may, must, should

EXPORT = "dlpack.h 1.3, DLPackManagedTensorFromPyObjectNoSync"
STRIDES = "dlpack.h 1.3, DLTensor::strides"
DELETER = "dlpack.h 1.3, DLManagedTensorVersioned::deleter"

MATRIX = [[0, 1, 2], [3, 4, 5]]
TALL = [[0, 1], [2, 3], [4, 5], [6, 7]]


must("X-EXPORT-STATUS", "It returns 0 for an array, writes a tensor and does not set an exception.", EXPORT,
     lambda c: exported(c, c.array()))  # fmt: skip


@must("X-EXPORT-VERSION", "The tensor is versioned, with major version 1.", "dlpack.h 1.3, DLPackVersion")
def version(c: Context) -> None:
    found = exported(c, c.array()).fields.version
    c.expect(found is not None and found[0] == 1, f"the version is {found}")


@must("X-EXPORT-AGREES", "It describes the array as __dlpack__ does: device, dtype, shape, strides and memory.", EXPORT)
def agrees(c: Context) -> None:
    for array in (c.array(), c.array([1, 2]), c.array(5)):
        fast, slow = exported(c, array).fields, c.versioned(array).fields
        for name in ("device", "dtype", "ndim"):
            c.expect(getattr(fast, name) == getattr(slow, name), f"{name} is {getattr(fast, name)}")
        c.expect((fast.shape or ()) == (slow.shape or ()), f"the shape is {fast.shape}")
        c.expect(strides_of(fast) == strides_of(slow), f"the strides are {fast.strides}")
        c.expect(address_of(fast) == address_of(slow), "the memory differs")


@must("X-EXPORT-ELEMENTS", "The elements are those of the array, without a copy.", EXPORT)
def elements(c: Context) -> None:
    array = c.array()
    held = exported(c, array)
    expect_elements(c, held, MATRIX)
    expect_same_memory(c, array, held)


@must("X-EXPORT-STRIDES-SET", "Strides are not NULL unless ndim is 0.", STRIDES)
def strides_set(c: Context) -> None:
    for values in ([1, 2], MATRIX, []):
        fields = exported(c, c.array(values)).fields
        assert fields.version is not None
        c.needs(fields.version >= (1, 2), f"the struct is of version {fields.version}")
        c.expect(fields.strides is not None, f"the strides of {fields.shape} are NULL")


@must("X-EXPORT-TRANSPOSED", "A transposed matrix has the strides that lead to its elements.", STRIDES)
def transposed(c: Context) -> None:
    held = exported_unless_refused(c, c.lib.transposed(c.array()))
    c.expect(held.fields.shape == (3, 2), f"the shape is {held.fields.shape}")
    expect_elements(c, held, [[0, 3], [1, 4], [2, 5]])


must("X-EXPORT-SLICED", "A slice begins at its first element, by data or by byte_offset.",
     "dlpack.h 1.3, DLTensor::byte_offset",
     lambda c: expect_elements(c, exported_unless_refused(c, c.lib.sliced(c.array(TALL))), TALL[1:]))  # fmt: skip
must("X-EXPORT-STEPPED", "Every second row of a matrix has a row stride of two rows.", STRIDES,
     lambda c: expect_elements(c, exported_unless_refused(c, c.lib.stepped(c.array(TALL))), TALL[::2]))  # fmt: skip
must("X-EXPORT-REVERSED", "A reversed matrix has a negative stride.", STRIDES,
     lambda c: expect_elements(c, exported_unless_refused(c, c.lib.reversed(c.array(TALL))), TALL[::-1]))  # fmt: skip


@must("X-EXPORT-SCALAR", "A 0-d array has ndim 0 and one element.", "dlpack.h 1.3, DLTensor::shape")
def scalar(c: Context) -> None:
    held = exported_unless_refused(c, c.array(5))
    c.expect(held.fields.ndim == 0, f"ndim is {held.fields.ndim}")
    expect_elements(c, held, 5)


@must("X-EXPORT-ZERO-SIZE", "An array without elements is exported with its shape.", "dlpack.h 1.3, DLTensor::shape")
def zero_size(c: Context) -> None:
    empty: dict[tuple[int, ...], list[Any]] = {(0,): [], (2, 0): [[], []]}
    for wanted, values in empty.items():
        found = exported_unless_refused(c, c.array(values)).fields.shape
        c.expect(found == wanted, f"the shape of {wanted} is {found}")


@must("X-EXPORT-DTYPES", "Every dtype that it describes has its code, bits and lanes.", "dlpack.h 1.3, DLDataType")
def dtypes(c: Context) -> None:
    exported(c, c.array())
    for name in c.lib.dtypes:
        try:
            found = exported_unless_refused(c, c.array([1, 2], name)).fields.dtype
        except NotApplicable as reason:
            c.got(f"{name}: {reason}")
            continue
        c.expect(found == crafter.DTYPES[name], f"{name} is {found}, and not {crafter.DTYPES[name]}")


@must("X-EXPORT-READ-ONLY", "A read-only array has the flag READ_ONLY.", "dlpack.h 1.3, DLPACK_FLAG_BITMASK_READ_ONLY")
def read_only(c: Context) -> None:
    flags = exported_unless_refused(c, c.lib.read_only(c.array([1, 2, 3]))).fields.flags
    c.expect(flags & Flags.READ_ONLY, f"the flags are {flags}")


@should("X-EXPORT-FLAGS", "A plain array has the flags that __dlpack__ sets, without IS_COPIED.",
        "dlpack.h 1.3, DLManagedTensorVersioned::flags")  # fmt: skip
def flags(c: Context) -> None:
    array = c.array()
    fast, slow = exported(c, array).fields.flags, c.versioned(array).fields.flags
    c.expect(fast == slow, f"the flags are {fast}, and __dlpack__ sets {slow}")
    c.expect(not fast & Flags.IS_COPIED, f"the flags are {fast}")


@must("X-EXPORT-HOLDS", "The tensor owns the memory: it stays when the array is gone.", EXPORT)
def holds(c: Context) -> None:
    array = c.array()
    held = exported(c, array)
    del array
    with memory_reused(c):
        expect_elements(c, held, MATRIX)


@must("X-EXPORT-EACH-ITS-OWN", "Each call returns a tensor of its own, with its own deletion.", EXPORT)
def each_its_own(c: Context) -> None:
    array = c.array()
    first, second = exported(c, array), exported(c, array)
    c.expect(first.native.address != second.native.address, "two calls gave the same tensor")
    del array
    first.delete()
    c.settle()
    expect_elements(c, second, MATRIX)


def _expect_freed(c: Context, way: Way) -> None:
    array = c.array()
    is_gone = watch(array)
    held = exported(c, array)
    del array
    c.fed(f"the deleter, called {way.name}")
    held.delete(way)
    c.settle()
    c.expect(is_gone is None or is_gone(), "the array lives on after the deleter ran")


@must("X-EXPORT-DELETER", "The deleter gives back array, memory and struct.", DELETER)
def deleter(c: Context) -> None:
    _expect_freed(c, Way.WITH_GIL)
    table = table_of(c, c.array(), exchange.EXPORT)

    def use(array: Any) -> None:
        Held(table.exported(array)[1]).delete()

    expect_arrays_freed(c, use, "the memory is kept after the deleter ran")
    array = c.array()

    def step() -> None:
        for _ in range(1000):
            use(array)

    expect_bounded(c, step, 60, 1000 * 80, "a struct is kept after each deleter ran")


@must("X-EXPORT-DELETER-WITHOUT-GIL",
      "The deleter may be called without the GIL, and on a thread that Python does not know.",
      "Python specification of DLPack, Implementation")  # fmt: skip
def deleter_without_gil(c: Context) -> None:
    _expect_freed(c, Way.WITHOUT_GIL)
    _expect_freed(c, Way.NATIVE_THREAD)


@should("X-EXPORT-DELETER-PENDING", "An exception that is pending when the deleter is called is pending afterwards.",
        "CPython documentation, PyTypeObject.tp_dealloc")  # fmt: skip
def deleter_pending(c: Context) -> None:
    held = exported(c, c.array())
    c.expect(held.delete_keeps(KeyError("pending")), "the exception is lost")


may("X-EXPORT-OTHER-OBJECT", "An object of another type, which no consumer may pass, is refused with an exception.",
    EXPORT, each((5, object(), [1.0]), lambda c, other: exchange.refused_object(c, exchange.EXPORT, other)))  # fmt: skip
