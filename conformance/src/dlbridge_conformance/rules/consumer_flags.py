"""How a consumer treats the flags of a versioned managed tensor."""

from __future__ import annotations

from typing import Any

from dlbridge_conformance import crafter
from dlbridge_conformance.context import Context
from dlbridge_conformance.crafter import Crafted, Flags
from dlbridge_conformance.outcome import Broken, NotApplicable
from dlbridge_conformance.rule import each, may, must, should
from dlbridge_conformance.rules.consumer_outcome import (
    HEADER, PLAIN, STANDARD, accepted, feed, given_back, legacy, right, right_or_refused, unwritten, versioned,
)  # fmt: skip

READ_ONLY = f"{HEADER}, DLPACK_FLAG_BITMASK_READ_ONLY"
IS_COPIED = f"{HEADER}, DLPACK_FLAG_BITMASK_IS_COPIED"
PADDED = f"{HEADER}, DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED"
FLAGS = f"{HEADER}, DLManagedTensorVersioned::flags"


def marked(c: Context, array: Any, crafted: Crafted) -> bool:
    """Returns whether an array is marked as read-only, or is a copy."""
    if not crafted.unreleased:
        c.got("the memory was given back: the array is a copy")
        return True
    marked = c.lib.is_read_only(array)
    c.got("it is read-only" if marked else "it is writable")
    return marked


def read_only(c: Context) -> tuple[Any, Crafted]:
    """Imports a read-only tensor; the rule does not apply to a library that refuses it."""
    crafted = versioned(c, flags=Flags.READ_ONLY)
    array, said = feed(c, crafted)
    c.needs(said is None, f"{c.lib.name} refuses read-only tensors: {said}")
    return array, crafted


should("C-FLAG-READ-ONLY-ACCEPTED", "A read-only tensor is accepted, even by a library without read-only arrays.",
       f"{STANDARD}, __dlpack__, Notes", lambda c: accepted(c, versioned(c, flags=Flags.READ_ONLY), PLAIN))  # fmt: skip


@should("C-FLAG-READ-ONLY-MARKED", "A library with read-only arrays makes one from a read-only tensor.", READ_ONLY)
def read_only_marked(c: Context) -> None:
    array, crafted = read_only(c)
    c.expect(marked(c, array, crafted), "the array over read-only memory is writable")


@should("C-FLAG-READ-ONLY-VIEW", "A view of an array over read-only memory is read-only too.", READ_ONLY)
def read_only_view(c: Context) -> None:
    array, crafted = read_only(c)
    c.expect(marked(c, c.lib.sliced(array), crafted), "the view of read-only memory is writable")


@may("C-FLAG-READ-ONLY-UNWRITTEN",
     "Writing to the array never writes to read-only memory: it is refused, or changes a copy.", READ_ONLY)  # fmt: skip
def read_only_unwritten(c: Context) -> None:
    array, crafted = read_only(c)
    try:
        c.lib.write(array, 99)
    except (Broken, NotApplicable):
        raise
    except Exception as error:
        c.got(f"writing is refused with {type(error).__name__}: {error}")
    unwritten(c, crafted, crafter.packed([0], "float32"))


@may("C-FLAG-READ-ONLY-PASSED-ON", "An array over read-only memory is exported as read-only, or not at all.", READ_ONLY)
def read_only_passed_on(c: Context) -> None:
    array, crafted = read_only(c)
    c.needs(c.lib.produces and hasattr(array, "__dlpack__"), f"{c.lib.name} does not produce")
    c.needs(crafted.unreleased, "the array is a copy")
    try:
        fields = c.export(array, max_version=(1, 3)).fields
    except BufferError as error:
        c.got(f"not exported: {error}")
        return
    except TypeError as error:
        c.needs("max_version" not in str(error), f"{c.lib.name} does not export versioned capsules: {error}")
        raise
    c.needs(fields.version, f"{c.lib.name} exports only legacy capsules")
    c.expect(fields.flags & Flags.READ_ONLY, "the read-only memory is exported as writable")


@may("C-FLAG-WRITABLE", "Without the flag for read-only, a library with writable arrays makes one.", READ_ONLY)
def writable(c: Context) -> None:
    crafted = versioned(c)
    array = c.consume(crafted)
    c.expect(not c.lib.is_read_only(array), "the array over writable memory is read-only")


@must("C-FLAG-LEGACY-UNTOLD",
      "A legacy tensor, which cannot have flags, is read correctly, as read-only or as writable.",
      f"{HEADER}, DLManagedTensor")  # fmt: skip
def legacy_untold(c: Context) -> None:
    crafted = legacy(c)
    array = c.consume(crafted)
    try:
        c.got("it is read-only" if c.lib.is_read_only(array) else "it is writable")
    except NotApplicable as reason:
        c.got(str(reason))
    right(c, array, PLAIN)
    del array
    given_back(c, crafted, "after the array was gone")


must("C-FLAG-IS-COPIED", "A tensor that says it is a copy is accepted, and given back like any other.", IS_COPIED,
     lambda c: accepted(c, versioned(c, flags=Flags.IS_COPIED), PLAIN))  # fmt: skip


@may("C-FLAG-IS-COPIED-WRITABLE",
     "A tensor that says it is a copy belongs to the consumer alone: its array is writable.", IS_COPIED)  # fmt: skip
def is_copied_writable(c: Context) -> None:
    array = c.consume(versioned(c, flags=Flags.IS_COPIED))
    c.expect(not c.lib.is_read_only(array), "the array over a copy is read-only")


@should("C-FLAG-READ-ONLY-COPY",
        "A library that can mark arrays as read-only marks a read-only copy, a tensor with both flags.", READ_ONLY)  # fmt: skip
def read_only_copy(c: Context) -> None:
    crafted = versioned(c, flags=Flags.READ_ONLY | Flags.IS_COPIED)
    array, said = feed(c, crafted)
    c.needs(said is None, f"{c.lib.name} refuses read-only tensors: {said}")
    c.expect(marked(c, array, crafted), "the array over read-only memory is writable")


should("C-FLAG-PADDED-BYTES", "The flag for padded elements changes nothing for elements of whole bytes.", PADDED,
       lambda c: accepted(c, versioned(c, flags=Flags.SUBBYTE_PADDED), PLAIN))  # fmt: skip
must("C-FLAG-UNKNOWN", "A flag that does not exist yet never makes a consumer read other elements.", FLAGS,
     each((3, 8, 31, 32, 63), lambda c, bit: right_or_refused(c, versioned(c, flags=1 << bit), PLAIN)))  # fmt: skip


@should("C-FLAG-UNKNOWN-MARKED", "Flags that do not exist yet do not hide the flag for read-only.", FLAGS)
def unknown_marked(c: Context) -> None:
    crafted = versioned(c, flags=Flags.READ_ONLY | 1 << 40)
    array, said = feed(c, crafted)
    c.needs(said is None, f"{c.lib.name} refuses it: {said}")
    c.expect(marked(c, array, crafted), "the array over read-only memory is writable")


@must("C-FLAG-HIGH-BITS",
      "The flags are a field of 64 bits: bit 32 and above do not change the three flags that exist.", FLAGS)  # fmt: skip
def high_bits(c: Context) -> None:
    c.needs(not c.lib.is_read_only(c.consume(versioned(c))), f"all arrays of {c.lib.name} are read-only")
    array, said = feed(c, versioned(c, flags=Flags.READ_ONLY << 32))
    c.needs(said is None, f"{c.lib.name} refuses it: {said}")
    c.expect(not c.lib.is_read_only(array), "the array over writable memory is read-only")
