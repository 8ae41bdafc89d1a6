"""Controls the process of a library, which imports the library once and forks for each check."""

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

from dlbridge_conformance.fork import ended
from dlbridge_conformance.isolation import death
from dlbridge_conformance.result import LIMIT, NOT_IMPORTED, Result, Status, result_from
from dlbridge_conformance.rule import Rule

#: how long the import of a library may take, in seconds
IMPORT_LIMIT = 180.0

#: on a busy machine, an import in a process that a check starts may take this many times as long as the first import
LOADING = 5

#: a server that is busy this many seconds longer than the limit of its check counts as hung
GRACE = 30.0


class Server:
    """The process of a library. The first check starts it; if a check ends it, the next check starts a new one."""

    def __init__(self, library: str, limit: float = LIMIT) -> None:
        self.library = library
        self.limit = limit
        self._process: subprocess.Popen[bytes] | None = None
        self._unread = b""
        #: the reason why no further check runs: the status, the text and the signal
        self._failure: tuple[Status, str, str | None] | None = None

    def check(self, rule: Rule) -> Result:
        """Runs a check in a process of its own. If the library cannot be imported, every rule counts as broken."""
        if self._failure is None and self._process is None:
            self._start()
        if self._failure is not None:
            status, detail, name = self._failure
            return Result(rule.id, status, detail, [], name)
        limit = self.limit + rule.processes * LOADING * self._loading
        start = time.monotonic()
        assert self._process is not None
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(f"{rule.id} {limit}\n".encode())
            self._process.stdin.flush()
            line = self._line(limit + GRACE)
        except OSError:
            line = ""
        if line:
            return result_from(line)
        if self._failure is not None:
            return self.check(rule)
        how, name = self._end()
        seconds = round(time.monotonic() - start, 3)
        if line is None:
            return ended(rule, [], "", seconds, Status.HUNG, "the check stopped the process of the library")
        return ended(rule, [], "", seconds, Status.CRASHED, f"the check ended the process of the library: {how}", name)

    def stop(self) -> None:
        """Ends the process; any thread may call this. Further checks return "interrupted"."""
        self._failure = (Status.NOT_APPLICABLE, "interrupted", None)
        # The thread that runs the checks may end the process at the same time.
        process = self._process
        if process is not None:
            process.send_signal(signal.SIGTERM)

    def close(self) -> None:
        """Ends the process."""
        if self._process is not None:
            self._end()

    def _start(self) -> None:
        """Starts the process and waits until the library is imported."""
        self._errors = tempfile.TemporaryFile()
        command = _command(self.library)
        # In a session of its own, so that Ctrl-C reaches only the parent, which decides what to do.
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, start_new_session=True
        )
        line = self._line(IMPORT_LIMIT)
        if line:
            self._loading = float(line.removeprefix("loaded "))
            return
        how, name = self._end()
        if self._failure is not None:
            return
        self._failure = (Status.CRASHED, f"{NOT_IMPORTED[0]}{how}", name)
        if line is None:
            self._failure = (Status.HUNG, f"{NOT_IMPORTED[1]}{IMPORT_LIMIT:g} s", None)

    def _end(self) -> tuple[str, str | None]:
        """Ends the process, and returns how it ended and the signal that ended it."""
        assert self._process is not None
        process, self._process, self._unread = self._process, None, b""
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            try:
                pipe.close()
            except OSError:
                continue
        try:
            code = process.wait(2)
        except subprocess.TimeoutExpired:
            process.terminate()
            try:
                code = process.wait(2)
            except subprocess.TimeoutExpired:
                process.kill()
                code = process.wait()
        how, name = death(code)
        with self._errors as errors:
            errors.seek(0)
            last = (errors.read().decode(errors="replace").strip().splitlines() or [""])[-1][:300]
        return (f"{how}: {last}" if last and name is None else how), name

    def _line(self, limit: float) -> str | None:
        """The next line; empty at the end of the output, None after ``limit`` seconds."""
        assert self._process is not None
        assert self._process.stdout is not None
        file, end = self._process.stdout.fileno(), time.monotonic() + limit
        while b"\n" not in self._unread:
            if not select.select([file], [], [], max(end - time.monotonic(), 0))[0]:
                return None
            part = os.read(file, 1 << 16)
            if not part:
                return ""
            self._unread += part
        line, _, self._unread = self._unread.partition(b"\n")
        return line.decode()


def _command(*arguments: str) -> list[str]:
    """The command of a process of a library. Without ``-P``, Python would search the current folder first."""
    return [sys.executable, "-P", "-m", "dlbridge_conformance.server", *arguments]


def found(library: str) -> list[str]:
    """Lines that say what a :class:`ModuleAdapter` found in its library, by a process that imports the library.

    Raises LookupError if there is nothing to check. A library that cannot be imported is the report's to show.
    """
    command = _command(library, "--found")
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=IMPORT_LIMIT)
        answer = json.loads((done.stdout.splitlines() or [""])[-1])
    except (subprocess.TimeoutExpired, ValueError):
        return []
    if "error" in answer:
        raise LookupError(answer["error"])
    lines: list[str] = answer["lines"]
    return lines


def run(library: str, rules: Iterable[Rule], limit: float = LIMIT) -> Generator[Result, None, None]:
    """Runs checks on a library, each in a process of its own, and yields the results as they arrive."""
    server = Server(library, limit)
    try:
        for rule in rules:
            yield server.check(rule)
    finally:
        server.close()
