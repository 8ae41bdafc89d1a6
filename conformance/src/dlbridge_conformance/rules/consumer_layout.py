"""Shapes, strides and byte offsets that a consumer must read correctly or refuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dlbridge_conformance.context import Context
from dlbridge_conformance.crafter import Crafted, c_strides
from dlbridge_conformance.rule import each, may, must, should
from dlbridge_conformance.rules.consumer_outcome import (
    HEADER, PLAIN, PYTHON, accepted, harmless, legacy, right_or_refused, versioned,
)  # fmt: skip

STRIDES = f"{HEADER}, DLTensor::strides"
SHAPE = f"{HEADER}, DLTensor::shape"
DATA = f"{HEADER}, DLTensor::data"
OFFSET = f"{HEADER}, DLTensor::byte_offset"
STRIDED = f"{PYTHON}, Semantics"

Ints = tuple[int, ...]
#: shape, strides, and the number at index zero
Layout = tuple[Ints, Ints, int]


def made(c: Context, shape: Ints | None, **fields: Any) -> Crafted:
    """A tensor of the ABI that a library takes, with any number of dimensions."""
    return c.craft(shape, **{"versioned": c.abi(), **fields})


def numbered(c: Context, shape: Ints, strides: Ints, first: int = 0, **fields: Any) -> Crafted:
    """A tensor over the numbers 0 to 63, whose element at index zero is ``first``."""
    return made(c, shape, strides=strides, values=list(range(64)), origin=4 * first, **fields)


def elements(shape: Ints, strides: Ints, first: int = 0) -> Any:
    """The elements of a :func:`numbered` tensor as nested lists."""
    if not shape:
        return first
    return [elements(shape[1:], strides[1:], first + i * strides[0]) for i in range(shape[0])]


def read(*layouts: Layout) -> Callable[[Context], None]:
    """A check that expects :func:`numbered` tensors to be read correctly or refused."""

    def check(c: Context) -> None:
        for layout in layouts:
            right_or_refused(c, numbered(c, *layout), elements(*layout))

    return check


def taken(*layouts: Layout) -> Callable[[Context], None]:
    """A check that expects :func:`numbered` tensors to be accepted; it does not apply to too many dimensions."""

    def check(c: Context) -> None:
        for shape, strides, first in layouts:
            c.needs(c.lib.ndims[0] <= len(shape) <= c.lib.ndims[1], f"{c.lib.name} does not support {len(shape)} dimensions")
            accepted(c, numbered(c, shape, strides, first), elements(shape, strides, first))

    return check


def in_c_order(*shapes: Ints) -> list[Layout]:
    """Layouts in C order."""
    return [(shape, c_strides(shape), 0) for shape in shapes]


@must("C-LAYOUT-C-ORDER", "Tensors of one to four dimensions in C order are accepted, with the right elements.", STRIDED)
def c_order(c: Context) -> None:
    shapes = [(6,), (2, 3), (2, 3, 4), (2, 1, 3, 2)]
    taken(*in_c_order(*(shape for shape in shapes if c.lib.ndims[0] <= len(shape) <= c.lib.ndims[1])))(c)


should("C-LAYOUT-NULL-STRIDES-LEGACY", "A legacy tensor with NULL strides is accepted, as one in C order.", STRIDES,
       lambda c: accepted(c, legacy(c, strides=None), PLAIN))  # fmt: skip
should("C-LAYOUT-NULL-STRIDES-1-0", "A tensor of version 1.0 or 1.1 with NULL strides is accepted, as one in C order.",
       STRIDES, each((0, 1), lambda c, minor: accepted(c, versioned(c, strides=None, version=(1, minor)), PLAIN)))  # fmt: skip
should("C-LAYOUT-NULL-STRIDES-1-2",
       "A tensor of version 1.2 or later with NULL strides, which that forbids, is refused or read as one in C order.",
       STRIDES, each((2, 3),
       lambda c, minor: right_or_refused(c, versioned(c, strides=None, version=(1, minor)), PLAIN)))  # fmt: skip


#: what a tensor of each kind is, how it is read, further words about it, and its layouts; the first one is tried alone by
#: the rule -ACCEPTED, if its words are given
KINDS: dict[str, tuple[str, str, list[Layout], str]] = {
    "TRANSPOSED": ("A tensor in Fortran order", "is read by its strides, or refused",
                   [((3, 2), (1, 3), 0), ((2, 3, 4), (1, 2, 6), 0)], "is accepted"),
    "PERMUTED": ("A tensor with permuted axes", "is read by its strides, or refused",
                 [((3, 4, 2), (4, 1, 12), 0), ((4, 2, 3), (1, 12, 4), 0)], ""),
    "STEPPED": ("A tensor with gaps between its elements", "is read by its strides, or refused",
                [((4,), (2,), 0), ((3, 2), (10, 3), 0)], "is accepted"),
    "PADDED-ROWS": ("A tensor with gaps between its rows", "is read by its strides, or refused",
                    [((3, 2), (5, 1), 0), ((2, 2, 3), (9, 3, 1), 0)], ""),
    "NEGATIVE": ("A tensor with negative strides", "is read by them, from the element at index zero on, or refused",
                 [((4,), (-1,), 3), ((2, 3), (-3, 1), 3), ((2, 3), (-6, -2), 10)], "is accepted"),
    "BROADCAST": ("A tensor with a stride of 0", "repeats its elements, or is refused",
                  [((3, 2), (0, 1), 4), ((2, 3), (1, 0), 0), ((2, 2), (0, 0), 5)], "is accepted"),
    "OVERLAPPING": ("A tensor whose rows overlap, as those of a sliding window do,", "is read by its strides, or refused",
                    [((3, 4), (1, 1), 0), ((3, 4), (2, 1), 0)], ""),
}  # fmt: skip

for _kind, (_what, _outcome, _layouts, _taken) in KINDS.items():
    must(f"C-LAYOUT-{_kind}", f"{_what} {_outcome}.", STRIDES, read(*_layouts))
    if _taken:
        may(f"C-LAYOUT-{_kind}-ACCEPTED", f"{_what} {_taken}.", STRIDED, taken(_layouts[0]))

must("C-LAYOUT-SIZE-1", "The stride of an axis of extent 1 does not change the elements.", STRIDES,
     read(*(layout for odd in (77, 0, -9, 2**40) for layout in (((1, 3), (odd, 1), 0), ((3, 1), (1, odd), 0))),
          ((1, 1), (5, 7), 9)))  # fmt: skip
should("C-LAYOUT-SIZE-1-ACCEPTED",
       "A tensor is not refused for the stride of an axis of extent 1, which leads to no other element.", STRIDES,
       taken(*(((1, 3), (odd, 1), 0) for odd in (77, 0, -9))))  # fmt: skip


@must("C-LAYOUT-0-D", "A 0-d tensor has one element, whether its shape and strides are NULL or not.", SHAPE)
def no_dimensions(c: Context) -> None:
    right_or_refused(c, made(c, None, ndim=0, strides=None, values=[7]), 7)
    right_or_refused(c, made(c, (), strides=(), values=[7]), 7)


should("C-LAYOUT-0-D-ACCEPTED", "A 0-d tensor is accepted, even if its shape and strides are NULL.", SHAPE,
       lambda c: accepted(c, c.fitting(None, ndim=0, strides=None, values=[7]), 7))  # fmt: skip


@must("C-LAYOUT-ZERO-SIZE", "A tensor without elements keeps its shape, and its data, which is NULL, is never read.", DATA)
def zero_size(c: Context) -> None:
    for shape, expected in (((0,), []), ((0, 3), []), ((3, 0), [[], [], []]), ((2, 0, 3), [[], []])):
        right_or_refused(c, made(c, shape, data=0), expected)


@should("C-LAYOUT-ZERO-SIZE-ACCEPTED", "A tensor without elements is accepted, whether data is NULL or not.", DATA)
def zero_size_accepted(c: Context) -> None:
    accepted(c, c.fitting((0,), data=0), [])
    accepted(c, c.fitting((0,)), [])


must("C-LAYOUT-ZERO-SIZE-STRIDES", "The strides of a tensor without elements are ignored.", DATA,
     each(((0, 0), (-3, 1), (3, 1), (2**40, -(2**40))),
     lambda c, strides: right_or_refused(c, made(c, (3, 0), data=0, strides=strides), [[], [], []])))  # fmt: skip


@must("C-LAYOUT-BYTE-OFFSET", "The elements begin byte_offset bytes after data, or the tensor is refused.", OFFSET)
def byte_offset(c: Context) -> None:
    offset_read(c, *(((3, 1), first) for first in (1, 2, 16)))


def offset_read(c: Context, *layouts: tuple[Ints, int]) -> None:
    """Expects that matrices whose first element is found by byte_offset are read correctly or refused."""
    for strides, first in layouts:
        crafted = made(c, (2, 3), values=list(range(64)), strides=strides, byte_offset=4 * first)
        right_or_refused(c, crafted, elements((2, 3), strides, first))


should("C-LAYOUT-BYTE-OFFSET-ACCEPTED", "A tensor with a byte_offset is accepted.", OFFSET,
       lambda c: accepted(c, c.fitting((3,), values=list(range(64)), byte_offset=64), [16, 17, 18]))  # fmt: skip
must("C-LAYOUT-BYTE-OFFSET-STRIDED", "Negative strides count from the element that byte_offset leads to.", OFFSET,
     lambda c: offset_read(c, ((-3, 1), 3), ((1, 2), 8), ((-6, -2), 20)))  # fmt: skip
must("C-LAYOUT-BYTE-OFFSET-0-D", "byte_offset applies to a 0-d tensor too.", OFFSET,
     lambda c: right_or_refused(c, made(c, (), values=list(range(64)), byte_offset=20), 5))  # fmt: skip
should("C-LAYOUT-DATA-UNALIGNED",
       "Data at any multiple of the element's size is accepted: a consumer cannot rely on 256 bytes of alignment.", DATA,
       taken(*(((6,), (1,), first) for first in (1, 2, 4, 8, 16))))  # fmt: skip
must("C-LAYOUT-MANY-DIMENSIONS", "Tensors of 5 to 64 dimensions are read correctly or refused.", SHAPE,
     read(*in_c_order(*((1,) * (ndim - 2) + (2, 3) for ndim in (5, 8, 9, 16, 32, 33, 64)))))  # fmt: skip
may("C-LAYOUT-MANY-DIMENSIONS-ACCEPTED", "Tensors of 5 to 8 dimensions are accepted.", SHAPE,
    taken(*in_c_order(*((1,) * (ndim - 2) + (2, 3) for ndim in (5, 6, 8)))))  # fmt: skip
should("C-LAYOUT-HUGE-BROADCAST",
       "A tensor of extents beyond 32 bits over one element is refused, or kept without being materialised.", SHAPE,
       lambda c: harmless(c, made(c, (2**33, 2**20), strides=(0, 0), values=[1])))  # fmt: skip
