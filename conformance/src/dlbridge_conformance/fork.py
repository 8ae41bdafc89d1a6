"""Runs a check in this process, or in a fork of it that has imported the library. A crash or a hang of a fork becomes a result."""

from __future__ import annotations

import bdb
import json
import os
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from typing import TextIO

from dlbridge_conformance.adapter import Adapter
from dlbridge_conformance.context import Context
from dlbridge_conformance.isolation import death, described, end_group, lead_group, lines
from dlbridge_conformance.outcome import Broken, NotApplicable
from dlbridge_conformance.result import Result, Status, line_of, result_from
from dlbridge_conformance.rule import Rule

#: the process of the running check, which is killed when this process ends
running: int | None = None

#: files of this process that a fork must close, so that only this process keeps their other ends waiting
own_files: list[int] = []


class Told(list[tuple[str, str]]):
    """Evidence that is written to a pipe line by line at once, so that it survives a crash of the process."""

    def __init__(self, pipe: TextIO) -> None:
        super().__init__()
        self._pipe = pipe

    def append(self, entry: tuple[str, str]) -> None:
        """Adds an entry, and writes it to the pipe."""
        super().append(entry)
        print(json.dumps(entry), file=self._pipe, flush=True)


def check(library: Adapter, rule: Rule) -> Result:
    """Runs a check. KeyboardInterrupt, and the exception that ends a debugger, are not caught."""
    context = Context(library)
    result = _found(context, rule, let_through=(KeyboardInterrupt, bdb.BdbQuit))
    context.finish()
    return result


def check_and_tell(library: Adapter, rule: Rule, pipe: TextIO) -> None:
    """Runs a check and writes every step to a pipe at once.

    It writes the evidence; then the result, with a tilde in front; then the result again, after everything was given back.
    """
    context = Context(library, Told(pipe))
    result = _found(context, rule, let_through=())
    print(f"~{line_of(result)}", file=pipe, flush=True)
    context.finish()
    print(line_of(result), file=pipe, flush=True)


def _found(context: Context, rule: Rule, let_through: tuple[type[BaseException], ...]) -> Result:
    """Runs a check and returns its result. Does not give anything back yet."""
    start = time.monotonic()
    status, detail = Status.PASSED, ""
    try:
        rule.check(context)
    except Broken as broken:
        status, detail = Status.FAILED, str(broken)
    except NotApplicable as reason:
        status, detail = Status.NOT_APPLICABLE, str(reason)
    except let_through:
        raise
    except BaseException as error:
        status, detail = Status.FAILED, described(error)
    seconds = round(time.monotonic() - start, 3)
    return Result(rule.id, status, detail, list(context.evidence), None, seconds)


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
        told = list(_until_result(lines(reader, lambda: start + limit - time.monotonic())))
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


def _until_result(told: Iterator[str]) -> Iterator[str]:
    """Yields lines up to the result: a process that the check started may hold the pipe open."""
    for line in told:
        yield line
        if line.startswith("{"):
            return


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
