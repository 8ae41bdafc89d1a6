"""Runs the pairs in processes that import only their libraries, and fork for each pair."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

from dlbridge_conformance.matrix.consumer import Consumer
from dlbridge_conformance.matrix.outcome import Cell, Kind, Outcome, Pair, Spec, repeat
from dlbridge_conformance.matrix.producer import Producer

#: the time limit of one exchange, in seconds; the first one of a pair also initialises the libraries
LIMIT = 60.0

#: only the CPU, no log messages, and few threads
ENVIRONMENT = {
    "JAX_PLATFORMS": "cpu", "CUDA_VISIBLE_DEVICES": "", "TF_CPP_MIN_LOG_LEVEL": "3", "OMP_NUM_THREADS": "1",
    "GLOG_minloglevel": "3",
}  # fmt: skip

#: above this number of pairs, a second process saves more time than its imports cost
WORTH_A_PROCESS = 100

#: libraries that crash when they are imported into one process
APART = frozenset({"tensorflow", "paddle"})

Job = tuple[Producer, Consumer, list[Spec]]


def grouped(jobs: Iterable[Job], at_once: int) -> list[list[Job]]:
    """Groups the jobs by process. Libraries that crash together share a group only for the pair of both."""
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


def run(jobs: Iterable[Job], *, at_once: int, limit: float, quiet: bool) -> list[Pair]:
    """Runs jobs, several groups at once. Returns the pairs in the same order as the jobs.

    A pair that crashes or hangs runs again in a process that imports only its two libraries. The second result counts.
    """
    wanted = list(jobs)
    done: dict[tuple[str, str], Pair] = {}

    def run_all(group: list[Job]) -> None:
        pure = len({p.library for p, _, _ in group} | {c.library for _, c, _ in group}) <= 2
        for job, pair in zip(group, run_group(group, limit, quiet), strict=True):
            if not pure and has_died(pair):
                (pair,) = run_group([job], limit, quiet)
            done[pair.producer, pair.consumer] = pair

    with ThreadPoolExecutor(max(at_once, 1)) as pool:
        for future in [pool.submit(run_all, group) for group in grouped(wanted, at_once)]:
            future.result()
    return [done[producer.name, consumer.name] for producer, consumer, _ in wanted]


def has_died(pair: Pair) -> bool:
    """Returns whether the process of a pair crashed or hung."""
    return any(outcome.kind in (Kind.CRASHED, Kind.HUNG) for cell in pair.cells for outcome in (cell.direct, cell.through))


def run_group(jobs: list[Job], limit: float, quiet: bool) -> list[Pair]:
    """Runs jobs in one process. If the libraries cannot be imported together, all cells get that outcome."""
    names = [[p.name, c.name, [[spec.dtype, spec.layout] for spec in specs]] for p, c, specs in jobs]
    done = subprocess.run(
        [sys.executable, "-P", "-m", "dlbridge_conformance.matrix.worker"], stdout=subprocess.PIPE, text=True,
        input=json.dumps({"limit": limit, "quiet": quiet, "jobs": names}), env=os.environ | ENVIRONMENT,
    )  # fmt: skip
    if not done.stdout:
        how = f"{signal.Signals(-done.returncode).name} when" if done.returncode < 0 else "an exception when"
        failed = Outcome(Kind.CRASHED, f"{how} both libraries are imported")
        return [Pair(p.name, c.name, [Cell(spec, failed, failed) for spec in specs]) for p, c, specs in jobs]
    outcomes: dict[tuple[int, int], dict[bool, Outcome]] = defaultdict(dict)
    for job, number, through, kind, detail in map(json.loads, done.stdout.splitlines()[1:]):
        outcomes[job, number][through] = Outcome(Kind(kind), detail)
    pairs = []
    for place, (producer, consumer, specs) in enumerate(jobs):
        cells = []
        for number, spec in enumerate(specs):
            found = outcomes[place, number]
            if len(found) == 2:
                cells.append(Cell(spec, found[False], found[True]))
            elif found:
                print(f"left out: {repeat(producer.name, consumer.name, spec)}: {found}", file=sys.stderr)
        pairs.append(Pair(producer.name, consumer.name, cells))
    return pairs
