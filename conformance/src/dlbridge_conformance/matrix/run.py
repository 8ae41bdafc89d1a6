"""Runs pairs of a producer and a consumer in processes of their own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import IO, Any, Literal

from dlbridge_conformance.matrix.consumer import Consumer
from dlbridge_conformance.matrix.outcome import NOTHING, Cell, Kind, Outcome, Pair, Spec, Way, repeat
from dlbridge_conformance.matrix.producer import Producer

#: how long one exchange may take, in seconds; the first one of a pair initialises the libraries
LIMIT = 60.0

#: no device but the CPU, no messages, and few threads
ENVIRONMENT = {
    "JAX_PLATFORMS": "cpu",
    "CUDA_VISIBLE_DEVICES": "",
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "OMP_NUM_THREADS": "1",
    "GLOG_minloglevel": "3",
}

#: from how many pairs on a second process is worth importing everything twice
WORTH_A_PROCESS = 100

#: libraries that crash when they are imported into one process
APART = frozenset({"tensorflow", "paddle"})

Job = tuple[Producer, Consumer, list[Spec]]


def grouped(jobs: Iterable[Job], at_once: int) -> list[list[Job]]:
    """The jobs that one process imports the libraries of, and forks for; as many groups as can be run at once.

    Libraries that cannot live together are in no group together, but in the one that asks for both.
    """
    companies: dict[frozenset[str], list[Job]] = defaultdict(list)
    for producer, consumer, specs in jobs:
        companies[APART & {producer.library, consumer.library}].append((producer, consumer, specs))
    # What needs none of them goes along with the first.
    alone = companies.pop(frozenset(), [])
    if alone:
        companies[min(companies, key=lambda names: (len(names), sorted(names)), default=frozenset())] += alone
    groups = []
    for company in companies.values():
        parts = min(at_once, 1 + len(company) // WORTH_A_PROCESS)
        groups += [company[start::parts] for start in range(parts)]
    return sorted(groups, key=lambda group: -sum(len(specs) for _, _, specs in group))


def run(jobs: Iterable[Job], *, at_once: int, limit: float, progress: Callable[[Pair], None]) -> list[Pair]:
    """Runs jobs, some groups at once, and gives their pairs in the order of the jobs.

    A pair that crashes or hangs is run once more in a process that has imported its two libraries alone, and what
    comes of that is what counts.
    """
    wanted = list(jobs)
    done: dict[tuple[str, str], Pair] = {}

    def run_group(group: list[Job]) -> None:
        pure = len({p.library for p, _, _ in group} | {c.library for _, c, _ in group}) <= 2
        for job, pair in zip(group, Group(group, limit).run(), strict=True):
            if not pure and has_died(pair):
                (pair,) = Group([job], limit).run()
            done[pair.producer, pair.consumer] = pair
            progress(pair)

    with ThreadPoolExecutor(max(at_once, 1)) as pool:
        for future in [pool.submit(run_group, group) for group in grouped(wanted, at_once)]:
            future.result()
    return [done[producer.name, consumer.name] for producer, consumer, _ in wanted]


def has_died(pair: Pair) -> bool:
    """Whether the process of a pair ended, or was ended, before its time."""
    return any(outcome.kind in (Kind.CRASHED, Kind.HUNG) for cell in pair.cells for outcome in cell.ways.values())


class Group:
    """The jobs of one process."""

    def __init__(self, jobs: list[Job], limit: float) -> None:
        self.jobs = jobs
        self.limit = limit

    def names(self, side: Literal[0, 1]) -> list[str]:
        """The producers or the consumers of the jobs, each once."""
        return sorted({job[side].name for job in self.jobs})

    def run(self) -> Iterable[Pair]:
        """Runs the jobs. If the two libraries cannot even be imported together, that is what became of all cells."""
        with tempfile.TemporaryFile() as errors:
            server = subprocess.Popen(
                [sys.executable, "-m", "dlbridge_conformance.matrix.worker"],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True,
                env=os.environ | ENVIRONMENT,
            )  # fmt: skip
            with server:
                assert server.stdin is not None
                assert server.stdout is not None
                send(server.stdin, {"producers": self.names(0), "consumers": self.names(1)})
                if server.stdout.readline().strip() != '"loaded"':
                    code = server.wait()
                    errors.seek(0)
                    outcome = Outcome(Kind.CRASHED, at_import(code, errors.read().decode(errors="replace")))
                    yield from (all_cells(job, outcome) for job in self.jobs)
                    return
                for job in self.jobs:
                    yield self.pair(job, server.stdin, server.stdout)
                server.stdin.close()

    def pair(self, job: Job, stdin: IO[str], stdout: IO[str]) -> Pair:
        """Runs one job."""
        producer, consumer, specs = job
        send(stdin, {
            "producer": producer.name, "consumer": consumer.name, "limit": self.limit,
            "specs": [[spec.dtype, spec.layout] for spec in specs], "ways": [way.value for way in Way],
        })  # fmt: skip
        cells: dict[int, Cell] = {}
        for line in stdout:
            answer = json.loads(line)
            if answer == "done":
                break
            number, way, outcome = answer
            if outcome is not None:
                cell = cells.setdefault(number, Cell(specs[number], {}))
                cell.ways[Way(way)] = Outcome(Kind(outcome[0]), outcome[1])
        else:
            raise RuntimeError(f"the process of {producer.name} and {consumer.name} ended")
        whole = [cell for _, cell in sorted(cells.items()) if len(cell.ways) == len(Way)]
        for cell in (cell for cell in cells.values() if len(cell.ways) != len(Way)):
            print(f"left out: {repeat(producer.name, consumer.name, cell.spec)}: {cell.ways}", file=sys.stderr)
        return Pair(producer.name, consumer.name, whole)


def send(stdin: IO[str], message: Any) -> None:
    """Writes a line."""
    stdin.write(json.dumps(message) + "\n")
    stdin.flush()


def at_import(code: int, errors: str) -> str:
    """How a process ended that imports libraries."""
    if code < 0:
        return f"{signal.Signals(-code).name} when both libraries are imported"
    last = (errors.strip().splitlines() or ["no message"])[-1]
    return f"the libraries cannot be imported together: {last[:200]}"


def all_cells(job: Job, outcome: Outcome) -> Pair:
    """A pair of which all cells are the same."""
    producer, consumer, specs = job
    ways = {way: outcome for way in Way}
    ways[Way.TO] = NOTHING if consumer.to is None else outcome
    ways[Way.CONVERTED] = outcome if consumer.conversion else NOTHING
    return Pair(producer.name, consumer.name, [Cell(spec, dict(ways)) for spec in specs])
