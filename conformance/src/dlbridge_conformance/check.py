"""Runs one check of a library in this process."""

from __future__ import annotations

import bdb
import json
import time
from typing import TextIO

from dlbridge_conformance.adapter import Adapter
from dlbridge_conformance.context import Context
from dlbridge_conformance.isolation import described
from dlbridge_conformance.outcome import Broken, NotApplicable
from dlbridge_conformance.result import Result, Status, line_of
from dlbridge_conformance.rule import Rule


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
