"""Dtypes that a consumer must read correctly or refuse."""

from __future__ import annotations

from typing import Any

from dlbridge_conformance import elements
from dlbridge_conformance.context import Context
from dlbridge_conformance.crafter import DTYPES, Crafted, Fields, Flags
from dlbridge_conformance.outcome import Broken, NotApplicable
from dlbridge_conformance.rule import each, must, should
from dlbridge_conformance.rules.consumer_outcome import (
    HEADER, PLAIN, accepted, feed, given_back, plain, refused, right_or_refused, same, versioned,
)  # fmt: skip

CODE = f"{HEADER}, DLDataTypeCode"
DTYPE = f"{HEADER}, DLDataType"
INTERCHANGE = "array API standard 2024.12, Data interchange mechanisms"


def tensor_of(c: Context, name: str) -> tuple[Crafted, Any]:
    """A tensor of six elements of a dtype, and the elements."""
    numbers = elements.numbers(name)
    payload = elements.packed(numbers, name)
    crafted = c.fitting((6,), dtype=name, payload=payload.ljust(64, b"\0"))
    return crafted, numbers


def numbers_of(c: Context, array: Any) -> Any:
    """The elements of an array; from its own ``__dlpack__`` if the library cannot convert them to Python numbers."""
    try:
        return c.values(array)
    except (Broken, NotApplicable):
        raise
    except Exception as error:
        c.got(f"its elements cannot be converted to Python numbers: {type(error).__name__}")
    try:
        held = c.export(array, max_version=(1, 3))
        numbers = elements.of(held)
    except Exception as error:
        raise NotApplicable(f"accepted, but its elements cannot be read: {error}") from None
    c.got(f"elements {numbers} by its __dlpack__")
    return numbers


def read(c: Context, name: str) -> None:
    """Expects that a dtype is read correctly or refused."""
    crafted, expected = tensor_of(c, name)
    array, said = feed(c, crafted)
    if said is None:
        found = numbers_of(c, array)
        c.expect(same(c, found, expected), f"the elements are {found} and not {expected}")
        c.finish()
        del array
    given_back(c, crafted, "after everything was gone")


def _register(name: str) -> None:
    """Registers the rule of a dtype."""
    code, bits, lanes = DTYPES[name]

    @must(f"C-DTYPE-{name.upper().replace('_', '-')}",
          f"Elements of {name}, which is code {code} with {bits} bits, are read correctly or refused.", CODE)  # fmt: skip
    def check(c: Context) -> None:
        read(c, name)


for _name in DTYPES:
    _register(_name)


@should("C-DTYPE-ARRAY-API", "All numeric dtypes of the array API standard are accepted, and bool.", INTERCHANGE)
def array_api(c: Context) -> None:
    names = [name for name in DTYPES if name.startswith(("int", "uint", "complex")) or name in ("float32", "float64")]
    lacking = []
    for name in (*names, "bool"):
        crafted, _ = tensor_of(c, name)
        if feed(c, crafted)[1] is not None:
            lacking.append(name)
    c.expect(not lacking, f"refused: {', '.join(lacking)}")


def kept(c: Context, array: Any, fed: Fields) -> bool:
    """Returns whether the library's own export of an array has the dtype and the padding of the fed tensor."""
    try:
        found = c.export(array, max_version=(1, 3)).fields
    except Exception as error:
        c.got(f"it is not exported: {type(error).__name__}: {error}")
        return False
    finally:
        c.settle()
    padding = (found.flags ^ fed.flags) & Flags.SUBBYTE_PADDED
    c.finish()
    return found.dtype == fed.dtype and not padding


def kept_or_refused(c: Context, crafted: Crafted) -> None:
    """Expects that a dtype which cannot be read is refused or kept."""
    fields = crafted.fields
    array, said = feed(c, crafted)
    if said is None:
        c.needs(c.lib.produces, f"{c.lib.name} does not produce, so the dtype of its array cannot be checked")
        c.expect(kept(c, array, fields), f"(code, bits, lanes) of {fields.dtype} became another dtype")
        del array
    given_back(c, crafted, "after everything was gone")


def right_kept_or_refused(c: Context, crafted: Crafted, expected: Any) -> None:
    """Expects that a dtype is read as the right numbers, kept, or refused."""
    fields = crafted.fields
    array, said = feed(c, crafted)
    if said is None:
        if not kept(c, array, fields):
            found = elements.flat(c.values(array))
            c.expect(found == expected, f"the elements are {found} and not {expected}")
        del array
    given_back(c, crafted, "after everything was gone")


should("C-DTYPE-UNKNOWN-CODE",
       "A dtype code that does not exist is refused, or kept as it is: its elements are never read as others.",
       f"{HEADER}, DLPackVersion: as long as the consumer knows how to interpret all fields", each((18, 99, 255),
       lambda c, code: kept_or_refused(c, plain(c, dtype=(code, 32, 1)))))  # fmt: skip
should("C-DTYPE-OPAQUE", "Opaque handles are refused, or kept as they are: their meaning needs an agreement.", CODE,
       lambda c: kept_or_refused(c, plain(c, dtype=(3, 64, 1))))  # fmt: skip
should("C-DTYPE-BITS-ODD",
       "Widths that no library supports, such as 24 bits, are refused or kept, and never rounded to another.", DTYPE,
       each(((0, 24, 1), (1, 7, 1), (2, 24, 1), (2, 255, 1), (4, 32, 1), (5, 96, 1)),
       lambda c, dtype: kept_or_refused(c, plain(c, dtype=dtype))))  # fmt: skip
must("C-DTYPE-LANES-2", "An element of two lanes is two numbers: it is never read as one.", DTYPE,
     lambda c: right_kept_or_refused(c, c.fitting((3,), dtype=(2, 32, 2), values=list(range(64))), list(range(6))))  # fmt: skip
must("C-DTYPE-LANES-4", "An element of four lanes is four numbers: it is never read as one.", DTYPE,
     lambda c: right_kept_or_refused(c, c.fitting((3,), dtype=(2, 32, 4), values=list(range(64))), list(range(12))))  # fmt: skip


@should("C-DTYPE-BOOL-BYTE", "A byte of kDLBool that is neither 0 nor 1 is true, or the tensor is refused.", DTYPE)
def bool_byte(c: Context) -> None:
    crafted = c.fitting((4,), dtype="bool", payload=bytes([0, 1, 2, 255]).ljust(64, b"\0"))
    array, said = feed(c, crafted)
    if said is None:
        found = [bool(value) for value in elements.flat(c.values(array))]
        c.expect(found == [False, True, True, True], f"the elements are {found}")
        del array
    given_back(c, crafted, "after everything was gone")


@should("C-DTYPE-BOOL-KIND", "kDLBool of 8 bits becomes booleans, and kDLUInt of 8 bits numbers.", DTYPE)
def bool_kind(c: Context) -> None:
    for dtype in ("bool", "uint8"):
        array, said = feed(c, c.fitting((2,), dtype=dtype, payload=b"\0\1".ljust(64, b"\0")))
        c.needs(said is None, f"{c.lib.name} does not take {dtype}")
        kind = type(elements.flat(c.values(array))[1]).__name__
        c.expect((kind == "bool") == (dtype == "bool"), f"{dtype} became {kind}")


@must("C-DTYPE-BOOL-BITS", "A bool of 1 bit is packed, eight to the byte: it is never read as one byte each.", DTYPE)
def bool_bits(c: Context) -> None:
    crafted = c.fitting((8,), dtype=(6, 1, 1), payload=b"\x95".ljust(64, b"\0"))
    right_kept_or_refused(c, crafted, [True, False, True, False, True, False, False, True])


def unexpected_bits(c: Context, code: int, *widths: int) -> None:
    """Expects that a small float with a wrong width is refused."""
    for bits in widths:
        refused(c, plain(c, dtype=(code, bits, 1)))


@must("C-DTYPE-FLOAT6-BITS", "A float6 whose bits are not 6 is refused.", CODE)
def float6_bits(c: Context) -> None:
    unexpected_bits(c, 15, 8, 4, 16)
    unexpected_bits(c, 16, 8, 4, 16)


must("C-DTYPE-FLOAT4-BITS", "A float4 whose bits are not 4 is refused.", CODE,
     lambda c: unexpected_bits(c, 17, 8, 2, 16))  # fmt: skip


@must("C-DTYPE-PADDED", "A float4 with the flag for padding has one element per byte: it is never read as packed.",
      f"{HEADER}, DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED")  # fmt: skip
def padded(c: Context) -> None:
    code = {number: place for place, number in enumerate((0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0))}
    payload = bytes([code[1.0], code[2.0], code[6.0], code[0.5]]).ljust(64, b"\0")
    crafted = versioned(c, (4,), dtype="float4_e2m1fn", flags=Flags.SUBBYTE_PADDED, payload=payload)
    right_kept_or_refused(c, crafted, [1.0, 2.0, 6.0, 0.5])


@must("C-DTYPE-LANES-SUBBYTE", "An element of two float4 is two numbers: it is never read as one.", DTYPE)
def lanes_subbyte(c: Context) -> None:
    numbers = [1.0, 2.0, 6.0, 0.5, 0.0, -1.0]
    payload = elements.packed(numbers, "float4_e2m1fn").ljust(64, b"\0")
    right_kept_or_refused(c, c.fitting((3,), dtype=(17, 4, 2), payload=payload), numbers)


def dtypes_of(c: Context, *names: str) -> list[str]:
    """Those of the named dtypes that the library supports; the rule does not apply if it supports none."""
    found = [name for name in names if name in c.lib.dtypes]
    c.needs(found, f"{c.lib.name} does not support any of {', '.join(names)}")
    return found


@must("C-DTYPE-STRIDED", "Strides count elements, whatever their size.", f"{HEADER}, DLTensor::strides")
def strided(c: Context) -> None:
    for name in dtypes_of(c, "int8", "int16", "float32", "float64", "complex128"):
        crafted = c.craft((3, 2), versioned=c.abi(), dtype=name, strides=(1, 3), values=list(range(6)))
        right_or_refused(c, crafted, [[0, 3], [1, 4], [2, 5]])


@must("C-DTYPE-BYTE-OFFSET", "byte_offset counts bytes, whatever the size of an element.",
      f"{HEADER}, DLTensor::byte_offset")  # fmt: skip
def offset(c: Context) -> None:
    for name in dtypes_of(c, "int8", "int16", "float64", "complex128"):
        size = DTYPES[name][1] // 8
        crafted = c.fitting((2,), dtype=name, values=list(range(6)), byte_offset=2 * size)
        right_or_refused(c, crafted, [2, 3])


must("C-DTYPE-FLOAT32-ACCEPTED",
     "float32 is accepted, with the right elements: without it, the kit cannot check a consumer.", INTERCHANGE,
     lambda c: accepted(c, plain(c), PLAIN))  # fmt: skip
