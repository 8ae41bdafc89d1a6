"""Segments of shared memory that this package made: their owners, and the removal of those that a crash left behind.

The description of a segment names the process that owns it, so that another process can check whether the owner has
ended. Only Linux lists segments and reports what this check needs.
"""

from __future__ import annotations

import os
import stat
import sys
import time
from dataclasses import dataclass
from multiprocessing.process import parent_process
from pathlib import Path
from typing import Any

from dlbridge._segment_format import DATA, MAGIC, UNFINISHED, parsed

if sys.platform != "win32":
    import fcntl

#: The folder where Linux lists shared memory.
SHM = Path("/dev/shm")

#: Seconds that the tracker of a killed owner gets to remove a name, before the name is used again.
TRACKER_DELAY = 0.2

#: The states of an owner.
LIVES, ENDED, UNKNOWN = "lives", "has ended", "is unknown"


def owner() -> dict[str, Any]:
    """Return the fields of a description that identify this process, and its parent in ``multiprocessing``."""
    pid = os.getpid()
    fields = _OWNERS.get(pid)
    if fields is None:
        fields = {"owner": process(pid)}
        parent = parent_process()
        if parent is not None and parent.pid is not None:
            fields["parent"] = process(parent.pid)
        # A child by fork has another process ID.
        _OWNERS.clear()
        _OWNERS[pid] = fields
    return fields


#: The result of ``owner`` for this process.
_OWNERS: dict[int, dict[str, Any]] = {}


def process(pid: int) -> dict[str, Any]:
    """Return what identifies a process. Process IDs are reused, so it has the start time too."""
    found: dict[str, Any] = {"pid": pid}
    try:
        found["start"], _ = _stat(pid)
        found["namespace"] = _namespace()
    except (OSError, ValueError, IndexError):
        # Without /proc, the owner is unknown to other processes.
        pass
    return found


def _stat(pid: int) -> tuple[int, bytes]:
    """Return the start time of a process, in ticks since the boot, and its state."""
    # The name of the program may contain spaces and parentheses.
    _, _, fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")
    state, *others = fields.split()
    return int(others[18]), state


def _namespace() -> str:
    """Return the namespaces of process IDs and start times."""
    names = [os.readlink("/proc/self/ns/pid")]
    try:
        names.append(os.readlink("/proc/self/ns/time"))
    except FileNotFoundError:
        # Linux before 5.6.
        pass
    return " ".join(names)


def state_of(owner: object) -> str:
    """Return whether a process lives, has ended, or is unknown. Any process may have written ``owner``."""
    if not isinstance(owner, dict):
        return UNKNOWN
    pid, start = owner.get("pid"), owner.get("start")
    if type(pid) is not int or type(start) is not int or not 0 < pid < 1 << 31:
        return UNKNOWN
    try:
        if owner.get("namespace") != _namespace():
            return UNKNOWN
        # /proc may hide processes; this call finds them all.
        os.kill(pid, 0)
    except ProcessLookupError:
        return ENDED
    except PermissionError:
        pass
    except OSError:
        return UNKNOWN
    try:
        found, state = _stat(pid)
        if found != start:
            # Another process has this process ID now.
            return ENDED
        # A process whose first thread has ended looks like one that its parent has not waited for.
        if state in (b"Z", b"X") and len(os.listdir(f"/proc/{pid}/task")) <= 1:
            return ENDED
    except (OSError, ValueError, IndexError):
        return UNKNOWN
    return LIVES


@dataclass(frozen=True)
class Segment:
    """A segment of this user that this package made."""

    name: str
    #: The bytes of memory that it takes.
    nbytes: int
    #: The process ID of its owner, if the description has one.
    pid: int | None
    #: ``LIVES``, ``ENDED`` or ``UNKNOWN``.
    owner: str
    #: The same for the parent of the owner, if ``multiprocessing`` started the owner.
    parent: str | None
    #: Its device and inode.
    identity: tuple[int, int]


def segments() -> list[Segment]:
    """Return the segments of this user that this package made, by name. Needs Linux."""
    found = [examine(path.name) for path in SHM.iterdir()]
    return sorted((s for s in found if s is not None), key=lambda segment: segment.name)


def examine(name: str) -> Segment | None:
    """Return a segment; None if this package did not make it, if another user owns it, and if there is none."""
    descriptor = _opened(name)
    if descriptor is None:
        return None
    try:
        return _examined(name, descriptor)
    finally:
        os.close(descriptor)


def _opened(name: str) -> int | None:
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        return os.open(SHM / name, flags)
    except OSError:
        return None


def _examined(name: str, descriptor: int) -> Segment | None:
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
        return None
    page = os.pread(descriptor, DATA, 0)
    if page[: len(MAGIC)] not in (MAGIC, UNFINISHED):
        return None
    try:
        description = parsed(page)
    except (ValueError, RecursionError):
        description = None
    fields = description if isinstance(description, dict) else {}
    owner = fields.get("owner")
    pid = owner.get("pid") if isinstance(owner, dict) else None
    return Segment(
        name=name,
        nbytes=status.st_blocks * 512,
        pid=pid if type(pid) is int else None,
        owner=state_of(owner),
        parent=state_of(fields["parent"]) if "parent" in fields else None,
        identity=(status.st_dev, status.st_ino),
    )


def remove_abandoned(segment: Segment) -> bool:
    """Remove the name of a segment whose owner has ended. Return true if this call removed it."""
    descriptor = _opened(segment.name)
    if descriptor is None:
        return False
    try:
        # Two processes may remove one segment, and one of them may already make a new one of that name.
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        now = _examined(segment.name, descriptor)
        if now is None or now.owner != ENDED or now.identity != segment.identity:
            return False
        named = os.stat(SHM / segment.name, follow_symlinks=False)
        if (named.st_dev, named.st_ino) != segment.identity:
            return False
        os.unlink(SHM / segment.name)
        return True
    except (BlockingIOError, FileNotFoundError):
        return False
    finally:
        os.close(descriptor)


def free_name(name: str) -> None:
    """Remove a segment if its owner has ended, so that a new one can have its name."""
    segment = examine(name)
    if segment is None or segment.owner != ENDED:
        return
    # As long as a parent lives, its resource tracker may remove the name, and with it a new segment of that name.
    if segment.parent not in (None, ENDED):
        return
    time.sleep(TRACKER_DELAY)
    remove_abandoned(segment)


def names_with(prefix: str) -> list[str]:
    """Return the names of shared memory that begin with ``prefix``, on Linux."""
    return [name for name in os.listdir(SHM) if name.startswith(prefix)] if SHM.is_dir() else []
