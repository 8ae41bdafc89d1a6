"""Functions for tests of shared memory: where memory is mapped, which names exist, processes that are killed."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from processes import child_environment

SHM = Path("/dev/shm")

#: For tests of what only Linux does.
on_linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux lists shared memory")


class MappedRange(NamedTuple):
    """A range of mapped memory. Memory without a file has the inode 0."""

    inode: int
    path: str


def mapping(address: int) -> MappedRange:
    """The mapping that contains an address of this process."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        addresses, _, _, _, inode, *path = line.split(maxsplit=5)
        begin, end = (int(text, 16) for text in addresses.split("-"))
        if begin <= address < end:
            return MappedRange(int(inode), path[0] if path else "")
    raise AssertionError(f"nothing is mapped at {address:#x}")


def inode(address: int) -> int:
    """The inode of the file that is mapped at an address of this process; 0 for other memory."""
    return mapping(address).inode


def names(prefix: str) -> set[str]:
    """The names of shared memory that begin with a prefix."""
    return {path.name for path in SHM.iterdir() if path.name.startswith(prefix)}


def wait_until(condition: Callable[[], bool], seconds: float = 30) -> None:
    """Waits for a condition, and fails if it does not come true."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true"
        time.sleep(0.02)


@contextmanager
def started(code: str, *arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Runs code in a new process group, and returns its process and the first line that it prints."""
    command = [sys.executable, "-c", code, *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=child_environment(), start_new_session=True)
    try:
        assert process.stdout is not None
        yield process, process.stdout.readline().strip()
    finally:
        kill_group(process)


def kill_group(process: subprocess.Popen[str]) -> None:
    """Kills a process together with its resource tracker and its children. Does nothing the second time."""
    assert process.stdout is not None
    if process.stdout.closed:
        return
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()
    # The pipe ends when all processes of the group have ended.
    process.stdout.read()
    process.stdout.close()


def clean(*options: str) -> str:
    """Runs ``python -m dlbridge clean`` and returns its output."""
    command = [sys.executable, "-m", "dlbridge", "clean", *options]
    result = subprocess.run(command, capture_output=True, text=True)
    assert (result.returncode, result.stderr) == (0, "")
    return result.stdout
