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
from dlbridge.explanation import Explanation, explain

__all__ = [
    "Explanation",
    "Tensor",
    "__version__",
    "asdlpack",
    "consumers",
    "empty",
    "explain",
    "fit",
    "from_dlpack",
    "like",
    "live_exports",
    "record_exports",
]
