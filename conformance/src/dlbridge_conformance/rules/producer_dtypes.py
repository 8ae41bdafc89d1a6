"""The dtypes: one rule each, over the code, the bits, the lanes and the bytes of known numbers."""

from __future__ import annotations

from typing import Any

from dlbridge_conformance import elements
from dlbridge_conformance.context import Context
from dlbridge_conformance.crafter import DTYPES, Flags, Held
from dlbridge_conformance.exports import each_abi, needs_host_memory
from dlbridge_conformance.outcome import NotApplicable
from dlbridge_conformance.rule import must

HEADER = "dlpack.h 1.3, DLDataType and DLDataTypeCode"

#: the names of the codes in the header
CODES = {
    0: "kDLInt", 1: "kDLUInt", 2: "kDLFloat", 4: "kDLBfloat", 5: "kDLComplex", 6: "kDLBool",
    **{DTYPES[name][0]: f"kDL{name[0].upper()}{name[1:]}" for name in elements.SMALL},
}  # fmt: skip

#: the dtypes of the array API standard
STANDARD = [name for name in DTYPES if DTYPES[name][0] in (0, 1, 2, 5, 6) and name != "float16"]


def _bytes(dtype: str, held: Held) -> bytes:
    """The bytes of the numbers: packed, or a byte each if the flag says that they are padded."""
    numbers = elements.numbers(dtype)
    if DTYPES[dtype][1] < 8 and held.fields.flags & Flags.SUBBYTE_PADDED:
        return b"".join(elements.packed([number], dtype) for number in numbers)
    return elements.packed(numbers, dtype)


def _register(dtype: str) -> None:
    code, bits, lanes = DTYPES[dtype]
    layout = " in one byte, 0 or 1" if dtype == "bool" else ", packed unless the flag says padded" if bits < 8 else ""

    @must(f"P-DTYPES-{dtype.upper().replace('_', '-')}",
          f"{dtype} is code {CODES[code]} ({code}) with {bits} bits and {lanes} lane{layout}, in native byte order.",
          HEADER)  # fmt: skip
    def check(c: Context) -> None:
        array = c.array(elements.numbers(dtype), dtype)
        for held in each_abi(c, array, dtype):
            found = held.fields.dtype
            c.expect(found == DTYPES[dtype], f"the dtype is {found}, and not {DTYPES[dtype]}")
            needs_host_memory(c, held.fields)
            wanted = _bytes(dtype, held)
            data = held.read(len(wanted))
            c.got(f"bytes {data.hex()}")
            c.expect(data == wanted, f"the bytes are {data.hex()}, and not {wanted.hex()}")


for _dtype in DTYPES:
    _register(_dtype)


@must("P-DTYPES-STANDARD", "Every dtype of the array API standard that the library has can be exported.",
      "array API standard 2024.12, Data interchange mechanisms: support for all dtypes")  # fmt: skip
def standard(c: Context) -> None:
    for dtype in STANDARD:
        if dtype in c.lib.dtypes:
            for held in each_abi(c, c.array(elements.numbers(dtype), dtype)):
                c.expect(held.fields.shape == (6,), f"{dtype} has the shape {held.fields.shape}")


@must("P-DTYPES-STRIDES", "Strides count elements and not bytes, whatever the size of the dtype.",
      "dlpack.h 1.3, DLTensor::strides")  # fmt: skip
def strides(c: Context) -> None:
    for dtype in c.lib.dtypes:
        values = [[1, 0], [0, 1]] if DTYPES[dtype][0] < 14 else [[1, 2], [2, 1]]
        try:
            exports = each_abi(c, c.array(values, dtype), dtype)
        except NotApplicable as reason:
            c.got(str(reason))
            continue
        for held in exports:
            found = held.fields.strides
            c.expect(found in (None, (2, 1)), f"the strides of {dtype} are {found}")
