"""Crafted producers: objects with the oldest and the newest ``__dlpack__``, in every dtype and layout."""

from __future__ import annotations

from typing import Any

from dlbridge_conformance import crafter, elements
from dlbridge_conformance.crafter import Flags, OldProducer
from dlbridge_conformance.crafter import Producer as NewProducer
from dlbridge_conformance.elements import flat
from dlbridge_conformance.matrix.buffers import buffer_address, room, strided
from dlbridge_conformance.matrix.outcome import Spec
from dlbridge_conformance.matrix.producer import Made, Producer
from dlbridge_conformance.matrix.samples import COLUMNS, LAYOUTS, ROWS, WHOLE_BYTES, encoded, laid_out, values


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
        apart = layout == "byte offset"
        read_only = layout == "read-only"

        def craft(keywords: dict[str, Any]) -> crafter.Crafted | BufferError:
            if read_only and "max_version" not in keywords:
                return BufferError("read-only data needs max_version")
            return crafter.craft(
                shape, dtype=spec.dtype, strides=strides, data=0 if layout == "zero-size" else place + offset * (not apart),
                byte_offset=offset * apart, versioned=self.versioned and "max_version" in keywords,
                flags=Flags.READ_ONLY * read_only, values=[],
            )  # fmt: skip

        made = (NewProducer if self.versioned else OldProducer)(craft)

        def read() -> Any:
            return elements.at(place + offset, spec.dtype, shape, strides)

        return Made(made, laid_out(layout, rows), place + offset, read, read_only, [memory])


class Legacy(Versioned):
    """An object from before DLPack 1.0: ``__dlpack__`` has only the keyword ``stream`` and returns a legacy capsule.

    It cannot mark memory as read-only.
    """

    name = "legacy object"
    versioned = False
    layouts = tuple(layout for layout in Versioned.layouts if layout != "read-only")


CRAFTED: tuple[type[Producer], ...] = (Versioned, Legacy)
