from collections.abc import Sequence
from types import ModuleType
from typing import Any, Literal, SupportsIndex, final

from typing_extensions import Buffer, CapsuleType

from dlbridge.typing import Consumer, Export, ProtocolName, SupportsDLPack

__all__ = [
    "Tensor",
    "__version__",
    "_canonical",
    "_crafter",
    "_origin",
    "_rebuild",
    "asdlpack",
    "consumers",
    "empty",
    "fit",
    "from_dlpack",
    "like",
    "live_exports",
    "record_exports",
]

__version__: str

#: what ``dlbridge.conformance.crafter`` is made of
_crafter: ModuleType

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
        stream: int | Any | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> CapsuleType:
        """A capsule over the tensor, as the array API standard describes it.

        The capsule is a versioned one if ``max_version`` is ``(1, 0)`` or later, and a legacy one
        otherwise. With ``copy=None`` a copy is made only where lending is impossible: read-only
        data for a legacy capsule, or memory of another device asked for on the CPU, or of CUDA or
        the CPU on a device of CUDA. ``copy=True`` copies, on the CPU in C order, to memory aligned to
        256 bytes.

        ``stream`` is the consumer's, as the array API standard numbers them, which is made to wait for
        :attr:`stream`; for data on oneAPI a ``dpctl.SyclQueue``. It lives as long as the memory that is
        lent. What goes to the CPU is there when the capsule is, and ``stream`` must be None.

        Raises BufferError for data that cannot be exported as asked, ValueError for a stream that
        there is not, TypeError for arguments of the wrong type.
        """

    def __dlpack_device__(self) -> tuple[int, int]:
        """The DLPack device type and the device id."""

    #: The C exchange API of DLPack.
    __dlpack_c_exchange_api__: CapsuleType

    @property
    def __array_interface__(self) -> dict[str, Any]:
        """The array interface of NumPy, version 3.

        AttributeError for data that is not on the CPU, and for dtypes that it has no letter for.
        """

    @property
    def __array_struct__(self) -> CapsuleType:
        """The array interface of NumPy as a C struct.

        AttributeError as for ``__array_interface__``.
        """

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """The array interface of CUDA, version 3; its stream is :attr:`stream`.

        AttributeError for data that is not on CUDA or ROCm.
        """

    def __arrow_c_array__(
        self, requested_schema: CapsuleType | None = None
    ) -> tuple[CapsuleType, CapsuleType]:
        """The Arrow PyCapsule interface: schema and array, without a copy.

        Tensors of several dimensions are arrays of the extension type for fixed-shape tensors. A
        request for another type is not met.

        Raises BufferError for data that is not on the CPU or not adjacent in C order, for dtypes whose
        memory Arrow does not have, and for tensors without a dimension.
        """

    def __arrow_c_schema__(self) -> CapsuleType:
        """The type of the Arrow array. Raises as ``__arrow_c_array__``."""

    def __buffer__(self, flags: int, /) -> memoryview:
        """The buffer protocol, for data on the CPU.

        Raises BufferError for a dtype that it has no letter for, for read-only data if a writable
        buffer is asked for, and for an order that the consumer does not take.
        """

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        """For ``numpy.asarray`` and what calls it, where no other door of NumPy's knows the dtype."""

    def __jax_array__(self) -> Any:
        """For ``jax.numpy.asarray`` and JAX's functions: :meth:`jax`."""

    def numpy(self, *, copy: bool | None = None) -> Any:
        """An array of NumPy.

        A dtype that NumPy does not have comes as that of ``ml_dtypes``, if that is installed.

        As :meth:`to`.
        """

    def torch(self, *, copy: bool | None = None) -> Any:
        """A tensor of PyTorch, as :meth:`to`."""

    def jax(self, *, copy: bool | None = None) -> Any:
        """An array of JAX, as :meth:`to`."""

    def to(self, library: str, /, *, copy: bool | None = None) -> Any:
        """An object of a library: one of the names in :func:`consumers`.

        The memory is shared, unless the library would get something wrong without a word, or
        refuse the strides: then it is copied. ``copy=False`` makes that an error; ``copy=True``
        copies always. :func:`dlbridge.explain` tells which it is.

        Raises BufferError for what the library cannot take or ``copy=False`` forbids, ValueError
        for a library that is not known, ModuleNotFoundError for one that is not installed, and
        whatever the library raises.
        """

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
    def protocol(self) -> ProtocolName | None:
        """The door the tensor came through, like ``'dlpack'`` or ``'buffer'``.

        None if Rust made the tensor.
        """

    @property
    def copied(self) -> bool:
        """Whether the elements were copied on the way in, by the producer or by dlbridge."""

    @property
    def copy_reason(self) -> str | None:
        """Why the elements were copied on the way in, as a sentence; None if they were not."""

    @property
    def stream(self) -> int | Any | None:
        """The stream that the data is in the order of: what is put on it comes after what was under way.

        The number by the array API standard, -1 if none is known, a ``dpctl.SyclQueue`` on oneAPI;
        None on devices whose streams have no numbers.
        """

    @property
    def nbytes(self) -> int:
        """The number of bytes that the elements take when they are adjacent."""

    @property
    def address(self) -> int:
        """The address of the element at index zero.

        0 without elements; a handle on devices that have handles.
        """

def asdlpack(
    obj: object,
    /,
    *,
    protocol: ProtocolName | None = None,
    copy: bool | None = None,
    device: str | tuple[int, int] | None = None,
    align: int | None = None,
    contiguous: bool | Literal["C", "F"] | None = None,
    writable: bool | None = None,
    stream: int | Any | None = None,
) -> Tensor:
    """Import any object that speaks an exchange protocol.

    The doors are tried in this order: the C exchange API of DLPack, ``__dlpack__``,
    ``__cuda_array_interface__``, ``__array_interface__``, ``__array_struct__``, the buffer protocol,
    Arrow.
    A DLPack capsule is taken as it is, and a :class:`Tensor` comes back as it is.

    ``protocol`` takes one door and no other.

    ``copy=None`` shares the memory wherever a tensor can express it, and copies where it cannot, as
    for numbers in the other byte order; ``copy=False`` makes that an error; ``copy=True`` copies
    always, in C order, aligned to 256 bytes unless the producer made the copy. :attr:`Tensor.copied` and
    :attr:`Tensor.copy_reason` tell.

    ``device`` is where the data is to be: a name as :attr:`Tensor.device` is one, or a tuple of
    DLPack device type and device id. ``align`` is what the address of the first element is to be a
    multiple of, a power of two up to 256. ``contiguous`` is the order in which the elements are to be
    adjacent, ``True`` for C order. ``writable=True`` wants data that may be written, ``False`` a
    tensor that says it must not. What is otherwise is copied.

    What a producer does not give on the device that is asked for is copied by the driver of CUDA, between
    the CPU and its devices and from one of them to another.

    ``stream`` is the one that the caller works on, a number as in the array API standard: it is made to
    wait for what the producer has under way, and the memory is not given back before it has passed what is
    on it when the tensor is let go. It must live until then. Without it that is the default stream of the device, and
    the memory is given back at once; -1 leaves the order to the caller. For data on oneAPI it is a
    ``dpctl.SyclQueue``. :attr:`Tensor.stream` tells.

    Read-only data stays marked as such. PyTorch and Paddle ignore the mark when their ``from_dlpack``
    is called; :meth:`Tensor.to` gives them a copy.

    A tensor over a buffer keeps its exporter alive and locked; Python's cycle collector does not see
    that reference, so an exporter that refers to the tensor in turn is never freed.

    Raises TypeError for an object that has no door, BufferError for data that breaks the
    specification, that a tensor cannot express or that cannot be had as wanted, ValueError for an
    argument of the wrong value and for a capsule that was consumed before, and whatever the producer
    raises.
    """

def from_dlpack(
    x: SupportsDLPack,
    /,
    *,
    device: str | tuple[int, int] | None = None,
    copy: bool | None = None,
    stream: int | Any | None = None,
) -> Tensor:
    """Import an object that has ``__dlpack__``, as the array API standard describes it.

    ``device`` is a name as :attr:`Tensor.device` is one, or a tuple of DLPack device type and
    device id; ``stream`` is as for :func:`asdlpack`.

    Raises AttributeError for an object without ``__dlpack__``, and otherwise as :func:`asdlpack`.
    """

def empty(
    shape: SupportsIndex | Sequence[SupportsIndex],
    /,
    dtype: object = "float32",
    *,
    device: str | tuple[int, int] | None = None,
    align: int | None = None,
) -> Tensor:
    """Make a new tensor in C order on the CPU, with contents that are not specified.

    ``dtype`` is a name like ``'float32'``, or a dtype of NumPy, PyTorch, JAX or ml_dtypes.

    It is aligned to 256 bytes, which is the most that ``align`` can ask for. Elements narrower than a
    byte are packed.

    Raises BufferError for another device or a tensor that is too large, ValueError for a dtype or an
    alignment that does not exist, MemoryError if there is no room.
    """

def like(likeness: object, obj: object, /, *, copy: bool | None = None) -> Any:
    """Make an object of the library that ``likeness`` belongs to, from anything that
    :func:`asdlpack` takes.

    A likeness that has no library but lends a buffer, like bytes, gets a memoryview; a
    :class:`Tensor` gets a :class:`Tensor`.

    Raises as :func:`asdlpack` and :meth:`Tensor.to`; TypeError for a likeness of no library.
    """

def consumers() -> list[Consumer]:
    """What is known of the libraries that tensors go to: how each is asked, and what it would get
    wrong without a word.
    """

def fit(tensor: Tensor, library: str) -> tuple[str | None, str | None, str | None]:
    """How a library takes a tensor.

    Why it does not take it at all, why :meth:`Tensor.to` copies it for that library, and what to do
    about the copy; None where there is nothing to say. :func:`dlbridge.explain` says it in words.

    Raises ValueError for a library that is not known.
    """

def _origin(tensor: Tensor) -> tuple[str | None, list[str]]:
    """Where a tensor came from: the version of DLPack that the producer's managed tensor was of, None
    for doors that have none; and the names of the flags that are set.
    """

def _canonical(library: str) -> str:
    """The name of a library, of those that it is known by.

    Raises ValueError for one that is not known.
    """

def record_exports(on: bool) -> bool:
    """Begin or end to record what is lent; whether it was recorded before."""

def live_exports() -> list[Export]:
    """What was lent while exports were recorded, and is not given back yet.

    Each entry has the number of the export, dtype, shape, device, the door it left through and its
    age in seconds. Consumers of array interfaces keep the :class:`Tensor` itself, and are not here.
    """

def _rebuild(data: Buffer, dtype: str, shape: tuple[int, ...], padded: bool) -> Tensor: ...
