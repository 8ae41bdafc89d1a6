"""Tensors from any library to any other, without a copy.

``asdlpack(obj)`` imports any object with DLPack, an array interface, the buffer protocol or Arrow, and returns a
:class:`Tensor` over the same memory. ``t.numpy()``, ``t.torch()``, ``t.jax()`` and ``t.to(...)`` export it.

>>> import dlbridge
>>> t = dlbridge.asdlpack(bytearray(b"abc"))
>>> t.shape, t.dtype, t.device, t.readonly, t.protocol
((3,), 'uint8', 'cpu', False, 'buffer')
>>> memoryview(t).tobytes()
b'abc'
"""

from __future__ import annotations

from dlbridge._core import (
    DTypeName,
    Tensor,
    __version__,
    asdlpack,
    chunks,
    empty,
    from_dlpack,
    from_managed,
    get_num_threads,
    like,
    matrix,
    set_num_threads,
)

# `typing` takes ten times as long to import as this package, and type checkers know the name.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any

    from dlbridge._errors import TensorBorrowError, TensorMismatchError
    from dlbridge._ragged import Ragged, ragged
    from dlbridge.explanation import Explanation, explain
    from dlbridge.files import TensorFile, load, save
    from dlbridge.shared import SharedScope, SharedTensor, attach, share_memory

__all__ = [
    "DTypeName",
    "Explanation",
    "Ragged",
    "SharedScope",
    "SharedTensor",
    "Tensor",
    "TensorBorrowError",
    "TensorFile",
    "TensorMismatchError",
    "__version__",
    "asdlpack",
    "attach",
    "chunks",
    "empty",
    "explain",
    "from_dlpack",
    "from_managed",
    "get_num_threads",
    "like",
    "load",
    "matrix",
    "ragged",
    "save",
    "set_num_threads",
    "share_memory",
]

#: Names that are imported on first use, because they take longer to import, and their modules.
_LATE = {
    **dict.fromkeys(["TensorBorrowError", "TensorMismatchError"], "dlbridge._errors"),
    **dict.fromkeys(["Ragged", "ragged"], "dlbridge._ragged"),
    **dict.fromkeys(["Explanation", "explain"], "dlbridge.explanation"),
    **dict.fromkeys(["TensorFile", "load", "save"], "dlbridge.files"),
    **dict.fromkeys(["SharedScope", "SharedTensor", "attach", "share_memory"], "dlbridge.shared"),
}

def __getattr__(name: str) -> Any:
    if name not in _LATE:
        raise AttributeError(f"module 'dlbridge' has no attribute {name!r}")
    from importlib import import_module

    value = globals()[name] = getattr(import_module(_LATE[name]), name)
    return value


def __dir__() -> list[str]:
    return __all__
