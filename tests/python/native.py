"""Crafted managed tensors and buffers, and a consumer of capsules: the Python side of native.c."""

from __future__ import annotations

import ctypes
import importlib.util
import math
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import dlbridge
from dlbridge_conformance import crafter
from dlbridge_conformance.crafter import (
    CPU, CUDA, CUDA_HOST, LEGACY, OPENCL, ROCM, VERSIONED, Flags, Ints, Record, Way, c_strides,
)  # fmt: skip

SOURCE = Path(__file__).with_name("native.c")

#: dtypes as (code, bits, lanes)
INT32, UINT8, FLOAT32, FLOAT64 = (0, 32, 1), (1, 8, 1), (2, 32, 1), (2, 64, 1)
LITTLE_ENDIAN = sys.byteorder == "little"


@dataclass(frozen=True)
class Fields:
    """Every field of a managed tensor; shape and strides are None if the pointer is NULL."""

    version: tuple[int, int] | None
    flags: int
    ctx: int
    deleter: int
    device: tuple[int, int]
    dtype: tuple[int, int, int]
    ndim: int
    data: int
    shape: Ints | None
    strides: Ints | None
    byte_offset: int


@dataclass
class Held:
    """A managed tensor taken out of a capsule. The test must call its deleter once."""

    library: ModuleType
    address: int
    versioned: bool

    @property
    def fields(self) -> Fields:
        """The fields of the struct."""
        return Fields(**self.library.read(self.address, self.versioned))

    def delete(self, way: Way = Way.WITH_GIL) -> None:
        """Calls the deleter."""
        self.library.delete(self.address, self.versioned, way)

    def delete_keeps(self, exception: BaseException) -> bool:
        """Calls the deleter while an exception is pending. Returns whether it is still pending afterwards."""
        kept: bool = self.library.delete_pending(self.address, self.versioned, exception)
        return kept


@dataclass(frozen=True)
class Crafted:
    """A managed tensor made by :meth:`Native.craft`."""

    library: ModuleType
    address: int
    versioned: bool
    device: tuple[int, int]

    def capsule(self, name: str | None = "") -> Any:
        """A capsule that owns the tensor; by default with the name of its ABI."""
        if name == "":
            name = VERSIONED if self.versioned else LEGACY
        return self.library.capsule(self.address, name)

    @property
    def fields(self) -> Fields:
        """The fields of the struct."""
        return Fields(**self.library.read(self.address, self.versioned))

    @property
    def record(self) -> Record:
        """The calls of the deleter."""
        return Record(*self.library.record(self.address))

    def own(self, held: Held) -> None:
        """Makes the deleter release the GIL and also delete another tensor."""
        self.library.own(self.address, held.address, held.versioned)


def numbers(count: int) -> bytes:
    """The float32 numbers 0, 1, 2, ... as bytes."""
    return bytes((ctypes.c_float * count)(*range(count)))


def floats(address: int, count: int) -> list[float]:
    """Float32 numbers in memory."""
    return list((ctypes.c_float * count).from_address(address))


@dataclass(frozen=True)
class Native:
    """The compiled helper."""

    library: ModuleType
    path: Path
    #: The crafted tensors that have a deleter.
    made: list[Crafted] = field(default_factory=list)

    def craft(
        self,
        shape: Ints | None = (2, 3),
        *,
        versioned: bool = True,
        version: tuple[int, int] = (1, 3),
        ctx: int = 0,
        deleter: bool = True,
        flags: int = 0,
        device: tuple[int, int] = CPU,
        dtype: tuple[int, int, int] = FLOAT32,
        ndim: int | None = None,
        strides: Ints | str | None = "C",
        byte_offset: int = 0,
        payload: bytes = numbers(64),
        origin: int = 0,
        data: int | None = None,
        skew: int = 0,
    ) -> Crafted:
        """Makes a managed tensor, with right or wrong values in every field.

        A shape or strides of None become NULL pointers; ``strides="C"`` means C order. The data is
        ``payload`` from byte ``origin`` on, or the memory at the address ``data``. ``skew`` misaligns
        the shape and strides pointers.
        """
        if strides == "C":
            strides = c_strides(shape or ())
        ndim = len(shape or ()) if ndim is None else ndim
        address = self.library.craft(
            versioned, version, ctx, deleter, flags, device, dtype, ndim, shape, strides,
            byte_offset, payload, origin, data, skew,
        )  # fmt: skip
        crafted = Crafted(self.library, address, versioned, device)
        if deleter:
            self.made.append(crafted)
        return crafted

    def export(self, producer: Any, **keywords: Any) -> Held:
        """Calls ``__dlpack__`` and takes the managed tensor out of the capsule."""
        return self.take(producer.__dlpack__(**keywords))

    def take(self, capsule: Any) -> Held:
        """Takes the managed tensor out of a capsule."""
        return Held(self.library, *self.library.take(capsule))

    def name(self, capsule: Any) -> str | None:
        """The name of a capsule."""
        name: str | None = self.library.name(capsule)
        return name

    def clear_keeps(self, objects: list[Any], exception: BaseException) -> bool:
        """Empties a list while an exception is pending. Returns whether it is still pending afterwards."""
        kept: bool = self.library.clear_pending(objects, exception)
        return kept

    def all_deleted(self) -> bool:
        """Returns whether every deleter was called exactly once."""
        return all(crafted.record.calls == 1 for crafted in self.made)

    def tensor(self, shape: Ints = (2, 3), **keywords: Any) -> tuple[dlbridge.Tensor, Crafted]:
        """A crafted tensor, imported."""
        crafted = self.craft(shape, **keywords)
        return dlbridge.asdlpack(Producer(crafted, crafted.device)), crafted

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
        """Makes an object with a buffer, with right or wrong values in every field.

        A negative origin makes ``buf`` NULL. The attribute ``exports`` counts the requests for the
        buffer, and :meth:`released` the releases.
        """
        ndim = len(shape or ()) if ndim is None else ndim
        length = math.prod(shape or ()) * itemsize if length is None else length
        return self.library.Exporter(
            payload, origin, length, itemsize, readonly, ndim, format, shape, strides, suboffsets,
            on_release,
        )  # fmt: skip

    def released(self, exporter: Any) -> Record:
        """The releases of the buffer of an exporter."""
        return Record(*exporter.record)


class Producer(crafter.Producer):
    """The producer of the kit, which also exports what is crafted here."""

    def give(self, keywords: dict[str, Any]) -> Any:
        """Records the keywords, and answers."""
        if not isinstance(self.answer, Crafted):
            return super().give(keywords)
        self.asked.append(keywords)
        return self.answer.capsule()


def compiler() -> str | None:
    """The path of a C compiler, or None."""
    return shutil.which(os.environ.get("CC", "cc")) or shutil.which("gcc")


def build(directory: Path, compiler: str) -> Path:
    """Compiles native.c to an extension module in a directory."""
    path = directory / "_native.so"
    include = sysconfig.get_path("include")
    command = [compiler, "-shared", "-fPIC", "-pthread", "-O1", "-g", "-Wall", f"-I{include}"]
    subprocess.run([*command, str(SOURCE), "-o", str(path)], check=True)
    return path


def load(path: Path) -> Native:
    """Loads the extension module that :func:`build` made."""
    spec = importlib.util.spec_from_file_location("_native", path)
    assert spec is not None
    assert spec.loader is not None
    library = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(library)
    return Native(library, path)
