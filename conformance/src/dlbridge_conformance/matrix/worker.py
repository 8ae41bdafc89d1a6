"""A process of the matrix: imports the libraries of a group, and forks for each pair.

:mod:`dlbridge_conformance.matrix.run` starts it. It reads the jobs as JSON, and writes each outcome as a line of JSON. A fork
announces each exchange before it runs it, so that this process knows which one crashed or hung. A new fork then runs the
rest of the pair.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
import tempfile
import traceback
from collections.abc import Iterator
from typing import Any

from dlbridge_conformance.isolation import death, lines
from dlbridge_conformance.matrix.consumer import Consumer, consumers
from dlbridge_conformance.matrix.exchange import exchange
from dlbridge_conformance.matrix.outcome import Kind, Outcome, Spec
from dlbridge_conformance.matrix.producer import Producer, producers
from dlbridge_conformance.outcome import NotApplicable
from dlbridge_conformance.search_path import search_here

#: a cell in one way: the number of the spec, and whether it goes through dlbridge
Step = tuple[int, bool]


def steps(producer: Producer, consumer: Consumer, specs: list[Spec], todo: list[Step], write: Any) -> None:
    """Runs exchanges, and announces each one before it runs. Ends early if the producer's object changed meanwhile."""
    before: int | None = None
    for number, through in todo:
        print(json.dumps([number, through]), file=write, flush=True)
        answer = None
        try:
            outcome = exchange(producer, consumer, specs[number], through)
            answer = [outcome.kind.value, outcome.detail]
        except NotApplicable:
            if number == before:
                # An earlier exchange wrote to an object that the library caches. A new fork has the original.
                return
        before = number
        print(json.dumps([number, through, answer]), file=write, flush=True)


def forked(
    producer: Producer, consumer: Consumer, specs: list[Spec], todo: list[Step], limit: float
) -> Iterator[tuple[Step, Outcome | None]]:
    """Runs exchanges in forks until each has an outcome; None if the producer cannot make such an object."""
    while todo:
        reader, writer = os.pipe()
        with tempfile.TemporaryFile() as output:
            child = os.fork()
            if child == 0:
                be_the_fork(producer, consumer, specs, todo, reader, writer, output.fileno())
            os.close(writer)
            running: Step | None = None
            hung = False
            for line in lines(reader, lambda: limit):
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
            how, name = death(code)
            crashed = Outcome(Kind.CRASHED, name or f"{how}: {said[:200]}".rstrip(": "))
            yield running, Outcome(Kind.HUNG, f"not done after {limit:g} s") if hung else crashed


def be_the_fork(
    producer: Producer, consumer: Consumer, specs: list[Spec], todo: list[Step], reader: int, writer: int, output: int
) -> None:
    """Runs exchanges in the fork, and ends the fork."""
    os.close(reader)
    for stream in (1, 2):
        os.dup2(output, stream)
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


def serve() -> None:
    """Runs the jobs from standard input."""
    # The libraries' own output goes to stderr, so that it does not mix with the results.
    results = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    search_here()
    makers, takers = producers(), consumers()
    work = json.load(sys.stdin)
    for thing in {name: makers[name] for name, _, _ in work["jobs"]}.values():
        thing.load()
    for taker in {name: takers[name] for _, name, _ in work["jobs"]}.values():
        taker.load()
    print("loaded", file=results, flush=True)
    gc.freeze()
    for place, (producer, consumer, wanted) in enumerate(work["jobs"]):
        specs = [Spec(*spec) for spec in wanted]
        todo = [(number, through) for number in range(len(specs)) for through in (False, True)]
        for (number, through), outcome in forked(makers[producer], takers[consumer], specs, todo, work["limit"]):
            if outcome is not None:
                print(json.dumps([place, number, through, outcome.kind.value, outcome.detail]), file=results, flush=True)
        if not work["quiet"]:
            print(f"{place + 1}/{len(work['jobs'])} {producer} -> {consumer}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    serve()
