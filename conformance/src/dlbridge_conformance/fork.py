"""Runs a check in a fork of this process, which has imported the library. A crash or a hang becomes a result."""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from typing import Any

from dlbridge_conformance.adapter import Adapter
from dlbridge_conformance.check import check_and_tell
from dlbridge_conformance.outcome import NotApplicable
from dlbridge_conformance.result import CAN_FORK, Result, Status, result_from
from dlbridge_conformance.rule import Rule

#: the process of the running check, which is killed when this process ends
running: int | None = None

#: how the reasons of :func:`apart` begin if the fork crashed or hung
DEATHS = ("the process ", "not done ")

#: files of this process that a fork must close, so that only this process keeps their other ends waiting
own_files: list[int] = []


def in_fork(library: Adapter, rule: Rule, limit: float) -> Result:
    """Runs a check in a fork of this process. After ``limit`` seconds, the fork is killed."""
    global running
    reader, writer = os.pipe()
    with tempfile.TemporaryFile() as output:
        start = time.monotonic()
        running = child = os.fork()
        lead_group(child)
        if child == 0:
            _be_the_check(library, rule, reader, writer, output.fileno())
        os.close(writer)
        told = list(_lines(reader, start + limit))
        status = _status_of(child, start + limit)
        end_group(child)
        if status is None:
            os.waitpid(child, 0)
        running = None
        seconds = round(time.monotonic() - start, 3)
        output.seek(0)
        last = output.read()[-600:].decode(errors="replace").strip()
    if status is None:
        return ended(rule, told, last, seconds, Status.HUNG, f"not done after {limit:g} s")
    if status == 0 and told and told[-1].startswith("{"):
        return result_from(told[-1])
    return ended(rule, told, last, seconds, Status.CRASHED, *death(os.waitstatus_to_exitcode(status)))


def apart(call: Callable[[], Any], limit: float = 20.0) -> tuple[Any, str]:
    """Calls a function in a fork of this process, and returns its result, which JSON must be able to hold.

    Returns None and the reason if the call raises, crashes, or takes longer than ``limit`` seconds. Without fork, the call
    runs in this process.
    """
    if not CAN_FORK:
        return _answer(call)
    reader, writer = os.pipe()
    child = os.fork()
    lead_group(child)
    if child == 0:
        os.close(reader)
        nothing = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nothing, stream)
        try:
            with os.fdopen(writer, "w") as pipe:
                print(json.dumps(_answer(call)), file=pipe)
        finally:
            os._exit(0)
    os.close(writer)
    end = time.monotonic() + limit
    told = b""
    while select.select([reader], [], [], max(end - time.monotonic(), 0))[0] and (part := os.read(reader, 1 << 16)):
        told += part
        if told.endswith(b"\n"):
            break
    os.close(reader)
    late = time.monotonic() >= end
    if late or told:
        end_group(child)
    status = os.waitpid(child, 0)[1]
    if told.endswith(b"\n"):
        value, reason = json.loads(told)
        return value, reason
    return None, f"not done after {limit:g} s" if late else death(os.waitstatus_to_exitcode(status))[0]


def _answer(call: Callable[[], Any]) -> tuple[Any, str]:
    """The result of a call, or None and its exception in words."""
    try:
        return call(), ""
    except BaseException as error:
        first = (str(error).strip().splitlines() or [""])[0][:300]
        return None, first if isinstance(error, NotApplicable) else f"{type(error).__name__}: {first}".rstrip(": ")


def _be_the_check(library: Adapter, rule: Rule, reader: int, writer: int, output: int) -> None:
    """Runs the check in the fork, and ends the fork."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    for file in (reader, *own_files):
        os.close(file)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for stream, file in enumerate((nothing, output, output)):
        os.dup2(file, stream)
    code = 1
    try:
        with os.fdopen(writer, "w") as pipe:
            check_and_tell(library, rule, pipe)
        code = 0
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        # Skip Python's exit handlers: the check does not cover the library's cleanup.
        os._exit(code)


def _lines(reader: int, end: float) -> Iterator[str]:
    """Yields the complete lines from a pipe, until the result, the end of the pipe, or the end of the time."""
    rest = b""
    try:
        while select.select([reader], [], [], max(end - time.monotonic(), 0))[0]:
            part = os.read(reader, 1 << 16)
            if not part:
                return
            *whole, rest = (rest + part).split(b"\n")
            yield from (line.decode() for line in whole)
            # A process that the check started may hold the pipe open.
            if whole and whole[-1].startswith(b"{"):
                return
    finally:
        os.close(reader)


def _status_of(child: int, end: float) -> int | None:
    """Waits for a process to end, and returns its status; None if the time is over first."""
    pause = 0.0005
    while True:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return status
        if time.monotonic() > end:
            return None
        time.sleep(pause)
        pause = min(2 * pause, 0.05)


def lead_group(child: int) -> None:
    """Makes a process the leader of a group, which the processes of its check join. Parent and child both call this."""
    try:
        os.setpgid(child, child)
    except OSError:
        return


def end_group(child: int) -> None:
    """Kills the remaining processes of a group: its leader, and the processes that it started."""
    try:
        os.killpg(child, signal.SIGKILL)
    except ProcessLookupError:
        return


def death(code: int) -> tuple[str, str | None]:
    """How a process ended, in words, and the name of the signal that ended it."""
    if code >= 0:
        return f"the process ended with {code}", None
    known = {number.value: number.name for number in signal.Signals}
    name = known.get(-code, f"signal {-code}")
    return f"the process died of {name}", name


def ended(
    rule: Rule, told: list[str], last: str, seconds: float, status: Status, detail: str, name: str | None = None
) -> Result:
    """The result of a check whose process crashed or hung: with the lines that it sent, and the end of its output."""
    evidence = [(kind, text) for kind, text in (json.loads(line) for line in told if line.startswith("["))]
    if last:
        evidence.append(("got", last))
    if found := next((line for line in told if line.startswith("~")), None):
        before = result_from(found[1:])
        detail = f"{before.detail or 'the check itself passed'}; then, as everything was given back, {detail}"
    return Result(rule.id, status, detail, evidence, name, seconds)
