"""Converts between numbers and the bytes of elements, for every dtype, without NumPy."""

from __future__ import annotations

import ctypes
import math
import struct
from dataclasses import dataclass
from functools import cache
from typing import Any

import dlbridge
from dlbridge_conformance import crafter
from dlbridge_conformance.crafter import DTYPES, FORMATS, Held, Ints


@dataclass(frozen=True)
class Small:
    """A float of at most eight bits: a sign unless ``unsigned``, then the exponent, then the mantissa.

    ``special`` says how it encodes infinities and NaNs: with all exponent bits set, as in IEEE 754 (``ieee``); only a
    NaN, with all bits set (``fn``); only a NaN, in the place of minus zero (``fnuz``); or not at all (``none``).
    """

    exponent: int
    mantissa: int
    bias: int
    special: str
    unsigned: bool = False

    def number(self, code: int) -> float:
        """Decodes bits to a number."""
        top = (1 << self.exponent) - 1
        exponent, mantissa = code >> self.mantissa & top, code & (1 << self.mantissa) - 1
        sign = -1.0 if not self.unsigned and code >> self.exponent + self.mantissa else 1.0
        if self.special == "ieee" and exponent == top:
            return math.nan if mantissa else sign * math.inf
        if self.special == "fn" and exponent == top and mantissa == (1 << self.mantissa) - 1:
            return math.nan
        if self.special == "fnuz" and sign < 0 and not exponent and not mantissa:
            return math.nan
        scale = 2.0 ** -self.mantissa
        if exponent or self.unsigned:
            return sign * (1 + mantissa * scale) * 2.0 ** (exponent - self.bias)
        return sign * mantissa * scale * 2.0 ** (1 - self.bias)

    @property
    def bits(self) -> int:
        """How many bits an element has."""
        return self.exponent + self.mantissa + (not self.unsigned)


SMALL = {
    "float8_e3m4": Small(3, 4, 3, "ieee"),
    "float8_e4m3": Small(4, 3, 7, "ieee"),
    "float8_e4m3b11fnuz": Small(4, 3, 11, "fnuz"),
    "float8_e4m3fn": Small(4, 3, 7, "fn"),
    "float8_e4m3fnuz": Small(4, 3, 8, "fnuz"),
    "float8_e5m2": Small(5, 2, 15, "ieee"),
    "float8_e5m2fnuz": Small(5, 2, 16, "fnuz"),
    "float8_e8m0fnu": Small(8, 0, 127, "fn", unsigned=True),
    "float6_e2m3fn": Small(2, 3, 1, "none"),
    "float6_e3m2fn": Small(3, 2, 3, "none"),
    "float4_e2m1fn": Small(2, 1, 1, "none"),
}

#: the numbers to exchange for each dtype, which can represent all of them, unlike most other dtypes; None for small floats
NUMBERS: dict[str | None, list[Any]] = {
    **{f"int{bits}": [0, 1, -1, 2 ** (bits - 1) - 1, -(2 ** (bits - 1)), 5] for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": [0, 1, 2, 2**bits - 1, 2 ** (bits - 1), 5] for bits in (8, 16, 32, 64)},
    **dict.fromkeys(("float16", "bfloat16"), [0.0, 1.0, -2.5, 0.125, 1024.0, -0.5]),
    "float32": [0.0, 1.0, -2.5, 1 + 2.0**-20, 1024.0, -0.5],
    "float64": [0.0, 1.0, -2.5, 0.1, 1024.0, -0.5],
    "complex64": [0j, 1 + 0j, -2.5j, 3 + 4j, 0.5 - 0.25j, -1j],
    "complex128": [0j, 1 + 0j, -2.5j, 3 + 4j, 0.1 - 0.25j, -1j],
    "bool": [False, True, True, False, True, False],
    "float8_e8m0fnu": [1.0, 2.0, 4.0, 0.5, 0.25, 128.0],
    None: [0.0, 1.0, -1.5, 2.0, 3.0, -0.5],
}


def numbers(dtype: str) -> list[Any]:
    """Six numbers that a dtype can represent, and that distinguish it from similar dtypes."""
    return NUMBERS.get(dtype, NUMBERS[None])


@cache
def _numbers(dtype: str) -> tuple[float, ...]:
    """The numbers of a small float, indexed by their bits."""
    kind = SMALL[dtype]
    return tuple(kind.number(code) for code in range(1 << kind.bits))


def _nearest(dtype: str, value: float) -> int:
    """The bits of the number nearest to a value."""
    known = [(abs(number - value), code) for code, number in enumerate(_numbers(dtype)) if math.isfinite(number)]
    return min(known)[1]


def packed(values: list[Any], dtype: str) -> bytes:
    """Encodes numbers as elements. Sub-byte elements are packed, the first in the lowest bits."""
    if dtype not in SMALL:
        return crafter.packed([bool(value) for value in values] if dtype == "bool" else values, dtype)
    bits, together = SMALL[dtype].bits, 0
    for place, value in enumerate(values):
        together |= _nearest(dtype, value) << place * bits
    return together.to_bytes(-(-len(values) * bits // 8), "little")


def unpacked(data: bytes, dtype: str) -> list[Any]:
    """Decodes elements of at least eight bits."""
    if dtype in SMALL:
        return [_numbers(dtype)[code] for code in data]
    if dtype == "bfloat16":
        return [struct.unpack("<f", b"\0\0" + data[i : i + 2])[0] for i in range(0, len(data), 2)]
    if dtype in ("complex64", "complex128"):
        code, size = ("f", 4) if dtype == "complex64" else ("d", 8)
        parts = struct.unpack(f"{len(data) // size}{code}", data)
        return [complex(*pair) for pair in zip(parts[::2], parts[1::2], strict=True)]
    size = DTYPES[dtype][1] // 8
    return list(struct.unpack(f"{len(data) // size}{FORMATS[dtype]}", data))


def name_of(dtype: tuple[int, int, int]) -> str:
    """The name of a dtype. Raises ValueError for an unknown one."""
    for name, known in DTYPES.items():
        if known == dtype:
            return name
    raise ValueError(f"unknown dtype {dtype}")


def shape_of(values: Any) -> Ints:
    """The shape of nested lists."""
    return (len(values), *shape_of(values[0] if values else 0)) if isinstance(values, list | tuple) else ()


def flat(values: Any) -> list[Any]:
    """Flattens nested lists in C order."""
    return [number for part in values for number in flat(part)] if isinstance(values, list | tuple) else [values]


def nested(numbers: list[Any], shape: Ints) -> Any:
    """Nests numbers in C order to a shape."""
    if not shape:
        return numbers[0]
    size = math.prod(shape[1:])
    return [nested(numbers[i * size : (i + 1) * size], shape[1:]) for i in range(shape[0])]


def at(address: int, dtype: str, shape: Ints, strides: Ints) -> Any:
    """Reads a strided tensor from this process's memory, as nested lists or one number."""
    bits = DTYPES[dtype][1]
    if bits < 8:
        return _packed_at(address, dtype, shape, strides, 0)
    if not shape:
        return unpacked(ctypes.string_at(address, bits // 8), dtype)[0]
    step = strides[0] * bits // 8
    return [at(address + i * step, dtype, shape[1:], strides[1:]) for i in range(shape[0])]


def _packed_at(address: int, dtype: str, shape: Ints, strides: Ints, element: int) -> Any:
    """Reads packed sub-byte elements, beginning with the one at index ``element``."""
    if not shape:
        bits = DTYPES[dtype][1]
        byte, shift = divmod(element * bits, 8)
        data = int.from_bytes(ctypes.string_at(address + byte, -(-(shift + bits) // 8)), "little")
        return _numbers(dtype)[data >> shift & (1 << bits) - 1]
    return [
        _packed_at(address, dtype, shape[1:], strides[1:], element + i * strides[0]) for i in range(shape[0])
    ]


def of(held: Held) -> Any:
    """Reads the elements of a managed tensor on the CPU."""
    fields = held.fields
    shape = fields.shape or ()
    strides = crafter.c_strides(shape) if fields.strides is None else fields.strides
    return at(fields.data + fields.byte_offset, name_of(fields.dtype), shape, strides)


def tensor(values: Any, dtype: str) -> dlbridge.Tensor:
    """Makes a dlbridge tensor in C order from nested lists, for libraries that cannot make arrays."""
    made = dlbridge.empty(shape_of(values), dtype)
    data = packed(flat(values), dtype)
    ctypes.memmove(made.address, data, len(data))
    return made
