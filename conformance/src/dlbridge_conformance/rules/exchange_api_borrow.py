"""``dltensor_from_py_object_no_sync``: a description of an array for the length of a call."""

from __future__ import annotations

import sys
from typing import Any

from dlbridge_conformance import exchange
from dlbridge_conformance.context import Context
from dlbridge_conformance.crafter import Fields
from dlbridge_conformance.exchange import borrowed, borrowed_unless_refused, exported, exported_unless_refused, table_of
from dlbridge_conformance.exports import address_of, strides_of
from dlbridge_conformance.memory import expect_bounded, watch
from dlbridge_conformance.rule import each, may, must

BORROW = "dlpack.h 1.3, DLPackDLTensorFromPyObjectNoSync"
STRIDES = "dlpack.h 1.3, DLTensor::strides"

TALL = [[0, 1], [2, 3], [4, 5], [6, 7]]


def _agree(c: Context, fields: Fields, owned: Fields) -> None:
    """Expects that the borrowed description agrees with the managed tensor."""
    for name in ("device", "dtype", "ndim"):
        c.expect(getattr(fields, name) == getattr(owned, name), f"{name} is {getattr(fields, name)}")
    c.expect((fields.shape or ()) == (owned.shape or ()), f"the shape is {fields.shape}")
    c.expect(strides_of(fields) == strides_of(owned), f"the strides are {fields.strides}")
    c.expect(address_of(fields) == address_of(owned), "the memory differs")


def _view_agrees(c: Context, view: Any) -> None:
    """Expects the same for a view, which may be refused."""
    _agree(c, borrowed_unless_refused(c, view), exported_unless_refused(c, view).fields)


must("X-BORROW-STATUS", "It returns 0 for an array and does not set an exception.", BORROW,
     lambda c: borrowed(c, c.array()))  # fmt: skip


@must("X-BORROW-AGREES", "It describes the array as the managed tensor does.", BORROW)
def agrees(c: Context) -> None:
    for values in (TALL, [1, 2], 5):
        array = c.array(values)
        _agree(c, borrowed(c, array), exported(c, array).fields)


@must("X-BORROW-SHAPE", "The description of a matrix has its shape, and its strides in elements.", STRIDES)
def shape(c: Context) -> None:
    fields = borrowed(c, c.array(TALL))
    c.expect(fields.shape == (4, 2), f"the shape is {fields.shape}")
    c.expect(fields.strides == (2, 1), f"the strides are {fields.strides}")


@must("X-BORROW-MEMORY", "data + byte_offset is the address of the array's own memory.", BORROW)
def memory(c: Context) -> None:
    array = c.array(TALL)
    fields = borrowed(c, array)
    c.expect(address_of(fields) == c.lib.address(array), "the memory differs")


must("X-BORROW-VIEWS", "A transposed view has the strides and the offset of the managed tensor.", STRIDES,
     lambda c: _view_agrees(c, c.lib.transposed(c.array())))  # fmt: skip
must("X-BORROW-SLICED", "A slice begins where the managed tensor begins.", "dlpack.h 1.3, DLTensor::byte_offset",
     lambda c: _view_agrees(c, c.lib.sliced(c.array(TALL))))  # fmt: skip


@must("X-BORROW-STRIDES-SET", "Strides are not NULL unless ndim is 0, even without elements.", STRIDES)
def strides_set(c: Context) -> None:
    for values in ([1, 2], TALL, []):
        fields = borrowed(c, c.array(values))
        c.expect(fields.strides is not None, f"the strides of {fields.shape} are NULL")


@must("X-BORROW-ZERO-SIZE", "An array without elements is described with its shape.", "dlpack.h 1.3, DLTensor::shape")
def zero_size(c: Context) -> None:
    empty: dict[tuple[int, ...], list[Any]] = {(0,): [], (2, 0): [[], []]}
    for wanted, values in empty.items():
        found = borrowed_unless_refused(c, c.array(values)).shape
        c.expect(found == wanted, f"the shape of {wanted} is {found}")


@must("X-BORROW-OWNS-NOTHING", "It does not take a reference: borrowing does not prolong the array's life.", BORROW)
def owns_nothing(c: Context) -> None:
    array = c.array()
    is_gone = watch(array)
    before = sys.getrefcount(array)
    for _ in range(10):
        borrowed(c, array)
    after = sys.getrefcount(array)
    c.expect(after == before, f"the reference count grew by {after - before}")
    del array
    c.settle()
    c.expect(is_gone is None or is_gone(), "the array lives on")


@must("X-BORROW-ALLOCATES-NOTHING", "It does not leak memory.", BORROW)
def allocates_nothing(c: Context) -> None:
    array = c.array()
    table = table_of(c, array, exchange.BORROW)

    def step() -> None:
        for _ in range(1000):
            table.borrowed(array)

    expect_bounded(c, step, 60, 1000 * 80, "memory is kept after each call")


may("X-BORROW-OTHER-OBJECT", "An object of another type, which no consumer may pass, is refused with an exception.",
    BORROW, each((5, object(), [1.0]), lambda c, other: exchange.refused_object(c, exchange.BORROW, other)))  # fmt: skip
