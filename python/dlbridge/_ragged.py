"""Lists of different lengths, as offsets and values.

>>> import dlbridge
>>> from array import array
>>> lists = dlbridge.Ragged(array("i", [0, 2, 2, 5]), b"abcde")
>>> [bytes(part) for part in lists]
[b'ab', b'', b'cde']
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, SupportsIndex

from dlbridge._core import Tensor, _list_array, _list_schema, _lists, _offsets_range, asdlpack

if TYPE_CHECKING:
    from typing_extensions import CapsuleType

    from dlbridge.typing import SupportsArrowArray, SupportsArrowDeviceArray, SupportsArrowStream, TensorLike

__all__ = ["Ragged", "ragged"]


class Ragged:
    """Lists of different lengths: list ``i`` is ``values[offsets[i]:offsets[i + 1]]``.

    Made by :func:`ragged` from a column of Arrow or a jagged tensor of PyTorch, or from two tensors: anything that
    :func:`asdlpack` imports. The offsets are ``int32`` or ``int64`` in one dimension; the values have one dimension or
    more, and the first is divided. Arrow's libraries import it as an array of lists.

    The offsets are checked once, here: they must not decrease, and must be within the values. The program must not
    change them later, because other libraries use them without a check.

    Raises ValueError for offsets that are wrong, BufferError for data that is not on the CPU, and the exceptions of
    ``asdlpack``.
    """

    __slots__ = ("_first", "_last", "_offsets", "_values")

    def __init__(self, offsets: TensorLike, values: TensorLike, /) -> None:
        self._offsets, self._values = asdlpack(offsets), asdlpack(values)
        shape, dtype = self._offsets.shape, self._offsets.dtype
        if len(shape) != 1 or shape[0] == 0 or str(dtype) not in ("int32", "int64"):
            raise ValueError(
                f"offsets must be int32 or int64 in one dimension, and at least one, not {dtype} in the shape {shape}"
            )
        if self._values.ndim == 0:
            raise ValueError("values must have a dimension, which the offsets divide")
        for name, tensor in [("offsets", self._offsets), ("values", self._values)]:
            if tensor.device != "cpu":
                raise BufferError(
                    f"the {name} are on {tensor.device}, and must be on the CPU; move them first, for example with "
                    "x.cpu() of PyTorch"
                )
        self._first, self._last = _offsets_range(self._offsets)
        if self._last > len(self._values):
            raise ValueError(
                f"the last offset is {self._last}, beyond the {len(self._values)} values; pass the values that the "
                "offsets were made for"
            )

    @property
    def offsets(self) -> Tensor:
        """The index of the first value of each list, and at the end the index after the last list.

        For a slice of an Arrow array they may begin above 0.
        """
        return self._offsets

    @property
    def values(self) -> Tensor:
        """The values of all lists, one list after the other.

        Values before the first offset and after the last offset belong to no list.
        """
        return self._values

    def __len__(self) -> int:
        """The number of lists."""
        return len(self._offsets) - 1

    def __getitem__(self, index: SupportsIndex, /) -> Tensor:
        """The values of one list, over the same memory.

        Raises IndexError for an index out of bounds, TypeError for anything but an integer.
        """
        try:
            number = operator.index(index)
        except TypeError:
            raise TypeError(
                f"an index of dlbridge.Ragged is an integer, not {type(index).__name__}; slice the column or the "
                "offsets instead"
            ) from None
        count = len(self)
        if not -count <= number < count:
            raise IndexError(f"index {number} is out of bounds for {count} lists")
        number %= count
        return self._values[self._offsets[number].item() : self._offsets[number + 1].item()]

    def __iter__(self) -> Iterator[Tensor]:
        """The values of each list."""
        return (self[index] for index in range(len(self)))

    def torch(self, *, copy: bool | None = None) -> Any:
        """A jagged tensor of PyTorch, by ``torch.nested.nested_tensor_from_jagged``.

        Values and offsets are exported as by :meth:`Tensor.torch`, which copies read-only data, such as Arrow's. The
        offsets are also copied if they are ``int32`` or begin above 0, because jagged tensors have ``int64`` offsets
        from 0 on. ``copy=False`` makes every copy an error; ``copy=True`` always copies.
        """
        import torch
        from torch.utils.dlpack import from_dlpack

        offsets, values = self._offsets, self._values
        if (self._first, self._last) != (0, len(values)):
            values = values[self._first : self._last]
        if offsets.dtype == "int64" and self._first == 0:
            starts = offsets.torch(copy=copy)
        elif copy is False:
            found = f"are {offsets.dtype}" if offsets.dtype != "int64" else f"begin at {self._first}"
            raise BufferError(
                f"jagged tensors of PyTorch have int64 offsets that begin at 0, these {found}, and copy=False forbids "
                "a copy of them; leave out copy=False, or cast a whole column to large_list first"
            )
        else:
            # PyTorch only reads the shared offsets; the copy may be written.
            starts = from_dlpack(asdlpack(offsets, contiguous="C")).to(torch.int64, copy=True)
            starts -= self._first
        return torch.nested.nested_tensor_from_jagged(values.torch(copy=copy), starts)

    def __arrow_c_array__(self, requested_schema: CapsuleType | None = None) -> tuple[CapsuleType, CapsuleType]:
        """The Arrow PyCapsule interface: an array of lists, or of large lists for ``int64`` offsets, without a copy.

        Further dimensions of the values are fixed-size lists. A request for another type is ignored.

        Raises BufferError for data that is not contiguous in C order, and for dtypes whose memory layout Arrow lacks.
        """
        return _list_array(self._offsets, self._values)

    def __arrow_c_schema__(self) -> CapsuleType:
        """The type of the Arrow array. Raises as ``__arrow_c_array__``."""
        return _list_schema(self._offsets, self._values)

    def __reduce__(self) -> tuple[type[Ragged], tuple[Tensor, Tensor]]:
        return Ragged, (self._offsets, self._values)

    def __repr__(self) -> str:
        return f"dlbridge.Ragged(offsets={self._offsets!r}, values={self._values!r})"


def ragged(
    obj: Ragged | SupportsArrowArray | SupportsArrowDeviceArray | SupportsArrowStream | Any,
    /,
    *,
    copy: bool | None = None,
) -> Ragged:
    """Import lists of different lengths as offsets and values.

    ``obj`` is a column of Arrow with lists, large lists, texts or bytes, such as a ``pyarrow.ListArray``, a
    ``polars.Series`` or a ``pandas.Series``, or a jagged tensor of PyTorch. The values of texts are their bytes in
    UTF-8. A :class:`Ragged` is returned unchanged.

    Nothing is copied, except booleans of Arrow, which are packed eight to a byte; ``ragged(obj).values.copied`` reports
    it. ``copy=False`` makes that an error; ``copy=True`` copies offsets and values.

    Raises TypeError for other objects; BufferError for null lists and null items, lists of lists, columns of several
    chunks, offsets that break Arrow's specification, and jagged tensors that offsets alone do not describe.
    """
    if isinstance(obj, Ragged):
        if copy is not True:
            # Raises for a value of another type.
            asdlpack(obj.offsets, copy=copy)
            return obj
        copied = asdlpack(obj.offsets, copy=True), asdlpack(obj.values, copy=True)
        return _made(*copied, (obj._first, obj._last))
    tensors = _of_torch(obj)
    if tensors is not None:
        offsets, values = tensors
        try:
            return Ragged(asdlpack(offsets, copy=copy), asdlpack(values, copy=copy))
        except ValueError as error:
            # The caller did not pass these offsets itself.
            raise BufferError(str(error)) from error
    parts = _lists(obj, copy=copy)
    if parts is None:
        kind = type(obj)
        name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
        raise TypeError(
            f"'{name}' object is not a column of Arrow or a jagged tensor of PyTorch; dlbridge.Ragged(offsets, values) "
            "takes two tensors"
        )
    offsets, values, ends = parts
    if copy is True:
        offsets, values = asdlpack(offsets, copy=True), values if values.copied else asdlpack(values, copy=True)
    return _made(offsets, values, ends)


def _made(offsets: Tensor, values: Tensor, ends: tuple[int, int]) -> Ragged:
    """Lists whose offsets were checked before; ``ends`` are the first and the last one."""
    made = Ragged.__new__(Ragged)
    made._offsets, made._values = offsets, values
    made._first, made._last = ends
    return made


def _of_torch(obj: Any) -> tuple[Any, Any] | None:
    """The offsets and values of a jagged tensor of PyTorch; None for other objects."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(obj, torch.Tensor):
        return None
    if not obj.is_nested:
        raise TypeError(
            "the tensor of PyTorch is not nested; dlbridge.asdlpack imports it, and torch.nested.nested_tensor with "
            "layout=torch.jagged makes a jagged one"
        )
    if obj.layout is not torch.jagged:
        raise BufferError(
            "the nested tensor of PyTorch is strided, not jagged; convert it first with "
            "torch.nested.nested_tensor(x.unbind(), layout=torch.jagged)"
        )
    if obj.lengths() is not None:
        raise BufferError(
            "the jagged tensor has values between its lists, which offsets alone do not describe; copy it first with "
            "x.contiguous()"
        )
    if obj._ragged_idx != 1:
        raise BufferError(
            "the jagged dimension is not the first after the batch, so offsets do not divide the first dimension of "
            "the values; transpose it back first"
        )
    return obj.offsets(), obj.values()
