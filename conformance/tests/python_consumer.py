"""A Python consumer over the crafter, for the tests of the kit: without faults, or with named faults."""

from __future__ import annotations

import atexit
import ctypes
import math
import os
import threading
from dataclasses import dataclass, replace
from typing import Any

from dlbridge_conformance import crafter, elements
from dlbridge_conformance.adapter import Adapter
from dlbridge_conformance.crafter import CPU, CUDA, DTYPES, ROCM, Fields, Flags, Held
from python_tables import borrowed, exported, usable_table

#: names of capsules; a capsule does not copy its name, so these must live
NAMES = {name: name.encode() for name in (crafter.LEGACY, crafter.VERSIONED)}


def rename(capsule: Any, name: str) -> None:
    """Renames any capsule."""
    set_name = ctypes.pythonapi.PyCapsule_SetName
    set_name.argtypes = [ctypes.py_object, ctypes.c_char_p]
    set_name(capsule, NAMES[name])


def delete_again(fields: Fields, address: int) -> None:
    """Calls a deleter, even if it was called already."""
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(fields.deleter)(address)


class Later:
    """Gives a refused tensor back in a garbage collection."""

    def __init__(self, held: Held) -> None:
        self.held, self.itself = held, self

    def __del__(self) -> None:
        self.held.delete()


class Owner:
    """The owner that an array and its views share. It deletes the managed tensor when it dies."""

    def __init__(self, held: Held, consumer: PythonConsumer) -> None:
        self.held, self.consumer, self.fields = held, consumer, held.fields
        self.thread = threading.get_ident()
        self.address = held.native.address
        if consumer.has("deletes again at exit"):
            atexit.register(delete_again, self.fields, self.address)

    def __del__(self) -> None:
        kept = self.consumer.has("never deletes")
        kept |= self.consumer.has("needs a context") and not self.fields.manager_ctx
        kept |= self.consumer.has("keeps empty tensors") and 0 in (self.fields.shape or ())
        kept |= self.consumer.has("keeps 0-d tensors") and not self.fields.ndim
        kept |= self.consumer.has("stays on its thread") and threading.get_ident() != self.thread
        if not kept and not self.consumer.has("deletes early"):
            self.consumer.delete(self.held)
        if self.consumer.has("deletes twice"):
            delete_again(self.fields, self.address)


@dataclass
class Array:
    """An array, or a view of one."""

    owner: Any
    address: int
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    read_only: bool
    consumer: PythonConsumer
    device: str = "cpu"

    def tolist(self) -> Any:
        """The elements as nested lists."""
        return elements.at(self.address, self.dtype, self.shape, self.strides)

    def __dlpack_device__(self) -> tuple[int, int]:
        """The CPU."""
        return CPU

    def __dlpack__(self, *, max_version: Any = None, **_: Any) -> Any:
        """A capsule over a copy."""
        if self.consumer.has("fails to export"):
            raise RuntimeError("no export")
        flags = Flags.IS_COPIED | Flags.READ_ONLY * self.read_only
        if self.consumer.has("exports without an owner"):
            made = crafter.craft(self.shape, dtype=self.dtype, strides=self.strides, data=self.address)
        else:
            payload = elements.packed(elements.flat(self.tolist()), self.dtype) or b"\0"
            fields = {"versioned": max_version is not None, "flags": flags, "payload": payload}
            made = crafter.craft(self.shape, dtype=self.dtype, **fields)
        return made.capsule()


class PythonConsumer(Adapter):
    """A consumer with the given faults, or with those that the environment names."""

    name = "python_consumer:PythonConsumer"
    module = distribution = "dlbridge"
    dtypes = tuple(DTYPES)

    def __init__(self, *faults: str) -> None:
        self.faults = faults or tuple(filter(None, os.environ.get("PYTHON_CONSUMER_FAULTS", "").split(",")))
        self.found: Any = None
        self.failed = False

    def has(self, fault: str) -> bool:
        """Returns whether the consumer has a fault."""
        return fault in self.faults

    def from_dlpack(self, producer: Any, *, device: str | None = None, copy: bool | None = None) -> Any:
        """Imports a producer."""
        if not self.has("asks for the device last"):
            self._check_device(producer)
        capsule = self._capsule(producer, device, copy)
        if self.has("asks for the device last"):
            self._check_device(producer)
        held = self._taken(capsule)
        wanted = copy is True and not held.fields.flags & Flags.IS_COPIED and not self.has("ignores copy")
        wanted |= self.has("copies always") or (self.has("copies unless told not to") and copy is not False)
        array = self._made(held)
        return self._copied(array) if wanted else array

    def _made(self, held: Held) -> Array:
        """Makes an array over a managed tensor; gives the tensor back if that fails."""
        try:
            return self._array(held)
        except BaseException:
            if self.has("deletes the refused twice"):
                delete_again(held.fields, held.native.address)
            if self.has("gives the refused back later"):
                Later(held)
            elif not self.has("leaks the refused"):
                self.delete(held)
            raise

    def from_exchange_api(self, producer: Any) -> Any:
        """Imports an object by the table of its type, or by its methods if the table cannot be used."""
        table = None if self.has("ignores tables") else usable_table(self, producer)
        if table is None:
            return self.from_dlpack(producer)
        if self.failed:
            raise RuntimeError("the table has failed before")
        copies = self.has("borrows and copies") and bool(table.borrow)
        try:
            found = borrowed(table, producer) if copies or self.has("borrows") else exported(table, producer)
        except Exception:
            self.failed = self.has("gives up a table that failed")
            if self.has("falls back to the methods") and hasattr(producer, "__dlpack__"):
                return self.from_dlpack(producer)
            if self.has("loses exceptions of tables"):
                raise RuntimeError("the table failed") from None
            raise
        if isinstance(found, Fields):
            array = self._over(found, None)
            return self._copied(array) if copies else array
        if self.has("asks for the stream of device 0"):
            table.stream(2, 0, ctypes.c_void_p())
        return self._made(found)

    def delete(self, held: Held) -> None:
        """Calls the deleter."""
        if self.has("trusts the deleter") and not held.fields.deleter:
            ctypes.string_at(8, 1)
        held.delete()

    def _check_device(self, producer: Any) -> None:
        """Refuses devices other than the CPU."""
        try:
            kind, number = producer.__dlpack_device__()
            elsewhere = int(kind) not in (1, self.device[0]) and not self.has("ignores devices")
            if elsewhere or not isinstance(number, int):
                raise BufferError(f"the device {kind}, {number} is not supported")
        except BaseException as error:
            if self.has("swallows errors of the device") or self.has("takes any device"):
                return
            if isinstance(error, AttributeError) and self.has("has one exception for all"):
                raise TypeError("not an array") from error
            raise

    def _capsule(self, producer: Any, device: str | None, copy: bool | None) -> Any:
        """Calls ``__dlpack__`` and returns the answer."""
        keywords: dict[str, Any] = {"max_version": (1, 3)}
        if copy is not None and not self.has("ignores copy"):
            keywords["copy"] = copy
        if device is not None and not self.has("ignores devices"):
            keywords["dl_device"] = "cpu" if self.has("passes the device unchanged") else CPU
        if self.has("asks for no copy unasked"):
            keywords["copy"] = False
        if self.has("gives a stream on the CPU") or self.has("gives stream 1"):
            keywords["stream"] = 1
        elif self.device != CPU and not self.has("gives no stream"):
            keywords["stream"] = 0 if self.has("gives stream 0") else {CUDA: 1, ROCM: 0}[self.device]
        if self.has("has a keyword of its own"):
            keywords["layout"] = None
        if self.has("gives the version as a list"):
            keywords["max_version"] = [1, 3]
        if self.has("gives no version"):
            del keywords["max_version"]
        given = (None,) if self.has("passes the stream by position") else ()
        calls = 4 if self.has("asks four times") else 2
        try:
            if self.has("asks once too often"):
                producer.__dlpack__(**keywords)
            return producer.__dlpack__(*given, **keywords)
        except TypeError as error:
            if self.has("does not ask again"):
                raise
            if self.has("has one exception for all"):
                raise ValueError("no capsule") from error
            for _ in range(calls - 2):
                try:
                    return producer.__dlpack__()
                except TypeError:
                    continue
            return producer.__dlpack__()
        except BufferError:
            if self.has("asks again after any exception"):
                return producer.__dlpack__(max_version=(1, 3))
            if self.has("has one exception for all"):
                raise ValueError("no capsule") from None
            raise
        except BaseException as error:
            if self.has("has one exception for all"):
                raise ValueError("no capsule") from error
            raise

    def _taken(self, capsule: Any) -> Held:
        """The managed tensor of a capsule."""
        if type(capsule).__name__ != "PyCapsule":
            raise TypeError("__dlpack__ gave no capsule")
        name = crafter.capsule_name(capsule)
        if self.has("takes used capsules") and name == f"used_{crafter.VERSIONED}":
            rename(capsule, crafter.VERSIONED)
        elif self.has("takes capsules of any name") and name not in NAMES:
            rename(capsule, crafter.VERSIONED)
        elif name not in NAMES or (name == crafter.LEGACY and self.has("takes only versioned capsules")):
            raise ValueError(f"a capsule named {name!r} does not hold a tensor, or was consumed")
        if self.has("refuses what it asked for") and name == crafter.VERSIONED:
            raise BufferError("versioned tensors are not supported")
        held = crafter.take(capsule)
        if self.has("assumes the requested ABI") and name == crafter.LEGACY:
            # Reads the deleter at its offset in a versioned struct, whatever the ABI is.
            address = held.native.address
            ctypes.CFUNCTYPE(None, ctypes.c_void_p).from_address(address + 16)(address)
        if self.has("does not rename"):
            rename(capsule, name or crafter.VERSIONED)
        return held

    def _array(self, held: Held) -> Array:
        """Makes an array over a managed tensor. Raises an exception if that is impossible."""
        fields = held.fields
        if self.has("reads before it looks at the version"):
            ctypes.string_at(fields.data, 1)
        if self.has("looks at the dtype before the version"):
            self._dtype(fields)
        major, minor = fields.version or (1, 0)
        if self.has("compares one byte of the version"):
            major &= 255
        known = (1, 2) if self.has("takes version 2") else (0, 1) if self.has("takes version 0.8") else (1,)
        if major not in known or (minor > 3 and self.has("refuses later minor versions")):
            raise BufferError(f"version {major}.{minor} is not supported")
        if fields.device != CPU and not self._takes_any_device():
            raise BufferError(f"the device {fields.device} is not supported")
        if not fields.deleter and self.has("needs a deleter"):
            raise BufferError("the deleter is NULL")
        array = self._over(fields, held)
        if self.has("deletes early"):
            held.delete()
        return array

    def _takes_any_device(self) -> bool:
        """Returns whether a fault hides the address of memory."""
        faults = ("takes any device", "ignores devices", "takes what is wrong", "aborts on what is wrong")
        return any(map(self.has, faults))

    def _over(self, fields: Fields, held: Held | None) -> Array:
        """Makes an array over a held or borrowed tensor. Raises an exception if that is impossible."""
        try:
            address, dtype, shape, strides, read_only = self._described(fields)
        except Exception:
            if self.has("aborts on what is wrong"):
                os.abort()
            if not self.has("takes what is wrong"):
                raise
            address, dtype, shape, strides, read_only = fields.data, "uint8", (0,), (1,), False
        owner = None if held is None else Owner(held, self)
        return Array(owner, address, dtype, shape, strides, read_only, self)

    def _described(self, fields: Fields) -> tuple[int, str, tuple[int, ...], tuple[int, ...], bool]:
        """Address, dtype, shape, strides, and whether it is read-only."""
        if fields.ndim > 64 and self.has("forgets dimensions"):
            fields = replace(fields, ndim=64, shape=(fields.shape or ())[:64], strides=(fields.strides or ())[:64])
        dtype = self._dtype(fields)
        shape, strides = self._layout(fields, DTYPES[dtype][1])
        address = fields.data + fields.byte_offset * (not self.has("ignores byte_offset"))
        read_only = bool(fields.flags & Flags.READ_ONLY) and not self.has("drops READ_ONLY")
        if self.has("knows only its own flags"):
            read_only = fields.flags == Flags.READ_ONLY
        if self.has("writes what it reads"):
            ctypes.memset(address, 0xFF, 1)
        return address, dtype, shape, strides, read_only

    def _dtype(self, fields: Fields) -> str:
        """The dtype by name."""
        code, bits, lanes = fields.dtype
        if self.has("ignores lanes"):
            lanes = 1
        if self.has("ignores the bits of small floats") and code in (15, 16, 17):
            bits = 4 if code == 17 else 6
        if self.has("takes unknown codes for floats") and code > 17:
            code = 2
        name = elements.name_of((code, bits, lanes))
        if bits < 8 and fields.flags & Flags.SUBBYTE_PADDED and not self.has("takes padded for packed"):
            raise BufferError("padded elements are not supported")
        if self.has("lacks uint16") and name == "uint16":
            return "bfloat16"
        return "int32" if self.has("lacks int64") and name == "int64" else name

    def _layout(self, fields: Fields, bits: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Shape and strides."""
        if not 0 <= fields.ndim <= 64 or (fields.ndim and fields.shape is None):
            raise BufferError(f"{fields.ndim} dimensions without a shape")
        shape, strides = fields.shape or (), fields.strides
        if strides is None:
            if self.has("needs strides"):
                raise BufferError("the strides are NULL")
            strides = crafter.c_strides(shape)
        if self.has("takes negative extents"):
            shape = tuple(abs(extent) for extent in shape)
        if any(extent < 0 for extent in shape):
            raise BufferError(f"a negative extent: {shape}")
        if 0 in shape:
            if self.has("aborts on what is wrong") and max(shape) > 2**60:
                os.abort()
            return ((0,) if self.has("forgets shapes without elements") else shape), (1,) * len(shape)
        if not fields.data and not self.has("takes data of NULL"):
            raise BufferError("data is NULL")
        size, whole = max(bits // 8, 1), math.prod(shape)
        reach = sum((extent - 1) * abs(stride) for extent, stride in zip(shape, strides, strict=True) if extent > 1)
        if max(whole, reach) * size >= 2**63 or fields.byte_offset >= 2**63:
            raise BufferError("beyond the address space")
        if self.has("refuses odd strides") and any(s != t for s, t in zip(strides, crafter.c_strides(shape))):
            raise BufferError("not in C order")
        if self.has("ignores strides"):
            strides = crafter.c_strides(shape)
        if self.has("lacks negative strides"):
            strides = tuple(abs(stride) for stride in strides)
        if self.has("has strides in units of float32"):
            strides = tuple(stride * 4 // size for stride in strides)
        return shape, strides

    def _copied(self, array: Array) -> Array:
        """Makes an array with its own memory."""
        if math.prod(array.shape) > 2**24:
            raise MemoryError(f"a copy of {array.shape}")
        data = elements.packed(elements.flat(array.tolist()), array.dtype)
        memory = ctypes.create_string_buffer(data, len(data) + 1)
        strides = crafter.c_strides(array.shape)
        return Array(memory, ctypes.addressof(memory), array.dtype, array.shape, strides, False, self)

    def address(self, array: Any) -> int:
        return int(array.address)

    def sliced(self, array: Any) -> Any:
        owner = None if self.has("has views that own nothing") else array.owner
        address = array.address + array.strides[0] * DTYPES[array.dtype][1] // 8
        shape = (array.shape[0] - 1, *array.shape[1:])
        read_only = array.read_only and not self.has("has writable views")
        return Array(owner, address, array.dtype, shape, array.strides, read_only, self)

    def is_read_only(self, array: Any) -> bool:
        return bool(array.read_only)

    def write(self, array: Any, value: float) -> None:
        if array.read_only:
            raise ValueError("the array is read-only")
        data = elements.packed([value], array.dtype)
        ctypes.memmove(array.address, data, len(data))
