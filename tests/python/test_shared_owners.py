"""Shared memory of killed processes: what is left, and how the next user or the command ``clean`` removes it."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dlbridge
import pytest
from dlbridge import _segments
from dlbridge import clean as clean_command
from dlbridge._segment_format import DATA, MAGIC, UNFINISHED
from dlbridge._segments import ENDED, LIVES, UNKNOWN
from shared_segments import SHM, clean, kill_group, on_linux, started, wait_until

pytestmark = on_linux

#: Makes a segment, prints its name, and keeps it.
OWNER = """
import dlbridge, sys, time
shared = dlbridge.share_memory(b"abc", name=sys.argv[1])
print(shared.name, flush=True)
time.sleep(600)
"""


@pytest.fixture
def name() -> Iterator[str]:
    """A name that no other test uses. It is free afterwards."""
    # Tests of other files count the names that begin with "dlbridge_".
    name = f"killed_{os.getpid()}_{os.urandom(4).hex()}"
    yield name
    (SHM / name).unlink(missing_ok=True)


def line_of(name: str, output: str) -> str:
    """The line of a segment in the output of ``clean``, without the name."""
    lines = [line for line in output.splitlines() if line.startswith(f"{name} ")]
    return lines[0].removeprefix(name).strip() if lines else ""


def test_segment_of_an_owner_killed_with_its_tracker_stays_until_clean(name: str) -> None:
    with started(OWNER, name) as (owner, _):
        assert f"process {owner.pid} lives: kept" in line_of(name, clean())
        kill_group(owner)
        with dlbridge.attach(name) as shared:
            assert bytes(shared.tensor) == b"abc", "the data is still valid"
            expected = f"8192 bytes  process {owner.pid} has ended: "
            assert line_of(name, clean("--dry-run")) == expected + "would be removed"
            assert (SHM / name).exists()
            assert line_of(name, clean()) == expected + "removed"
            assert not (SHM / name).exists()
            assert bytes(shared.tensor) == b"abc", "this process keeps the memory"
        assert line_of(name, clean()) == ""


def test_segment_of_an_owner_killed_alone_is_removed_by_its_tracker(name: str) -> None:
    with started(OWNER, name) as (owner, _):
        owner.kill()
        owner.wait()
        wait_until(lambda: not (SHM / name).exists())


def test_name_of_a_killed_owner_can_be_used_again(name: str) -> None:
    with started(OWNER, name) as (owner, _):
        with pytest.raises(FileExistsError):
            dlbridge.share_memory(b"xyz", name=name)
        with dlbridge.attach(name) as old:
            kill_group(owner)
            with dlbridge.share_memory(b"xyz", name=name), dlbridge.attach(name) as new:
                assert (bytes(old.tensor), bytes(new.tensor)) == (b"abc", b"xyz")
    assert not (SHM / name).exists()


#: Tries to make a segment, and prints whether it could.
TAKER = """
import dlbridge, sys, time
while time.time() < float(sys.argv[2]):
    pass
try:
    shared = dlbridge.share_memory(b"new", name=sys.argv[1])
except FileExistsError:
    print("refused", flush=True)
else:
    print("made", flush=True)
    sys.stdin.read()
"""


def test_name_of_a_killed_owner_is_taken_by_one_of_many_processes(name: str) -> None:
    with started(OWNER, name) as (owner, _):
        kill_group(owner)
    begin = str(time.time() + 3)
    command = [sys.executable, "-c", TAKER, name, begin]
    takers = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(6)
    ]
    results = [taker.stdout.readline().strip() for taker in takers if taker.stdout]
    with dlbridge.attach(name) as shared:
        assert bytes(shared.tensor) == b"new"
    for taker in takers:
        taker.communicate()
    assert sorted(results) == ["made"] + ["refused"] * 5
    assert not (SHM / name).exists()


def test_killed_user_leaves_the_segment_to_its_owner(name: str) -> None:
    user = """
import dlbridge, sys, time
shared = dlbridge.attach(sys.argv[1])
memoryview(shared.tensor)[0] = ord("x")
print("attached", flush=True)
time.sleep(600)
"""
    with dlbridge.share_memory(b"abc", name=name) as shared:
        with started(user, name) as (process, said):
            assert said == "attached"
            kill_group(process)
        assert f"process {os.getpid()} lives: kept" in line_of(name, clean())
        assert bytes(shared.tensor) == b"xbc"
        with dlbridge.attach(name) as again:
            assert bytes(again.tensor) == b"xbc"
    assert not (SHM / name).exists()


def test_owner_killed_during_the_copy_leaves_a_segment_that_clean_removes(name: str) -> None:
    code = """
import dlbridge, sys, time
from dlbridge import _segment_format
def copy(target, data):
    print("copies", flush=True)
    time.sleep(600)
_segment_format._copy = copy
dlbridge.share_memory(b"abc", name=sys.argv[1])
"""
    with started(code, name) as (owner, said):
        assert said == "copies"
        with pytest.raises(ValueError, match="it begins with b'dlbridge shared tensor 0"):
            dlbridge.attach(name)
        assert "lives: kept" in line_of(name, clean())
        kill_group(owner)
    assert "has ended: removed" in line_of(name, clean())


def make_and_wait(name: str, made: Any) -> None:
    """A worker function: makes a segment and keeps it."""
    shared = dlbridge.share_memory(b"abc", name=name)
    made.send(shared.name)
    time.sleep(600)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_name_of_a_killed_worker_is_not_free_while_its_parent_lives(name: str, method: str) -> None:
    code = """
import multiprocessing, sys
from multiprocessing import resource_tracker
from test_shared_owners import make_and_wait
if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[2])
    resource_tracker.ensure_running()
    # A pipe, because the semaphores of a queue would stay in /dev/shm.
    made, theirs = context.Pipe()
    worker = context.Process(target=make_and_wait, args=(sys.argv[1], theirs))
    worker.start()
    made.recv()
    worker.kill()
    worker.join()
    print("killed", flush=True)
    sys.stdin.read()
"""
    with started(code, name, method) as (parent, said):
        assert said == "killed"
        # The tracker of the parent would remove the name later.
        with pytest.raises(FileExistsError):
            dlbridge.share_memory(b"xyz", name=name)
        kill_group(parent)
        with dlbridge.share_memory(b"xyz", name=name) as shared:
            assert bytes(shared.tensor) == b"xyz"


@pytest.fixture
def zombie() -> Iterator[int]:
    """The process ID of a process that has ended, and that its parent has not waited for."""
    child = subprocess.Popen([sys.executable, "-c", ""])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    yield child.pid
    child.wait()


def written(name: str, content: bytes) -> None:
    (SHM / name).write_bytes(content)


def description(owner: Any) -> bytes:
    """The first page of a segment with an owner."""
    fields = {"dtype": "uint8", "shape": [3], "padded": False, "bytes": 3, "owner": owner}
    return (MAGIC + json.dumps(fields).encode()).ljust(DATA, b"\0")


def test_owner_is_identified_by_its_process_id_and_start_time(zombie: int) -> None:
    this = _segments.process(os.getpid())
    assert _segments.owner() == {"owner": this}
    for owner, state in [
        (this, LIVES),
        ({**this, "start": this["start"] - 1}, ENDED),
        ({**this, "pid": 2**31 - 1}, ENDED),
        (_segments.process(zombie), ENDED),
        ({**this, "namespace": "pid:[1] time:[1]"}, UNKNOWN),
        ({"pid": 2**31 - 1, "start": 5}, UNKNOWN),
        ({"pid": 2**31 - 1}, UNKNOWN),
        *(({**this, "pid": pid}, UNKNOWN) for pid in (0, -1, 2**31, 2**64, 1.5, "1", None, True)),
        *(({**this, "start": start}, UNKNOWN) for start in (1.5, "1", None, True)),
        *((owner, UNKNOWN) for owner in (None, [], 5, "pid", {})),
    ]:
        assert _segments.state_of(owner) == state, owner


def test_owner_whose_first_thread_has_ended_lives() -> None:
    code = """
import ctypes, os, sys, threading, time
def wait():
    time.sleep(0.2)
    print(os.getpid(), flush=True)
    time.sleep(600)
threading.Thread(target=wait).start()
ctypes.CDLL(None).pthread_exit(None)
"""
    with started(code) as (process, _):
        assert "\nState:\tZ" in Path(f"/proc/{process.pid}/status").read_text()
        assert _segments.state_of(_segments.process(process.pid)) == LIVES


@pytest.mark.parametrize("begins", [MAGIC, UNFINISHED])
def test_segment_without_a_known_owner_is_kept(name: str, begins: bytes) -> None:
    for text in (b"", b"{}", b"[", b"[]", b"[" * 4000, b'{"owner": {"pid": "x"}}', b"\xff"):
        written(name, (begins + text).ljust(DATA, b"\0")[:DATA])
        assert line_of(name, clean()) == "4096 bytes  the owner is unknown: kept"
        with pytest.raises(FileExistsError):
            dlbridge.share_memory(b"xyz", name=name)


def test_memory_of_another_program_is_not_listed_and_not_removed(name: str) -> None:
    ended = {**_segments.process(os.getpid()), "pid": 2**31 - 1}
    page = description(ended)
    for content in (b"", b"x", page[1:], page.replace(b" 1\n", b" 2\n")):
        written(name, content)
        assert line_of(name, clean()) == ""
        with pytest.raises(FileExistsError):
            dlbridge.share_memory(b"xyz", name=name)
        assert (SHM / name).read_bytes() == content


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives a file to another user")
def test_memory_of_another_user_is_not_listed_and_not_removed(name: str) -> None:
    written(name, description({**_segments.process(os.getpid()), "pid": 2**31 - 1}))
    assert "would be removed" in line_of(name, clean("--dry-run"))
    os.chown(SHM / name, 12345, 12345)
    assert line_of(name, clean()) == ""
    with pytest.raises(FileExistsError):
        dlbridge.share_memory(b"xyz", name=name)
    assert (SHM / name).exists()


@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
def test_name_that_is_not_a_file_is_not_removed(name: str, kind: str, tmp_path: Path) -> None:
    path = SHM / name
    target = tmp_path / "target"
    target.write_bytes(description({**_segments.process(os.getpid()), "pid": 2**31 - 1}))
    make = {"link": lambda: path.symlink_to(target), "pipe": lambda: os.mkfifo(path), "folder": path.mkdir}
    make[kind]()
    try:
        assert line_of(name, clean()) == ""
        with pytest.raises(FileExistsError):
            dlbridge.share_memory(b"xyz", name=name)
        assert path.is_symlink() or path.exists()
    finally:
        path.rmdir() if kind == "folder" else path.unlink()


def test_segment_that_another_process_replaces_meanwhile_is_kept(name: str) -> None:
    ended = description({**_segments.process(os.getpid()), "pid": 2**31 - 1})
    written(name, ended)
    old = _segments.examine(name)
    assert old is not None
    other = SHM / f"{name}_new"
    other.write_bytes(ended)
    other.rename(SHM / name)
    assert not _segments.remove_abandoned(old)
    new = _segments.examine(name)
    assert new is not None
    assert new.identity != old.identity
    (SHM / name).unlink()
    assert not _segments.remove_abandoned(new)


def test_segment_that_another_cleaner_holds_is_reported(name: str) -> None:
    import fcntl

    written(name, description({**_segments.process(os.getpid()), "pid": 2**31 - 1}))
    with (SHM / name).open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        lines: list[str] = []
        assert clean_command.main([], lines.append) == 1
        assert "in use by another cleaner" in line_of(name, "\n".join(lines))


@pytest.mark.parametrize(("number", "text"), [(0, "0 segments"), (1, "1 segment"), (2, "2 segments")])
def test_clean_counts_what_it_removed(number: int, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    segment = _segments.Segment("killed", 8192, 1, ENDED, None, (1, 1))
    monkeypatch.setattr(_segments, "segments", lambda: [segment] * number)
    monkeypatch.setattr(_segments, "remove_abandoned", lambda _: True)
    lines: list[str] = []
    assert clean_command.main([], lines.append) == 0
    assert lines[-1] == f"removed {text}, {8192 * number} bytes"


def test_clean_on_a_system_that_lists_no_shared_memory_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(_segments, "SHM", Path("/no/such/folder"))
    assert clean_command.main([]) == 2
    assert "does not list shared memory" in capsys.readouterr().err
    # Names are then free only if nothing has them, and segments work.
    with dlbridge.share_memory(b"abc") as shared:
        with pytest.raises(FileExistsError):
            dlbridge.share_memory(b"abc", name=shared.name)


def test_description_with_an_unknown_key_is_accepted(name: str) -> None:
    written(name, description([1]) + b"abc")
    with dlbridge.attach(name) as shared:
        assert bytes(shared.tensor) == b"abc"


def test_owner_without_proc_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    this = _segments.process(os.getpid())

    def missing(*_: object) -> Any:
        raise FileNotFoundError

    monkeypatch.setattr(_segments, "_stat", missing)
    assert _segments.process(os.getpid()) == {"pid": os.getpid()}
    assert _segments.state_of(this) == UNKNOWN
    monkeypatch.setattr(_segments, "_namespace", missing)
    assert _segments.state_of(this) == UNKNOWN


def test_signal_to_a_process_of_another_user_is_not_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(pid: int, number: int) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "kill", forbidden)
    assert _segments.state_of(_segments.process(os.getpid())) == LIVES


