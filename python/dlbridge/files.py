"""Model files: tensors on disk, for any library.

>>> import dlbridge, tempfile, os
>>> path = os.path.join(tempfile.mkdtemp(), "model.safetensors")
>>> dlbridge.save(path, {"weight": dlbridge.asdlpack(bytearray(64))})
>>> file = dlbridge.load(path)
>>> list(file), file["weight"].shape, file.info("weight").alignment
(['weight'], (64,), 64)
"""

from __future__ import annotations

import copy
import errno
import math
import mmap
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any

from dlbridge._core import Tensor, _canonical, _FileWriter, _fit, _TensorFile, asdlpack, empty
from dlbridge._libraries import check_installed

if TYPE_CHECKING:
    from types import ModuleType

    from typing_extensions import CapsuleType

    from dlbridge.typing import Reader, TensorLike

__all__ = ["Quantization", "TensorFile", "TensorInfo", "load", "save"]

ARROW = b"ARROW1\0\0"
"""The first bytes of an Arrow IPC file."""

WHOLE = ""
"""The name of the only tensor of an npy file, or of a checkpoint that is one tensor."""

LARGE, REPEATS = 1 << 30, 1000
"""``save`` refuses a tensor of more bytes that repeats its memory more often."""


@dataclass(frozen=True)
class Quantization:
    """The quantised type of a GGUF tensor, whose bytes are blocks of numbers."""

    #: The name of the type, like ``"Q4_K"``.
    name: str
    #: The number of elements in a block.
    block_len: int
    #: The number of bytes of a block.
    block_bytes: int
    #: The shape of the numbers.
    shape: tuple[int, ...]


@dataclass(frozen=True)
class TensorInfo:
    """The description of a tensor in a file."""

    dtype: str
    shape: tuple[int, ...]
    nbytes: int
    #: The largest power of two, at most 4096, that divides the address of the data. JAX shares memory from 64 on.
    alignment: int
    #: The quantised type of the bytes; None for elements.
    quantization: Quantization | None


class TensorFile(Mapping[str, Any]):
    """The tensors of a file by name. Made by :func:`load`.

    A tensor is mapped when it is asked for; its pages are read from the disk when they are first used.
    """

    def __init__(
        self,
        path: str | None,
        file: Any,
        to: str | ModuleType | None,
        device: Any,
        writable: bool | None,
        dequantize: object = None,
        failure: Exception | None = None,
    ) -> None:
        self._path = None if path is None else os.path.abspath(path)
        self._file: Any = file
        self._device = device
        self._writable = writable
        #: The dtype of the numbers of quantised tensors; None for their blocks.
        self._dequantize = dequantize
        #: The reason why unpickling could not load the file; ``_file`` is None then.
        self._failure = failure
        if failure is not None:
            self._to: Any = to
            return
        self._to = to if to is None else _canonical(to)
        if device is not None:
            # Raises for a device that is not there.
            asdlpack(empty(0), device=device)
        self._private = _is_private(to) if writable is None else writable

    def __getitem__(self, name: str) -> Any:
        if self._dequantize is not None and self.info(name).quantization is not None:
            return self.dequantize(name, self._dequantize)
        return self._moved(name, self._opened().tensor(name, self._private))

    def dequantize(self, name: str, dtype: object = "float32") -> Any:
        """The numbers of a quantised tensor of a GGUF file, in memory of their own.

        ``dtype`` is ``float32``, ``float16`` or ``bfloat16``, as a name or as a dtype of a library. A number is computed
        as float32, with the bits that ``gguf.dequantize`` of gguf-py gives it, and then rounded to the dtype. Tensors of
        these dtypes are converted.

        Raises KeyError for an unknown name, ValueError for another dtype, and for a type of blocks whose numbers
        dlbridge cannot compute, which the message names.
        """
        return self._moved(name, self._opened().dequantize(name, dtype))

    def _moved(self, name: str, tensor: Tensor) -> Any:
        """Moves a tensor to the device and the library of the file."""
        try:
            if self._device is not None:
                tensor = asdlpack(tensor, device=self._device)
            return tensor if self._to is None else tensor.to(self._to)
        except Exception as error:
            error.add_note(f"tensor {name!r} of the file")
            raise

    def __iter__(self) -> Iterator[str]:
        return iter(self._opened().names())

    def __len__(self) -> int:
        return len(self._opened())

    def __contains__(self, name: object) -> bool:
        return name in self._opened()

    @property
    def path(self) -> str | None:
        """The path of the file that :func:`load` found, or of the index of a sharded model; None without a path."""
        return None if self._path is None else os.fspath(self._opened().path())

    @property
    def metadata(self) -> dict[str, Any]:
        """The metadata: text by key in safetensors files, other values too in GGUF files and checkpoints."""
        metadata: dict[str, Any] = self._opened().metadata()
        return metadata

    @property
    def refused(self) -> dict[str, str]:
        """The values of the file that it does not list because they cannot be read, and the reasons."""
        refused: dict[str, str] = self._opened().refused()
        return refused

    def info(self, name: str) -> TensorInfo:
        """The description of a tensor, without its data.

        Raises KeyError for an unknown name.
        """
        dtype, shape, nbytes, alignment, blocks = self._opened().describe(name)
        quantization = None
        if blocks is not None:
            kind, block_len, block_bytes, numbers = blocks
            quantization = Quantization(kind, block_len, block_bytes, tuple(numbers))
        return TensorInfo(dtype, tuple(shape), nbytes, alignment, quantization)

    def close(self) -> None:
        """Close the file. Tensors that were taken from it stay valid."""
        self._file = None

    def _opened(self) -> Any:
        if self._failure is not None:
            # A new exception each time: its traceback is of this call alone.
            raise copy.copy(self._failure).with_traceback(None)
        if self._file is None:
            raise ValueError("the file is closed; load it again")
        return self._file

    def __reduce__(self) -> tuple[Callable[..., TensorFile], tuple[Any, ...]]:
        """Another process loads the file when it unpickles this; only the absolute path is sent."""
        if self._path is None:
            raise TypeError("a file in memory or behind a reader cannot be pickled; pickle its path or its bytes")
        if self._failure is None:
            self._opened()
        return _unpickled, (self._path, self._to, self._device, self._writable, self._dequantize)

    def __enter__(self) -> TensorFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        if self._failure is not None:
            return f"<dlbridge.TensorFile of {self._path!r} that could not be loaded: {self._failure!r}>"
        if self._file is None:
            return "<closed dlbridge.TensorFile>"
        refused = f", {len(self.refused)} refused" if self.refused else ""
        return f"<dlbridge.TensorFile of {len(self)} tensors{refused}>"


def load(
    file: str | os.PathLike[str] | TensorLike | Reader,
    to: str | ModuleType | None = None,
    *,
    device: str | tuple[int, int] | None = None,
    writable: bool | None = None,
    dequantize: object = None,
) -> Any:
    """Open a file of tensors, without reading its data: a path, the bytes of a file, or an open file.

    The format is that of the file's first bytes: safetensors, npz, GGUF, Arrow IPC, a checkpoint of ``torch.save``, or npy.
    A ``model.safetensors.index.json`` stands for the files of a sharded model, and so does the path that :func:`save` got,
    like ``model.safetensors``, if it does not exist. In a folder, that model is opened, or the one of
    ``diffusion_pytorch_model.safetensors`` or ``pytorch_model.bin``; :attr:`TensorFile.path` is the file. The result is a
    :class:`TensorFile`; for npy, and a checkpoint that is one tensor, it is the tensor. No code of a checkpoint runs.

    ``file`` may also be ``bytes``, a ``bytearray``, ``memoryview``, ``mmap``, ``io.BytesIO`` or contiguous tensor of the CPU,
    whose memory the tensors share, read-only; or an object with ``read`` and ``seek``, such as one of an object store, of
    which only the header and the tensors that are requested are read.

    ``to`` is the library of the tensors, as for :meth:`Tensor.to`; they are :class:`Tensor` without it. ``device`` is
    where they are, as for :func:`asdlpack`.

    Tensors on the CPU share the file's pages with all processes and cannot be written. For a library that has no
    read-only tensors, such as PyTorch, a page is copied when it is written, and the file stays as it is;
    ``writable=True`` asks for that in any library, and ``writable=False`` forbids it, so that such a library gets a copy.

    ``dequantize`` is a dtype, as for :meth:`TensorFile.dequantize`: quantised tensors of a GGUF file are their numbers
    instead of their blocks. Other tensors are as without it.

    No program may change the file while it is open or its tensors are used: their elements would change, and if it
    becomes shorter, the process ends (``SIGBUS``). Replacing it, as :func:`save` does, is safe.

    Raises OSError for a file that cannot be read, ValueError for one that is not valid and for an unknown library,
    BufferError for a device that is not there, ModuleNotFoundError for a library that is not installed, and TypeError for
    arguments of the wrong type.
    """
    if to is not None:
        check_installed(to)
    if not isinstance(writable, bool | None):
        raise TypeError(f"writable must be None, True or False, not {writable!r}")
    if dequantize is not None:
        dequantize = _checked(dequantize)
    tensors = _loaded(_source(file), to, device, writable, dequantize)
    return tensors[WHOLE] if tensors._file.is_single() else tensors


def save(
    path: str | os.PathLike[str],
    tensors: Mapping[str, TensorLike | CapsuleType] | TensorLike,
    *,
    metadata: Mapping[str, str] | None = None,
    max_shard_bytes: float | str | None = None,
) -> None:
    """Write tensors of any library to a file: ``.safetensors``, ``.npz``, or ``.npy`` for one tensor.

    Each tensor goes from its memory to the file; those that are not in C order, or not on the CPU, are copied one after
    another, in pieces of 16 MiB on the CPU. The file appears when it is complete, and then replaces one with its name; it
    is not flushed to the disk.

    ``metadata`` is text for the header of a safetensors file. With ``max_shard_bytes``, a number or text such as ``"5GB"``,
    a larger safetensors file is split into ``model-00001-of-00002.safetensors`` and so on, with
    ``model.safetensors.index.json``.

    In a safetensors file, tensors whose size is a multiple of 64 bytes begin at such a multiple, which JAX demands for
    an import without a copy; in the formats of NumPy all do.

    A file or model that was at the path is replaced: a sharded model with its index and its files. The files of a new model
    that replaces one in shards have a number of their own before that of the shard.

    Raises OSError for a path that cannot be written, or a disk without the space, ValueError for names that cannot be
    written, and for a tensor of more than 1 GiB that repeats its memory more than 1000 times, TypeError for names and
    metadata that are not text, BufferError for a dtype that the format lacks, and the exceptions of :func:`asdlpack`, which
    name the tensor. A signal, such as Ctrl-C, stops it.
    """
    if not isinstance(path, str | bytes | os.PathLike) and isinstance(tensors, str | bytes | os.PathLike):
        raise TypeError("save takes the path first: dlbridge.save(path, tensors)")
    path = os.fsdecode(path)
    if not isinstance(tensors, Mapping) and not path.endswith(".npy"):
        raise TypeError(f"tensors must be a mapping of names to tensors, not {type(tensors).__name__}, except for .npy")
    # One pass: a mapping may have another order, or other tensors, the next time.
    named: list[tuple[Any, Any]] = list(tensors.items()) if isinstance(tensors, Mapping) else [(WHOLE, tensors)]
    if path.endswith(".npy") and len(named) == 1 and named[0][0] != WHOLE:
        raise ValueError(f"an npy file keeps no name, such as {named[0][0]!r}; save the tensor without the mapping")
    texts, shard_bytes = _texts(metadata), None if max_shard_bytes is None else _bytes(max_shard_bytes)
    ready = [(name, _ready(name, tensor)) for name, tensor in named]
    _check_space(path, sum(tensor.nbytes for _, tensor in ready))
    planned = [(name, str(tensor.dtype), tensor.shape) for name, tensor in ready]
    writer = _FileWriter(path, planned, texts, shard_bytes)
    while (place := writer.next()) is not None:
        name, tensor = ready[place]
        with _naming(name):
            host = tensor if tensor.device == "cpu" else asdlpack(tensor, device="cpu")
        writer.write(host)
    writer.finish()


def _ready(name: Any, tensor: Any) -> Tensor:
    """Imports a tensor to save."""
    if not isinstance(name, str):
        raise TypeError(f"the names of tensors must be str, not {name!r}")
    with _naming(name):
        ready = asdlpack(tensor)
        if ready.nbytes > LARGE:
            elements = 1 + sum((n - 1) * abs(stride) for n, stride in zip(ready.shape, ready.strides, strict=True))
            memory = max(ready.nbytes * elements // math.prod(ready.shape), 1)
            if ready.nbytes > REPEATS * memory:
                raise ValueError(
                    f"it repeats {memory} bytes {ready.nbytes // memory} times; save the tensor that was broadcast, or a "
                    "copy, asdlpack(x, copy=True), if so much is meant"
                )
    return ready


@contextmanager
def _naming(name: str) -> Iterator[None]:
    """Puts the name of a tensor in front of the message of an exception; in a note, for a class that is not ours."""
    try:
        yield
    except Exception as error:
        start = f"tensor {name!r}: "
        match error.args:
            case (str(text),) if isinstance(error, TypeError | ValueError | BufferError):
                if name != WHOLE and not text.startswith(start):
                    error.args = (start + text,)
            case _ if name != WHOLE:
                error.add_note(f"{start}it cannot be saved")
        raise


def _texts(metadata: Mapping[str, str] | None) -> list[tuple[str, str]]:
    """Checks the metadata."""
    if not isinstance(metadata, Mapping | None):
        raise TypeError(f"metadata must be a mapping of text to text, not {type(metadata).__name__}")
    texts = list((metadata or {}).items())
    for key, text in texts:
        if not isinstance(key, str) or not isinstance(text, str):
            raise TypeError(f"metadata must be text, not {key!r}: {text!r}; convert it with str() or json.dumps()")
    return texts


def _bytes(size: float | str) -> int:
    """Returns a number of bytes, which may be text with a unit: ``"5GB"`` or ``"2GiB"``."""
    number: Any = size
    if isinstance(size, str):
        found = re.fullmatch(r"([0-9.]+) ?([KMGT]?)(i?)B?", size.strip(), re.IGNORECASE)
        number = None
        if found is not None and found[1].count(".") <= 1 and found[1] != ".":
            number = float(found[1]) * (1024 if found[3] else 1000) ** " KMGT".index(found[2].upper() or " ")
    is_number: bool = isinstance(number, Real) and not isinstance(number, bool)
    if not is_number:
        raise TypeError(f"max_shard_bytes must be a number of bytes, or text such as '5GB', not {size!r}")
    if not number >= 1:
        raise ValueError(f"max_shard_bytes must be positive, not {size!r}")
    return int(min(number, 2**63 - 1))


def _check_space(path: str, nbytes: int) -> None:
    """Raises OSError before the first byte is written, if the disk lacks the space for all."""
    if sys.platform != "linux":
        return  # macOS counts the blocks of a disk with 32 bits.
    try:
        disk = os.statvfs(os.path.dirname(path) or ".")
    except OSError:
        return  # The writer says it.
    free = disk.f_bavail * disk.f_frsize
    if disk.f_blocks and nbytes > free:
        raise OSError(errno.ENOSPC, f"the tensors have {nbytes} bytes, and the disk has {free} free", path)


def _is_private(library: str | ModuleType | None) -> bool:
    """Returns True for a library that would copy a tensor because it is read-only."""
    if library is None:
        return False
    _, copied, _, _ = _fit(asdlpack(empty(16), writable=False), _canonical(library))
    return copied is not None


def _checked(dtype: object) -> str:
    """Returns the name of a dtype that numbers of blocks can have."""
    name = str(empty(0, dtype).dtype)
    if name not in {"float32", "float16", "bfloat16"}:
        raise ValueError(f"dequantize must be None, float32, float16 or bfloat16, not {name}")
    return name


def _source(file: Any) -> Any:
    """The path of a file, a Tensor of its bytes, or an object with ``read`` and ``seek``."""
    if isinstance(file, str | os.PathLike):
        return os.fsdecode(file)
    if hasattr(file, "getbuffer"):
        file = file.getbuffer()
    if hasattr(file, "read") and hasattr(file, "seek") and not isinstance(file, mmap.mmap):
        return file
    try:
        return asdlpack(file)
    except TypeError as error:
        accepted = "the path of a file or folder, the bytes of a file, or an object with read and seek"
        raise TypeError(f"load takes {accepted}, not {type(file).__name__}") from error


def _loaded(
    source: Any, to: str | ModuleType | None, device: Any, writable: bool | None, dequantize: object
) -> TensorFile:
    """Opens a file."""
    is_arrow = _start(source) == ARROW
    file: Any = _ArrowFile(source) if is_arrow else _TensorFile(source, to is not None and _has_pairs(to))
    return TensorFile(source if isinstance(source, str) else None, file, to, device, writable, dequantize)


def _unpickled(path: str, to: str | None, device: Any, writable: bool | None, dequantize: object) -> TensorFile:
    """Load a file again.

    An exception here would be lost, and end a ``multiprocessing`` pool, so the first use of the file raises it.
    """
    try:
        return _loaded(path, to, device, writable, dequantize)
    except Exception as error:
        # Without the traceback, which keeps the frames of the caller.
        return TensorFile(path, None, to, device, writable, dequantize, copy.copy(error).with_traceback(None))


def _has_pairs(library: str | ModuleType) -> bool:
    """Returns True for a library whose floats of four bits are pairs, like ``torch.float4_e2m1fn_x2``."""
    name = _canonical(library)
    alone, pair = (_fit(empty(2, dtype), name)[0] for dtype in ("float4_e2m1fn", "float4_e2m1fnx2"))
    return alone is not None and pair is None


def _start(source: Any) -> bytes:
    """Returns the first bytes of a file; none of a folder, or of a pipe, which would wait."""
    if isinstance(source, Tensor):
        view = memoryview(source)
        return bytes(view.cast("B")[: len(ARROW)]) if view.c_contiguous and view.nbytes else b""
    if not isinstance(source, str):
        source.seek(0, os.SEEK_SET)
        start = b""
        # A reader may return fewer bytes than it has. The other formats refuse text.
        while len(start) < len(ARROW) and (more := source.read(len(ARROW) - len(start))) and not isinstance(more, str):
            start += more
        return start
    if not os.path.isfile(source):
        return b""
    with open(source, "rb") as file:
        return file.read(len(ARROW))


class _Opened:
    """A reader with what pyarrow asks of a file beside ``read`` and ``seek``."""

    closed = False

    def __init__(self, reader: Any) -> None:
        self.read, self.seek, self.tell = reader.read, reader.seek, lambda: reader.seek(0, os.SEEK_CUR)


class _ArrowFile:
    """The columns of an Arrow IPC file, by pyarrow."""

    def __init__(self, source: Any) -> None:
        import pyarrow  # type: ignore[import-untyped, import-not-found, unused-ignore]

        self._empty = pyarrow.array
        self._ipc = pyarrow.ipc
        self._source = source
        if isinstance(source, str):
            self._map = pyarrow.memory_map(source)
        else:
            is_memory = isinstance(source, Tensor)
            self._map = pyarrow.BufferReader(source) if is_memory else pyarrow.PythonFile(_Opened(source), "r")
        self._schema = self._ipc.open_file(self._map).schema
        names = self.names()
        if len(set(names)) < len(names):
            raise ValueError(f"{source}: two columns have the same name: {', '.join(names)}")

    def path(self) -> str:
        return str(self._source)

    def names(self) -> list[str]:
        names: list[str] = self._schema.names
        return names

    def __len__(self) -> int:
        return len(self.names())

    def __contains__(self, name: object) -> bool:
        return name in self.names()

    def is_single(self) -> bool:
        return False

    def refused(self) -> dict[str, str]:
        return {}

    def metadata(self) -> dict[str, Any]:
        metadata = self._schema.metadata or {}
        return {key.decode(errors="replace"): value.decode(errors="replace") for key, value in metadata.items()}

    def tensor(self, name: str, private: bool) -> Tensor:
        if name not in self.names():
            raise KeyError(name)
        options = self._ipc.IpcReadOptions(included_fields=[self.names().index(name)])
        column = self._ipc.open_file(self._map, options=options).read_all().column(0)
        if column.num_chunks == 0:
            return asdlpack(self._empty([], column.type))
        # It checks that the buffers are within the file.
        column.validate()
        several = column.num_chunks > 1
        return asdlpack(column, copy=True if private or several else None)

    def dequantize(self, name: str, dtype: object) -> Tensor:
        raise ValueError(f"column {name!r}: the columns of an Arrow file are not quantised; use file[{name!r}]")

    def describe(self, name: str) -> tuple[str, tuple[int, ...], int, int, None]:
        tensor = self.tensor(name, False)
        alignment = min(tensor.address & -tensor.address, 4096) or 4096
        return str(tensor.dtype), tensor.shape, tensor.nbytes, alignment, None
