from typing import Any, Protocol, final

from typing_extensions import CapsuleType

__all__ = ["Tensor", "__version__", "asdlpack", "from_dlpack"]

__version__: str

class _SupportsDLPack(Protocol):
    def __dlpack__(self) -> Any: ...

@final
class Tensor:
    """A tensor over memory that somebody lent or that Rust owns.

    Any framework's ``from_dlpack`` takes it, any number of times; each result keeps the memory
    alive. Made by :func:`asdlpack` and :func:`from_dlpack`. An extension built on dlbridge returns
    tensors of a class of its own, which looks the same and is not this one: do not ask with
    ``isinstance``.
    """

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> CapsuleType:
        """A capsule over the tensor, as the array API standard describes it.

        The capsule is a versioned one if ``max_version`` is ``(1, 0)`` or later, and a legacy one
        otherwise. With ``copy=None`` a copy is made only where lending is impossible: read-only
        data for a legacy capsule, or host-accessible memory of another device asked for on the
        CPU. ``copy=True`` copies in C order, to memory aligned to 256 bytes.

        Raises BufferError for data that cannot be exported as asked, ValueError for a stream on a
        device that has none, TypeError for arguments of the wrong type.
        """

    def __dlpack_device__(self) -> tuple[int, int]:
        """The DLPack device type and the device id."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents, in elements."""

    @property
    def strides(self) -> tuple[int, ...]:
        """The strides, in elements."""

    @property
    def ndim(self) -> int:
        """The number of dimensions."""

    @property
    def dtype(self) -> str:
        """The name of the dtype, like ``'float32'``."""

    @property
    def device(self) -> str:
        """The name of the device, like ``'cpu'`` or ``'cuda:0'``."""

    @property
    def readonly(self) -> bool:
        """Whether the data must not be written.

        A legacy producer cannot say so; what it lends is taken for read-only, as NumPy does.
        """

    @property
    def protocol(self) -> str | None:
        """The door the tensor came through: ``'dlpack'``, ``'dlpack-legacy'`` or ``'buffer'``.

        None if Rust made the tensor.
        """

    @property
    def copied(self) -> bool:
        """Whether the elements were copied on the way in, by the producer or by dlbridge."""

    @property
    def nbytes(self) -> int:
        """The number of bytes that the elements take when they are adjacent."""

    @property
    def address(self) -> int:
        """The address of the element at index zero.

        0 without elements; a handle on devices that have handles.
        """

def asdlpack(obj: object, /, *, copy: bool | None = None) -> Tensor:
    """Import any object that speaks DLPack or the buffer protocol.

    A :class:`Tensor` comes back as it is. dlbridge makes no copy unless ``copy=True`` asks for one,
    aligned to 256 bytes; ``copy=False`` makes sure that the producer makes none either.

    Read-only data stays marked as such. PyTorch and Paddle ignore the mark: give them a copy of
    what must not change.

    A tensor over a buffer keeps its exporter alive and locked; Python's cycle collector does not see
    that reference, so an exporter that refers to the tensor in turn is never freed.

    Raises TypeError for an object that speaks neither, BufferError for data that breaks the
    specification or that a tensor cannot express, ValueError for a capsule that was consumed
    before, and whatever the producer raises.
    """

def from_dlpack(
    x: _SupportsDLPack,
    /,
    *,
    device: str | tuple[int, int] | None = None,
    copy: bool | None = None,
) -> Tensor:
    """Import an object that has ``__dlpack__``, as the array API standard describes it.

    ``device`` is a name as :attr:`Tensor.device` is one, or a tuple of DLPack device type and
    device id.

    Raises as :func:`asdlpack`.
    """
