"""Checks in processes of their own: a crash, an abort or a hang is a result.

The parent starts ``python -m dlbridge.conformance.server LIBRARY`` once per library. That process imports the library,
computes nothing, and forks for every rule that it reads from its standard input. Where there is no fork, it runs one
rule, and is started for each.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Iterable
from typing import TextIO

from dlbridge.conformance.adapter import Adapter
from dlbridge.conformance.context import Context
from dlbridge.conformance.result import CAN_FORK, Result, Status, line_of, result_from
from dlbridge.conformance.rule import Broken, NotApplicable, Rule

#: how long a check may take, in seconds
LIMIT = 30.0


class Told(list[tuple[str, str]]):
    """Evidence that is told line by line as it comes, so that it outlives the process."""

    def __init__(self, pipe: TextIO) -> None:
        super().__init__()
        self._pipe = pipe

    def append(self, entry: tuple[str, str]) -> None:
        """Adds an entry, and tells it."""
        super().append(entry)
        print(json.dumps(entry), file=self._pipe, flush=True)


def check(library: Adapter, rule: Rule, evidence: list[tuple[str, str]] | None = None) -> Result:
    """Runs a check in this process; what is fed and what comes back goes to ``evidence``."""
    context = Context(library, evidence)
    start = time.monotonic()
    status, detail = Status.PASSED, ""
    try:
        try:
            rule.check(context)
        finally:
            context.finish()
    except Broken as broken:
        status, detail = Status.FAILED, str(broken)
    except NotApplicable as reason:
        status, detail = Status.NOT_APPLICABLE, str(reason)
    except BaseException as error:
        lines = str(error).strip().splitlines() or [""]
        status, detail = Status.FAILED, f"{type(error).__name__}: {lines[0][:300]}"
    seconds = round(time.monotonic() - start, 3)
    return Result(rule.id, status, detail, list(context.evidence), None, seconds)


def in_fork(library: Adapter, rule: Rule, limit: float) -> Result:
    """Runs a check in a fork of this process."""
    reader, writer = os.pipe()
    with tempfile.TemporaryFile() as output:
        start = time.monotonic()
        child = os.fork()
        _lead_group(child)
        if child == 0:
            os.close(reader)
            for stream in (1, 2):
                os.dup2(output.fileno(), stream)
            with os.fdopen(writer, "w") as pipe:
                result = check(library, rule, Told(pipe))
                print(line_of(result), file=pipe)
            # Not the exit of Python: what the library left behind is not what is checked.
            os._exit(0)
        os.close(writer)
        over = True
        try:
            text, over = _read_all(reader, start + limit)
            status = None if over else _status_of(child, start + limit)
            over = status is None
        finally:
            if over:
                _kill(child)
                _, status = os.waitpid(child, 0)
            _kill(child)
        seconds = round(time.monotonic() - start, 3)
        # What comes after the last end of a line is not whole.
        lines = text.split("\n")[:-1]
        if lines and lines[-1].startswith("{") and not over:
            return result_from(lines[-1])
        evidence = [(kind, what) for kind, what in (json.loads(line) for line in lines if line.startswith("["))]
        output.seek(0)
        last = output.read()[-600:].decode(errors="replace").strip()
    code = os.waitstatus_to_exitcode(status or 0)
    return _ended(rule, over, code, evidence, last, seconds, limit)


def _read_all(reader: int, end: float) -> tuple[str, bool]:
    """What comes through a pipe, and whether the time was over before its end; it need not be whole then."""
    parts: list[bytes] = []
    try:
        while True:
            ready, _, _ = select.select([reader], [], [], max(end - time.monotonic(), 0))
            if not ready:
                return b"".join(parts).decode(errors="ignore"), True
            part = os.read(reader, 1 << 16)
            if not part:
                return b"".join(parts).decode(), False
            parts.append(part)
    finally:
        os.close(reader)


def _status_of(child: int, end: float) -> int | None:
    """The status of a process that has closed its pipe, as soon as it ends; None if the time is over before."""
    pause = 0.0005
    while True:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return status
        if time.monotonic() > end:
            return None
        time.sleep(pause)
        pause = min(2 * pause, 0.05)


def _lead_group(child: int) -> None:
    """Makes a process the first of a group, with those that its check starts; it and its parent both try."""
    try:
        os.setpgid(child, child)
    except OSError:
        return


def _kill(child: int) -> None:
    """Ends what is left of the group of a process: itself, and what it started."""
    try:
        os.killpg(child, signal.SIGKILL)
    except ProcessLookupError:
        return


def _ended(
    rule: Rule, over: bool, code: int, evidence: list[tuple[str, str]], last: str, seconds: float, limit: float
) -> Result:
    """The result of a check whose process gave none, but evidence and its last output."""
    if last:
        evidence = [*evidence, ("got", last)]
    if over:
        return Result(rule.id, Status.HUNG, f"not done after {limit:g} s", evidence, None, seconds)
    if code < 0:
        name = signal.Signals(-code).name
        return Result(rule.id, Status.CRASHED, f"the process died of {name}", evidence, name, seconds)
    return Result(rule.id, Status.CRASHED, f"the process ended with {code}", evidence, None, seconds)


def run(library: str, rules: Iterable[Rule], limit: float = LIMIT) -> Generator[Result, None, None]:
    """Runs checks on a library, each in a process of its own, and gives the results as they come."""
    if not CAN_FORK:
        for rule in rules:
            yield _in_fresh(library, rule, limit)
        return
    command = [sys.executable, "-m", "dlbridge.conformance.server", library, str(limit)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        for rule in rules:
            server.stdin.write(f"{rule.id}\n")
            server.stdin.flush()
            line = server.stdout.readline()
            if not line:
                raise RuntimeError(f"{library} could not be loaded")
            yield result_from(line)
        server.stdin.close()


def _in_fresh(library: str, rule: Rule, limit: float) -> Result:
    """Runs a check in a fresh process."""
    command = [sys.executable, "-m", "dlbridge.conformance.server", library, str(limit), rule.id]
    start = time.monotonic()
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        return _ended(rule, True, 0, [], "", limit, limit)
    lines = done.stdout.splitlines()
    if done.returncode == 0 and lines:
        return result_from(lines[-1])
    seconds = round(time.monotonic() - start, 3)
    return _ended(rule, False, done.returncode, [], done.stderr[-600:].strip(), seconds, limit)
