"""Runs the reproductions of one library in docs/findings.md, each in a fork of a process that has imported it.

Run as a program with the name of an adapter. It reads code blocks as a JSON list, and prints a JSON list with the output
of each block, or how it ended.
"""

from __future__ import annotations

import gc
import json
import os
import platform
import select
import signal
import sys
import tempfile
import time

from dlbridge_conformance.adapter import adapter_named

#: after this many seconds a reproduction counts as hung; the import of its library does not count
LIMIT = 30.0


def outcome(code: str) -> str:
    """The output of a reproduction; a crash or a hang adds a line."""
    reader, writer = os.pipe()
    with tempfile.TemporaryFile() as errors:
        child = os.fork()
        if child == 0:
            os.dup2(writer, 1)
            os.dup2(errors.fileno(), 2)
            os.close(reader)
            # A collection at an unlucky moment frees objects that a fault has left in a cycle.
            gc.disable()
            exec(compile(code, "<finding>", "exec"), {"__name__": "__main__"})
            sys.stdout.flush()
            os._exit(0)
        os.close(writer)
        text, end = b"", time.monotonic() + LIMIT
        while select.select([reader], [], [], max(end - time.monotonic(), 0))[0] and (part := os.read(reader, 65536)):
            text += part
        os.close(reader)
        hangs = time.monotonic() >= end
        if hangs:
            os.kill(child, signal.SIGKILL)
        code_of_end = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    lines = text.decode().splitlines()
    if hangs:
        lines.append("the process hangs")
    elif code_of_end < 0:
        lines.append(f"the process dies of {signal.Signals(-code_of_end).name}")
    elif code_of_end:
        lines.append(f"the process ends with {code_of_end}")
    return "\n".join(lines)


def main(name: str) -> None:
    """Runs all reproductions of a library."""
    library = adapter_named(name)
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    library.load()
    found = [outcome(code) for code in json.load(sys.stdin)]
    json.dump({"version": library.version(), "python": platform.python_version(), "outcomes": found}, answers)
    answers.flush()


if __name__ == "__main__":
    main(sys.argv[1])
