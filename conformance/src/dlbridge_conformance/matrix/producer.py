"""Producers of the matrix: libraries that make the objects to exchange."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from dlbridge_conformance.adapter import Adapter
from dlbridge_conformance.matrix.outcome import Spec
from dlbridge_conformance.matrix.samples import LAYOUT_DTYPES, LAYOUTS, laid_out, values
from dlbridge_conformance.outcome import NotApplicable

#: An alignment in bytes that every consumer accepts without a copy.
ALIGNMENT = 64

#: The maximum number of objects to make until one is aligned.
TRIES = 400


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


class Producer:
    """Makes objects. A subclass sets the attributes and overrides :meth:`make`."""

    name: str
    #: the library to import; empty if it is part of Python
    library: str = ""
    dtypes: tuple[str, ...] = ("float32",)
    layouts: tuple[str, ...] = ("C order",)

    def version(self) -> str:
        """The version of the library; empty if it is part of Python."""
        return ""

    def is_installed(self) -> bool:
        """Returns whether the library is installed."""
        return True

    def load(self) -> None:
        """Imports the library."""

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

    def __init__(self, adapter: Adapter) -> None:
        self.adapter = adapter
        self.name = adapter.name
        self.library = adapter.name
        self.dtypes = adapter.dtypes
        self.layouts = tuple(layout for layout in LAYOUTS if layout not in ("big-endian", "unaligned", "byte offset"))

    def version(self) -> str:
        return self.adapter.version()

    def is_installed(self) -> bool:
        return self.adapter.is_installed()

    def load(self) -> None:
        self.adapter.load()

    def address(self, array: Any) -> int | None:
        """The address of the first element as the library reports it; None if it does not report one."""
        try:
            return int(self.adapter.address(array))
        except NotApplicable:
            return None

    def is_read_only(self, array: Any) -> bool:
        """Returns whether the library marks the array as read-only."""
        try:
            return self.adapter.is_read_only(array)
        except NotApplicable:
            return False

    def make(self, spec: Spec) -> Made:
        expected = laid_out(spec.layout, values(spec.dtype))
        array = self.view(spec)
        read_only = self.name in NEVER_CHANGES or self.is_read_only(array)
        return Made(array, expected, self.address(array), lambda: self.adapter.values(array), read_only)

    def base(self, rows: Any, dtype: str) -> Any:
        """An array in C order, aligned."""
        return aligned(lambda: self.adapter.array(rows, dtype), self.address)

    def view(self, spec: Spec) -> Any:
        """The array in its layout."""
        adapter, rows = self.adapter, values(spec.dtype)
        if spec.layout == "C order":
            return self.base(rows, spec.dtype)
        if spec.layout == "broadcast":
            return adapter.broadcast(self.base(rows[0], spec.dtype), len(rows))
        if spec.layout == "zero-size":
            return self.adapter.array([], spec.dtype)
        if spec.layout == "0-d":
            return self.base(rows[0][0], spec.dtype)
        if spec.layout == "size-1 axis":
            return adapter.stepped(self.base(rows[:2], spec.dtype))
        layouts = {
            "transposed": adapter.transposed,
            "stepped": adapter.stepped,
            "reversed": adapter.reversed,
            "sliced": adapter.sliced,
            "read-only": adapter.read_only,
        }
        return layouts[spec.layout](self.base(rows, spec.dtype))


#: Libraries that document their arrays as immutable, even if their capsules do not say so.
NEVER_CHANGES = {"jax", "tensorflow"}


class NumPyProducer(AdapterProducer):
    """NumPy, with the layouts that only its arrays support."""

    def __init__(self, adapter: Adapter) -> None:
        super().__init__(adapter)
        self.layouts = tuple(layout for layout in LAYOUTS if layout != "byte offset")

    def view(self, spec: Spec) -> Any:
        numpy = self.adapter.numpy  # type: ignore[attr-defined]
        rows = values(spec.dtype)
        if spec.layout == "big-endian":
            return numpy.array(rows, dtype=numpy.dtype(spec.dtype).newbyteorder(">"))
        if spec.layout == "unaligned":
            array = numpy.array(rows, dtype=spec.dtype)
            room = self.base([0] * (array.nbytes + 1), "uint8")
            view = room[1:].view(spec.dtype).reshape(array.shape)
            view[:] = array
            return view
        return super().view(spec)
