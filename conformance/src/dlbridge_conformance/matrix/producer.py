"""Producers of the matrix: libraries that make the objects to exchange, and objects that need no library."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from dlbridge_conformance import crafter, elements
from dlbridge_conformance.adapter import COMPLEX, FLOATS, INTEGERS, Adapter
from dlbridge_conformance.crafter import FORMATS, Flags, OldProducer
from dlbridge_conformance.elements import flat
from dlbridge_conformance.matrix.outcome import Spec
from dlbridge_conformance.matrix.party import (
    MODES, Party, adapters, address_of, arrow_address, buffer_address, picture_rows,
)  # fmt: skip
from dlbridge_conformance.matrix.samples import (
    COLUMNS, LAYOUT_DTYPES, LAYOUTS, ROWS, WHOLE_BYTES, encoded, laid_out, swapped, values,
)  # fmt: skip
from dlbridge_conformance.outcome import NotApplicable

#: an alignment in bytes that every consumer accepts without a copy, and how many objects are made until one has it
ALIGNMENT, TRIES = 64, 400

#: libraries that document their arrays as immutable, even if their capsules do not say so
NEVER_CHANGES = {"jax", "tensorflow"}


@dataclass
class Made:
    """An object of a producer, and its expected contents."""

    obj: Any
    #: the elements as nested lists
    expected: Any
    #: the address of the element at index zero as the producer reports it; None if it does not report one
    address: int | None
    #: returns the current elements
    read: Callable[[], Any]
    #: whether the producer says that the elements are read-only
    read_only: bool = False
    keep: list[Any] = field(default_factory=list)


class Producer(Party):
    """Makes objects. A subclass sets the attributes and overrides :meth:`make`."""

    dtypes: tuple[str, ...] = ("float32",)
    layouts: tuple[str, ...] = ("C order",)

    def make(self, spec: Spec) -> Made:
        """Makes an object. Raises NotApplicable for a layout or a dtype that the producer does not support."""
        raise NotImplementedError

    def specs(self) -> list[Spec]:
        """The cells of this producer: every dtype in C order, and the layouts in a few dtypes."""
        inner = [dtype for dtype in LAYOUT_DTYPES if dtype in self.dtypes] or list(self.dtypes[:1])
        plain = [Spec(dtype, "C order") for dtype in self.dtypes if "C order" in self.layouts]
        return plain + [
            Spec(dtype, layout) for layout in LAYOUTS if layout in self.layouts and layout != "C order" for dtype in inner
        ]


def aligned(make: Callable[[], Any], address: Callable[[Any], int | None]) -> Any:
    """Calls ``make`` until the object begins at a multiple of 64 bytes.

    Without this, two runs would differ if the allocator returns such addresses only sometimes.
    """
    others = []
    for _ in range(TRIES):
        made = make()
        place = address(made)
        if place is None or place % ALIGNMENT == 0:
            break
        others.append(made)
    return made


class AdapterProducer(Producer):
    """The arrays of a library that has an adapter."""

    adapter: Adapter

    def __init__(self, adapter: Adapter) -> None:
        super().__init__(adapter)
        self.dtypes = adapter.dtypes
        only_numpy = () if self.name == "numpy" else ("big-endian", "unaligned")
        self.layouts = tuple(layout for layout in LAYOUTS if layout not in ("byte offset", *only_numpy))

    def make(self, spec: Spec) -> Made:
        made = self.view(spec)
        try:
            read_only = self.name in NEVER_CHANGES or self.adapter.is_read_only(made)
        except NotApplicable:
            read_only = False
        expected = laid_out(spec.layout, values(spec.dtype))
        return Made(made, expected, address_of(self.adapter, made), lambda: self.adapter.values(made), read_only)

    def base(self, rows: Any, dtype: str) -> Any:
        """An array in C order, aligned."""
        return aligned(lambda: self.adapter.array(rows, dtype), lambda made: address_of(self.adapter, made))

    def view(self, spec: Spec) -> Any:
        """The array in its layout."""
        adapter, rows = self.adapter, values(spec.dtype)
        if spec.layout in ("C order", "0-d"):
            return self.base(rows if spec.layout == "C order" else rows[0][0], spec.dtype)
        if spec.layout == "broadcast":
            return adapter.broadcast(self.base(rows[0], spec.dtype), len(rows))
        if spec.layout == "zero-size":
            return adapter.array([], spec.dtype)
        if spec.layout == "size-1 axis":
            return adapter.stepped(self.base(rows[:2], spec.dtype))
        if spec.layout == "big-endian":
            return adapter.library.array(rows, dtype=adapter.library.dtype(spec.dtype).newbyteorder(">"))
        if spec.layout == "unaligned":
            source = adapter.array(rows, spec.dtype)
            view = self.base([0] * (source.nbytes + 1), "uint8")[1:].view(spec.dtype).reshape(source.shape)
            view[:] = source
            return view
        layouts = {
            "transposed": adapter.transposed, "stepped": adapter.stepped, "reversed": adapter.reversed,
            "sliced": adapter.sliced, "read-only": adapter.read_only,
        }  # fmt: skip
        return layouts[spec.layout](self.base(rows, spec.dtype))


# --------------------------------------------------------------------------- columns and pictures

SLICES = {
    "C order": slice(None), "stepped": slice(0, None, 2), "reversed": slice(None, None, -1), "sliced": slice(1, None),
    "zero-size": slice(0, 0),
}  # fmt: skip


class ArrowArray(Producer):
    """pyarrow.Array, which is one-dimensional and immutable."""

    name = "pyarrow-array"
    module = "pyarrow"
    dtypes = (*INTEGERS, *FLOATS, "bool")
    layouts = ("C order", "sliced", "zero-size")

    def make(self, spec: Spec) -> Made:
        numbers = flat(values(spec.dtype))
        kind = getattr(self.lib, "bool_" if spec.dtype == "bool" else spec.dtype)()
        made = self.lib.array(numbers, kind)[SLICES[spec.layout]]
        size = 0 if spec.dtype == "bool" else made.type.bit_width // 8
        data = made.buffers()[1]
        place = None if data is None else data.address + made.offset * size
        return Made(made, laid_out(spec.layout, numbers), place, made.to_pylist, True)


class PolarsSeries(Producer):
    """polars.Series, which is immutable."""

    name = "polars.Series"
    module = "polars"
    dtypes = (*INTEGERS, "float32", "float64", "bool")
    layouts = ("C order", "sliced", "reversed", "zero-size")

    def make(self, spec: Spec) -> Made:
        numbers = flat(values(spec.dtype))
        name = {"bool": "Boolean"}.get(spec.dtype, spec.dtype.title().replace("Ui", "UI"))

        def address(series: Any) -> int | None:
            return None if spec.dtype == "bool" else int(series.to_numpy(allow_copy=False).ctypes.data)

        made = aligned(lambda: self.lib.Series(numbers, dtype=getattr(self.lib, name)), address)[SLICES[spec.layout]]
        return Made(made, laid_out(spec.layout, numbers), address(made), made.to_list, True)


class PandasSeries(Producer):
    """pandas.Series over a NumPy array. It marks shared memory as read-only."""

    name = "pandas.Series"
    module = "pandas"
    dtypes = (*INTEGERS, *FLOATS, *COMPLEX, "bool")
    layouts = ("C order", "stepped", "reversed", "sliced", "zero-size")

    def make(self, spec: Spec) -> Made:
        numbers = flat(values(spec.dtype))
        made = aligned(lambda: self.lib.Series(numbers, dtype=spec.dtype), lambda s: int(s.to_numpy().ctypes.data))
        made = made.iloc[SLICES[spec.layout]]
        return Made(made, laid_out(spec.layout, numbers), made.to_numpy().ctypes.data, made.tolist, True)


class Picture(Producer):
    """PIL.Image.Image of one channel."""

    name = "pillow"
    module = "PIL.Image"
    dtypes = tuple(MODES)

    def make(self, spec: Spec) -> Made:
        rows = values(spec.dtype)
        data = encoded(flat(rows), spec.dtype)
        made = aligned(lambda: self.lib.frombytes(MODES[spec.dtype], (COLUMNS, ROWS), data).copy(), arrow_address)
        return Made(made, rows, arrow_address(made), lambda: picture_rows(made), True)


# --------------------------------------------------------------------------- memory


def room(data: bytes, skew: int = 0) -> memoryview:
    """Copies bytes to memory that begins ``skew`` bytes after a multiple of 64 bytes."""
    memory = bytearray(len(data) + ALIGNMENT + skew)
    start = -buffer_address(memory) % ALIGNMENT + skew
    memory[start : start + len(data)] = data
    return memoryview(memory)[start : start + len(data)]


class MemoryView(Producer):
    """memoryview: two-dimensional in C order, one-dimensional in other layouts, because it can only slice these."""

    name = "memoryview"
    dtypes = tuple(FORMATS)
    layouts = (*SLICES, "0-d", "read-only", "unaligned")

    def make(self, spec: Spec) -> Made:
        numbers = flat(values(spec.dtype))
        letter: Any = FORMATS[spec.dtype]
        view: Any = room(encoded(numbers, spec.dtype), int(spec.layout == "unaligned")).cast(letter)
        if spec.layout in ("C order", "unaligned", "read-only"):
            view, expected = view.cast("B").cast(letter, (ROWS, COLUMNS)), values(spec.dtype)
        elif spec.layout == "0-d":
            view, expected = view[:1].cast("B").cast(letter, ()), numbers[0]
        else:
            view, expected = view[SLICES[spec.layout]], laid_out(spec.layout, numbers)
        if spec.layout == "read-only":
            view = view.toreadonly()
        return Made(view, expected, buffer_address(view), view.tolist, spec.layout == "read-only")


# --------------------------------------------------------------------------- objects with one protocol


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
    return shapes.get(layout, ((ROWS, COLUMNS), (COLUMNS, 1), 0))


class _Interface:
    """An object with ``__array_interface__`` and nothing else."""

    def __init__(self, interface: dict[str, Any]) -> None:
        self.__array_interface__ = interface


class ArrayInterface(Producer):
    """Objects with ``__array_interface__`` and nothing else."""

    name = "array interface"
    dtypes = (*FORMATS, *COMPLEX)
    layouts = tuple(layout for layout in LAYOUTS if layout != "byte offset")

    def make(self, spec: Spec) -> Made:
        rows, layout = values(spec.dtype), spec.layout
        big, read_only = layout == "big-endian", layout == "read-only"
        memory = room(encoded(flat(rows), spec.dtype, big), int(layout == "unaligned"))
        size = memory.nbytes // (ROWS * COLUMNS)
        shape, strides, start = strided(layout)
        place = buffer_address(memory) + start * size
        kind = {"int": "i", "uint": "u", "float": "f", "complex": "c", "bool": "b"}[spec.dtype.rstrip("0123456789")]
        typestr = f"{'|' if size == 1 else '>' if big else '<'}{kind}{size}"
        interface = {
            "version": 3, "typestr": typestr, "shape": shape, "strides": tuple(stride * size for stride in strides),
            "data": (place, read_only),
        }  # fmt: skip

        def read() -> Any:
            if big:
                return elements.nested(elements.unpacked(swapped(bytes(memory), spec.dtype), spec.dtype), shape)
            return elements.at(place, spec.dtype, shape, strides)

        return Made(_Interface(interface), laid_out(layout, rows), place, read, read_only, [memory])


class Versioned(Producer):
    """An object whose ``__dlpack__`` has all keywords and returns versioned managed tensors."""

    name = "versioned object"
    versioned = True
    dtypes = WHOLE_BYTES
    layouts = tuple(layout for layout in LAYOUTS if layout != "big-endian")

    def make(self, spec: Spec) -> Made:
        rows, layout = values(spec.dtype), spec.layout
        memory = room(encoded(flat(rows), spec.dtype), int(layout == "unaligned"))
        size = memory.nbytes // (ROWS * COLUMNS)
        shape, strides, start = strided(layout)
        place, offset = buffer_address(memory), start * size
        apart, read_only = layout == "byte offset", layout == "read-only"

        def craft(keywords: dict[str, Any]) -> crafter.Crafted | BufferError:
            if read_only and "max_version" not in keywords:
                return BufferError("read-only data needs max_version")
            return crafter.craft(
                shape, dtype=spec.dtype, strides=strides, data=0 if layout == "zero-size" else place + offset * (not apart),
                byte_offset=offset * apart, versioned=self.versioned and "max_version" in keywords,
                flags=Flags.READ_ONLY * read_only, values=[],
            )  # fmt: skip

        def read() -> Any:
            return elements.at(place + offset, spec.dtype, shape, strides)

        made = (crafter.Producer if self.versioned else OldProducer)(craft)
        return Made(made, laid_out(layout, rows), place + offset, read, read_only, [memory])


class Legacy(Versioned):
    """An object from before DLPack 1.0: ``__dlpack__`` has only the keyword ``stream`` and returns a legacy capsule.

    It cannot mark memory as read-only.
    """

    name = "legacy object"
    versioned = False
    layouts = tuple(layout for layout in Versioned.layouts if layout != "read-only")


def producers() -> dict[str, Producer]:
    """All producers by name: the libraries with adapters, and other objects with memory."""
    found: list[Producer] = [AdapterProducer(adapter) for adapter in adapters() if adapter.produces]
    found += [ArrowArray(), PolarsSeries(), PandasSeries(), Picture(), MemoryView(), ArrayInterface(), Versioned(), Legacy()]
    return {producer.name: producer for producer in found}
