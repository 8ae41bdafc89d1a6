"""What the package ``pydlpack`` offers as the module ``dlpack``.

>>> from dlbridge.compat.dlpack import asdlpack
>>> memoryview(asdlpack(b"Hello!")).tolist()
[72, 101, 108, 108, 111, 33]

The function takes what the original takes and returns what every ``from_dlpack`` takes. What is
different:

- The result can be consumed any number of times, and keeps no memory when nobody has it.
- Numbers in the other byte order, masks, and strides that are no whole elements are repaired by a copy or
  refused; the original passes wrong values on.
- ``bytes`` and other read-only data are marked as such for consumers that ask for a versioned capsule.
- Refusals are BufferError and TypeError, not AssertionError and NotImplementedError.
"""

from __future__ import annotations

from dlbridge import _core
from dlbridge._core import Tensor as DLPackObject
from dlbridge._core import __version__

__all__ = ["DLPackObject", "__version__", "asdlpack"]


def asdlpack(obj: object, impl_cls: type | None = None) -> DLPackObject:
    """Import any object that speaks an exchange protocol, as :func:`dlbridge.asdlpack` does.

    ``impl_cls`` chose between the legacy and the versioned struct. It is not needed: the result gives
    each consumer the one that it asks for.

    Raises as :func:`dlbridge.asdlpack`.
    """
    return _core.asdlpack(obj)
