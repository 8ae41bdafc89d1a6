"""A replacement for the module ``dlpack`` of the package ``pydlpack``.

>>> from dlbridge.compat.dlpack import asdlpack
>>> memoryview(asdlpack(b"Hello!")).tolist()
[72, 101, 108, 108, 111, 33]

The function accepts the objects that the original accepts, and returns an object for every ``from_dlpack``. The
differences:

- The result can be imported any number of times, and its memory is freed with the last reference.
- Numbers in the other byte order, masks, and strides that are not multiples of the element size are repaired by a
  copy or refused; the original exports wrong values.
- ``bytes`` and other read-only data are marked as such for consumers that request a versioned capsule.
- Refusals are BufferError and TypeError, not AssertionError and NotImplementedError.
- ``__dlpack__`` accepts its arguments by keyword, as in the array API standard.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

from dlbridge import _core
from dlbridge._core import Tensor as DLPackObject
from dlbridge._core import __version__

if TYPE_CHECKING:
    from typing_extensions import CapsuleType

    from dlbridge.typing import TensorLike

__all__ = [
    "DLManagedTensor",
    "DLManagedTensorVersioned",
    "DLPackObject",
    "__version__",
    "asdlpack",
]


class _DLTensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class DLManagedTensor(ctypes.Structure):
    """The legacy struct of ``dlpack.h``."""

    _fields_ = (
        ("dl_tensor", _DLTensor),
        ("manager_ctx", ctypes.c_void_p),
        ("deleter", ctypes.CFUNCTYPE(None, ctypes.c_void_p)),
    )


class DLManagedTensorVersioned(ctypes.Structure):
    """The versioned struct of ``dlpack.h``."""

    _fields_ = (
        ("version", ctypes.c_uint32 * 2),
        ("manager_ctx", ctypes.c_void_p),
        ("deleter", ctypes.CFUNCTYPE(None, ctypes.c_void_p)),
        ("flags", ctypes.c_uint64),
        ("dl_tensor", _DLTensor),
    )


def asdlpack(obj: TensorLike | CapsuleType, impl_cls: type | None = None) -> DLPackObject:
    """Import any object that supports an exchange protocol, as :func:`dlbridge.asdlpack` does.

    ``impl_cls`` chose between :class:`DLManagedTensor` and :class:`DLManagedTensorVersioned`. It is
    ignored: the result exports to each consumer the struct that it requests.

    Raises as :func:`dlbridge.asdlpack`.
    """
    return _core.asdlpack(obj)
