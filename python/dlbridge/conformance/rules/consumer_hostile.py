"""Tensors that break the specification: a consumer refuses them, or makes arrays that harm nobody.

The header does not say what to do with them. A consumer that crashes takes the program with it, so that every careful
one checks what it can check.
"""

from __future__ import annotations

from typing import Any

from dlbridge.conformance.context import Context
from dlbridge.conformance.crafter import CPU, Crafted
from dlbridge.conformance.rule import Level, Role, rule
from dlbridge.conformance.rules.consumer_outcome import (
    HEADER,
    PLAIN,
    first_refused,
    harmless,
    plain,
    refused,
    right,
    right_or_refused,
)

TENSOR = f"{HEADER}, DLTensor"


def wrong(c: Context, shape: tuple[int, ...] | None, **fields: Any) -> Crafted:
    """A crafted tensor of the ABI that a library takes, wrong in some field."""
    return c.craft(shape, **{"versioned": c.abi(), **fields})


@rule("C-HOSTILE-NDIM-NEGATIVE", Role.CONSUMER, Level.SHOULD,
      "A negative number of dimensions is refused.", f"{TENSOR}::ndim")  # fmt: skip
def ndim_negative(c: Context) -> None:
    for ndim in (-1, -(2**31)):
        refused(c, wrong(c, (6,), ndim=ndim))


@rule("C-HOSTILE-NDIM-300", Role.CONSUMER, Level.SHOULD,
      "More dimensions than a library has are refused.", f"{TENSOR}::ndim")  # fmt: skip
def ndim_300(c: Context) -> None:
    harmless(c, wrong(c, (1,) * 300))


@rule("C-HOSTILE-SHAPE-NULL", Role.CONSUMER, Level.SHOULD,
      "A shape of NULL with dimensions is refused.", f"{TENSOR}::shape")  # fmt: skip
def shape_null(c: Context) -> None:
    refused(c, wrong(c, None, ndim=2, strides=None))


@rule("C-HOSTILE-EXTENT-NEGATIVE", Role.CONSUMER, Level.SHOULD,
      "A negative extent is refused.", f"{TENSOR}::shape")  # fmt: skip
def extent_negative(c: Context) -> None:
    for shape in ((-1,), (-6,), (2, -3), (-2, -3), (0, -1), (-(2**63),)):
        refused(c, wrong(c, shape, strides=(1,) * len(shape)))


@rule("C-HOSTILE-DATA-NULL", Role.CONSUMER, Level.SHOULD,
      "Data of NULL with elements is refused.", f"{TENSOR}::data")  # fmt: skip
def data_null(c: Context) -> None:
    refused(c, wrong(c, (6,), data=0))


@rule("C-HOSTILE-DATA-NULL-OFFSET", Role.CONSUMER, Level.SHOULD,
      "Data of NULL with elements is refused, whatever the byte_offset.", f"{TENSOR}::data")  # fmt: skip
def data_null_offset(c: Context) -> None:
    refused(c, wrong(c, (6,), data=0, byte_offset=64))


@rule("C-HOSTILE-SIZE-OVERFLOW", Role.CONSUMER, Level.SHOULD,
      "Extents whose product is beyond 64 bits are refused.", f"{TENSOR}::shape")  # fmt: skip
def size_overflow(c: Context) -> None:
    for shape in ((2**32, 2**32), (2**62, 4), (2**61, 8, 1)):
        refused(c, wrong(c, shape, strides=(1,) * len(shape)))


@rule("C-HOSTILE-BYTES-OVERFLOW", Role.CONSUMER, Level.SHOULD,
      "A tensor with more bytes than the address space is refused.", f"{TENSOR}::shape")  # fmt: skip
def bytes_overflow(c: Context) -> None:
    for extent in (2**61, 2**62, 2**63 - 1):
        refused(c, wrong(c, (extent,), strides=(1,)))


@rule("C-HOSTILE-SIZE-OVERFLOW-EMPTY", Role.CONSUMER, Level.SHOULD,
      "Extents that overflow next to one of 0 make no elements, or are refused.", f"{TENSOR}::shape")  # fmt: skip
def size_overflow_empty(c: Context) -> None:
    harmless(c, wrong(c, (0, 2**62, 2**62), strides=(1, 1, 1), data=0))


@rule("C-HOSTILE-STRIDES-HUGE", Role.CONSUMER, Level.SHOULD,
      "Strides that lead beyond 64 bits are refused.", f"{TENSOR}::strides")  # fmt: skip
def strides_huge(c: Context) -> None:
    for stride in (2**62, 2**63 - 1, -(2**63)):
        refused(c, wrong(c, (3,), strides=(stride,)))


@rule("C-HOSTILE-BYTE-OFFSET-HUGE", Role.CONSUMER, Level.SHOULD,
      "A byte_offset of 2**63 or more, which no memory reaches, is refused.", f"{TENSOR}::byte_offset")  # fmt: skip
def byte_offset_huge(c: Context) -> None:
    for offset in (2**63, 2**64 - 4):
        refused(c, wrong(c, (6,), byte_offset=offset))


@rule("C-HOSTILE-SHAPE-MISALIGNED", Role.CONSUMER, Level.SHOULD,
      "Shape and strides at odd addresses are read rightly, or refused.", f"{TENSOR}::shape")  # fmt: skip
def shape_misaligned(c: Context) -> None:
    for skew in (1, 4):
        right_or_refused(c, wrong(c, (6,), skew=skew), PLAIN)


@rule("C-HOSTILE-DATA-MISALIGNED", Role.CONSUMER, Level.SHOULD,
      "Elements at odd addresses are read rightly, or refused.", f"{TENSOR}::data")  # fmt: skip
def data_misaligned(c: Context) -> None:
    payload = b"\0" + plain(c).read(24)
    for fields in (dict(origin=1), dict(byte_offset=1)):
        right_or_refused(c, wrong(c, (6,), payload=payload.ljust(64, b"\0"), **fields), PLAIN)


@rule("C-HOSTILE-DATA-ODD-ADDRESS", Role.CONSUMER, Level.SHOULD,
      "Complex numbers at any address are read rightly, or refused: none is loaded as if it were aligned.",
      f"{TENSOR}::data")  # fmt: skip
def data_odd_address(c: Context) -> None:
    for offset in (1, 3, 8):
        payload = bytes(offset) + c.fitting((3,), dtype="complex128").read(48)
        crafted = wrong(c, (3,), dtype="complex128", payload=payload.ljust(128, b"\0"), byte_offset=offset)
        right_or_refused(c, crafted, [0, 1, 2])


@rule("C-HOSTILE-DELETER-NULL", Role.CONSUMER, Level.MUST,
      "A tensor without a deleter, which the header allows, is accepted, and its array can be dropped.",
      f"{HEADER}, DLManagedTensorVersioned::deleter")  # fmt: skip
def deleter_null(c: Context) -> None:
    array = c.consume(plain(c, deleter=False))
    right(c, array, PLAIN)
    del array
    c.settle()


@rule("C-HOSTILE-DELETER-NULL-REFUSED", Role.CONSUMER, Level.MUST,
      "A tensor without a deleter can be refused.", f"{HEADER}, DLManagedTensorVersioned::deleter")  # fmt: skip
def deleter_null_refused(c: Context) -> None:
    first_refused(c, lambda **fields: wrong(c, (6,), deleter=False, **fields))
    c.settle()
    right(c, c.consume(plain(c)), PLAIN)


@rule("C-HOSTILE-EVERYTHING", Role.CONSUMER, Level.SHOULD,
      "A tensor that is wrong in every field but its version is refused.", TENSOR)  # fmt: skip
def everything(c: Context) -> None:
    crafted = wrong(
        c, (-1, 2**62), strides=(2**62, -1), dtype=(255, 255, 65535), device=(-7, -7), data=0,
        byte_offset=2**64 - 1, flags=2**64 - 1, manager_ctx=0,
    )  # fmt: skip
    refused(c, crafted, says=CPU)
