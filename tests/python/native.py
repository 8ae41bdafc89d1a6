"""Tensors and buffers that the kit crafts, with a check that each tensor is deleted once."""

import ctypes
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

import dlbridge
from dlbridge_conformance import crafter
from dlbridge_conformance.crafter import (
    CPU, CUDA, CUDA_HOST, OPENCL, ROCM, Crafted, Flags, Held, Ints, OldProducer, Producer, Record, Way, c_strides,
)  # fmt: skip

__all__ = ["CPU", "CUDA", "CUDA_HOST", "OPENCL", "ROCM", "Crafted", "Flags", "Held", "Ints", "OldProducer", "Producer", "Way", "c_strides"]

class Kind(IntEnum):
    """A device type as an enum, which frameworks return and pass."""

    CPU = 1


#: dtypes as (code, bits, lanes)
UINT8, FLOAT32, FLOAT64 = (1, 8, 1), (2, 32, 1), (2, 64, 1)
LITTLE_ENDIAN = sys.byteorder == "little"


def numbers(count: int) -> bytes:
    """The float32 numbers 0, 1, 2, ... as bytes."""
    return bytes((ctypes.c_float * count)(*range(count)))


def floats(address: int, count: int) -> list[float]:
    """Float32 numbers in memory."""
    return list((ctypes.c_float * count).from_address(address))


class OnDevice(Producer):
    """A producer on the device of a crafted tensor."""

    def __init__(self, crafted: Crafted) -> None:
        super().__init__(crafted, crafted.device)
        self.crafted = crafted

    @property
    def streams(self) -> list[Any]:
        """The requested streams."""
        return [keywords.get("stream") for keywords in self.asked]


@dataclass
class Native:
    """Crafts tensors and buffers, and takes tensors out of capsules."""

    #: The crafted tensors that have a deleter.
    made: list[Crafted] = field(default_factory=list)

    take = staticmethod(crafter.take)
    name = staticmethod(crafter.capsule_name)
    clear_keeps = staticmethod(crafter.clear_keeps)

    def craft(self, shape: Ints | None = (2, 3), **fields: Any) -> Crafted:
        """As the function of the kit, with the float32 numbers 0 to 63 as the payload."""
        crafted = crafter.craft(shape, **{"payload": numbers(64), "dtype": FLOAT32, **fields})
        if crafted.has_deleter:
            self.made.append(crafted)
        return crafted

    def export(self, producer: Any, **keywords: Any) -> Held:
        """Calls ``__dlpack__`` and takes the managed tensor out of the capsule."""
        return self.take(producer.__dlpack__(**keywords))

    def all_deleted(self) -> bool:
        """Returns whether every deleter was called exactly once."""
        return all(one.record.calls == 1 for crafted in self.made for one in crafted.all)

    def tensor(self, shape: Ints = (2, 3), **fields: Any) -> tuple[dlbridge.Tensor, Crafted]:
        """A crafted tensor, imported."""
        crafted = self.craft(shape, **fields)
        return dlbridge.asdlpack(OnDevice(crafted)), crafted

    def exporter(
        self,
        payload: bytes = numbers(64),
        *,
        format: str | None = "f",
        itemsize: int = 4,
        shape: Ints | None = (2, 3),
        ndim: int | None = None,
        strides: Ints | None = None,
        suboffsets: Ints | None = None,
        readonly: bool = False,
        length: int | None = None,
        origin: int = 0,
        on_release: Callable[[], Any] | None = None,
    ) -> Any:
        """An object with a buffer, right or wrong in every field, whose attribute ``exports`` counts the requests for it."""
        return crafter.native.Exporter(
            payload, format=format, itemsize=itemsize, shape=shape, strides=strides, suboffsets=suboffsets,
            ndim=len(shape or ()) if ndim is None else ndim, readonly=readonly, origin=origin,
            length=math.prod(shape or ()) * itemsize if length is None else length, on_release=on_release,
        )  # fmt: skip

    def released(self, exporter: Any) -> Record:
        """The releases of the buffer of an exporter."""
        return Record(*exporter.record())
