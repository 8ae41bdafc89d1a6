"""The keyword copy: when an export copies, when it shares, and its flag."""

from __future__ import annotations

from typing import Any

from dlbridge_conformance import crafter
from dlbridge_conformance.context import Context
from dlbridge_conformance.crafter import Flags, Held
from dlbridge_conformance.exports import (
    address_of, best, expect_elements, expect_same_memory, legacy, may_refuse, memory_reused, needs_no_copy,
)  # fmt: skip
from dlbridge_conformance.memory import expect_arrays_freed
from dlbridge_conformance.outcome import NotApplicable
from dlbridge_conformance.rule import may, must, should

COPY = "array API standard 2024.12, __dlpack__: copy"
HEADER = "dlpack.h 1.3, DLPACK_FLAG_BITMASK_IS_COPIED"

MATRIX = [[0, 1, 2], [3, 4, 5]]


def _export(c: Context, array: Any, copy: bool | None) -> Held:
    """Exports with the keyword, versioned if possible; not applicable if it is refused, as another rule covers that."""
    try:
        return best(c, array, copy=copy)
    except NotApplicable:
        raise
    except Exception as error:
        if copy is not True:
            raise
        raise NotApplicable(f"{c.lib.name} refuses copy=True: {type(error).__name__}: {error}") from None


def _flags(c: Context, held: Held) -> int:
    """The flags; the rule does not apply to a legacy tensor, which cannot have flags."""
    c.needs(held.fields.version, f"{c.lib.name} exports only legacy capsules")
    return held.fields.flags


def _expect_apart(c: Context, first: Held, second: Held) -> None:
    size = 6 * first.fields.dtype[1] // 8
    distance = abs(address_of(first.fields) - address_of(second.fields))
    c.expect(distance >= size, f"the two begin {distance} bytes apart, and each has {size} bytes")


must("P-COPY-TRUE-TAKEN", "copy=True always copies: it is not refused.", COPY, lambda c: best(c, c.array(), copy=True))


@must("P-COPY-TRUE-FLAG", "A tensor made with copy=True has the flag IS_COPIED.", COPY)
def true_flag(c: Context) -> None:
    flags = _flags(c, _export(c, c.array(), True))
    c.expect(flags & Flags.IS_COPIED, f"the flags are {flags}")


@must("P-COPY-TRUE-MEMORY", "copy=True always copies: the tensor does not share the array's memory.", COPY)
def true_memory(c: Context) -> None:
    array = c.array()
    _expect_apart(c, best(c, array), _export(c, array, True))


@must("P-COPY-TRUE-ELEMENTS", "A copy has the shape and the elements of the array.", COPY)
def true_elements(c: Context) -> None:
    held = _export(c, c.array(), True)
    c.expect(held.fields.shape == (2, 3), f"the shape is {held.fields.shape}")
    expect_elements(c, held, MATRIX)


@must("P-COPY-TRUE-VIEW", "A copy of a transposed matrix has its elements, in any layout.", COPY)
def true_view(c: Context) -> None:
    held = _export(c, c.lib.transposed(c.array()), True)
    c.expect(held.fields.shape == (3, 2), f"the shape is {held.fields.shape}")
    expect_elements(c, held, [[0, 3], [1, 4], [2, 5]])


must("P-COPY-TRUE-REVERSED", "A copy of a reversed matrix has its elements.", COPY,
     lambda c: expect_elements(c, _export(c, c.lib.reversed(c.array()), True), [[3, 4, 5], [0, 1, 2]]))  # fmt: skip


@may("P-COPY-TRUE-BROADCAST",
     "In a copy of a repeated row no two elements share memory, because the owner may write each.", HEADER)  # fmt: skip
def true_broadcast(c: Context) -> None:
    held = _export(c, c.lib.broadcast(c.array([1, 2, 3]), 4), True)
    expect_elements(c, held, [[1, 2, 3]] * 4)
    c.expect(held.fields.strides is None or 0 not in held.fields.strides, f"the strides are {held.fields.strides}")


@must("P-COPY-TRUE-ZERO-SIZE", "copy=True works without elements too.", COPY)
def true_zero_size(c: Context) -> None:
    held = _export(c, c.array([]), True)
    c.expect(held.fields.shape == (0,), f"the shape is {held.fields.shape}")


@may("P-COPY-TRUE-WRITABLE", "A copy of a read-only array belongs to its consumer alone, and is not read-only.", HEADER)
def true_writable(c: Context) -> None:
    array = c.lib.read_only(c.array([1, 2, 3]))
    flags = _flags(c, _export(c, array, True))
    c.expect(not flags & Flags.READ_ONLY, f"the flags are {flags}")


@must("P-COPY-TRUE-APART", "Writes to a copy do not change the array.", HEADER)
def true_apart(c: Context) -> None:
    array = c.array()
    held = _export(c, array, True)
    c.needs(not held.fields.flags & Flags.READ_ONLY, "the copy is read-only")
    expect_elements(c, held, MATRIX)
    held.write(b"\xff" * 24)
    c.expect(c.values(array) == MATRIX, "the array has changed")


@must("P-COPY-TRUE-SNAPSHOT", "Later writes to the array do not change a copy.", HEADER)
def true_snapshot(c: Context) -> None:
    array = c.array()
    held = _export(c, array, True)
    c.lib.write(array, 9)
    expect_elements(c, held, MATRIX)


@must("P-COPY-TRUE-EACH", "Two copies of one array do not share memory.", HEADER)
def true_each(c: Context) -> None:
    array = c.array()
    _expect_apart(c, _export(c, array, True), _export(c, array, True))


@must("P-COPY-TRUE-OUTLIVES", "A copy stays when the array is gone.", HEADER)
def true_outlives(c: Context) -> None:
    array = c.array()
    held = _export(c, array, True)
    del array
    with memory_reused(c):
        expect_elements(c, held, MATRIX)


@must("P-COPY-TRUE-FREES", "The deleter of a copy gives its memory back.",
      "dlpack.h 1.3, DLManagedTensorVersioned::deleter")  # fmt: skip
def true_frees(c: Context) -> None:
    _export(c, c.array(), True).delete()
    keywords = {**c.asking(), "copy": True}

    def use(array: Any) -> None:
        crafter.take(array.__dlpack__(**keywords)).delete()

    expect_arrays_freed(c, use, "copies are kept after their deleters ran")


@must("P-COPY-TRUE-LEGACY",
      "copy=True for a legacy capsule, which cannot have a flag, copies or is refused, and never shares.", COPY)  # fmt: skip
def true_legacy(c: Context) -> None:
    array = c.array()
    c.needs_keywords("copy")
    plain = legacy(c, array)
    try:
        held = c.export(array, copy=True)
    except Exception as error:
        c.got(f"{type(error).__name__}: {error}")
        return
    _expect_apart(c, plain, held)


@must("P-COPY-FALSE-MEMORY", "copy=False never copies: the tensor is the array's own memory.", COPY)
def false_memory(c: Context) -> None:
    array = c.array()
    with may_refuse(c, "this without a copy"):
        held = _export(c, array, False)
    expect_same_memory(c, array, held)


@should("P-COPY-FALSE-ACCEPTED",
        "An array that is shared without the keyword copy is shared with copy=False too, since no copy is needed.",
        COPY)  # fmt: skip
def false_accepted(c: Context) -> None:
    array = c.array()
    c.needs(address_of(best(c, array).fields) == c.lib.address(array), f"{c.lib.name} copies on export")
    _export(c, array, False)


@must("P-COPY-FALSE-VIEW", "A view with copy=False is the array's own memory, or a BufferError.", COPY)
def false_view(c: Context) -> None:
    view = c.lib.transposed(c.array())
    try:
        held = _export(c, view, False)
    except BufferError as error:
        c.got(f"BufferError: {error}")
        return
    expect_same_memory(c, view, held)


@must("P-COPY-FALSE-FLAG",
      "An export that shares the array's memory does not have the flag IS_COPIED, with or without copy=False.", HEADER)  # fmt: skip
def false_flag(c: Context) -> None:
    array = c.array()
    needs_no_copy(c, array)
    for held in [_export(c, array, False), c.versioned(array)]:
        expect_same_memory(c, array, held)
        c.expect(not _flags(c, held) & Flags.IS_COPIED, f"the flags are {held.fields.flags}")


@must("P-COPY-NONE-MEMORY", "copy=None shares the memory whenever copy=False can.", COPY)
def none_memory(c: Context) -> None:
    array = c.array()
    needs_no_copy(c, array)
    expect_same_memory(c, array, _export(c, array, None))


@must("P-COPY-NONE-FLAG", "An export of a view that does not share its memory has the flag IS_COPIED.", COPY)
def none_flag(c: Context) -> None:
    view = c.lib.stepped(c.array())
    with may_refuse(c, "a stepped view"):
        held = c.versioned(view)
    copied = address_of(held.fields) != c.lib.address(view)
    said = bool(held.fields.flags & Flags.IS_COPIED)
    c.expect(copied == said, f"copied: {copied}, and the flag says {said}")

