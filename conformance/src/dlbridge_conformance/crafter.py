"""Managed tensors with every field settable, and the other side of each exchange, in native code.

The functions here never read beyond the crafted memory, whatever a struct says. A consumer that trusts a wrong struct can
crash the process. Two things here can crash it too, as :mod:`ctypes` can: :func:`craft` trusts the address ``data``, and
a library's functions behind ``native.Table`` may assume that an object is of the class that has the table.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import IntEnum, IntFlag
from functools import partial
from typing import Any

from dlbridge_conformance import _crafter

native: Any = _crafter

Ints = tuple[int, ...]

LEGACY, VERSIONED = "dltensor", "dltensor_versioned"
CPU, CUDA, CUDA_HOST, OPENCL, ROCM = (1, 0), (2, 0), (3, 0), (4, 0), (10, 0)

#: Each dtype as (code, bits, lanes), by name. Source: ``DLDataTypeCode`` in ``dlpack.h`` 1.3.
DTYPES: dict[str, tuple[int, int, int]] = {
    **{f"int{bits}": (0, bits, 1) for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": (1, bits, 1) for bits in (8, 16, 32, 64)},
    **{f"float{bits}": (2, bits, 1) for bits in (16, 32, 64)},
    "bfloat16": (4, 16, 1),
    "complex64": (5, 64, 1),
    "complex128": (5, 128, 1),
    "bool": (6, 8, 1),
    "float8_e3m4": (7, 8, 1),
    "float8_e4m3": (8, 8, 1),
    "float8_e4m3b11fnuz": (9, 8, 1),
    "float8_e4m3fn": (10, 8, 1),
    "float8_e4m3fnuz": (11, 8, 1),
    "float8_e5m2": (12, 8, 1),
    "float8_e5m2fnuz": (13, 8, 1),
    "float8_e8m0fnu": (14, 8, 1),
    "float6_e2m3fn": (15, 6, 1),
    "float6_e3m2fn": (16, 6, 1),
    "float4_e2m1fn": (17, 4, 1),
}

#: The format of :mod:`struct` for each dtype that has one.
FORMATS = {
    **{f"int{bits}": code for bits, code in zip((8, 16, 32, 64), "bhiq", strict=True)},
    **{f"uint{bits}": code for bits, code in zip((8, 16, 32, 64), "BHIQ", strict=True)},
    **{f"float{bits}": code for bits, code in zip((16, 32, 64), "efd", strict=True)},
    "bool": "?",
}


class Flags(IntFlag):
    """The flags of a versioned managed tensor."""

    READ_ONLY = 1
    IS_COPIED = 2
    SUBBYTE_PADDED = 4


class Way(IntEnum):
    """How a consumer calls a deleter."""

    WITH_GIL = 0
    WITHOUT_GIL = 1
    NATIVE_THREAD = 2
    AT_EXIT = 3
    NOT_WAITED_FOR = 4


@dataclass(frozen=True)
class Record:
    """How often a deleter was called, and the state of the interpreter in the last call."""

    calls: int
    thread: int
    gil: bool
    initialized: bool
    pending: bool


@dataclass(frozen=True)
class Fields:
    """Every field of a managed tensor; shape and strides are None if the pointer is NULL."""

    version: tuple[int, int] | None
    flags: int
    manager_ctx: int
    deleter: int
    device: tuple[int, int]
    dtype: tuple[int, int, int]
    ndim: int
    data: int
    shape: Ints | None
    strides: Ints | None
    byte_offset: int

    def __str__(self) -> str:
        strides = "NULL" if self.strides is None else list(self.strides)
        shape = "NULL" if self.shape is None else list(self.shape)
        abi = "legacy" if self.version is None else f"version {self.version[0]}.{self.version[1]}"
        flags = f", flags {Flags(self.flags)!r}" if self.flags else ""
        return (
            f"{abi}{flags}, dtype {self.dtype}, ndim {self.ndim}, shape {shape}, strides {strides}, "
            f"device {self.device}, data {'NULL' if not self.data else 'set'}, byte_offset {self.byte_offset}, "
            f"deleter {'set' if self.deleter else 'NULL'}"
        )


def packed(values: list[Any], dtype: str) -> bytes:
    """Numbers as the bytes of elements."""
    if dtype == "bfloat16":
        return b"".join(struct.pack("<f", value)[2:] for value in values)
    if dtype in ("complex64", "complex128"):
        code = "f" if dtype == "complex64" else "d"
        return b"".join(struct.pack(f"2{code}", complex(v).real, complex(v).imag) for v in values)
    return struct.pack(f"{len(values)}{FORMATS[dtype]}", *values)


def c_strides(shape: Ints) -> Ints:
    """The strides of C order, in elements."""
    return tuple(math.prod(max(extent, 1) for extent in shape[i + 1 :]) for i in range(len(shape)))


@dataclass
class Held:
    """A managed tensor that was taken out of a capsule, and whose deleter must be called once.

    Every access after that raises ValueError.
    """

    native: Any
    deleted: bool = False

    @property
    def fields(self) -> Fields:
        """The fields of the struct."""
        return Fields(**self.native.fields())

    def delete(self, way: Way = Way.WITH_GIL) -> None:
        """Calls the deleter."""
        self.deleted = True
        self.native.delete(way)

    def delete_keeps(self, exception: BaseException) -> bool:
        """Calls the deleter while an exception is pending. Returns whether the same one is pending afterwards."""
        self.deleted = True
        kept: bool = self.native.delete_pending(exception)
        return kept

    def read(self, count: int, offset: int = 0) -> bytes:
        """Reads bytes that begin ``offset`` bytes after the first element; ValueError outside of the tensor."""
        return bytes(self.native.bytes(count, offset))

    def write(self, data: bytes, offset: int = 0) -> None:
        """Writes bytes from ``offset`` bytes after the first element on."""
        self.native.write(data, offset)


@dataclass
class Crafted:
    """A managed tensor made by :func:`craft`."""

    native: Any
    device: tuple[int, int]
    #: the elements as Python numbers, in C order
    values: list[Any]
    has_deleter: bool
    #: makes another struct of the same fields
    again: Callable[[], Any]
    #: how often it was exported, in a capsule or by a table
    given_away: int = 0
    #: further structs of the same fields, which were exported after it
    others: list[Crafted] = field(default_factory=list)

    @property
    def versioned(self) -> bool:
        """True if the struct is versioned."""
        versioned: bool = self.native.versioned
        return versioned

    def capsule(self, name: str | None = "") -> Any:
        """A capsule over the tensor, which owns it; by default under the name of its ABI.

        Unsafe: under another name, a consumer reads the struct as the ABI that the name announces.
        """
        self.given_away += 1
        return self.native.capsule((VERSIONED if self.versioned else LEGACY) if name == "" else name)

    @property
    def fields(self) -> Fields:
        """The fields as they were made."""
        return Fields(**self.native.fields())

    def next(self) -> Crafted:
        """The struct for the next export: this one, and a new one with the same fields for each later export."""
        if not self.given_away:
            return self
        self.others.append(replace(self, native=self.again(), given_away=0, others=[]))
        return self.others[-1]

    @property
    def all(self) -> list[Crafted]:
        """This struct, and those that were exported after it."""
        return [self, *self.others]

    @property
    def unreleased(self) -> list[Crafted]:
        """The exported structs whose deleter has not run."""
        return [crafted for crafted in self.all if crafted.given_away and not crafted.record.calls]

    @property
    def record(self) -> Record:
        """The calls of the deleter."""
        return Record(*self.native.record())

    def read(self, count: int, offset: int = 0) -> bytes:
        """Bytes of the data; ValueError once the deleter was called."""
        return bytes(self.native.held().bytes(count, offset))


def craft(
    shape: Ints | None = (2, 3),
    *,
    dtype: str | tuple[int, int, int] = "float32",
    values: list[Any] | None = None,
    versioned: bool = True,
    version: tuple[int, int] = (1, 3),
    manager_ctx: int = 1,
    deleter: bool = True,
    flags: int = 0,
    device: tuple[int, int] = CPU,
    ndim: int | None = None,
    strides: Ints | str | None = "C",
    byte_offset: int = 0,
    payload: bytes | None = None,
    origin: int = 0,
    data: int | None = None,
    skew: int = 0,
) -> Crafted:
    """Makes a managed tensor, right or wrong in every field.

    A shape or strides of None is a NULL pointer; ``strides="C"`` means C order. The data begin at byte ``origin`` of
    ``payload``, or at the address ``data``. Without either, they are ``values`` of the dtype, by default 0, 1, 2, ...
    ``skew`` is how many bytes the shape and strides pointers are off their alignment.

    Unsafe: ``data`` is trusted. Reading or writing a tensor at an address without memory crashes the process.
    """
    name = dtype if isinstance(dtype, str) else "float32"
    if strides == "C":
        strides = c_strides(shape or ())
    if values is None:
        count = min(math.prod(abs(extent) for extent in shape or ()), 64)
        values = [bool(i % 2) if name == "bool" else i for i in range(count)]
    if payload is None:
        known = name in FORMATS or name in ("bfloat16", "complex64", "complex128")
        payload = packed(values + [0] * (64 - len(values)), name) if known else bytes(range(256))
    make = partial(
        native.Crafted, versioned=versioned, version=version, manager_ctx=manager_ctx, deleter=deleter, flags=flags,
        device=device, dtype=DTYPES[dtype] if isinstance(dtype, str) else dtype,
        ndim=len(shape or ()) if ndim is None else ndim, shape=shape, strides=strides,
        byte_offset=byte_offset, payload=payload, origin=origin, data=data, skew=skew,
    )  # fmt: skip
    return Crafted(make(), device, values, deleter, make)


@dataclass
class Producer:
    """An object with ``__dlpack__`` and ``__dlpack_device__`` that records its calls.

    ``answer`` is a crafted tensor, which each further call crafts anew; an exception or a class of one, which is raised;
    any other object, which is returned; or a function that gets the keywords and returns one of these. ``device`` is the
    result of ``__dlpack_device__``.
    """

    answer: Any
    device: Any = CPU
    #: the keywords of each call that were not None
    asked: list[dict[str, Any]] = field(default_factory=list)
    asked_device: int = 0

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: Any = None,
        dl_device: Any = None,
        copy: Any = None,
    ) -> Any:
        """Records the keywords and answers."""
        keywords = dict(stream=stream, max_version=max_version, dl_device=dl_device, copy=copy)
        return self.give({key: value for key, value in keywords.items() if value is not None})

    def give(self, keywords: dict[str, Any]) -> Any:
        """Records these keywords and answers."""
        self.asked.append(keywords)
        answer = self.answer(keywords) if isinstance(self.answer, Callable) and not (  # type: ignore[arg-type]
            isinstance(self.answer, type)
        ) else self.answer
        if isinstance(answer, BaseException | type):
            raise answer
        return answer.next().capsule() if isinstance(answer, Crafted) else answer

    def __dlpack_device__(self) -> Any:
        """Returns ``device``."""
        self.asked_device += 1
        return self.device


class OldProducer(Producer):
    """A producer from before versioned DLPack: its ``__dlpack__`` knows only the keyword ``stream``."""

    def __dlpack__(self, stream: Any = None) -> Any:  # type: ignore[override]
        """Records the stream and answers."""
        return self.give({} if stream is None else {"stream": stream})


def take(capsule: Any) -> Held:
    """Takes the managed tensor out of a capsule, and renames the capsule."""
    return Held(native.take(capsule))


def capsule_name(capsule: Any) -> str | None:
    """The name of a capsule."""
    name: str | None = native.capsule_name(capsule)
    return name


def clear_keeps(objects: list[Any], exception: BaseException) -> bool:
    """Empties a list while an exception is pending. Returns whether the same one is pending afterwards."""
    kept: bool = native.clear_pending(objects, exception)
    return kept


def finished_with_gil_held() -> bool:
    """Returns whether the last deletion by ``Way.NOT_WAITED_FOR`` finished while the caller held the GIL."""
    finished: bool = native.finished_with_gil_held()
    return finished
