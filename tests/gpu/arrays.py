"""Arrays over the driver's memory that follow the standards, and their import."""

from __future__ import annotations

import math
import struct
from typing import Any

from dlbridge_conformance import crafter
from driver import Driver

CUDA, PINNED = 2, 3

#: The values of arrays.
NEW = [1.5, -2.0, 3.25, 4.0, 5.5, -6.75]


def packed(values: list[float]) -> bytes:
    return struct.pack(f"{len(values)}f", *values)


def unpacked(content: bytes) -> list[float]:
    return list(struct.unpack(f"{len(content) // 4}f", content))


class Array:
    """A float32 array with its work on one stream; an export makes the consumer's stream wait for that."""

    def __init__(
        self,
        driver: Driver,
        address: int,
        shape: tuple[int, ...],
        *,
        stream: int = 1,
        strides: tuple[int, ...] | None = None,
        device: tuple[int, int] = (CUDA, 0),
        read_only: bool = False,
    ) -> None:
        self.driver, self.address, self.shape, self.stream, self.device = driver, address, shape, stream, device
        self.strides = crafter.c_strides(shape) if strides is None else strides
        self.read_only = read_only
        #: the exported managed tensors, and the streams that consumers requested
        self.given: list[crafter.Crafted] = []
        self.asked: list[Any] = []
        #: the object to keep alive: the managed tensor, or the object of an imported interface
        self.held: crafter.Held | None = None
        self.source: Any = None

    @classmethod
    def taken(cls, driver: Driver, capsule: Any, stream: int) -> Array:
        """Imports a capsule; the array calls the managed tensor's deleter when it is dropped."""
        held = crafter.take(capsule)
        fields = held.fields
        array = cls(
            driver,
            fields.data + fields.byte_offset,
            fields.shape or (),
            stream=stream,
            strides=fields.strides,
            device=fields.device,
            read_only=bool(fields.flags & crafter.Flags.READ_ONLY),
        )
        array.held = held
        return array

    def __del__(self) -> None:
        if self.held is not None:
            self.held.delete()

    @property
    def count(self) -> int:
        return math.prod(self.shape)

    @property
    def is_given_back(self) -> bool:
        """True if consumers called the deleter of every exported managed tensor, and there is at least one."""
        return bool(self.given) and all(crafted.record.calls == 1 for crafted in self.given)

    def values(self) -> list[float]:
        """Returns the values in C order, after all work."""
        self.driver.wait_for_all()
        steps = range(len(self.shape))
        values = []
        for number in range(self.count):
            offset, rest = 0, number
            for axis in reversed(steps):
                rest, index = divmod(rest, self.shape[axis])
                offset += index * self.strides[axis]
            device = self.device[1]
            values += unpacked(self.driver.read(self.driver.fills[device], self.address + 4 * offset, 4, device))
        return values

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device

    def __dlpack__(
        self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: Any = None
    ) -> Any:
        if dl_device not in (None, self.device) or copy:
            raise BufferError("the driver's arrays cannot be copied")
        self.asked.append(stream)
        if stream not in (-1, self.stream) and self.device[0] != PINNED:
            self.driver.order(self.stream, stream or 1, self.device[1])
        crafted = crafter.craft(
            self.shape,
            strides=self.strides,
            device=self.device,
            data=self.address if self.count else 0,
            flags=crafter.Flags.READ_ONLY if self.read_only else 0,
        )
        self.given.append(crafted)
        return crafted.capsule()

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return interface(self.address, self.shape, self.stream, self.strides, self.read_only)


def interface(
    address: int,
    shape: tuple[int, ...],
    stream: int | None,
    strides: tuple[int, ...] | None = None,
    read_only: bool = False,
) -> dict[str, Any]:
    """Returns ``__cuda_array_interface__`` for a float32 array."""
    return {
        "version": 3,
        "shape": shape,
        "typestr": "<f4",
        "data": (address if math.prod(shape) else 0, read_only),
        "strides": None if strides is None else tuple(4 * stride for stride in strides),
        "stream": stream,
    }


class InterfaceArray:
    """An object with only ``__cuda_array_interface__``, which keeps another object alive."""

    def __init__(self, fields: dict[str, Any], owner: Any = None) -> None:
        self.__cuda_array_interface__ = fields
        self.owner = owner

    @classmethod
    def only(cls, source: Any) -> InterfaceArray:
        """Hides all protocols of an object except the interface."""
        return cls(source.__cuda_array_interface__, source)

    @staticmethod
    def taken(driver: Driver, source: Any, stream: int) -> Array:
        """Imports an interface, and makes the current stream wait for the interface's stream."""
        fields = source.__cuda_array_interface__
        address, read_only = fields["data"]
        shape = tuple(fields["shape"])
        strides = fields.get("strides")
        device = driver.device_of(address) if address else 0
        if fields.get("stream") not in (None, stream):
            driver.order(fields["stream"], stream, device)
        array = Array(
            driver,
            address,
            shape,
            stream=stream,
            strides=None if strides is None else tuple(stride // 4 for stride in strides),
            device=(CUDA, device),
            read_only=read_only,
        )
        array.source = source
        return array
