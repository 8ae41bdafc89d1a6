"""Tensors that break the specification: a consumer refuses them, or makes arrays that do no harm.

The header does not say what to do with them. A consumer that crashes ends the program, so a careful one checks whatever
it can: these rules are SHOULD. A consumer may accept a struct that does no harm until it is read: the rules about that
are MAY.
"""

from __future__ import annotations

from typing import Any

from dlbridge_conformance.context import Context
from dlbridge_conformance.crafter import CPU, Crafted
from dlbridge_conformance.outcome import Broken, NotApplicable
from dlbridge_conformance.rule import each, may, must, should
from dlbridge_conformance.rules.consumer_outcome import (
    HEADER, PLAIN, feed, first_refused, given_back, harmless, plain, refused, right, right_or_refused,
)  # fmt: skip

TENSOR = f"{HEADER}, DLTensor"

#: invalid structs: the fault, the field of the header, and the fields of one or more examples
WRONG: dict[str, tuple[str, str, tuple[dict[str, Any], ...]]] = {
    "HOSTILE-NDIM-NEGATIVE": (
        "A negative number of dimensions", "DLTensor::ndim", (dict(ndim=-1), dict(ndim=-(2**31))),
    ),
    "HOSTILE-SHAPE-NULL": (
        "A shape of NULL with dimensions", "DLTensor::shape", (dict(shape=None, ndim=2, strides=None),),
    ),
    "HOSTILE-EXTENT-NEGATIVE": (
        "A negative extent", "DLTensor::shape",
        tuple(dict(shape=shape, strides=(1,) * len(shape))
              for shape in ((-1,), (-6,), (2, -3), (-2, -3), (0, -1), (-(2**63),))),
    ),
    "HOSTILE-DATA-NULL": ("Data of NULL with elements", "DLTensor::data", (dict(data=0),)),
    "HOSTILE-DATA-NULL-OFFSET": (
        "Data of NULL with elements and a byte_offset", "DLTensor::data", (dict(data=0, byte_offset=64),),
    ),
    "HOSTILE-SIZE-OVERFLOW": (
        "A product of extents beyond 64 bits", "DLTensor::shape",
        tuple(dict(shape=shape, strides=(1,) * len(shape)) for shape in ((2**32, 2**32), (2**62, 4), (2**61, 8, 1))),
    ),
    "HOSTILE-BYTES-OVERFLOW": (
        "A tensor with more bytes than the address space has", "DLTensor::shape",
        tuple(dict(shape=(extent,), strides=(1,)) for extent in (2**61, 2**62, 2**63 - 1)),
    ),
    "HOSTILE-STRIDES-HUGE": (
        "A stride that leads beyond 64 bits", "DLTensor::strides",
        tuple(dict(shape=(3,), strides=(stride,)) for stride in (2**62, 2**63 - 1, -(2**63))),
    ),
    "HOSTILE-BYTE-OFFSET-HUGE": (
        "A byte_offset of 2**63 or more", "DLTensor::byte_offset",
        (dict(byte_offset=2**63), dict(byte_offset=2**64 - 4)),
    ),
    "HOSTILE-EVERYTHING": (
        "A tensor that is wrong in every field except its version", "DLTensor",
        (dict(shape=(-1, 2**62), strides=(2**62, -1), dtype=(255, 255, 65535), device=(-7, -7), data=0,
              byte_offset=2**64 - 1, flags=2**64 - 1, manager_ctx=0),),
    ),
    "DTYPE-BITS-0": (
        "A dtype of 0 bits", "DLDataType::bits", tuple(dict(dtype=(code, 0, 1)) for code in (0, 2, 6)),
    ),
    "DTYPE-LANES-0": ("A dtype of 0 lanes", "DLDataType::lanes", (dict(dtype=(2, 32, 0)),)),
}  # fmt: skip


def wrong(c: Context, **fields: Any) -> Crafted:
    """A crafted tensor of the ABI that a library takes, with a wrong field."""
    return c.craft(**{"shape": c.padded((6,)), "versioned": c.abi(), **fields})


def _register(name: str, what: str, field: str, structs: tuple[dict[str, Any], ...]) -> None:
    """Registers the two rules about a struct."""
    source = f"no text; a struct that breaks {HEADER}, {field}"

    @should(f"C-{name}", f"{what} does not crash the process, and the tensor is given back once.", source)
    def is_harmless(c: Context) -> None:
        for fields in structs:
            harmless(c, wrong(c, **fields), CPU)

    @may(f"C-{name}-REFUSED", f"{what} is refused.", source)
    def is_refused(c: Context) -> None:
        for fields in structs:
            refused(c, wrong(c, **fields), CPU)


for _name, _struct in WRONG.items():
    _register(_name, *_struct)


@should("C-HOSTILE-NDIM-300",
        "A tensor of 300 dimensions is refused, or becomes an array of 300 dimensions, as far as its elements show.",
        f"{TENSOR}::ndim")  # fmt: skip
def ndim_300(c: Context) -> None:
    expected: Any = 0
    for _ in range(300):
        expected = [expected]
    array, said = feed(c, crafted := wrong(c, shape=(1,) * 300))
    if said is None:
        try:
            found = c.values(array)
        except (Broken, NotApplicable):
            raise
        except Exception as error:
            c.got(f"its elements are not shown: {type(error).__name__}: {error}")
        else:
            c.expect(found == expected, "the elements are in other dimensions")
        del array
    given_back(c, crafted, "after everything was gone")


should("C-HOSTILE-SIZE-OVERFLOW-EMPTY", "Extents that overflow, next to an extent of 0, do not crash the process.",
       f"no text; {TENSOR}::data, size zero",
       lambda c: harmless(c, wrong(c, shape=(0, 2**62, 2**62), strides=(1, 1, 1), data=0)))  # fmt: skip
should("C-HOSTILE-SHAPE-MISALIGNED", "Shape and strides at odd addresses are read correctly, or refused.",
       f"no text; {TENSOR}::shape", each((1, 4), lambda c, skew: right_or_refused(c, wrong(c, skew=skew), PLAIN)))  # fmt: skip


@should("C-HOSTILE-DATA-MISALIGNED", "Elements at odd addresses are read correctly, or refused.", f"{TENSOR}::data")
def data_misaligned(c: Context) -> None:
    payload = b"\0" + plain(c).read(24)
    for fields in (dict(origin=1), dict(byte_offset=1)):
        right_or_refused(c, wrong(c, payload=payload.ljust(64, b"\0"), **fields), PLAIN)


@should("C-HOSTILE-DATA-ODD-ADDRESS",
        "Complex numbers at any address are read correctly, or refused: none is loaded as if it were aligned.",
        f"{TENSOR}::data")  # fmt: skip
def data_odd_address(c: Context) -> None:
    c.needs("complex128" in c.lib.dtypes, f"{c.lib.name} does not support complex128")
    for offset in (1, 3, 8):
        payload = bytes(offset) + c.fitting((3,), dtype="complex128").read(48)
        crafted = c.fitting((3,), dtype="complex128", payload=payload.ljust(128, b"\0"), byte_offset=offset)
        right_or_refused(c, crafted, [0, 1, 2])


@must("C-HOSTILE-DELETER-NULL",
      "A tensor without a deleter, which the header allows, is accepted, and its array can be dropped.",
      f"{HEADER}, DLManagedTensorVersioned::deleter")  # fmt: skip
def deleter_null(c: Context) -> None:
    array = c.consume(plain(c, deleter=False))
    right(c, array, PLAIN)
    del array
    c.settle()


@must("C-HOSTILE-DELETER-NULL-REFUSED", "A tensor without a deleter can be refused.",
      f"{HEADER}, DLManagedTensorVersioned::deleter")  # fmt: skip
def deleter_null_refused(c: Context) -> None:
    first_refused(c, lambda **fields: plain(c, deleter=False, **fields))
    c.settle()
    right(c, c.consume(plain(c)), PLAIN)
