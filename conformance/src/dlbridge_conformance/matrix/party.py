"""The sides of an exchange: a library with an adapter, a library by its module, or a part of Python."""

from __future__ import annotations

import ctypes
import importlib
import importlib.metadata
import importlib.util
from functools import cache
from typing import Any

from dlbridge_conformance import elements
from dlbridge_conformance.adapter import Adapter
from dlbridge_conformance.outcome import NotApplicable
from dlbridge_conformance.registry import known_adapters


class Party:
    """A producer or a consumer. One with an adapter is made with it; any other one sets ``module``, or nothing."""

    name: str
    module: str = ""
    lib: Any

    def __init__(self, adapter: Adapter | None = None) -> None:
        self.adapter = adapter
        if adapter is not None:
            self.name = adapter.name

    @property
    def library(self) -> str:
        """The library to import; empty if it is part of Python."""
        return self.adapter.name if self.adapter else self.module.partition(".")[0]

    def version(self) -> str:
        """The version of the library; empty if it is part of Python."""
        if self.adapter:
            return self.adapter.version()
        return importlib.metadata.version({"PIL": "pillow"}.get(self.library, self.library)) if self.module else ""

    def is_installed(self) -> bool:
        """Returns whether the library can be imported."""
        if self.adapter:
            return self.adapter.is_installed()
        return not self.module or importlib.util.find_spec(self.library) is not None

    def load(self) -> None:
        """Imports the library."""
        if self.adapter:
            self.adapter.load()
        elif self.module:
            self.lib = importlib.import_module(self.module)


@cache
def adapters() -> list[Adapter]:
    """The adapters, one instance each, so that producer and consumer of a library share the imported module."""
    return list(known_adapters().values())


def address_of(adapter: Adapter, array: Any) -> int | None:
    """The address of the first element as the library reports it; None if it does not report one."""
    try:
        return int(adapter.address(array))
    except NotApplicable:
        return None


def buffer_address(obj: Any) -> int:
    """The address of the first element, as an exporter of buffers reports it."""
    view = (ctypes.c_void_p * 16)()
    full_read_only = 0x011C
    if ctypes.pythonapi.PyObject_GetBuffer(ctypes.py_object(obj), ctypes.byref(view), full_read_only):
        raise BufferError("no buffer")
    place = view[0] or 0
    ctypes.pythonapi.PyBuffer_Release(ctypes.byref(view))
    return int(place)


class _ArrowArray(ctypes.Structure):
    pass


_ArrowArray._fields_ = [
    *((name, ctypes.c_int64) for name in ("length", "null_count", "offset", "n_buffers", "n_children")),
    ("buffers", ctypes.POINTER(ctypes.c_void_p)),
    ("children", ctypes.POINTER(ctypes.POINTER(_ArrowArray))),
]


def arrow_address(obj: Any) -> int:
    """The address of the elements, as the object's ``__arrow_c_array__`` reports it."""
    _, capsule = obj.__arrow_c_array__()
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    found = ctypes.cast(pointer(capsule, b"arrow_array"), ctypes.POINTER(_ArrowArray)).contents
    while found.n_children:
        found = found.children[0].contents
    return int(found.buffers[1] or 0)


#: the modes of pictures with one channel of whole bytes
MODES = {"uint8": "L", "int32": "I", "float32": "F", "uint16": "I;16"}


def picture_rows(picture: Any) -> Any:
    """The pixels of a picture of one channel."""
    if picture.mode == "1":
        numbers: list[Any] = [byte != 0 for byte in picture.convert("L").tobytes()]
    else:
        dtype = next(dtype for dtype, mode in MODES.items() if mode == picture.mode)
        numbers = elements.unpacked(picture.tobytes(), dtype)
    return [numbers[start : start + picture.width] for start in range(0, len(numbers), picture.width)]
