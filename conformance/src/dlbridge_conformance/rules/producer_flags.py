"""The flags of the versioned struct."""

from __future__ import annotations

from typing import Any

from dlbridge_conformance.context import Context
from dlbridge_conformance.crafter import Flags
from dlbridge_conformance.exports import address_of, may_refuse
from dlbridge_conformance.rule import may, must, should

READ_ONLY = "dlpack.h 1.3, DLPACK_FLAG_BITMASK_READ_ONLY"
FLAGS = "dlpack.h 1.3, DLManagedTensorVersioned::flags"
PADDED = "dlpack.h 1.3, DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED"


def _expect_read_only(c: Context, array: Any, **keywords: Any) -> None:
    """Expects that the export of a read-only array has the flag, unless it is refused or copied."""
    with may_refuse(c, "read-only memory"):
        flags = c.versioned(array, **keywords).fields.flags
    c.needs(not flags & Flags.IS_COPIED, "the tensor is a copy, which its consumer may write")
    c.expect(flags & Flags.READ_ONLY, f"the flags are {flags}")


should("P-FLAGS-READ-ONLY-ACCEPTED", "A read-only array is exported: a versioned tensor can be marked as read-only.",
       READ_ONLY, lambda c: c.versioned(c.lib.read_only(c.array([1, 2, 3]))))  # fmt: skip
must("P-FLAGS-READ-ONLY", "A tensor over read-only memory has the flag READ_ONLY.", READ_ONLY,
     lambda c: _expect_read_only(c, c.lib.read_only(c.array([1, 2, 3]))))  # fmt: skip
must("P-FLAGS-READ-ONLY-VIEW", "A view of a read-only array has the flag READ_ONLY too.", READ_ONLY,
     lambda c: _expect_read_only(c, c.lib.sliced(c.lib.read_only(c.array([1, 2, 3])))))  # fmt: skip
must("P-FLAGS-READ-ONLY-COPY-FALSE",
     "An export of a read-only array with copy=False, which shares its memory, has the flag READ_ONLY too.", READ_ONLY,
     lambda c: _expect_read_only(c, c.lib.read_only(c.array([1, 2, 3])), copy=False))  # fmt: skip


@must("P-FLAGS-READ-ONLY-AGREES",
      "An array that is marked as read-only is exported as read-only, even if the consumer does not request it.",
      READ_ONLY)  # fmt: skip
def read_only_agrees(c: Context) -> None:
    for array in (c.array([1, 2, 3]), c.lib.read_only(c.array([1, 2, 3]))):
        if c.lib.is_read_only(array):
            _expect_read_only(c, array)


@should("P-FLAGS-WRITABLE", "A writable array is not exported as read-only.", FLAGS)
def writable(c: Context) -> None:
    array = c.array()
    c.lib.write(array, 7)
    flags = c.versioned(array).fields.flags
    c.expect(not flags & Flags.READ_ONLY, f"the flags are {flags}")


@may("P-FLAGS-READ-ONLY-LEGACY", "Read-only memory is refused or copied for a legacy capsule, which cannot mark it.",
     "no text; the legacy struct does not have flags")  # fmt: skip
def read_only_legacy(c: Context) -> None:
    array = c.lib.read_only(c.array([1, 2, 3]))
    try:
        held = c.export(array)
    except Exception as error:
        c.got(f"{type(error).__name__}: {error}")
        return
    c.expect(address_of(held.fields) != c.lib.address(array), "the export shares the array's memory without a flag")


@should("P-FLAGS-READ-ONLY-LEGACY-ERROR",
        "If a read-only array is refused for a legacy capsule, the error is a BufferError.",
        "array API standard 2024.12, __dlpack__: Raises")  # fmt: skip
def read_only_legacy_error(c: Context) -> None:
    array = c.lib.read_only(c.array([1, 2, 3]))
    ways: list[dict[str, Any]] = [{}] if c.unknown("copy") else [{}, {"copy": False}]
    for keywords in ways:
        try:
            c.export(array, **keywords)
        except Exception as error:
            c.got(f"{type(error).__name__}: {error}")
            c.expect(isinstance(error, BufferError), f"{type(error).__name__}: {error}")
            return
    c.needs(False, "it is exported")


@must("P-FLAGS-READ-ONLY-KEEPS", "An export leaves the array as writable as it was.",
      "Python specification of DLPack, Semantics")  # fmt: skip
def read_only_keeps(c: Context) -> None:
    for array in (c.array([1, 2, 3]), c.lib.read_only(c.array([1, 2, 3]))):
        before = c.lib.is_read_only(array)
        try:
            c.versioned(array).delete()
        except BufferError as error:
            c.got(f"BufferError: {error}")
        after = c.lib.is_read_only(array)
        c.expect(before == after, f"read-only was {before}, and is {after}")


@should("P-FLAGS-UNKNOWN", "Bits of flags that DLPack does not define are 0.", FLAGS)
def unknown(c: Context) -> None:
    arrays = [c.array(), c.array([])]
    for array in arrays:
        flags = c.versioned(array).fields.flags
        c.expect(flags & ~0b111 == 0, f"the flags are {flags:#x}")


@should("P-FLAGS-PADDED", "A dtype of whole bytes does not have the flag for padding.", PADDED)
def padded(c: Context) -> None:
    flags = c.versioned(c.array()).fields.flags
    c.expect(not flags & Flags.SUBBYTE_PADDED, f"the flags are {flags}")
