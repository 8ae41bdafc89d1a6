"""The reproductions of docs/findings.md of one library, each in a fork of a process that has imported it.

Run as a program with the name of an adapter; it reads code blocks as a JSON list and prints what each of them prints,
or how it ended, as another.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import tempfile
import time

from dlbridge_conformance.adapter import adapter_named

#: seconds after which a reproduction hangs; its library is imported before
LIMIT = 30.0


def outcome(code: str) -> str:
    """What a reproduction prints, and how it ends unless that is well, in a line of its own."""
    reader, writer = os.pipe()
    with tempfile.TemporaryFile() as errors:
        child = os.fork()
        if child == 0:
            os.dup2(writer, 1)
            os.dup2(errors.fileno(), 2)
            os.close(reader)
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
    """All reproductions of a library."""
    library = adapter_named(name)
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    library.load()
    found = [outcome(code) for code in json.load(sys.stdin)]
    json.dump({"version": library.version(), "outcomes": found}, answers)
    answers.flush()


if __name__ == "__main__":
    main(sys.argv[1])
