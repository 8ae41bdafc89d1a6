"""Views: their strides and byte offset, negative and zero strides, and that exports do not copy them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from dlbridge_conformance.context import Context
from dlbridge_conformance.exports import (
    abis, address_of, best, each_abi, expect_elements, expect_same_memory, may_refuse, needs_no_copy, strides_of,
)  # fmt: skip
from dlbridge_conformance.outcome import NotApplicable
from dlbridge_conformance.rule import must, should

STRIDES = "dlpack.h 1.3, DLTensor::strides"
OFFSET = "dlpack.h 1.3, DLTensor::byte_offset"
SEMANTICS = "Python specification of DLPack, Semantics"

TALL = [[0, 1], [2, 3], [4, 5], [6, 7]]


def _checked(c: Context, view: Any, wanted: Any) -> None:
    """Expects that the exports of a view have the shape and elements of the nested lists."""
    shape: list[int] = []
    level = wanted
    while isinstance(level, list):
        shape.append(len(level))
        level = level[0]
    for held in each_abi(c, view, "this view"):
        c.expect(held.fields.shape == tuple(shape), f"the shape is {held.fields.shape}, and not {tuple(shape)}")
        expect_elements(c, held, wanted)


def _same_memory(c: Context, view: Any) -> None:
    needs_no_copy(c, view)
    for held in each_abi(c, view, "this view"):
        expect_same_memory(c, view, held)


@should("P-VIEWS-ACCEPTED",
        "Views that strides describe are exported: transposed, stepped, reversed, sliced and repeated ones.",
        "array API standard 2024.12, Data interchange mechanisms: a copy if needed")  # fmt: skip
def accepted(c: Context) -> None:
    views: dict[str, Callable[[Any], Any]] = {
        "transposed": c.lib.transposed,
        "stepped": c.lib.stepped,
        "reversed": c.lib.reversed,
        "sliced": c.lib.sliced,
        "broadcast": partial(c.lib.broadcast, extent=4),
    }
    exported = []
    for name, view in views.items():
        try:
            best(c, view(c.array()))
        except NotApplicable as reason:
            c.got(str(reason))
        else:
            exported.append(name)
    c.needs(exported, f"{c.lib.name} cannot make views")


must("P-VIEWS-TRANSPOSED", "A transposed matrix has the strides that lead to its elements.", STRIDES,
     lambda c: _checked(c, c.lib.transposed(c.array()), [[0, 3], [1, 4], [2, 5]]))  # fmt: skip
must("P-VIEWS-STEPPED", "Every second row of a matrix has a row stride of two rows.", STRIDES,
     lambda c: _checked(c, c.lib.stepped(c.array(TALL)), [[0, 1], [4, 5]]))  # fmt: skip
must("P-VIEWS-REVERSED", "A matrix with reversed rows begins at its last row.", STRIDES,
     lambda c: _checked(c, c.lib.reversed(c.array(TALL)), [[6, 7], [4, 5], [2, 3], [0, 1]]))  # fmt: skip
must("P-VIEWS-SLICED", "A slice without the first row begins at the second row, by data or by byte_offset.", OFFSET,
     lambda c: _checked(c, c.lib.sliced(c.array(TALL)), [[2, 3], [4, 5], [6, 7]]))  # fmt: skip
must("P-VIEWS-BROADCAST", "A repeated row has the same elements at every row index.", STRIDES,
     lambda c: _checked(c, c.lib.broadcast(c.array([1, 2, 3]), 4), [[1, 2, 3]] * 4))  # fmt: skip
must("P-VIEWS-SLICED-TRANSPOSED",
     "A slice of a transposed matrix has the offset and the strides that lead to its elements.", OFFSET,
     lambda c: _checked(c, c.lib.sliced(c.lib.transposed(c.array())), [[1, 4], [2, 5]]))  # fmt: skip
must("P-VIEWS-STEPPED-TRANSPOSED", "Every second column of a matrix has the strides that lead to its elements.",
     STRIDES, lambda c: _checked(c, c.lib.stepped(c.lib.transposed(c.array())), [[0, 3], [2, 5]]))  # fmt: skip
must("P-VIEWS-STEPPED-REVERSED", "Every second row, from the last one back, has a negative stride of two rows.",
     STRIDES, lambda c: _checked(c, c.lib.stepped(c.lib.reversed(c.array(TALL))), [[6, 7], [2, 3]]))  # fmt: skip


@must("P-VIEWS-SLICED-TO-NOTHING", "A view without elements is exported with its shape, wherever it begins.",
      "dlpack.h 1.3, DLTensor::shape")  # fmt: skip
def sliced_to_nothing(c: Context) -> None:
    for held in each_abi(c, c.lib.sliced(c.array([[1, 2]])), "a view without elements"):
        c.expect(held.fields.shape == (0, 2), f"the shape is {held.fields.shape}")


def _register(name: str, view: Callable[[Context], Any], what: str) -> None:
    """Registers the rule that exporting a view does not copy."""

    @must(f"P-VIEWS-{name}-SAME-MEMORY", f"The export of {what} shares the array's memory, without a copy.", SEMANTICS)
    def check(c: Context) -> None:
        _same_memory(c, view(c))


_register("TRANSPOSED", lambda c: c.lib.transposed(c.array()), "a transposed matrix")
_register("STEPPED", lambda c: c.lib.stepped(c.array(TALL)), "every second row")
_register("REVERSED", lambda c: c.lib.reversed(c.array(TALL)), "a reversed matrix")
_register("SLICED", lambda c: c.lib.sliced(c.array(TALL)), "a slice")


@must("P-VIEWS-BROADCAST-SAME-MEMORY", "A repeated row is exported with stride 0, without a copy.", SEMANTICS)
def broadcast_same_memory(c: Context) -> None:
    view = c.lib.broadcast(c.array([1, 2, 3]), 4)
    needs_no_copy(c, view)
    for held in each_abi(c, view, "a repeated row"):
        strides = strides_of(held.fields)
        c.expect(strides[0] == 0, f"the strides are {strides}")
        expect_same_memory(c, view, held)


@must("P-VIEWS-OFFSET-COUNTS", "The second row begins one row of bytes after the first, counted by data + byte_offset.",
      OFFSET)  # fmt: skip
def offset_counts(c: Context) -> None:
    array = c.array(TALL)
    part = c.lib.sliced(array)
    needs_no_copy(c, part)
    for keywords in abis(c):
        whole = c.export(array, **keywords)
        with may_refuse(c, "a slice"):
            slice_ = c.export(part, **keywords)
        distance = address_of(slice_.fields) - address_of(whole.fields)
        row = strides_of(whole.fields)[0] * whole.fields.dtype[1] // 8
        c.expect(distance == row, f"the second row is {distance} bytes behind the first, and not {row}")


@must("P-VIEWS-OUTLIVE", "The export of a view keeps the memory when the view and its array are gone.", SEMANTICS)
def outlive(c: Context) -> None:
    array = c.array(TALL)
    view = c.lib.sliced(array)
    exports = each_abi(c, view, "a slice")
    del array, view
    c.settle()
    others = [c.lib.array([[9.0, 9.0]] * 4, "float32") for _ in range(50)]
    for held in exports:
        expect_elements(c, held, [[2, 3], [4, 5], [6, 7]])
    del others
