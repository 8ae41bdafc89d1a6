"""Tensors in memory that processes share, found by name.

>>> import dlbridge
>>> with dlbridge.share_memory(b"abc") as shared:           # one copy, into the shared memory
...     with dlbridge.attach(shared.name) as other:         # in any process: no copy
...         memoryview(other.tensor)[0] = ord("x")
...     bytes(shared.tensor)
b'xbc'
"""

from __future__ import annotations

import errno
import json
import mmap
import os
import sys
from collections.abc import Callable
from multiprocessing import resource_tracker, util
from types import TracebackType
from typing import Any

from dlbridge._core import Tensor, _rebuild, asdlpack

if sys.platform != "win32":
    import _posixshmem  # type: ignore[import-not-found]

__all__ = ["SharedTensor", "attach", "share_memory"]

#: What a segment begins with; the digit is the version of the layout.
MAGIC = b"dlbridge shared tensor 1\n"

#: The data begins at a page, behind the description.
DATA = 4096


class SharedTensor:
    """A tensor in shared memory. Made by :func:`share_memory` and :func:`attach`.

    As a context manager it is closed at the end, and the one who made it removes the name. Pickled, it is
    its name: another process attaches when it unpickles.
    """

    def __init__(self, name: str, tensor: Tensor, remove: Callable[[], Any] | None) -> None:
        self._name = name
        self._tensor: Tensor | None = tensor
        self._remove = remove

    @property
    def name(self) -> str:
        """The name under which other processes find the memory."""
        return self._name

    @property
    def tensor(self) -> Tensor:
        """The tensor over the shared memory, which may be written; no copy.

        It stays valid after :meth:`close` and :meth:`unlink`, as does whatever was made of it.

        Raises ValueError once this is closed.
        """
        if self._tensor is None:
            raise ValueError(f"the shared tensor {self._name!r} is closed; attach to it again")
        return self._tensor

    def close(self) -> None:
        """Let go of the memory. It is unmapped when nobody in this process has a tensor over it."""
        self._tensor = None

    def unlink(self) -> None:
        """Remove the name, if this is who made it: nobody can attach any more.

        The memory is freed when the last process lets go of it.
        """
        if self._remove is not None:
            self._remove()

    def __enter__(self) -> SharedTensor:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
        self.unlink()

    def __reduce__(self) -> tuple[Callable[[str], SharedTensor], tuple[str]]:
        return attach, (self._name,)

    def __repr__(self) -> str:
        return f"dlbridge.SharedTensor(name={self._name!r}, tensor={self._tensor!r})"


def share_memory(obj: object, /, *, name: str | None = None) -> SharedTensor:
    """Copy anything that :func:`dlbridge.asdlpack` takes into new shared memory, in C order.

    What is not in C order yet is copied twice. The name is removed by :meth:`SharedTensor.unlink`, when
    the result is garbage, or when this process ends and has waited for its children, whichever is first.

    Raises FileExistsError for a name that is taken, ValueError for one that is no name, OSError if there
    is no room for so much shared memory, and whatever ``asdlpack`` raises.
    """
    parts: Any = asdlpack(obj).__reduce_ex__(5)
    _, (elements, dtype, shape, padded) = parts
    data = elements.raw()
    description = {"dtype": dtype, "shape": shape, "padded": padded, "bytes": data.nbytes}
    header = json.dumps(description).encode()
    if len(MAGIC) + len(header) >= DATA:
        raise ValueError(f"the tensor has too many dimensions to be described: {len(shape)}")
    name = f"dlbridge_{os.urandom(8).hex()}" if name is None else _checked(name)
    mapping, remove = _create(name, DATA + data.nbytes)
    with memoryview(mapping) as view:
        view[DATA : DATA + data.nbytes] = data
        view[len(MAGIC) : len(MAGIC) + len(header)] = header
        # Last, so that nobody attaches to what is not there yet.
        view[: len(MAGIC)] = MAGIC
    shared = SharedTensor(name, _tensor(mapping, description), remove)
    # Below zero: after the children have ended, which may still attach. Unlike the handlers of atexit it
    # is also called at the end of a child, in every version of Python.
    util.Finalize(shared, remove, exitpriority=-10)
    return shared


def attach(name: str) -> SharedTensor:
    """Find a shared tensor by name, in any process.

    Raises FileNotFoundError if there is none of that name, ValueError for memory that is something else
    or is cut off.
    """
    mapping = _open(_checked(name))
    found = mapping[: len(MAGIC)]
    if found != MAGIC:
        raise ValueError(f"the shared memory {name!r} is no tensor: it begins with {found!r}")
    try:
        header, _ = json.JSONDecoder().raw_decode(mapping[len(MAGIC) : DATA].decode("latin-1"))
        available, needed = len(mapping) - DATA, int(header["bytes"])
        if needed > available:
            raise ValueError(f"{needed} bytes of data are needed, and {available} are there")
        tensor = _tensor(mapping, header)
    except (KeyError, OverflowError, RecursionError, TypeError, ValueError) as error:
        raise ValueError(f"the shared memory {name!r} is no tensor: {error}") from error
    return SharedTensor(name, tensor, None)


def _tensor(mapping: mmap.mmap, header: dict[str, Any]) -> Tensor:
    data = memoryview(mapping)[DATA : DATA + header["bytes"]]
    return _rebuild(data, header["dtype"], tuple(header["shape"]), header["padded"])


def _checked(name: str) -> str:
    if not isinstance(name, str):
        raise TypeError(f"name must be a string, not {type(name).__name__}")
    encoded = name.encode(errors="replace")
    if name in ("", ".", "..") or "/" in name or "\0" in name or len(encoded) > 200:
        raise ValueError(
            f"{name!r} is no name for shared memory: write one of 1 to 200 bytes without a slash"
        )
    return name


class _Remover:
    """Removes a name once, in the process that made it."""

    def __init__(self, name: str) -> None:
        self.name: str | None = name
        self.process = os.getpid()

    def __call__(self) -> None:
        name, self.name = self.name, None
        if name is None or os.getpid() != self.process or sys.platform == "win32":
            return
        try:
            _posixshmem.shm_unlink(f"/{name}")
        except FileNotFoundError:
            pass
        resource_tracker.unregister(f"/{name}", "shared_memory")


def _create(name: str, size: int) -> tuple[mmap.mmap, _Remover]:
    if sys.platform == "win32":
        return mmap.mmap(-1, size, tagname=name), _Remover(name)
    descriptor = _posixshmem.shm_open(f"/{name}", os.O_CREAT | os.O_EXCL | os.O_RDWR, mode=0o600)
    # Who is killed before it removes the name is cleaned up after by the tracker.
    resource_tracker.register(f"/{name}", "shared_memory")
    remove = _Remover(name)
    try:
        os.ftruncate(descriptor, size)
        if hasattr(os, "posix_fallocate"):
            # A page that there is no room for would kill the process when it is written.
            os.posix_fallocate(descriptor, 0, size)
        return mmap.mmap(descriptor, size), remove
    except OSError as error:
        remove()
        text = f"{size} bytes of shared memory cannot be had: {error.strerror}"
        raise OSError(error.errno, text, name) from error
    finally:
        os.close(descriptor)


def _open(name: str) -> mmap.mmap:
    if sys.platform == "win32":
        return mmap.mmap(-1, 0, tagname=name)
    try:
        descriptor = _posixshmem.shm_open(f"/{name}", os.O_RDWR, mode=0o600)
    except FileNotFoundError as error:
        text = "there is no shared memory of that name; who made it may have ended or removed it"
        raise FileNotFoundError(errno.ENOENT, text, name) from error
    try:
        size = os.fstat(descriptor).st_size
        if size < DATA:
            raise ValueError(f"the shared memory {name!r} is no tensor: it has {size} bytes")
        return mmap.mmap(descriptor, size)
    finally:
        os.close(descriptor)
