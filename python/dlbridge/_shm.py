"""Makes, opens and maps segments of shared memory, and removes the names that this process owns.

A process maps a segment once. It removes a name when the last object with the :class:`Ownership` is garbage, or at its
end. If it is killed, the resource tracker of ``multiprocessing`` removes the name.
"""

from __future__ import annotations

import errno
import os
import sys
import threading
import weakref
from collections import deque
from collections.abc import Callable, Hashable
from multiprocessing import resource_tracker, util
from typing import Any

from dlbridge import _core, _segments
from dlbridge._segment_format import DATA, UNFINISHED

if sys.platform == "win32":
    from mmap import mmap as Map
else:
    import _posixshmem  # type: ignore[import-not-found]
    from dlbridge._core import _SharedMap as Map

#: The longest name, without the slash that precedes it in the system. The resource tracker of Python 3.15 counts the slash.
LONGEST = {"linux": 254 if sys.version_info >= (3, 15) else 255, "darwin": 30}.get(sys.platform, 200)

#: The only map of each segment in this process. Borrows compare addresses, so a second map of a segment would look like
#: separate memory. An entry is removed with the last tensor over its map. The extension module keeps the dictionary,
#: because a process loads that module once, even if it loads this one again.
_MAPS: weakref.WeakValueDictionary[Hashable, Map] = vars(_core).setdefault(
    "_maps", weakref.WeakValueDictionary()
)
#: Held during the lookup or creation of a map, and while a name is made or removed. Reentrant, because the garbage
#: collector may run a finalizer meanwhile.
LOCK: Any = vars(_core).setdefault("_maps_lock", threading.RLock())

#: The removals that finalizers left to the thread that held the lock. The extension module keeps them, as above.
_LEFT: deque[Callable[[], None]] = vars(_core).setdefault("_maps_left", deque())

if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=LOCK.acquire, after_in_parent=LOCK.release, after_in_child=LOCK.release)
    # In the child, these are the parent's.
    os.register_at_fork(after_in_parent=lambda: do_left(), after_in_child=_LEFT.clear)


def finalize(obj: object, remove: Callable[[], None]) -> util.Finalize:
    """Remove names when an object is garbage, or when this process ends."""

    def leave() -> None:
        # The collector may run this in a thread that holds the lock of the resource tracker. The thread that holds LOCK
        # may wait for that one, so this must not wait.
        _LEFT.append(remove)
        do_left(timeout=1 if util.is_exiting() else 0)

    # A priority below zero runs after the children have ended, which may still attach. Unlike atexit handlers, this also
    # runs at the end of a child, in every version of Python.
    return util.Finalize(obj, leave, exitpriority=-10)


def do_left(timeout: float = 0) -> None:
    """Do what finalizers left, unless another thread has the lock for ``timeout`` seconds. That thread does it then."""
    # Within the lock, this is done after its release.
    while _LEFT and not LOCK._is_owned():
        # A signal handler may raise as soon as the lock is acquired.
        try:
            if not (LOCK.acquire(timeout=timeout) if timeout else LOCK.acquire(blocking=False)):
                return
            _do_all_left()
        finally:
            try:
                LOCK.release()
            except RuntimeError:
                # It was not acquired.
                pass


def _do_all_left() -> None:
    """Do what finalizers left, in a thread that holds the lock."""
    while _LEFT:
        remove = _LEFT[0]
        try:
            remove()
        except Exception:
            # The caller did not ask for it.
            sys.excepthook(*sys.exc_info())
        # After an interrupt the entry is still there: a removal does nothing the second time. Only a child of a fork finds
        # no entry.
        if _LEFT and _LEFT[0] is remove:
            _LEFT.popleft()


class _DoLeft:
    """``with DO_LEFT, LOCK:`` does what finalizers left after it has released the lock."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        do_left()


DO_LEFT = _DoLeft()


def checked(name: str) -> str:
    """Return a name that a segment can have. Raises TypeError or ValueError for another one."""
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


class Remover:
    """Removes a name once, in the process that made it or received it."""

    def __init__(self, name: str, tracked: bool = True, alone: bool = True, random: bool = False) -> None:
        self.name = name
        #: true if no other process can have made a segment of this name
        self.random = random
        self.process = os.getpid()
        #: true while the name exists and this process must remove it
        self.made = False
        #: true if the resource tracker of this process knows the name
        self.tracked = tracked
        #: true if no other process removes the name from the tracker
        self.alone = alone

    def __call__(self) -> None:
        if os.getpid() != self.process or sys.platform == "win32":
            return
        # Another thread may make a segment of the same name as soon as this name is removed.
        with DO_LEFT, LOCK:
            if not self.made:
                return
            found = True
            try:
                _posixshmem.shm_unlink(f"/{self.name}")
            except FileNotFoundError:
                found = False
            self.made = False
            if self.tracked and (found or self.alone):
                resource_tracker.unregister(f"/{self.name}", "shared_memory")


class Ownership:
    """Removes a name when the last object with this is garbage, or when this process ends."""

    def __init__(self, remove: Remover) -> None:
        self.remove = remove
        finalize(self, remove)


def tracker() -> tuple[int, int] | None:
    """Start the resource tracker of this process, and return what identifies it: its pipe. None on Windows."""
    if sys.platform == "win32":
        return None
    # A fork waits for the lock, and so never finds the tracker's lock held by this.
    with DO_LEFT, LOCK:
        descriptor = resource_tracker.getfd()
    if descriptor is None:
        return None
    status = os.fstat(descriptor)
    return status.st_dev, status.st_ino


def _open_new(name: str, remove: Remover) -> int:
    """Make an empty segment and return its descriptor."""
    flags = os.O_CREAT | os.O_EXCL | os.O_RDWR
    with DO_LEFT, LOCK:
        # A dropped object may have had this name.
        _do_all_left()
        # A signal handler may raise as soon as the name exists. A random name is removed even then.
        if remove.random:
            _note_made(remove)
        descriptor: int = _posixshmem.shm_open(f"/{name}", flags, mode=0o600)
        if not remove.random:
            _note_made(remove)
    return descriptor


def _note_made(remove: Remover) -> None:
    remove.made = True
    # The tracker cleans up after a process that is killed before it removes the name.
    if remove.tracked:
        resource_tracker.register(f"/{remove.name}", "shared_memory")


def create(name: str, header: bytes, size: int, remove: Remover) -> Map:
    """Make a segment of ``size`` bytes and return its map. ``remove`` then removes its name.

    An older segment of that name is removed first if its owner has ended.

    Raises FileExistsError for a name that exists, and OSError if the system does not have that much shared memory.
    """
    if sys.platform == "win32":
        if name in _MAPS:
            raise FileExistsError(errno.EEXIST, "shared memory of that name exists", name)
        return _mapped(name, lambda: Map(-1, size, tagname=name))
    try:
        descriptor = _open_new(name, remove)
    except FileExistsError:
        _segments.free_name(name)
        descriptor = _open_new(name, remove)
    try:
        os.ftruncate(descriptor, size)
        if hasattr(os, "posix_fallocate"):
            # If this process is killed while it copies, the description tells that its owner has ended.
            os.pwrite(descriptor, UNFINISHED + header, 0)
            # Allocates now: otherwise a write to a page without memory would kill the process.
            os.posix_fallocate(descriptor, 0, size)
        with DO_LEFT, LOCK:
            key = _key(descriptor, name)
            # A new segment is not mapped yet, so an existing entry belongs to an older one.
            _MAPS.pop(key, None)
            return _mapped(key, lambda: Map(descriptor))
    except OSError as error:
        if not is_raised_here(error):
            # A signal handler raised it.
            raise
        text = f"{size} bytes of shared memory cannot be allocated: {error.strerror}"
        raise OSError(error.errno, text, name) from error
    finally:
        os.close(descriptor)


def is_raised_here(error: BaseException) -> bool:
    """Return true if a call in this file raised the exception itself, and not code of another file."""
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    return last is not None and last.tb_frame.f_globals is globals()


def create_marker(name: str, header: bytes, remove: Remover) -> None:
    """Make a segment without data, whose name tells that a scope is open. Does nothing on Windows."""
    if sys.platform == "win32":
        return
    descriptor = _open_new(name, remove)
    try:
        if hasattr(os, "posix_fallocate"):
            os.pwrite(descriptor, (UNFINISHED + header).ljust(DATA, b"\0"), 0)
    except BaseException:
        remove()
        raise
    finally:
        os.close(descriptor)


def marker_exists(name: str) -> bool:
    """Return true if a marker has that name; on Windows, always."""
    if sys.platform == "win32":
        return True
    try:
        os.close(_posixshmem.shm_open(f"/{name}", os.O_RDWR, mode=0o600))
    except FileNotFoundError:
        return False
    return True


def open_map(name: str) -> Map:
    """Return the map of an existing segment.

    Raises FileNotFoundError if no segment has the name, ValueError if it is shorter than a description or was
    truncated, and other OSErrors of the system.
    """
    if sys.platform == "win32":
        # A name refers to the same memory as long as any process maps it.
        return _mapped(name, lambda: Map(-1, 0, tagname=name))
    try:
        descriptor = _posixshmem.shm_open(f"/{name}", os.O_RDWR, mode=0o600)
    except FileNotFoundError as error:
        text = "no shared memory has that name; the process that made it may have ended or removed it"
        raise FileNotFoundError(errno.ENOENT, text, name) from error
    try:
        size = os.fstat(descriptor).st_size
        if size < DATA:
            raise ValueError(f"it has {size} bytes, fewer than a description")
        mapping = _mapped(_key(descriptor, name), lambda: Map(descriptor))
        if size < len(mapping):
            raise ValueError(f"it is truncated: {size} of {len(mapping)} bytes are left")
        return mapping
    finally:
        os.close(descriptor)


def _mapped(key: Hashable, make: Callable[[], Map]) -> Map:
    """The only map of a segment in this process. No other segment has its key while the map lives."""
    with DO_LEFT, LOCK:
        mapping = _MAPS.get(key)
        if mapping is None:
            _MAPS[key] = mapping = make()
    return mapping


def _key(descriptor: int, name: str) -> Hashable:
    """The identity of a segment: its inode, or its name on systems without inodes for segments, like macOS."""
    status = os.fstat(descriptor)
    return (status.st_dev, status.st_ino) if status.st_ino else name
