"""The values of each dtype that the matrix exchanges, and their layouts."""

from __future__ import annotations

from typing import Any

from dlbridge_conformance import elements
from dlbridge_conformance.crafter import DTYPES

#: rows and columns of the array in C order
ROWS, COLUMNS = 4, 3

#: the layouts that each producer makes, as far as it supports them
LAYOUTS = {
    "C order": "four rows of three",
    "transposed": "the same with its axes swapped",
    "stepped": "every second row",
    "reversed": "the rows from the last to the first",
    "broadcast": "one row four times, with stride 0",
    "sliced": "all rows but the first",
    "zero-size": "no rows",
    "0-d": "one number without an axis",
    "size-1 axis": "one row, with the stride of two",
    "read-only": "memory that must not be written",
    "big-endian": "numbers in the other byte order",
    "unaligned": "one byte off the alignment of the dtype",
    "byte offset": "the first element is not where the data pointer points",
}

#: the dtypes for layouts other than C order
LAYOUT_DTYPES = ("float32", "int64")

#: the dtypes whose elements are whole bytes
WHOLE_BYTES = tuple(dtype for dtype, (_, bits, _) in DTYPES.items() if bits >= 8)


def values(dtype: str) -> list[list[Any]]:
    """The array in C order. Its numbers reveal a narrower dtype, a lost sign and a wrong position."""
    numbers = [_number(dtype, i) for i in range(ROWS * COLUMNS)]
    return [numbers[row * COLUMNS : (row + 1) * COLUMNS] for row in range(ROWS)]


def _number(dtype: str, i: int) -> Any:
    if dtype == "bool":
        return i % 3 == 0
    if dtype.startswith("int"):
        top = 2 ** (int(dtype[3:]) - 1)
        return {0: 1, 1: -1, 2: top - 1, 3: -top}.get(i, i)
    if dtype.startswith("uint"):
        # Some libraries cannot convert the largest uint64 from a Python number.
        return {0: 1, 2: 2 ** min(int(dtype[4:]), 63) - 1}.get(i, i)
    if dtype == "complex64":
        return complex(i + 0.5, -i)
    if dtype == "complex128":
        return complex(i + 0.1, -0.1)
    if dtype == "float64":
        return i + 0.1
    if dtype == "float32":
        return i + 2.0**-20
    if dtype == "float16":
        return i + 2.0**-6
    if dtype == "float8_e8m0fnu":
        return 2.0 ** (i - 5)
    # Numbers that 4-bit floats can represent too.
    return [1.0, -2.0, 3.0, 4.0, -0.5, 6.0, 1.5, -1.0, 2.0, 0.5, -4.0, -6.0][i]


def encoded(numbers: list[Any], dtype: str, big_endian: bool = False) -> bytes:
    """Encodes numbers as elements."""
    data = elements.packed(numbers, dtype)
    return swapped(data, dtype) if big_endian else data


def swapped(data: bytes, dtype: str) -> bytes:
    """Swaps the byte order of elements."""
    size = DTYPES[dtype][1] // 8
    size = size // 2 if dtype.startswith("complex") else size
    return b"".join(data[i : i + size][::-1] for i in range(0, len(data), size))


def plain(nested: Any) -> Any:
    """Converts nested lists to lists of Python's built-in numbers."""
    if isinstance(nested, list | tuple):
        return [plain(part) for part in nested]
    return nested if type(nested) in (bool, int, float, complex) else float(nested)


def same(found: Any, expected: Any) -> bool:
    """Returns whether two nested lists have the same shape, and numbers of the same type and value."""
    if isinstance(expected, list):
        return isinstance(found, list) and len(found) == len(expected) and all(map(same, found, expected))
    return type(found) is type(expected) and bool(found == expected)


def laid_out(layout: str, rows: list[list[Any]]) -> Any:
    """The values of the array in a layout."""
    if layout == "transposed":
        return [list(column) for column in zip(*rows, strict=True)]
    if layout == "stepped":
        return rows[::2]
    if layout == "reversed":
        return rows[::-1]
    if layout == "broadcast":
        return [rows[0]] * ROWS
    if layout in ("sliced", "byte offset"):
        return rows[1:]
    if layout == "zero-size":
        return []
    if layout == "0-d":
        return rows[0][0]
    if layout == "size-1 axis":
        return rows[:1]
    return rows
