"""The flags of the versioned struct."""

from __future__ import annotations

from dlbridge.conformance.context import Context
from dlbridge.conformance.crafter import Flags
from dlbridge.conformance.exports import address_of, allows
from dlbridge.conformance.rule import Level, NotApplicable, Role, rule

READ_ONLY = "dlpack.h 1.3, DLPACK_FLAG_BITMASK_READ_ONLY"
FLAGS = "dlpack.h 1.3, DLManagedTensorVersioned::flags"
PADDED = "dlpack.h 1.3, DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED"


@rule("P-FLAGS-READ-ONLY", Role.PRODUCER, Level.MUST,
      "A tensor over memory that must not be written has the flag READ_ONLY.", READ_ONLY)  # fmt: skip
def read_only(c: Context) -> None:
    flags = c.versioned(c.lib.read_only(c.array([1, 2, 3]))).fields.flags
    c.expect(flags & Flags.READ_ONLY, f"the flags are {flags}")


@rule("P-FLAGS-READ-ONLY-VIEW", Role.PRODUCER, Level.MUST,
      "So has a view of such an array.", READ_ONLY)  # fmt: skip
def read_only_view(c: Context) -> None:
    flags = c.versioned(c.lib.sliced(c.lib.read_only(c.array([1, 2, 3])))).fields.flags
    c.expect(flags & Flags.READ_ONLY, f"the flags are {flags}")


@rule("P-FLAGS-READ-ONLY-COPY-FALSE", Role.PRODUCER, Level.MUST,
      "So has one that was asked for with copy=False, as that is the array's own memory.", READ_ONLY)  # fmt: skip
def read_only_copy_false(c: Context) -> None:
    array = c.lib.read_only(c.array([1, 2, 3]))
    flags = c.versioned(array, copy=False).fields.flags
    c.expect(flags & Flags.READ_ONLY, f"the flags are {flags}")


@rule("P-FLAGS-READ-ONLY-AGREES", Role.PRODUCER, Level.MUST,
      "An array that says that it must not be written is exported so, without being asked for.",
      READ_ONLY)  # fmt: skip
def read_only_agrees(c: Context) -> None:
    for array in (c.array([1, 2, 3]), c.lib.read_only(c.array([1, 2, 3]))):
        says = c.lib.is_read_only(array)
        flags = c.versioned(array).fields.flags
        c.expect(not says or flags & Flags.READ_ONLY, f"the array is read-only, and the flags are {flags}")


@rule("P-FLAGS-WRITABLE", Role.PRODUCER, Level.SHOULD,
      "An array that may be written is not said to be read-only.", FLAGS)  # fmt: skip
def writable(c: Context) -> None:
    array = c.array()
    c.lib.write(array, 7)
    flags = c.versioned(array).fields.flags
    c.expect(not flags & Flags.READ_ONLY, f"the flags are {flags}")


@rule("P-FLAGS-READ-ONLY-LEGACY", Role.PRODUCER, Level.MAY,
      "Read-only memory is not lent by a legacy capsule, which cannot say so: it is refused or copied.",
      "no text; the legacy struct has no flags")  # fmt: skip
def read_only_legacy(c: Context) -> None:
    array = c.lib.read_only(c.array([1, 2, 3]))
    try:
        held = c.export(array)
    except Exception as error:
        c.got(f"{type(error).__name__}: {error}")
        return
    c.expect(address_of(held.fields) != c.lib.address(array), "the array's own memory is lent without a flag")


@rule("P-FLAGS-READ-ONLY-LEGACY-ERROR", Role.PRODUCER, Level.SHOULD,
      "Where a read-only array is refused to legacy consumers, the error is a BufferError.",
      "array API standard 2024.12, __dlpack__: Raises")  # fmt: skip
def read_only_legacy_error(c: Context) -> None:
    array = c.lib.read_only(c.array([1, 2, 3]))
    for keywords in ({}, {"copy": False}):
        try:
            allows(c, array, **keywords)
        except NotApplicable:
            raise
        except Exception as error:
            c.got(f"{type(error).__name__}: {error}")
            c.expect(isinstance(error, BufferError), f"{type(error).__name__}: {error}")
            return
    c.needs(False, "it is exported")


@rule("P-FLAGS-READ-ONLY-KEEPS", Role.PRODUCER, Level.MUST,
      "An export leaves the array as writable as it was.",
      "Python specification of DLPack, Semantics")  # fmt: skip
def read_only_keeps(c: Context) -> None:
    for array in (c.array([1, 2, 3]), c.lib.read_only(c.array([1, 2, 3]))):
        before = c.lib.is_read_only(array)
        c.versioned(array).delete()
        after = c.lib.is_read_only(array)
        c.expect(before == after, f"read-only was {before}, and is {after}")


@rule("P-FLAGS-UNKNOWN", Role.PRODUCER, Level.SHOULD,
      "Bits of flags that DLPack has no meaning for are 0.", FLAGS)  # fmt: skip
def unknown(c: Context) -> None:
    arrays = [c.array(), c.array([])]
    for array in arrays:
        flags = c.versioned(array).fields.flags
        c.expect(flags & ~0b111 == 0, f"the flags are {flags:#x}")


@rule("P-FLAGS-PADDED", Role.PRODUCER, Level.SHOULD,
      "A dtype of whole bytes is not said to be padded.", PADDED)  # fmt: skip
def padded(c: Context) -> None:
    flags = c.versioned(c.array()).fields.flags
    c.expect(not flags & Flags.SUBBYTE_PADDED, f"the flags are {flags}")
