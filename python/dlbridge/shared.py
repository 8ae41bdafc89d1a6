"""Tensors in shared memory, which processes find by name.

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
import threading
import weakref
from collections.abc import Callable, Hashable
from multiprocessing import resource_tracker, util
from types import TracebackType
from typing import TYPE_CHECKING, Any

from dlbridge import _core
from dlbridge._core import Tensor, _copy, _rebuild, asdlpack

if TYPE_CHECKING:
    from typing_extensions import CapsuleType

    from dlbridge.typing import TensorLike

if sys.platform != "win32":
    import _posixshmem  # type: ignore[import-not-found]

__all__ = ["SharedTensor", "attach", "share_memory"]

#: The first bytes of a segment; the digit is the version of the layout.
MAGIC = b"dlbridge shared tensor 1\n"

#: The offset of the data: a page, behind the description.
DATA = 4096

#: The longest name, without the slash that precedes it in the system.
LONGEST = {"linux": 255, "darwin": 30}.get(sys.platform, 200)

#: The only map of each segment in this process. Borrows compare addresses, so a second map of a segment would look like
#: separate memory. An entry is removed with the last tensor over its map. The extension module keeps the dictionary,
#: because a process loads that module once, even if it loads this one again.
_MAPS: weakref.WeakValueDictionary[Hashable, mmap.mmap] = vars(_core).setdefault(
    "_maps", weakref.WeakValueDictionary()
)
#: Held during the lookup or creation of a map, and while a name is made or removed. Reentrant, because the garbage
#: collector may run a finalizer meanwhile.
_MAPS_LOCK: Any = vars(_core).setdefault("_maps_lock", threading.RLock())

if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_MAPS_LOCK.acquire,
        after_in_parent=_MAPS_LOCK.release,
        after_in_child=_MAPS_LOCK.release,
    )


class SharedTensor:
    """A tensor in shared memory. Made by :func:`share_memory` and :func:`attach`.

    As a context manager it is closed at the end, and the process that made it removes the name. Pickling stores the
    name: another process attaches when it unpickles.
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
        """The tensor over the shared memory, writable and without a copy.

        It stays valid after :meth:`close` and :meth:`unlink`, and so do arrays made from it.

        Raises ValueError once this is closed.
        """
        if self._tensor is None:
            raise ValueError(f"the shared tensor {self._name!r} is closed; attach to it again")
        return self._tensor

    def close(self) -> None:
        """Release the memory. It is unmapped when this process drops its last tensor over it."""
        self._tensor = None

    def unlink(self) -> None:
        """Remove the name if :func:`share_memory` made this. Then processes can no longer attach.

        The memory is freed when the last process releases it.
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


def share_memory(obj: TensorLike | CapsuleType, /, *, name: str | None = None) -> SharedTensor:
    """Copy anything that :func:`dlbridge.asdlpack` imports into new shared memory, in C order.

    Data in another order is copied twice. The name is removed by :meth:`SharedTensor.unlink`, when the result is
    garbage, or when this process ends and has waited for its children, whichever is first.

    Raises FileExistsError for a name that exists, ValueError for an invalid name, OSError if the system does not have
    that much shared memory, and the exceptions of ``asdlpack``.
    """
    parts: Any = asdlpack(obj).__reduce_ex__(5)
    _, (elements, dtype, shape, padded) = parts
    data = elements.raw()
    description = {"dtype": dtype, "shape": shape, "padded": padded, "bytes": data.nbytes}
    header = json.dumps(description).encode()
    if len(MAGIC) + len(header) >= DATA:
        raise ValueError(f"the tensor has too many dimensions to be described: {len(shape)}")
    name = f"dlbridge_{os.urandom(8).hex()}" if name is None else _checked(name)
    remove = _Remover(name)
    # A signal handler may raise anywhere in here.
    try:
        mapping = _create(name, DATA + data.nbytes, remove)
        with memoryview(mapping) as view:
            with view[DATA : DATA + data.nbytes] as target:
                _copy(target, data)
            view[len(MAGIC) : len(MAGIC) + len(header)] = header
            # Written last, so that no process attaches to unfinished data.
            view[: len(MAGIC)] = MAGIC
        shared = SharedTensor(name, _tensor(mapping, description), remove)
        # A priority below zero runs after the children have ended, which may still attach. Unlike atexit handlers,
        # this also runs at the end of a child, in every version of Python.
        util.Finalize(shared, remove, exitpriority=-10)
    except BaseException:
        remove()
        raise
    return shared


def attach(name: str) -> SharedTensor:
    """Find a shared tensor by name, in any process.

    All tensors over one segment in a process have the same address, even in the process that made the segment. So a
    function that writes one of them cannot borrow another.

    Raises FileNotFoundError if no shared memory has that name, ValueError for an invalid name and for memory that is
    not a tensor or is truncated, OSError for a link or a folder of that name and for memory that this user may not
    open.
    """
    name = _checked(name)
    try:
        mapping = _open(name)
        # One copy: another process may write the segment between a check and a use.
        description = _described(mapping[:DATA], len(mapping) - DATA)
        tensor = _tensor(mapping, description)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"the shared memory {name!r} is not a tensor: {error}") from error
    return SharedTensor(name, tensor, None)


def _described(page: bytes, available: int) -> dict[str, Any]:
    """The description on the first page, which any process may have written."""
    if page[: len(MAGIC)] != MAGIC:
        raise ValueError(f"it begins with {page[: len(MAGIC)]!r} instead of {MAGIC!r}")
    try:
        description, _ = json.JSONDecoder().raw_decode(page[len(MAGIC) :].decode("latin-1"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"its description is not JSON: {error}") from error
    if not isinstance(description, dict):
        raise ValueError(f"its description is {description!r:.80}; it must be an object")

    def is_count(value: object) -> bool:
        return type(value) is int and 0 <= value < 1 << 63

    fields: dict[str, tuple[str, Callable[[Any], bool]]] = {
        "dtype": ("a string", lambda value: isinstance(value, str)),
        "shape": (
            "a list of numbers from 0 to 2**63 - 1",
            lambda value: isinstance(value, list) and all(map(is_count, value)),
        ),
        "padded": ("true or false", lambda value: isinstance(value, bool)),
        "bytes": ("a number from 0 to 2**63 - 1", is_count),
    }
    for field, (expected, fits) in fields.items():
        value = description.get(field)
        if not fits(value):
            raise ValueError(f"{field!r} in its description is {value!r:.80}; it must be {expected}")
    if description["bytes"] > available:
        raise ValueError(
            f"{description['bytes']} bytes of data are needed, and {available} are available"
        )
    if description["dtype"].startswith("handle"):
        raise ValueError("its elements are handles, which are not valid in another process")
    return description


def _tensor(mapping: mmap.mmap, description: dict[str, Any]) -> Tensor:
    data = memoryview(mapping)[DATA : DATA + description["bytes"]]
    shape = tuple(description["shape"])
    return _rebuild(data, description["dtype"], shape, description["padded"])


def _checked(name: str) -> str:
    if not isinstance(name, str):
        raise TypeError(f"name must be a string, not {type(name).__name__}")
    if name in ("", ".", ".."):
        problem = "such a name is reserved"
    elif len(name) > LONGEST:
        problem = f"it has {len(name)} characters"
    else:
        # The resource tracker of multiprocessing, which cleans up after killed processes, reads lines of ASCII with
        # colons between the fields.
        wrong = (place for place, c in enumerate(name) if not " " <= c <= "~" or c in "/:")
        place = next(wrong, None)
        if place is None:
            return name
        problem = f"there is {name[place]!r} at index {place}"
    raise ValueError(
        f"{name!r:.80} is not a name for shared memory: {problem}; use 1 to {LONGEST} printable ASCII "
        "characters except '/' and ':'"
    )


def _mapped(key: Hashable, make: Callable[[], mmap.mmap]) -> mmap.mmap:
    """The only map of a segment in this process. No other segment has its key while the map lives."""
    with _MAPS_LOCK:
        mapping = _MAPS.get(key)
        if mapping is None:
            _MAPS[key] = mapping = make()
        return mapping


def _key(descriptor: int, name: str) -> Hashable:
    """The identity of a segment: its inode, or its name on systems without inodes for segments, like macOS."""
    status = os.fstat(descriptor)
    return (status.st_dev, status.st_ino) if status.st_ino else name


class _Remover:
    """Removes a name once, in the process that made it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.process = os.getpid()
        #: true while the name exists
        self.made = False

    def __call__(self) -> None:
        if os.getpid() != self.process or sys.platform == "win32":
            return
        # Another thread may make a segment of the same name as soon as this name is removed.
        with _MAPS_LOCK:
            if not self.made:
                return
            try:
                _posixshmem.shm_unlink(f"/{self.name}")
            except FileNotFoundError:
                pass
            self.made = False
            resource_tracker.unregister(f"/{self.name}", "shared_memory")


def _create(name: str, size: int, remove: _Remover) -> mmap.mmap:
    if sys.platform == "win32":
        if name in _MAPS:
            raise FileExistsError(errno.EEXIST, "shared memory of that name exists", name)
        return _mapped(name, lambda: mmap.mmap(-1, size, tagname=name))
    flags = os.O_CREAT | os.O_EXCL | os.O_RDWR
    with _MAPS_LOCK:
        descriptor = _posixshmem.shm_open(f"/{name}", flags, mode=0o600)
        remove.made = True
        # The tracker cleans up after a process that is killed before it removes the name.
        resource_tracker.register(f"/{name}", "shared_memory")
    try:
        os.ftruncate(descriptor, size)
        if hasattr(os, "posix_fallocate"):
            # Allocates now: otherwise a write to a page without memory would kill the process.
            os.posix_fallocate(descriptor, 0, size)
        with _MAPS_LOCK:
            key = _key(descriptor, name)
            # A new segment is not mapped yet, so an existing entry belongs to an older one.
            _MAPS.pop(key, None)
            return _mapped(key, lambda: mmap.mmap(descriptor, size))
    except OSError as error:
        if not _is_raised_here(error):
            # A signal handler raised it.
            raise
        text = f"{size} bytes of shared memory cannot be allocated: {error.strerror}"
        raise OSError(error.errno, text, name) from error
    finally:
        os.close(descriptor)


def _is_raised_here(error: BaseException) -> bool:
    """Return true if a call in this file raised the exception itself, and not code of another file."""
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    return last is not None and last.tb_frame.f_code.co_filename == __file__


def _open(name: str) -> mmap.mmap:
    if sys.platform == "win32":
        # A name refers to the same memory as long as any process maps it.
        return _mapped(name, lambda: mmap.mmap(-1, 0, tagname=name))
    try:
        descriptor = _posixshmem.shm_open(f"/{name}", os.O_RDWR, mode=0o600)
    except FileNotFoundError as error:
        text = "no shared memory has that name; the process that made it may have ended or removed it"
        raise FileNotFoundError(errno.ENOENT, text, name) from error
    try:
        size = os.fstat(descriptor).st_size
        if size < DATA:
            raise ValueError(f"it has {size} bytes, fewer than a description")
        mapping = _mapped(_key(descriptor, name), lambda: mmap.mmap(descriptor, size))
        if size < len(mapping):
            raise ValueError(f"it is truncated: {size} of {len(mapping)} bytes are left")
        return mapping
    finally:
        os.close(descriptor)
