"""Forks of this process: how they are started, waited for and ended, and how their ends are described."""

from __future__ import annotations

import json
import os
import select
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any

from dlbridge_conformance.outcome import NotApplicable

#: how the reasons of :func:`apart` begin if the fork crashed or hung
DEATHS = ("the process ", "not done ")


def described(error: BaseException) -> str:
    """Returns the type of an exception, and the first line of its text."""
    return f"{type(error).__name__}: {first_line(error)}".rstrip(": ")


def first_line(error: BaseException) -> str:
    """Returns the first line of the text of an exception, of at most 300 characters."""
    return (str(error).strip().splitlines() or [""])[0][:300]


def apart(call: Callable[[], Any], limit: float = 20.0) -> tuple[Any, str]:
    """Calls a function in a fork of this process, and returns its result, which JSON must be able to hold.

    Returns None and the reason if the call raises, crashes, or takes longer than ``limit`` seconds.
    """
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
    answer = next(lines(reader, lambda: end - time.monotonic()), "")
    late = time.monotonic() >= end
    if late or answer:
        end_group(child)
    status = os.waitpid(child, 0)[1]
    if answer:
        value, reason = json.loads(answer)
        return value, reason
    return None, f"not done after {limit:g} s" if late else death(os.waitstatus_to_exitcode(status))[0]


def _answer(call: Callable[[], Any]) -> tuple[Any, str]:
    """The result of a call, or None and its exception in words."""
    try:
        return call(), ""
    except BaseException as error:
        return None, first_line(error) if isinstance(error, NotApplicable) else described(error)


def lines(reader: int, left: Callable[[], float]) -> Iterator[str]:
    """Yields the complete lines from a pipe until its end, and closes it; an empty line at last if no time is left."""
    rest = b""
    try:
        while select.select([reader], [], [], max(left(), 0))[0]:
            part = os.read(reader, 1 << 16)
            if not part:
                return
            *whole, rest = (rest + part).split(b"\n")
            yield from (line.decode() for line in whole)
        yield ""
    finally:
        os.close(reader)


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
