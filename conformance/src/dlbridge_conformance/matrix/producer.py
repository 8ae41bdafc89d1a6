"""Producers: who makes the objects that are exchanged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from dlbridge_conformance.adapter import Adapter
from dlbridge_conformance.matrix.outcome import Spec
from dlbridge_conformance.matrix.samples import LAYOUT_DTYPES, LAYOUTS, laid_out, values
from dlbridge_conformance.outcome import NotApplicable

#: What every consumer takes without a copy as far as alignment goes, in bytes.
ALIGNMENT = 64

#: How many objects are made until one is aligned.
TRIES = 400


@dataclass
class Made:
    """An object of a producer, and what it is known to hold."""

    obj: Any
    #: the elements as nested lists
    expected: Any
    #: where the producer itself says that the element at index zero is; None if it does not
    address: int | None
    #: the elements as they are now
    read: Callable[[], Any]
    #: whether the elements must not be written, by the producer's word
    read_only: bool = False
    keep: list[Any] = field(default_factory=list)


class Producer:
    """Who makes objects. A subclass sets the attributes and overrides :meth:`make`."""

    name: str
    #: the library that is imported; empty for what comes with Python
    library: str = ""
    dtypes: tuple[str, ...] = ("float32",)
    layouts: tuple[str, ...] = ("C order",)

    def version(self) -> str:
        """The version of the library; empty for what comes with Python."""
        return ""

    def is_installed(self) -> bool:
        """Whether its objects can be made."""
        return True

    def load(self) -> None:
        """Imports the library."""

    def make(self, spec: Spec) -> Made:
        """An object. Raises NotApplicable for a layout or a dtype that the producer does not have."""
        raise NotImplementedError

    def specs(self) -> list[Spec]:
        """The cells of this producer: every dtype in C order, and the layouts in a few dtypes."""
        inner = [dtype for dtype in LAYOUT_DTYPES if dtype in self.dtypes] or list(self.dtypes[:1])
        plain = [Spec(dtype, "C order") for dtype in self.dtypes if "C order" in self.layouts]
        return plain + [
            Spec(dtype, layout) for layout in LAYOUTS if layout in self.layouts and layout != "C order" for dtype in inner
        ]


def aligned(make: Callable[[], Any], address: Callable[[Any], int | None]) -> Any:
    """What ``make`` makes, made until it begins at a multiple of 64 bytes.

    An allocator that gives such addresses now and then would make two runs differ.
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
        """Where the library says that the first element is."""
        try:
            return int(self.adapter.address(array))
        except NotApplicable:
            return None

    def is_read_only(self, array: Any) -> bool:
        """Whether the array must not be written, or is of a kind that never changes."""
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


#: Libraries whose arrays do not change by what they document, whether their capsules say so or not.
NEVER_CHANGES = {"jax", "tensorflow"}


class NumPyProducer(AdapterProducer):
    """NumPy, with what only its arrays can be."""

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
