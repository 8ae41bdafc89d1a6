"""dlbridge under an adapter, with a deliberate fault: in the result of ``__dlpack__``, or in the table of its type."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import dlbridge
from dlbridge_conformance import crafter
from dlbridge_conformance.adapter import Adapter
from dlbridge_conformance.crafter import Crafted, Fields, Held
from dlbridge_conformance.registry import known_adapters

Give = Callable[["Made", dict[str, Any]], Any]
Device = Callable[[], Any]


def sound(array: Made, keywords: dict[str, Any]) -> Any:
    """The result of a producer without a fault."""
    return array.inner.__dlpack__(**keywords)


class Made:
    """Wraps an array, and gives it a ``__dlpack__`` with a fault."""

    def __init__(self, inner: Any, give: Give, device: Device | None) -> None:
        self.inner, self.give, self.device = inner, give, device

    def __dlpack__(self, **keywords: Any) -> Any:
        return self.give(self, keywords)

    def __dlpack_device__(self) -> Any:
        return self.device() if self.device else self.inner.__dlpack_device__()


class Bare:
    """A faulty array without weak references."""

    __slots__ = ("inner", "give", "device")
    __init__ = Made.__init__
    __dlpack__ = Made.__dlpack__
    __dlpack_device__ = Made.__dlpack_device__


class Positional(Made):
    """A faulty array with a positional parameter."""

    def __dlpack__(self, stream: Any = None, **keywords: Any) -> Any:  # type: ignore[override]
        return super().__dlpack__(stream=stream, **keywords)


@dataclass
class Faulty(Adapter):
    """dlbridge with a fault."""

    give: Give = sound
    device_answer: Device | None = None
    base: Any = field(default_factory=lambda: known_adapters()["dlbridge"])
    wrap: Callable[[Any, Give, Device | None], Any] = Made
    device: tuple[int, int] = (1, 0)

    def __post_init__(self) -> None:
        self.name, self.module, self.dtypes = "faulty", "dlbridge", self.base.dtypes
        self.base.load()

    def array(self, values: Any, dtype: str = "float32") -> Any:
        return self.made(self.base.array(values, dtype))

    def made(self, inner: Any) -> Any:
        return self.wrap(inner, self.give, self.device_answer)

    def from_dlpack(self, producer: Any, **keywords: Any) -> Any:
        return self.made(self.base.from_dlpack(producer, **keywords))


def _of_inner(name: str, is_view: bool) -> Callable[..., Any]:
    """The method of the adapter on the wrapped array; a view is wrapped too."""

    def call(self: Faulty, array: Any, *more: Any, **keywords: Any) -> Any:
        found = getattr(self.base, name)(array.inner, *more, **keywords)
        return self.made(found) if is_view else found

    return call


for _name in ("values", "address", "is_read_only", "write"):
    setattr(Faulty, _name, _of_inner(_name, False))
for _name in ("transposed", "stepped", "reversed", "sliced", "broadcast", "read_only"):
    setattr(Faulty, _name, _of_inner(_name, True))


def copied(fields: Fields, held: Held, **changed: Any) -> Crafted:
    """A tensor that owns another one and has its fields, with some changes."""
    known: dict[str, Any] = {
        "dtype": fields.dtype, "versioned": fields.version is not None, "version": fields.version or (0, 0),
        "flags": fields.flags, "device": fields.device, "ndim": fields.ndim, "strides": fields.strides,
        "byte_offset": fields.byte_offset, "data": fields.data,
    }  # fmt: skip
    shape = changed.pop("shape", fields.shape)
    crafted = crafter.craft(shape, **{**known, **changed})
    crafted.native.own(held.native)
    return crafted


def changed(change: Callable[[Fields], dict[str, Any]], name: str = "", **asked: Any) -> Give:
    """A producer whose struct has some fields from a function."""

    def give(array: Made, keywords: dict[str, Any]) -> Any:
        held = crafter.take(sound(array, {**keywords, **asked}))
        return copied(held.fields, held, **change(held.fields)).capsule(name)

    return give


def fields(**values: Any) -> Give:
    """A producer whose struct has these fields wrong."""
    return changed(lambda _: values)


def renamed(name: str | None) -> Give:
    """A producer whose capsules have another name."""

    def give(array: Made, keywords: dict[str, Any]) -> Any:
        held = crafter.take(sound(array, keywords))
        return copied(held.fields, held).capsule(name)

    return give


def without(*names: str) -> Give:
    """A producer that accepts keywords and ignores them."""

    def give(array: Made, keywords: dict[str, Any]) -> Any:
        return sound(array, {key: value for key, value in keywords.items() if key not in names})

    return give


def raising(error: BaseException, *names: str) -> Give:
    """A producer that raises for any value but None of a keyword."""

    def give(array: Made, keywords: dict[str, Any]) -> Any:
        if any(keywords.get(name) is not None for name in names):
            raise error
        return sound(array, keywords)

    return give


def refusing(kind: type[Exception]) -> Give:
    """A producer that raises the same class for every refusal."""

    def give(array: Made, keywords: dict[str, Any]) -> Any:
        try:
            return sound(array, keywords)
        except Exception as error:
            raise kind(str(error)) from None

    return give


KEPT: list[Any] = []


def keeping(array: Made, keywords: dict[str, Any]) -> Any:
    """Keeps every array that was exported."""
    KEPT.append((array, array.inner))
    return sound(array, keywords)


def keeping_struct(array: Made, keywords: dict[str, Any]) -> Any:
    """Keeps the struct of every export: crafted structs are never freed."""
    held = crafter.take(sound(array, keywords))
    return copied(held.fields, held).capsule()


_CAPSULES: weakref.WeakKeyDictionary[Made, Any] = weakref.WeakKeyDictionary()


def same_capsule(array: Made, keywords: dict[str, Any]) -> Any:
    """Returns the same capsule every time."""
    return _CAPSULES.setdefault(array, sound(array, keywords))


def once(array: Made, keywords: dict[str, Any]) -> Any:
    """Returns one capsule and refuses a second one."""
    if array in _CAPSULES:
        raise RuntimeError("it was exported")
    _CAPSULES[array] = True
    return sound(array, keywords)


def elsewhere(array: Made, keywords: dict[str, Any]) -> Any:
    """Always copies, without the flag."""
    held = crafter.take(sound(array, {**keywords, "copy": True}))
    return copied(held.fields, held, flags=0).capsule()


def without_owner(array: Made, keywords: dict[str, Any]) -> Any:
    """Exports memory without keeping the array alive."""
    held = crafter.take(sound(array, keywords))
    found = held.fields
    if found.data:
        weakref.finalize(array, ctypes.memset, found.data + found.byte_offset, 0xDD, 4)
    return copied(found, held).capsule()


_NAMES = {version: name.encode() for version, name in ((False, crafter.LEGACY), (True, crafter.VERSIONED))}
_DESTRUCTOR = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
_NEW = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
    ("PyCapsule_New", ctypes.pythonapi)
)
#: a C function that clears the pending exception
_CLEAR = ctypes.cast(ctypes.pythonapi.PyErr_Clear, ctypes.c_void_p).value
#: the offset of the deleter in a versioned and in a legacy struct
DELETER_AT = {True: 16, False: 56}


def destroyed(by: Callable[[Held], Any]) -> Give:
    """A producer whose capsules have another destructor, which ignores the name."""

    def give(array: Made, keywords: dict[str, Any]) -> Any:
        held = crafter.take(sound(array, keywords))
        crafted = copied(held.fields, held)
        destructor = _DESTRUCTOR(lambda _: by(Held(crafted.native.held())))
        KEPT.append((destructor, crafted))
        return _NEW(crafted.native.address, _NAMES[crafted.versioned], ctypes.cast(destructor, ctypes.c_void_p))

    return give


def clearing(array: Made, keywords: dict[str, Any]) -> Any:
    """A producer whose capsules have a destructor that clears the pending exception."""
    held = crafter.take(sound(array, keywords))
    crafted = copied(held.fields, held)
    return _NEW(crafted.native.address, _NAMES[crafted.versioned], _CLEAR)


def forgetful(array: Made, keywords: dict[str, Any]) -> Any:
    """A producer whose deleter clears the pending exception."""
    held = crafter.take(sound(array, keywords))
    crafted = copied(held.fields, held)
    ctypes.c_void_p.from_address(crafted.native.address + DELETER_AT[crafted.versioned]).value = _CLEAR
    return crafted.capsule()


def changing(array: Made, keywords: dict[str, Any]) -> Any:
    """Writes to the memory that it exports."""
    held = crafter.take(sound(array, keywords))
    if held.fields.data and not held.fields.flags:
        held.write(b"\1")
    return copied(held.fields, held).capsule()


def c_order(found: Fields) -> dict[str, Any]:
    """Replaces all strides by those of C order."""
    return {"strides": crafter.c_strides(found.shape or ())}


def absolute(found: Fields) -> dict[str, Any]:
    """Strides without their sign."""
    return {"strides": tuple(abs(stride) for stride in found.strides or ())}


def in_bytes(found: Fields) -> dict[str, Any]:
    """Strides in bytes."""
    return {"strides": tuple(stride * found.dtype[1] // 8 for stride in found.strides or ())}


def turned(found: Fields) -> dict[str, Any]:
    """The shape reversed."""
    return {"shape": (found.shape or ())[::-1]}


def squeezed(found: Fields) -> dict[str, Any]:
    """The shape without axes of extent 1."""
    kept = [i for i, extent in enumerate(found.shape or ()) if extent != 1]
    shape, strides = found.shape or (), found.strides or ()
    return {"shape": tuple(shape[i] for i in kept), "strides": tuple(strides[i] for i in kept), "ndim": len(kept)}


def dtype_as(name: str, other: tuple[int, int, int]) -> Give:
    """A producer that reports another dtype."""
    return changed(lambda found: {"dtype": other} if found.dtype == crafter.DTYPES[name] else {})


def unknown(array: Made, keywords: dict[str, Any], name: str) -> Any:
    """A producer that does not know a keyword."""
    if name in keywords:
        raise TypeError(f"__dlpack__() got an unexpected keyword argument {name!r}")
    return sound(array, keywords)


def leaking(array: Made, keywords: dict[str, Any]) -> Any:
    """Leaks 16 bytes with every export."""
    _MALLOC(16)
    return sound(array, keywords)


_MALLOC = ctypes.CDLL(None).malloc
_MALLOC.argtypes, _MALLOC.restype = [ctypes.c_size_t], ctypes.c_void_p


def freezing(array: Made, keywords: dict[str, Any]) -> Any:
    """Makes the array read-only when it is exported."""
    capsule = sound(array, keywords)
    array.inner = dlbridge.asdlpack(array.inner, writable=False, copy=False)
    return capsule


def refusing_exports(of: Callable[[Fields], object]) -> Give:
    """A producer that refuses to export tensors with such fields."""

    def give(array: Made, keywords: dict[str, Any]) -> Any:
        capsule = sound(array, keywords)
        if of(_described(array)):
            raise BufferError("this is not exported")
        return capsule

    return give


def _described(array: Made) -> Fields:
    """The fields of a versioned export."""
    held = crafter.take(sound(array, {"max_version": (1, 3)}))
    found = held.fields
    held.delete()
    return found


def copying_to(array: Made, keywords: dict[str, Any], always: bool = False) -> Any:
    """Copies to CUDA; a faulty one does so with copy=False too."""
    device = keywords.get("dl_device")
    if device != (2, 0):
        return sound(array, keywords)
    if keywords.get("copy") is False and not always:
        raise BufferError("this takes a copy")
    return changed(lambda _: {"device": device}, dl_device=None, copy=True)(array, keywords)
