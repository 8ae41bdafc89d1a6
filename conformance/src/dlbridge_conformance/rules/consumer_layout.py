"""Shapes, strides and byte offsets that a consumer must read correctly or refuse."""

from __future__ import annotations

from typing import Any

from dlbridge_conformance import crafter
from dlbridge_conformance.context import Context
from dlbridge_conformance.crafter import Crafted
from dlbridge_conformance.rule import Level, Role, rule
from dlbridge_conformance.rules.consumer_outcome import (
    HEADER,
    PLAIN,
    PYTHON,
    accepted,
    harmless,
    legacy,
    right_or_refused,
    versioned,
)

STRIDES = f"{HEADER}, DLTensor::strides"
SHAPE = f"{HEADER}, DLTensor::shape"
DATA = f"{HEADER}, DLTensor::data"
OFFSET = f"{HEADER}, DLTensor::byte_offset"
STRIDED = f"{PYTHON}, Semantics"


def made(c: Context, shape: tuple[int, ...] | None, **fields: Any) -> Crafted:
    """A tensor of the ABI that a library takes, with any number of dimensions."""
    return c.craft(shape, **{"versioned": c.abi(), **fields})


def numbered(c: Context, shape: tuple[int, ...], strides: tuple[int, ...], first: int = 0, **fields: Any) -> Crafted:
    """A tensor over the numbers 0 to 63, whose element at index zero is ``first``."""
    return made(c, shape, strides=strides, values=list(range(64)), origin=4 * first, **fields)


def elements(shape: tuple[int, ...], strides: tuple[int, ...], first: int = 0) -> Any:
    """The elements of a :func:`numbered` tensor as nested lists."""
    if not shape:
        return first
    return [elements(shape[1:], strides[1:], first + i * strides[0]) for i in range(shape[0])]


def read(c: Context, shape: tuple[int, ...], strides: tuple[int, ...], first: int = 0, **fields: Any) -> None:
    """Expects that a :func:`numbered` tensor is read correctly or refused."""
    right_or_refused(c, numbered(c, shape, strides, first, **fields), elements(shape, strides, first))


def taken(c: Context, shape: tuple[int, ...], strides: tuple[int, ...], first: int = 0, **fields: Any) -> None:
    """Expects that a :func:`numbered` tensor is accepted; the rule does not apply if it has too many dimensions."""
    c.needs(c.lib.ndims[0] <= len(shape) <= c.lib.ndims[1], f"{c.lib.name} does not support {len(shape)} dimensions")
    accepted(c, numbered(c, shape, strides, first, **fields), elements(shape, strides, first))


@rule("C-LAYOUT-C-ORDER", Role.CONSUMER, Level.MUST,
      "Tensors of one to four dimensions in C order are accepted, with the right elements.", STRIDED)  # fmt: skip
def c_order(c: Context) -> None:
    least, most = c.lib.ndims
    for shape in ((6,), (2, 3), (2, 3, 4), (2, 1, 3, 2)):
        if least <= len(shape) <= most:
            taken(c, shape, crafter.c_strides(shape))


@rule("C-LAYOUT-NULL-STRIDES-LEGACY", Role.CONSUMER, Level.SHOULD,
      "A legacy tensor with NULL strides is accepted, as one in C order.", STRIDES)  # fmt: skip
def null_strides_legacy(c: Context) -> None:
    accepted(c, legacy(c, strides=None), PLAIN)


@rule("C-LAYOUT-NULL-STRIDES-1-0", Role.CONSUMER, Level.SHOULD,
      "A tensor of version 1.0 or 1.1 with NULL strides is accepted, as one in C order.", STRIDES)  # fmt: skip
def null_strides_1_0(c: Context) -> None:
    for minor in (0, 1):
        accepted(c, versioned(c, strides=None, version=(1, minor)), PLAIN)


@rule("C-LAYOUT-NULL-STRIDES-1-2", Role.CONSUMER, Level.SHOULD,
      "A tensor of version 1.2 or later with NULL strides, which that forbids, is refused or read as one in C order.",
      STRIDES)  # fmt: skip
def null_strides_1_2(c: Context) -> None:
    for minor in (2, 3):
        right_or_refused(c, versioned(c, strides=None, version=(1, minor)), PLAIN)


@rule("C-LAYOUT-TRANSPOSED", Role.CONSUMER, Level.MUST,
      "A tensor in Fortran order is read by its strides, or refused.", STRIDES)  # fmt: skip
def transposed(c: Context) -> None:
    read(c, (3, 2), (1, 3))
    read(c, (2, 3, 4), (1, 2, 6))


@rule("C-LAYOUT-TRANSPOSED-ACCEPTED", Role.CONSUMER, Level.MAY,
      "A tensor in Fortran order is accepted.", STRIDED)  # fmt: skip
def transposed_accepted(c: Context) -> None:
    taken(c, (3, 2), (1, 3))


@rule("C-LAYOUT-PERMUTED", Role.CONSUMER, Level.MUST,
      "A tensor with permuted axes is read by its strides, or refused.", STRIDES)  # fmt: skip
def permuted(c: Context) -> None:
    read(c, (3, 4, 2), (4, 1, 12))
    read(c, (4, 2, 3), (1, 12, 4))


@rule("C-LAYOUT-STEPPED", Role.CONSUMER, Level.MUST,
      "A tensor with gaps between its elements is read by its strides, or refused.", STRIDES)  # fmt: skip
def stepped(c: Context) -> None:
    read(c, (4,), (2,))
    read(c, (3, 2), (10, 3))


@rule("C-LAYOUT-STEPPED-ACCEPTED", Role.CONSUMER, Level.MAY,
      "A tensor with gaps between its elements is accepted.", STRIDED)  # fmt: skip
def stepped_accepted(c: Context) -> None:
    taken(c, (4,), (2,))


@rule("C-LAYOUT-PADDED-ROWS", Role.CONSUMER, Level.MUST,
      "A tensor with gaps between its rows is read by its strides, or refused.", STRIDES)  # fmt: skip
def padded_rows(c: Context) -> None:
    read(c, (3, 2), (5, 1))
    read(c, (2, 2, 3), (9, 3, 1))


@rule("C-LAYOUT-NEGATIVE", Role.CONSUMER, Level.MUST,
      "A tensor with negative strides is read by them, from the element at index zero on, or refused.",
      STRIDES)  # fmt: skip
def negative(c: Context) -> None:
    read(c, (4,), (-1,), first=3)
    read(c, (2, 3), (-3, 1), first=3)
    read(c, (2, 3), (-6, -2), first=10)


@rule("C-LAYOUT-NEGATIVE-ACCEPTED", Role.CONSUMER, Level.MAY,
      "A tensor with negative strides is accepted.", STRIDED)  # fmt: skip
def negative_accepted(c: Context) -> None:
    taken(c, (4,), (-1,), first=3)


@rule("C-LAYOUT-BROADCAST", Role.CONSUMER, Level.MUST,
      "A tensor with a stride of 0 repeats its elements, or is refused.", STRIDES)  # fmt: skip
def broadcast(c: Context) -> None:
    read(c, (3, 2), (0, 1), first=4)
    read(c, (2, 3), (1, 0))
    read(c, (2, 2), (0, 0), first=5)


@rule("C-LAYOUT-BROADCAST-ACCEPTED", Role.CONSUMER, Level.MAY,
      "A tensor with a stride of 0 is accepted.", STRIDED)  # fmt: skip
def broadcast_accepted(c: Context) -> None:
    taken(c, (3, 2), (0, 1), first=4)


@rule("C-LAYOUT-OVERLAPPING", Role.CONSUMER, Level.MUST,
      "A tensor whose rows overlap, as those of a sliding window do, is read by its strides, or refused.",
      STRIDES)  # fmt: skip
def overlapping(c: Context) -> None:
    read(c, (3, 4), (1, 1))
    read(c, (3, 4), (2, 1))


@rule("C-LAYOUT-SIZE-1", Role.CONSUMER, Level.MUST,
      "The stride of an axis of extent 1 does not change the elements.", STRIDES)  # fmt: skip
def size_1(c: Context) -> None:
    for odd in (77, 0, -9, 2**40):
        read(c, (1, 3), (odd, 1))
        read(c, (3, 1), (1, odd))
    read(c, (1, 1), (5, 7), first=9)


@rule("C-LAYOUT-SIZE-1-ACCEPTED", Role.CONSUMER, Level.SHOULD,
      "A tensor is not refused for the stride of an axis of extent 1, which leads to no other element.",
      STRIDES)  # fmt: skip
def size_1_accepted(c: Context) -> None:
    for odd in (77, 0, -9):
        taken(c, (1, 3), (odd, 1))


@rule("C-LAYOUT-0-D", Role.CONSUMER, Level.MUST,
      "A 0-d tensor has one element, whether its shape and strides are NULL or not.", SHAPE)  # fmt: skip
def no_dimensions(c: Context) -> None:
    right_or_refused(c, made(c, None, ndim=0, strides=None, values=[7]), 7)
    right_or_refused(c, made(c, (), strides=(), values=[7]), 7)


@rule("C-LAYOUT-0-D-ACCEPTED", Role.CONSUMER, Level.SHOULD,
      "A 0-d tensor is accepted, even if its shape and strides are NULL.", SHAPE)  # fmt: skip
def no_dimensions_accepted(c: Context) -> None:
    accepted(c, c.fitting(None, ndim=0, strides=None, values=[7]), 7)


@rule("C-LAYOUT-ZERO-SIZE", Role.CONSUMER, Level.MUST,
      "A tensor without elements keeps its shape, and its data, which is NULL, is never read.", DATA)  # fmt: skip
def zero_size(c: Context) -> None:
    for shape, expected in (((0,), []), ((0, 3), []), ((3, 0), [[], [], []]), ((2, 0, 3), [[], []])):
        right_or_refused(c, made(c, shape, data=0), expected)


@rule("C-LAYOUT-ZERO-SIZE-ACCEPTED", Role.CONSUMER, Level.SHOULD,
      "A tensor without elements is accepted, whether data is NULL or not.", DATA)  # fmt: skip
def zero_size_accepted(c: Context) -> None:
    accepted(c, c.fitting((0,), data=0), [])
    accepted(c, c.fitting((0,)), [])


@rule("C-LAYOUT-ZERO-SIZE-STRIDES", Role.CONSUMER, Level.MUST,
      "The strides of a tensor without elements are ignored.", DATA)  # fmt: skip
def zero_size_strides(c: Context) -> None:
    for strides in ((0, 0), (-3, 1), (3, 1), (2**40, -(2**40))):
        right_or_refused(c, made(c, (3, 0), data=0, strides=strides), [[], [], []])


@rule("C-LAYOUT-BYTE-OFFSET", Role.CONSUMER, Level.MUST,
      "The elements begin byte_offset bytes after data, or the tensor is refused.", OFFSET)  # fmt: skip
def byte_offset(c: Context) -> None:
    for elements_off in (1, 2, 16):
        offset = 4 * elements_off
        crafted = made(c, (2, 3), values=list(range(64)), byte_offset=offset)
        right_or_refused(c, crafted, elements((2, 3), (3, 1), elements_off))


@rule("C-LAYOUT-BYTE-OFFSET-ACCEPTED", Role.CONSUMER, Level.SHOULD,
      "A tensor with a byte_offset is accepted.", OFFSET)  # fmt: skip
def byte_offset_accepted(c: Context) -> None:
    accepted(c, c.fitting((3,), values=list(range(64)), byte_offset=64), [16, 17, 18])


@rule("C-LAYOUT-BYTE-OFFSET-STRIDED", Role.CONSUMER, Level.MUST,
      "Negative strides count from the element that byte_offset leads to.",
      OFFSET)  # fmt: skip
def byte_offset_strided(c: Context) -> None:
    for strides, first in (((-3, 1), 3), ((1, 2), 8), ((-6, -2), 20)):
        crafted = made(c, (2, 3), values=list(range(64)), strides=strides, byte_offset=4 * first)
        right_or_refused(c, crafted, elements((2, 3), strides, first))


@rule("C-LAYOUT-BYTE-OFFSET-0-D", Role.CONSUMER, Level.MUST,
      "byte_offset applies to a 0-d tensor too.", OFFSET)  # fmt: skip
def byte_offset_0_d(c: Context) -> None:
    right_or_refused(c, made(c, (), values=list(range(64)), byte_offset=20), 5)


@rule("C-LAYOUT-DATA-UNALIGNED", Role.CONSUMER, Level.SHOULD,
      "Data at any multiple of the element's size is accepted: a consumer cannot rely on 256 bytes of alignment.",
      DATA)  # fmt: skip
def data_unaligned(c: Context) -> None:
    for first in (1, 2, 4, 8, 16):
        taken(c, (6,), (1,), first)


@rule("C-LAYOUT-MANY-DIMENSIONS", Role.CONSUMER, Level.MUST,
      "Tensors of 5 to 64 dimensions are read correctly or refused.", SHAPE)  # fmt: skip
def many_dimensions(c: Context) -> None:
    for ndim in (5, 8, 9, 16, 32, 33, 64):
        shape = (1,) * (ndim - 2) + (2, 3)
        read(c, shape, crafter.c_strides(shape))


@rule("C-LAYOUT-MANY-DIMENSIONS-ACCEPTED", Role.CONSUMER, Level.MAY,
      "Tensors of 5 to 8 dimensions are accepted.", SHAPE)  # fmt: skip
def many_dimensions_accepted(c: Context) -> None:
    for ndim in (5, 6, 8):
        shape = (1,) * (ndim - 2) + (2, 3)
        taken(c, shape, crafter.c_strides(shape))


@rule("C-LAYOUT-HUGE-BROADCAST", Role.CONSUMER, Level.SHOULD,
      "A tensor of extents beyond 32 bits over one element is refused, or kept without being materialised.",
      SHAPE)  # fmt: skip
def huge_broadcast(c: Context) -> None:
    harmless(c, made(c, (2**33, 2**20), strides=(0, 0), values=[1]))
