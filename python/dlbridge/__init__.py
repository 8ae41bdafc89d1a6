"""Tensors from any library to any other, without a copy.

``asdlpack(obj)`` takes whatever speaks DLPack, an array interface, the buffer protocol or Arrow and returns
a :class:`Tensor` over the same memory, which the ``from_dlpack`` of every framework takes.

>>> import dlbridge
>>> t = dlbridge.asdlpack(bytearray(b"abc"))
>>> t.shape, t.dtype, t.device, t.readonly, t.protocol
((3,), 'uint8', 'cpu', False, 'buffer')
>>> memoryview(t).tobytes()
b'abc'
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dlbridge._core import (
    Tensor,
    __version__,
    asdlpack,
    consumers,
    empty,
    fit,
    from_dlpack,
    like,
    live_exports,
    record_exports,
)

if TYPE_CHECKING:
    from dlbridge._errors import TensorBorrowError, TensorMismatchError
    from dlbridge.explanation import Explanation, explain
    from dlbridge.shared import SharedTensor, attach, share_memory

__all__ = [
    "Explanation",
    "SharedTensor",
    "Tensor",
    "TensorBorrowError",
    "TensorMismatchError",
    "__version__",
    "asdlpack",
    "attach",
    "consumers",
    "empty",
    "explain",
    "fit",
    "from_dlpack",
    "like",
    "live_exports",
    "record_exports",
    "share_memory",
]

#: What takes longer to import than the rest, and where it is.
_LATE = {
    **dict.fromkeys(["TensorBorrowError", "TensorMismatchError"], "dlbridge._errors"),
    **dict.fromkeys(["Explanation", "explain"], "dlbridge.explanation"),
    **dict.fromkeys(["SharedTensor", "attach", "share_memory"], "dlbridge.shared"),
}


def __getattr__(name: str) -> Any:
    if name not in _LATE:
        raise AttributeError(f"module 'dlbridge' has no attribute {name!r}")
    from importlib import import_module

    value = globals()[name] = getattr(import_module(_LATE[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
