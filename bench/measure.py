"""Times the rows of a group: `measure.py GROUP [--quick] [--without ROW ...]`; prints JSON.

The clock is the thread's, so that it does not count other programs. All rows of a group take turns, round by round. A
row's result is the minimum of its rounds, minus that of the empty loop: nothing makes a round faster than the work is.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from timeit import Timer

from rows import GROUPS, ROWS, Call, Row, variables

BATCH = 2_000_000
"""The duration of a batch in nanoseconds: long compared to reading the clock."""

LOOP = "the empty loop"

Measured = dict[str, dict[str, float | str]]
"""By row and library: nanoseconds, or the reason why the result is missing."""


def ready(row: Row, library: str, call: Call) -> Timer | str:
    """Returns the call's loop after a warm-up, or the reason why it cannot run."""
    # If the process dies here, its parent reads the row from this line.
    print(f"begin: {row.name}: {library}", file=sys.stderr, flush=True)
    try:
        timer = Timer(call.statement, globals=variables(call), timer=time.thread_time_ns)
        timer.timeit(fewest(row.each))
    except BaseException as error:
        # A Rust panic is a `BaseException`, not an `Exception`.
        return f"refused: {type(error).__name__}"
    return timer


def fewest(each: int) -> int:
    """Returns the least number of calls in a batch, for calls with this number of tensors."""
    return max(1, 100 // each)


def batch(timer: Timer, each: int = 1) -> int:
    """Returns the number of calls that take as long as a batch."""
    calls = fewest(each)
    while (taken := timer.timeit(calls)) < BATCH / 4:
        calls *= 4
    return max(fewest(each), int(calls * BATCH / taken))


def measure(group: str, quick: bool, without: set[str]) -> Measured:
    found: Measured = {}
    # Several processes measure a group, each with these rounds.
    rounds = 7 if quick else 15
    loops: dict[tuple[str, str], tuple[Timer, int, int]] = {}
    for row in ROWS:
        if row.group != group or (quick and row.each > 10_000):
            continue
        cell = found.setdefault(row.name, {})
        for library, call in row.calls.items():
            if f"{row.name}: {library}" in without:
                cell[library] = "crash"
                continue
            timer = ready(row, library, call)
            if isinstance(timer, str):
                cell[library] = timer
            else:
                loops[row.name, library] = timer, batch(timer, row.each), row.each
    empty = Timer("pass", timer=time.thread_time_ns)
    loops[LOOP, ""] = empty, batch(empty), 1
    times: dict[tuple[str, str], list[float]] = {key: [] for key in loops}
    for _ in range(rounds):
        for key, (timer, calls, _) in loops.items():
            times[key].append(timer.timeit(calls) / calls)
    loop = min(times.pop((LOOP, "")))
    for (name, library), taken in times.items():
        found[name][library] = round((min(taken) - loop) / loops[name, library][2], 2)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("group", choices=GROUPS)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--without", action="append", default=[])
    options = parser.parse_args()
    print(json.dumps(measure(options.group, options.quick, set(options.without))))


if __name__ == "__main__":
    main()
