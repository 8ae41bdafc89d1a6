import pathlib
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from types import EllipsisType, ModuleType
from typing import Any, Literal, Self, SupportsIndex, TypeAlias, final

# If a library is not installed, type checkers treat its types as Any. The second code of each
# comment applies if the library is installed and mypy checks this file itself.
import jax as _jax  # type: ignore[import-not-found, unused-ignore]
import numpy as _numpy  # type: ignore[import-not-found, unused-ignore]
import torch as _torch  # type: ignore[import-not-found, unused-ignore]
from typing_extensions import Buffer, CapsuleType, Never

from dlbridge.typing import ProtocolName, Reader, SupportsDLPack, TensorLike

__all__ = [
    "DTypeName",
    "Tensor",
    "__version__",
    "_canonical",
    "_consumers",
    "_fit",
    "_has_protocol",
    "_origin",
    "_like",
    "_like_times",
    "_matrix",
    "_remedy",
    "_times",
    "_FileWriter",
    "_TensorFile",
    "_copy",
    "_list_array",
    "_list_schema",
    "_lists",
    "_offsets_range",
    "_rebuild",
    "asdlpack",
    "chunks",
    "empty",
    "from_dlpack",
    "from_managed",
    "get_num_threads",
    "like",
    "matrix",
    "set_num_threads",
]

__version__: str


_Key: TypeAlias = SupportsIndex | slice | EllipsisType | None

class DTypeName(str):
    """The name of a dtype: a string that is also equal to the dtypes of libraries.

    ``==`` and ``!=`` accept a name, a dtype or scalar type of NumPy or ml_dtypes, a dtype of PyTorch, JAX or
    another library, and Python's float, int, bool and complex, which mean what they mean in NumPy.

    The hash is that of the string. So a dict or set finds this as a key by its name, not by a dtype object.
    """

    def __eq__(self, other: object) -> bool: ...
    def __ne__(self, other: object) -> bool: ...
    def __hash__(self) -> int: ...

@final
class Tensor:
    """A tensor over memory of a producer or of Rust.

    Any framework's ``from_dlpack`` imports it, any number of times; each result keeps the memory
    alive. :func:`asdlpack` and :func:`from_dlpack` make it, and extensions built on dlbridge return it.
    """

    def __new__(cls, *_args: object, **_kwargs: object) -> Never:
        """Raises TypeError: tensors are made by :func:`asdlpack`, :func:`from_dlpack` and :func:`empty`."""

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> CapsuleType:
        """A capsule over the tensor, by the array API standard.

        The capsule is versioned if ``max_version`` is ``(1, 0)`` or later, and legacy otherwise. ``copy=None``
        copies in two cases only: data that a legacy capsule cannot describe (read-only, or padded elements narrower
        than a byte), and data that is requested on another device: from host-accessible memory to the CPU, and from
        and to CUDA devices. ``copy=True`` copies, on the CPU in C
        order, to memory aligned to 256 bytes.

        ``stream`` is the consumer's stream, by the numbers of the array API standard; it waits for
        :attr:`stream`. It must live as long as the exported memory. A copy to the CPU is complete when the call returns, and ``stream`` must be None.

        Raises BufferError for data that cannot be exported as requested, ValueError for a stream that
        does not exist, TypeError for arguments of the wrong type.
        """

    def __dlpack_device__(self) -> tuple[int, int]:
        """The DLPack device type and the device id."""

    #: The C exchange API of DLPack.
    __dlpack_c_exchange_api__: CapsuleType

    @property
    def __array_interface__(self) -> dict[str, Any]:
        """The array interface of NumPy, version 3.

        AttributeError for data that is not on the CPU, and for dtypes without a letter in the interface.
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
        request for another type is ignored.

        Raises BufferError for data that is not on the CPU or not contiguous in C order, for dtypes whose
        memory layout Arrow lacks, and for tensors without a dimension.
        """

    def __arrow_c_schema__(self) -> CapsuleType:
        """The type of the Arrow array. Raises as ``__arrow_c_array__``."""

    def __buffer__(self, flags: int, /) -> memoryview:
        """The buffer protocol, for data on the CPU.

        Raises BufferError for a dtype without a letter in the protocol, for read-only data if the consumer requests
        a writable buffer, and for an order that the consumer does not accept.
        """

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        """For ``numpy.asarray`` and its callers: dtypes that NumPy's other protocols do not support."""

    def __jax_array__(self) -> Any:
        """For ``jax.numpy.asarray`` and JAX's functions: :meth:`jax`."""

    def numpy(self, *, copy: bool | None = None) -> _numpy.ndarray[Any, Any]:
        """A NumPy array, as :meth:`to`.

        A dtype that NumPy lacks becomes that of ``ml_dtypes``, if that is installed.
        """

    def torch(self, *, copy: bool | None = None) -> _torch.Tensor:
        """A PyTorch tensor, as :meth:`to`."""

    def jax(self, *, copy: bool | None = None) -> _jax.Array:
        """A JAX array, as :meth:`to`."""

    def to(
        self, library: str | ModuleType, /, *, copy: bool | None = None, columns: Iterable[Any] | None = None
    ) -> Any:
        """An object of a library: its name, like ``'torch'``, or its module. The error for an unknown name lists all.

        ``columns`` makes a table of a tensor of (rows, columns), with these names: a ``DataFrame`` of pandas or polars, or a
        ``Table`` of pyarrow. Tables of Arrow share columns that are contiguous, as in Fortran order, and copy others once.

        The result shares the memory, unless the library would silently get something wrong, or
        refuse the strides: then the memory is copied. ``copy=False`` makes that an error; ``copy=True``
        always copies. :func:`dlbridge.explain` predicts the outcome.

        Raises BufferError for a tensor that the library cannot accept and for a copy that ``copy=False``
        forbids, ValueError for an unknown library, ModuleNotFoundError for one that is not installed, and
        the library's own exceptions.
        """

    def __getitem__(self, key: _Key | tuple[_Key, ...], /) -> Tensor:
        """A sub-tensor over the same memory.

        An index is an integer, a slice with any step, ``...``, ``None`` for a new dimension, or a tuple of them.
        An integer removes its dimension: ``t[0]`` of a 1-d tensor is a 0-d tensor, and
        ``t[0].item()`` is its number. The sub-tensor keeps :attr:`protocol`, :attr:`copied`, :attr:`stream` and the read-only mark.

        Raises IndexError for an index out of bounds, TypeError for lists, arrays and booleans, whose elements
        would have to be copied, BufferError for packed elements if the sub-tensor begins within a byte.
        """

    def __setitem__(self, key: Never, value: Never, /) -> None:
        """Raises TypeError: write through :meth:`numpy` or :meth:`torch`, which share the memory."""

    def __delitem__(self, key: Never, /) -> None:
        """Raises TypeError."""

    def __len__(self) -> int:
        """The extent of the first dimension. TypeError for a 0-d tensor."""

    def __iter__(self) -> Iterator[Tensor]:
        """The sub-tensors along the first dimension. TypeError for a 0-d tensor."""

    def permute(self, *order: SupportsIndex | Sequence[SupportsIndex]) -> Tensor:
        """The dimensions in another order, over the same memory: ``t.permute(1, 0)`` or ``t.permute((1, 0))``."""

    @property
    def T(self) -> Tensor:
        """The dimensions in reverse order, over the same memory."""

    def reshape(self, *shape: SupportsIndex | Sequence[SupportsIndex]) -> Tensor:
        """Another shape over the same memory, with the elements in the same order. One extent may be -1.

        Raises BufferError if only a copy could have that shape (the message says how to copy), ValueError if the
        number of elements differs.
        """

    def tolist(self) -> Any:
        """The elements as Python numbers, in nested lists; a single number for a 0-d tensor.

        Elements of several lanes are tuples. Raises BufferError for data that the CPU cannot read or that is
        borrowed for writing, TypeError for dtypes without a value in Python.
        """

    def item(self) -> Any:
        """The only element as a Python number. ValueError unless the tensor has one element."""

    def __bytes__(self) -> bytes:
        """The bytes of the elements in C order."""

    def __copy__(self) -> Tensor:
        """Another tensor over the same memory, with the same :attr:`protocol` and :attr:`copied`."""

    def __deepcopy__(self, _memo: object, /) -> Tensor:
        """A tensor over a copy of the elements; :attr:`copied` is true."""

    def __bool__(self) -> bool:
        """Returns true if the element is not zero. TypeError unless the tensor has one element."""

    def __float__(self) -> float:
        """The element as a float. TypeError unless the tensor has one element."""

    def __int__(self) -> int:
        """The element as an integer. TypeError unless the tensor has one element."""

    def __complex__(self) -> complex:
        """The element as a complex number. TypeError unless the tensor has one element."""

    def __index__(self) -> int:
        """The element of a 0-d tensor of integers. TypeError for other tensors."""

    def __hash__(self) -> int:
        """By identity, as for any object."""

    @property
    def size(self) -> int:
        """The number of elements."""

    @property
    def itemsize(self) -> int:
        """The number of bytes of an element; 1 for elements narrower than a byte."""

    def dltensor(self, *, writable: bool = False) -> AbstractContextManager[int]:
        """Pass the struct ``DLTensor`` to C code in a ``with`` block, as an address for ``ctypes`` or ``cffi``.

        The struct and the memory live until the end of the block. On a device, the caller synchronises with
        :attr:`stream`. Raises BufferError for ``writable=True`` if the data is read-only.
        """

    def data_ptr(self) -> int:
        """The same as :attr:`address`."""

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
    def dtype(self) -> DTypeName:
        """The name of the dtype, like ``'float32'``; ``t.dtype == numpy.float32`` works too."""

    @property
    def device(self) -> str:
        """The name of the device, like ``'cpu'`` or ``'cuda:0'``."""

    @property
    def readonly(self) -> bool:
        """True if the data is read-only.

        A legacy producer cannot mark its data, so its data counts as read-only, as in NumPy.
        """

    @property
    def protocol(self) -> ProtocolName | Literal["dlpack-legacy, assumed writable"] | None:
        """The protocol that imported the tensor, like ``'dlpack'`` or ``'buffer'``.

        None if this package made the tensor; 'exchange-api' for the result of an extension.
        """

    @property
    def copied(self) -> bool:
        """True if the import copied the elements, by the producer or by dlbridge."""

    @property
    def copy_reason(self) -> str | None:
        """The reason why the import copied the elements, as a sentence; None if it did not."""

    @property
    def _record(self) -> int: ...

    @property
    def stream(self) -> int | None:
        """The tensor's stream: work queued on it runs after pending writes to the tensor.

        The number by the array API standard, -1 if no stream is known;
        None on devices that do not number their streams.
        """

    @property
    def nbytes(self) -> int:
        """The number of bytes of the elements in contiguous memory."""

    @property
    def address(self) -> int:
        """The address of the element at index zero.

        0 for an empty tensor; a handle on devices with handles.
        """

    # NotImplemented, so that Python asks the other operand, for the order comparisons.
    def __lt__(self, other: Any, /) -> Any: ...
    def __le__(self, other: Any, /) -> Any: ...
    def __gt__(self, other: Any, /) -> Any: ...
    def __ge__(self, other: Any, /) -> Any: ...
    def __eq__(self, other: object, /) -> Any:
        """The answer of the other operand. TypeError if it has elements and does not compare them."""

    def __ne__(self, other: object, /) -> Any:
        """As ``==``."""

def asdlpack(
    obj: TensorLike | CapsuleType,
    /,
    *,
    protocol: ProtocolName | None = None,
    copy: bool | None = None,
    device: str | tuple[int, int] | None = None,
    align: SupportsIndex | None = None,
    contiguous: bool | Literal["C", "F"] | None = None,
    writable: bool | None = None,
    assume_writable: bool | None = None,
    stream: int | None = None,
) -> Tensor:
    """Import any object that supports an exchange protocol.

    dlbridge tries the protocols in this order: the C exchange API of DLPack, ``__dlpack__``,
    ``__cuda_array_interface__``, ``__array_interface__``, ``__array_struct__``, the buffer protocol,
    Arrow.
    It also imports a DLPack capsule, and returns a :class:`Tensor` unchanged.

    ``protocol`` selects one protocol and tries no other.

    ``copy=None`` shares the memory if a tensor can express it, and copies it if not, for instance numbers in the
    other byte order. ``copy=False`` makes such a copy an error. ``copy=True`` always copies, in C order, aligned to
    ``align`` and at least to 256 bytes unless the producer makes the copy; it also makes one tensor of an Arrow column
    of several chunks, which is refused otherwise (:func:`chunks` shares them). :attr:`Tensor.copied` and
    :attr:`Tensor.copy_reason` report a copy.

    ``device`` is the requested device: a name like those of :attr:`Tensor.device`, or a tuple of
    DLPack device type and device id. ``align`` is the alignment of the first element in bytes, a power of
    two up to 1 GiB: 64 for AVX-512, 4096 for a page. ``contiguous`` requests
    contiguous elements in C order (``"C"`` or ``True``) or in Fortran order (``"F"``). ``writable=True`` requests
    writable data. Data that does not meet these options is copied. ``writable=False`` returns a tensor that is marked
    read-only.

    ``assume_writable=True`` is a promise of the caller: the memory of a producer that returns legacy capsules, which cannot
    mark it as read-only, may be written. It is then shared as writable memory, and :attr:`Tensor.protocol` is
    ``'dlpack-legacy, assumed writable'``. Data that its producer marks as read-only is refused.

    If a producer does not export to the requested device, CUDA's driver copies the data between the CPU and
    CUDA devices.

    ``stream`` is the caller's stream, a number as in the array API standard. It waits for the pending writes
    of the producer. The memory returns to the producer once the last consumer has released it and the stream has
    finished the work queued by then; the stream must live until then. Without ``stream`` the tensor uses
    the default stream of the device, and the memory returns at once; with -1 the caller orders the work. :attr:`Tensor.stream` is the stream of the tensor.

    Read-only data stays marked as such. ``from_dlpack`` of PyTorch and Paddle ignores the mark; :meth:`Tensor.to`
    gives them a copy.

    A tensor over a buffer keeps its exporter alive and locked. Python's garbage collector sees that reference, so an
    exporter that refers to the tensor in turn is freed.

    Raises TypeError for an object that supports no protocol, BufferError for data that breaks the
    specification, that a tensor cannot express or that cannot meet the options, ValueError for an
    argument of the wrong value and for a capsule that was consumed before, and the producer's own
    exceptions.
    """

def from_dlpack(
    x: SupportsDLPack,
    /,
    *,
    device: str | tuple[int, int] | None = None,
    copy: bool | None = None,
    stream: int | None = None,
) -> Tensor:
    """Import an object that has ``__dlpack__``, by the array API standard.

    ``device`` is a name like those of :attr:`Tensor.device`, or a tuple of DLPack device type and
    device id; ``stream`` is as for :func:`asdlpack`.

    Raises AttributeError for an object without ``__dlpack__``, and otherwise as :func:`asdlpack`.
    """

def chunks(
    obj: TensorLike | CapsuleType,
    /,
    *,
    copy: bool | None = None,
) -> Iterator[Tensor]:
    """Iterate over the chunks of a column, each as a :class:`Tensor` without a copy.

    ``obj`` is a column of Arrow, such as a ``pyarrow.ChunkedArray``, a ``polars.Series`` or a ``pandas.Series``. Each
    chunk is imported when it is requested; empty chunks give empty tensors. Any other object that :func:`asdlpack`
    imports gives one tensor. ``copy`` is as for :func:`asdlpack`, for each chunk.

    Raises as :func:`asdlpack`. The refusal of a chunk is raised when it is requested, and ends the iteration.
    """

def from_managed(address: SupportsIndex, /, *, legacy: bool = False) -> Tensor:
    """Take over a managed tensor of DLPack, by the address that C code returned.

    ``address`` is that of a ``DLManagedTensorVersioned``, or with ``legacy=True`` of a ``DLManagedTensor``. Its deleter is
    called with the last use of the result. A wrong address ends the process, as with ``ctypes``.

    Raises TypeError for anything but an integer, ValueError for an address that cannot be one, BufferError as
    :func:`asdlpack`.
    """

def matrix(
    frame: object,
    columns: Iterable[Any] | None = None,
    *,
    dtype: object = None,
    nulls: Literal["raise"] | float = "raise",
    order: Literal["C", "F"] = "C",
    copy: bool | None = None,
) -> Tensor:
    """Make a tensor of (rows, columns) from a table.

    ``frame`` is any table of Arrow, such as a ``DataFrame`` of polars or a ``Table`` of pyarrow, a ``pandas.DataFrame``, or a
    mapping of names to columns of one length, which :func:`asdlpack` imports. ``columns`` selects columns by name, in this
    order; the others are not read.

    ``dtype`` is the dtype to convert to, by NumPy's rule ``same_kind``; by default the one that NumPy promotes the dtypes of the
    columns to. Columns of times become their counts: int64, in the finest of their units, or in that of ``dtype``.
    ``nulls`` is ``'raise'``, or the number that replaces nulls. ``float('nan')`` makes float64 of integers with nulls, and
    ``NaT`` of times.

    Columns that lie side by side in memory are shared, and keep their strides; all others are copied once. ``order`` is the
    order of a copy. ``copy=True`` copies always; ``copy=False`` makes a copy an error. :attr:`Tensor.copied` and
    :attr:`Tensor.copy_reason` tell which it was.

    Raises TypeError for an object that is not a table, ValueError for a column that is not there or whose name others have,
    and BufferError, with the name of the column, for one that has nulls, or that a matrix cannot express.
    """

def empty(
    shape: SupportsIndex | Sequence[SupportsIndex],
    /,
    dtype: object = "float32",
    *,
    device: str | tuple[int, int] | None = None,
    align: SupportsIndex | None = None,
) -> Tensor:
    """Make a new tensor in C order on the CPU, with unspecified contents.

    ``dtype`` is a name like ``'float32'``, or a dtype of NumPy, PyTorch, JAX or ml_dtypes.

    The tensor is aligned to 256 bytes, or to ``align`` if that is more: a power of two up to 1 GiB. Elements narrower
    than a byte are packed.

    Raises BufferError for another device or a tensor that is too large, ValueError for a dtype or an
    alignment that does not exist, MemoryError if the memory cannot be allocated.
    """

def like(prototype: object, obj: TensorLike | CapsuleType, /, *, copy: bool | None = None) -> Any:
    """Make an object of the library that ``prototype`` belongs to, from anything that
    :func:`asdlpack` accepts.

    For a prototype without a library that exports a buffer, like bytes, the result is a memoryview; for a
    :class:`Tensor` it is a :class:`Tensor`.

    Raises as :func:`asdlpack` and :meth:`Tensor.to`; TypeError for any other prototype.
    """

def _consumers() -> list[dict[str, Any]]:
    """The consumer profiles: the libraries that tensors can be exported to, how dlbridge calls each one, and what
    it would silently get wrong.

    Most of a profile is measured when a library is first used; ``measured`` names the release.
    """

def _fit(tensor: Tensor, library: str) -> tuple[str | None, str | None, str | None, str | None]:
    """How a library accepts a tensor, as four texts.

    The reason why the library does not accept it, the reason why :meth:`Tensor.to` copies it for that library,
    how to avoid the copy, and the release that was measured. Each is None if it does not apply.
    :func:`dlbridge.explain` puts them into words.

    Raises ValueError for an unknown library.
    """

def _lists(
    obj: Any, /, *, copy: bool | None = None
) -> tuple[Tensor, Tensor, tuple[int, int]] | None: ...
def _list_array(offsets: Tensor, values: Tensor, /) -> tuple[CapsuleType, CapsuleType]: ...
def _list_schema(offsets: Tensor, values: Tensor, /) -> CapsuleType: ...
def _offsets_range(offsets: Tensor, /) -> tuple[int, int]: ...
def _origin(tensor: Tensor) -> tuple[str | None, list[str]]:
    """The origin of a tensor: the DLPack version of the producer's managed tensor, None for protocols without a
    version; and the names of the flags that are set.
    """

def _has_protocol(obj: Any, protocol: ProtocolName) -> bool:
    """Return true if an object has a protocol; looks up its attribute and calls nothing."""

def _like(prototype: object, tensor: Tensor) -> Any:
    """The result of an extension as an object of the library that `prototype` belongs to; unchanged if that is not known."""

def _like_times(prototype: object, times: object) -> Any:
    """An array of times as a column of the library that `prototype` belongs to; unchanged if that library lacks columns."""

def _matrix(obj: object, order: str | None = None) -> Tensor | None:
    """The matrix of a table, for an argument of an extension; None for an object that is not a table."""

def _remedy(obj: object) -> str | None:
    """The advice for an object without a protocol, for the messages of extensions."""

def _times(
    obj: Any, dtypes: list[str], fill: bool, casts: bool | None
) -> tuple[Tensor | None, str | None]:
    """The counts of the times of a column and NumPy's name for them, or None and the elements that were found instead.

    For extensions: ``dtypes`` are those of an argument, ``fill`` allows nulls, and ``casts`` says which units are converted.
    """

def _canonical(to: object) -> str:
    """The canonical name of the library in an argument ``to``: a name, or a module.

    Raises ValueError for an unknown library, TypeError for another object.
    """

def set_num_threads(num_threads: SupportsIndex, /) -> None:
    """Set the largest number of threads for a copy, including the thread that calls.

    ``num_threads`` is from 1 to 1024; 1 means that no other thread copies. The copies of this package use it; each
    extension built on dlbridge has a number of its own.

    Raises TypeError for anything but an integer, ValueError for another integer.
    """

def get_num_threads() -> int:
    """The largest number of threads for a copy, including the thread that calls.

    The default is the number of processors that the process may use, at most 8.
    """

def _rebuild(data: Buffer, dtype: str, shape: tuple[int, ...], padded: bool) -> Tensor: ...
def _copy(target: Buffer, source: Buffer) -> None: ...

@final
class _TensorFile:
    def __new__(cls, source: str | Tensor | Reader, has_pairs: bool) -> Self: ...
    def path(self) -> pathlib.Path: ...
    def names(self) -> list[str]: ...
    def __len__(self) -> int: ...
    def __contains__(self, name: object, /) -> bool: ...
    def is_single(self) -> bool: ...
    def refused(self) -> dict[str, str]: ...
    def metadata(self) -> dict[str, Any]: ...
    def describe(
        self, name: str
    ) -> tuple[str, list[int], int, int, tuple[str, int, int, list[int]] | None]: ...
    def tensor(self, name: str, private: bool) -> Tensor: ...
    def dequantize(self, name: str, dtype: object) -> Tensor: ...

@final
class _FileWriter:
    def __new__(
        cls,
        path: str,
        planned: list[tuple[str, str, tuple[int, ...]]],
        metadata: list[tuple[str, str]],
        max_shard_bytes: int | None,
    ) -> Self: ...
    def next(self) -> int | None: ...
    def write(self, object: TensorLike) -> None: ...
    def finish(self) -> None: ...

if sys.platform != "win32":
    __all__ += ["_SharedMap"]

    @final
    class _SharedMap:
        def __new__(cls, descriptor: int) -> Self: ...
        def __len__(self) -> int: ...
        def __buffer__(self, flags: int, /) -> memoryview: ...
