"""One check of a library, in this process."""

from __future__ import annotations

import bdb
import json
import time
from typing import TextIO

from dlbridge_conformance.adapter import Adapter
from dlbridge_conformance.context import Context
from dlbridge_conformance.outcome import Broken, NotApplicable
from dlbridge_conformance.result import Result, Status, line_of
from dlbridge_conformance.rule import Rule


class Told(list[tuple[str, str]]):
    """Evidence that is told line by line as it comes, so that it outlives the process."""

    def __init__(self, pipe: TextIO) -> None:
        super().__init__()
        self._pipe = pipe

    def append(self, entry: tuple[str, str]) -> None:
        """Adds an entry, and tells it."""
        super().append(entry)
        print(json.dumps(entry), file=self._pipe, flush=True)


def check(library: Adapter, rule: Rule) -> Result:
    """Runs a check; an interrupt from the keyboard, and the end of a debugger, go through."""
    context = Context(library)
    result = _found(context, rule, let_through=(KeyboardInterrupt, bdb.BdbQuit))
    context.finish()
    return result


def check_and_tell(library: Adapter, rule: Rule, pipe: TextIO) -> None:
    """Runs a check and tells everything at once: evidence, what was found, and that all was given back after it.

    The last two are lines of the same result, the first of them with a tilde in front.
    """
    context = Context(library, Told(pipe))
    result = _found(context, rule, let_through=())
    print(f"~{line_of(result)}", file=pipe, flush=True)
    context.finish()
    print(line_of(result), file=pipe, flush=True)


def _found(context: Context, rule: Rule, let_through: tuple[type[BaseException], ...]) -> Result:
    """What a check finds; nothing is given back yet."""
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
        lines = str(error).strip().splitlines() or [""]
        status, detail = Status.FAILED, f"{type(error).__name__}: {lines[0][:300]}".rstrip(": ")
    seconds = round(time.monotonic() - start, 3)
    return Result(rule.id, status, detail, list(context.evidence), None, seconds)
