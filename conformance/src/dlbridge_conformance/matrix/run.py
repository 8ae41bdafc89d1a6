"""Runs each pair of a producer and a consumer in a process of its own."""

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
from dlbridge_conformance.matrix.outcome import Cell, Kind, Outcome, Pair, Spec, repeat
from dlbridge_conformance.matrix.producer import Producer

#: the time limit of one exchange, in seconds; the first one of a pair also initialises the libraries
LIMIT = 60.0

#: only the CPU, no log messages, and few threads
ENVIRONMENT = {
    "JAX_PLATFORMS": "cpu",
    "CUDA_VISIBLE_DEVICES": "",
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "OMP_NUM_THREADS": "1",
    "GLOG_minloglevel": "3",
}

#: above this number of pairs, a second process saves more time than its imports cost
WORTH_A_PROCESS = 100

#: libraries that crash when they are imported into one process
APART = frozenset({"tensorflow", "paddle"})

Job = tuple[Producer, Consumer, list[Spec]]


def grouped(jobs: Iterable[Job], at_once: int) -> list[list[Job]]:
    """Groups the jobs by process: a process imports the libraries of its group, and forks for each pair.

    Libraries that crash together share a group only for the pair of both.
    """
    companies: dict[frozenset[str], list[Job]] = defaultdict(list)
    for producer, consumer, specs in jobs:
        companies[APART & {producer.library, consumer.library}].append((producer, consumer, specs))
    # Jobs that need none of these libraries join the smallest group.
    alone = companies.pop(frozenset(), [])
    if alone:
        companies[min(companies, key=lambda names: (len(names), sorted(names)), default=frozenset())] += alone
    groups = []
    for company in companies.values():
        parts = min(at_once, 1 + len(company) // WORTH_A_PROCESS)
        groups += [company[start::parts] for start in range(parts)]
    return sorted(groups, key=lambda group: -sum(len(specs) for _, _, specs in group))


def run(jobs: Iterable[Job], *, at_once: int, limit: float, progress: Callable[[Pair], None]) -> list[Pair]:
    """Runs jobs, several groups at once. Returns the pairs in the same order as the jobs.

    A pair that crashes or hangs runs again in a process that imports only its two libraries. The second result counts.
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
    """Returns whether the process of a pair crashed or hung."""
    return any(outcome.kind in (Kind.CRASHED, Kind.HUNG) for cell in pair.cells for outcome in (cell.direct, cell.through))


class Group:
    """The jobs of one process."""

    def __init__(self, jobs: list[Job], limit: float) -> None:
        self.jobs = jobs
        self.limit = limit

    def names(self, side: Literal[0, 1]) -> list[str]:
        """The producers or the consumers of the jobs, each once."""
        return sorted({job[side].name for job in self.jobs})

    def run(self) -> Iterable[Pair]:
        """Runs the jobs. If the libraries cannot be imported together, all cells get that outcome."""
        with tempfile.TemporaryFile() as errors:
            server = subprocess.Popen(
                [sys.executable, "-P", "-m", "dlbridge_conformance.matrix.worker"],
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
            "specs": [[spec.dtype, spec.layout] for spec in specs],
        })  # fmt: skip
        outcomes: dict[int, dict[bool, Outcome]] = {}
        for line in stdout:
            answer = json.loads(line)
            if answer == "done":
                break
            number, through, outcome = answer
            if outcome is not None:
                outcomes.setdefault(number, {})[through] = Outcome(Kind(outcome[0]), outcome[1])
        else:
            raise RuntimeError(f"the process of {producer.name} and {consumer.name} ended")
        cells = []
        for number, found in sorted(outcomes.items()):
            if len(found) == 2:
                cells.append(Cell(specs[number], found[False], found[True]))
            else:
                print(f"left out: {repeat(producer.name, consumer.name, specs[number])}: {found}", file=sys.stderr)
        return Pair(producer.name, consumer.name, cells)


def send(stdin: IO[str], message: Any) -> None:
    """Writes a line."""
    stdin.write(json.dumps(message) + "\n")
    stdin.flush()


def at_import(code: int, errors: str) -> str:
    """Describes how a process ended while it imported its libraries."""
    if code < 0:
        return f"{signal.Signals(-code).name} when both libraries are imported"
    last = (errors.strip().splitlines() or ["no message"])[-1]
    return f"the libraries cannot be imported together: {last[:200]}"


def all_cells(job: Job, outcome: Outcome) -> Pair:
    """Makes a pair with the same outcome in all cells."""
    producer, consumer, specs = job
    return Pair(producer.name, consumer.name, [Cell(spec, outcome, outcome) for spec in specs])
