"""A process of the matrix: imports the libraries of a group, and forks for each pair.

:mod:`dlbridge_conformance.matrix.run` starts it. It reads jobs and writes outcomes as lines of JSON. It announces each
exchange before it runs, so that the parent knows which one crashed or hung. A new fork then runs the rest of the pair.
"""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import sys
import tempfile
import traceback
from collections.abc import Iterator
from typing import Any

from dlbridge_conformance.matrix.catalog import consumers, producers
from dlbridge_conformance.matrix.consumer import Consumer
from dlbridge_conformance.matrix.exchange import exchange
from dlbridge_conformance.matrix.outcome import Kind, Outcome, Spec
from dlbridge_conformance.matrix.producer import Producer
from dlbridge_conformance.outcome import NotApplicable
from dlbridge_conformance.search_path import search_here

#: a cell in one way: the number of the spec, and whether it goes through dlbridge
Step = tuple[int, bool]


def steps(producer: Producer, consumer: Consumer, specs: list[Spec], todo: list[Step], write: Any) -> None:
    """Runs exchanges, and announces each one before it runs. Ends early if the producer's object changed meanwhile."""
    before: int | None = None
    for number, through in todo:
        print(json.dumps([number, through]), file=write, flush=True)
        try:
            outcome: Outcome | None = exchange(producer, consumer, specs[number], through)
        except NotApplicable:
            if number == before:
                # An earlier exchange wrote to an object that the library caches. A new fork has the original.
                return
            outcome = None
        before = number
        answer = None if outcome is None else [outcome.kind.value, outcome.detail]
        print(json.dumps([number, through, answer]), file=write, flush=True)


def forked(producer: Producer, consumer: Consumer, specs: list[Spec], todo: list[Step], limit: float) -> Iterator[
    tuple[Step, Outcome | None]
]:  # fmt: skip
    """Runs exchanges in forks until each has an outcome; None if the producer cannot make such an object."""
    while todo:
        reader, writer = os.pipe()
        with tempfile.TemporaryFile() as output:
            child = os.fork()
            if child == 0:
                os.close(reader)
                for stream in (1, 2):
                    os.dup2(output.fileno(), stream)
                code = 1
                try:
                    with os.fdopen(writer, "w") as write:
                        steps(producer, consumer, specs, todo, write)
                    code = 0
                except BaseException:
                    traceback.print_exc()
                    sys.stderr.flush()
                finally:
                    # Skip Python's exit handlers: libraries wait there for threads that a fork does not have.
                    os._exit(code)
            os.close(writer)
            running: Step | None = None
            hung = False
            for line in lines(reader, limit):
                if not line:
                    hung = True
                    os.kill(child, signal.SIGKILL)
                    break
                number, through, *answer = json.loads(line)
                running = None if answer else (number, through)
                if answer:
                    todo = todo[1:]
                    yield (number, through), None if answer[0] is None else Outcome(Kind(answer[0][0]), answer[0][1])
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            output.seek(0)
            said = (output.read().decode(errors="replace").strip().splitlines() or [""])[-1]
        if code == 0 and not hung:
            continue
        if running is None and todo:
            running = todo[0]
        if running is not None:
            todo = todo[1:]
            yield running, ended(code, hung, limit, said)


def lines(reader: int, limit: float) -> Iterator[str]:
    """Yields the lines from a pipe until its end; an empty one if none comes within the limit."""
    rest = b""
    try:
        while select.select([reader], [], [], limit)[0]:
            part = os.read(reader, 1 << 16)
            if not part:
                return
            *whole, rest = (rest + part).split(b"\n")
            yield from (line.decode() for line in whole)
        yield ""
    finally:
        os.close(reader)


def ended(code: int, hung: bool, limit: float, said: str) -> Outcome:
    """The outcome of an exchange that crashed or hung. ``said`` is the last line that the process wrote."""
    if hung:
        return Outcome(Kind.HUNG, f"not done after {limit:g} s")
    if code < 0:
        return Outcome(Kind.CRASHED, signal.Signals(-code).name)
    return Outcome(Kind.CRASHED, f"the process ended with {code}: {said[:200]}".rstrip(": "))


def serve() -> None:
    """Runs the jobs from standard input, whose first line names the libraries."""
    # The libraries' own output goes to stderr, so that it does not mix with the results.
    results = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    search_here()
    makers, takers = producers(), consumers()
    first = json.loads(sys.stdin.readline())
    for thing in [makers[name] for name in first["producers"]] + [takers[name] for name in first["consumers"]]:
        thing.load()
    print(json.dumps("loaded"), file=results, flush=True)
    gc.freeze()
    for line in sys.stdin:
        job = json.loads(line)
        producer, consumer = makers[job["producer"]], takers[job["consumer"]]
        specs = [Spec(*spec) for spec in job["specs"]]
        todo = [(number, through) for number in range(len(specs)) for through in (False, True)]
        for (number, through), outcome in forked(producer, consumer, specs, todo, job["limit"]):
            answer = None if outcome is None else [outcome.kind.value, outcome.detail]
            print(json.dumps([number, through, answer]), file=results, flush=True)
        print(json.dumps("done"), file=results, flush=True)


if __name__ == "__main__":
    serve()
