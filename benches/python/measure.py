"""Measures the rows of a group: `measure.py GROUP [--quick] [--without NAME ...]`; prints JSON.

The clock is the thread's, so that it does not count other programs. All rows of a group take turns, round by round. A
row's result is the minimum of its rounds, minus that of the empty loop: nothing makes a round faster than the work is.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from timeit import Timer

from rows import GROUPS, Row, rows

BATCH = 2_000_000
"""The duration of a batch in nanoseconds: long compared to reading the clock."""

LOOP = "the empty loop"

Measured = dict[str, dict[str, float | str]]
"""By work and library: nanoseconds, or the reason why the result is missing."""


def ready(row: Row) -> Timer | str:
    """Returns the row's loop after a warm-up, or the reason why it cannot run."""
    # If the process dies here, its parent reads the row from this line.
    print(f"begin: {row.work}: {row.library}", file=sys.stderr, flush=True)
    try:
        timer = Timer(row.statement, globals=row.names(), timer=time.thread_time_ns)
        timer.timeit(100)
    except BaseException as error:
        # A Rust panic is a `BaseException`, not an `Exception`.
        return f"refused: {type(error).__name__}"
    return timer


def batch(timer: Timer) -> int:
    """Returns the number of calls that take as long as a batch."""
    calls = 100
    while (taken := timer.timeit(calls)) < BATCH / 4:
        calls *= 4
    return max(100, int(calls * BATCH / taken))


def measure(group: str, rounds: int, without: set[str]) -> Measured:
    found: Measured = {}
    loops: dict[tuple[str, str], tuple[Timer, int]] = {}
    for row in rows():
        if row.group != group:
            continue
        cell = found.setdefault(row.work, {})
        if f"{row.work}: {row.library}" in without:
            cell[row.library] = "crash"
            continue
        timer = ready(row)
        if isinstance(timer, str):
            cell[row.library] = timer
        else:
            loops[row.work, row.library] = timer, batch(timer)
    empty = Timer("pass", timer=time.thread_time_ns)
    loops[LOOP, ""] = empty, batch(empty)
    times: dict[tuple[str, str], list[float]] = {key: [] for key in loops}
    for _ in range(rounds):
        for key, (timer, calls) in loops.items():
            times[key].append(timer.timeit(calls) / calls)
    loop = min(times.pop((LOOP, "")))
    for (work, library), taken in times.items():
        found[work][library] = round(min(taken) - loop, 2)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("group", choices=GROUPS)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--without", action="append", default=[])
    options = parser.parse_args()
    # `benches/report/run.py` runs several processes.
    rounds = 7 if options.quick else 15
    print(json.dumps(measure(options.group, rounds, set(options.without))))


if __name__ == "__main__":
    main()
