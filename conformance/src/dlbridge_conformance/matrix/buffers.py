"""Producers that need no library: exporters of buffers, and objects with only an array interface."""

from __future__ import annotations

import array
import ctypes
import mmap
from multiprocessing import shared_memory
from typing import Any

from dlbridge_conformance import elements
from dlbridge_conformance.crafter import FORMATS
from dlbridge_conformance.elements import flat
from dlbridge_conformance.matrix.outcome import Spec
from dlbridge_conformance.matrix.producer import ALIGNMENT, Made, Producer, aligned
from dlbridge_conformance.matrix.samples import COLUMNS, ROWS, encoded, laid_out, swapped, values
from dlbridge_conformance.outcome import NotApplicable

#: the dtypes that the buffer protocol has a format letter for
LETTERS = tuple(FORMATS)

_FULL_READ_ONLY = 0x011C


def buffer_address(obj: Any) -> int:
    """The address of the first element, as an exporter of buffers reports it."""
    view = (ctypes.c_void_p * 16)()
    if ctypes.pythonapi.PyObject_GetBuffer(ctypes.py_object(obj), ctypes.byref(view), _FULL_READ_ONLY):
        raise BufferError("no buffer")
    place = view[0] or 0
    ctypes.pythonapi.PyBuffer_Release(ctypes.byref(view))
    return int(place)


def room(data: bytes, skew: int = 0) -> memoryview:
    """Copies bytes to memory that begins ``skew`` bytes after a multiple of 64 bytes."""
    memory = bytearray(len(data) + ALIGNMENT + skew)
    start = -buffer_address(memory) % ALIGNMENT + skew
    memory[start : start + len(data)] = data
    return memoryview(memory)[start : start + len(data)]


class Exporter(Producer):
    """Makes an exporter from some bytes."""

    dtypes = ("uint8",)
    read_only = False

    def build(self, data: bytes) -> Any:
        """Makes an object that holds the bytes."""
        raise NotImplementedError

    def make(self, spec: Spec) -> Made:
        data = encoded(flat(values("uint8")), "uint8")
        obj = aligned(lambda: self.build(data), buffer_address)
        return Made(obj, list(data), buffer_address(obj), lambda: list(obj[:]), self.read_only)


class Bytes(Exporter):
    """bytes."""

    name = "bytes"
    read_only = True

    def build(self, data: bytes) -> Any:
        return bytes(bytearray(data))


class ByteArray(Exporter):
    """bytearray."""

    name = "bytearray"

    def build(self, data: bytes) -> Any:
        return bytearray(data)


class Map(Exporter):
    """mmap of a page without a file."""

    name = "mmap"

    def build(self, data: bytes) -> Any:
        memory = mmap.mmap(-1, len(data))
        memory[:] = data
        return memory


class SharedMemory(Exporter):
    """The buffer of multiprocessing.shared_memory."""

    name = "shared memory"

    def make(self, spec: Spec) -> Made:
        data = encoded(flat(values("uint8")), "uint8")
        memory = shared_memory.SharedMemory(create=True, size=len(data))
        memory.unlink()
        view = memory.buf[: len(data)]  # type: ignore[index]
        view[:] = data
        # close() raises BufferError while a consumer still borrows the buffer, and the destructor calls it.
        memory.close = lambda: None  # type: ignore[method-assign]
        return Made(view, list(data), buffer_address(view), lambda: list(view), keep=[memory])


class MemoryView(Producer):
    """memoryview: two-dimensional in C order, one-dimensional in other layouts, because it can only slice these."""

    name = "memoryview"
    dtypes = LETTERS
    layouts = ("C order", "stepped", "reversed", "sliced", "zero-size", "0-d", "read-only", "unaligned")

    def make(self, spec: Spec) -> Made:
        numbers = flat(values(spec.dtype))
        view: Any = room(encoded(numbers, spec.dtype), int(spec.layout == "unaligned"))
        view = view.cast(FORMATS[spec.dtype])
        if spec.layout in ("C order", "unaligned", "read-only"):
            view = view.cast("B").cast(FORMATS[spec.dtype], (ROWS, COLUMNS))
            expected: Any = values(spec.dtype)
        elif spec.layout == "0-d":
            expected = numbers[0]
            view = view[:1].cast("B").cast(FORMATS[spec.dtype], ())
        else:
            expected = laid_out(spec.layout, numbers)
            slices = {"stepped": slice(0, None, 2), "reversed": slice(None, None, -1), "sliced": slice(1, None)}
            view = view[slices.get(spec.layout, slice(0, 0))]
        if spec.layout == "read-only":
            view = view.toreadonly()
        return Made(view, expected, buffer_address(view), view.tolist, spec.layout == "read-only")


class Array(Producer):
    """array.array."""

    name = "array.array"
    dtypes = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64")
    layouts = ("C order", "zero-size")

    def make(self, spec: Spec) -> Made:
        numbers = flat(values(spec.dtype)) if spec.layout == "C order" else []
        made = array.array(FORMATS[spec.dtype], numbers)
        if numbers:
            made = aligned(lambda: array.array(FORMATS[spec.dtype], numbers), lambda a: a.buffer_info()[0])
        return Made(made, numbers, made.buffer_info()[0], made.tolist)


_CTYPES: dict[str, Any] = {
    **{f"int{bits}": getattr(ctypes, f"c_int{bits}") for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": getattr(ctypes, f"c_uint{bits}") for bits in (8, 16, 32, 64)},
    **{"float32": ctypes.c_float, "float64": ctypes.c_double, "bool": ctypes.c_bool},
}


class CTypes(Producer):
    """Two-dimensional arrays of ctypes."""

    name = "ctypes"
    dtypes = tuple(_CTYPES)
    layouts = ("C order", "big-endian", "unaligned")

    def make(self, spec: Spec) -> Made:
        kind, big = _CTYPES[spec.dtype], spec.layout == "big-endian"
        rows = values(spec.dtype)
        memory = room(encoded(flat(rows), spec.dtype, big), int(spec.layout == "unaligned"))
        array_type = (kind.__ctype_be__ if big else kind) * COLUMNS * ROWS
        made = array_type.from_buffer(memory)
        return Made(made, rows, ctypes.addressof(made), lambda: [list(row) for row in made])


class _Interface:
    """An object with ``__array_interface__`` and nothing else."""

    def __init__(self, interface: dict[str, Any], memory: memoryview) -> None:
        self.__array_interface__ = interface
        self.memory = memory


_TYPES = {"int": "i", "uint": "u", "float": "f", "complex": "c", "bool": "b"}


class ArrayInterface(Producer):
    """Objects with ``__array_interface__`` and nothing else."""

    name = "array interface"
    dtypes = (*LETTERS, "complex64", "complex128")
    layouts = (
        "C order", "transposed", "stepped", "reversed", "broadcast", "sliced", "zero-size", "0-d", "size-1 axis",
        "read-only", "big-endian", "unaligned",
    )  # fmt: skip

    def make(self, spec: Spec) -> Made:
        rows, layout = values(spec.dtype), spec.layout
        big, read_only = layout == "big-endian", layout == "read-only"
        memory = room(encoded(flat(rows), spec.dtype, big), int(layout == "unaligned"))
        size = memory.nbytes // (ROWS * COLUMNS)
        shape, strides, start = strided(layout)
        place = buffer_address(memory) + start * size
        kind = _TYPES[spec.dtype.rstrip("0123456789")]
        interface = {
            "version": 3,
            "typestr": f"{'|' if size == 1 else '>' if big else '<'}{kind}{size}",
            "shape": shape,
            "strides": tuple(stride * size for stride in strides),
            "data": (place, read_only),
        }

        def read() -> Any:
            if big:
                return elements.nested(elements.unpacked(swapped(bytes(memory), spec.dtype), spec.dtype), shape)
            return elements.at(place, spec.dtype, shape, tuple(strides))

        return Made(_Interface(interface, memory), laid_out(layout, rows), place, read, read_only)


def strided(layout: str) -> tuple[tuple[int, ...], tuple[int, ...], int]:
    """Shape, strides and first element of a layout of the array in C order, in elements."""
    shapes: dict[str, tuple[tuple[int, ...], tuple[int, ...], int]] = {
        "transposed": ((COLUMNS, ROWS), (1, COLUMNS), 0),
        "stepped": ((ROWS // 2, COLUMNS), (2 * COLUMNS, 1), 0),
        "reversed": ((ROWS, COLUMNS), (-COLUMNS, 1), (ROWS - 1) * COLUMNS),
        "broadcast": ((ROWS, COLUMNS), (0, 1), 0),
        "sliced": ((ROWS - 1, COLUMNS), (COLUMNS, 1), COLUMNS),
        "byte offset": ((ROWS - 1, COLUMNS), (COLUMNS, 1), COLUMNS),
        "zero-size": ((0,), (1,), 0),
        "0-d": ((), (), 0),
        "size-1 axis": ((1, COLUMNS), (2 * COLUMNS, 1), 0),
    }
    if layout not in (*shapes, "C order", "read-only", "big-endian", "unaligned"):
        raise NotApplicable(layout)
    return shapes.get(layout, ((ROWS, COLUMNS), (COLUMNS, 1), 0))


BUFFERS: tuple[type[Producer], ...] = (
    Bytes, ByteArray, MemoryView, Array, CTypes, Map, SharedMemory, ArrayInterface,
)  # fmt: skip
