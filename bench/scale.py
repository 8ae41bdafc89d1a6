"""Measures a state dict, and several callers at once: `scale.py GROUP [--quick]`; prints JSON by row and library.

- `state`: a state dict of PyTorch to objects of a library and back: nanoseconds per tensor;
- `threads`, `processes`: nanoseconds of all threads or processes together for each call with one argument.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import threading
import time
from collections.abc import Callable
from statistics import median
from typing import Any

from rows import ROWS, Row, matrix, variables

Results = dict[str, dict[str, float]]

TENSORS, THREADS, PROCESSES = 10_000, 16, 4

PATIENCE = 60
"""The seconds after which a process that does not answer ends the measurement."""


def rows_of(group: str) -> list[Row]:
    return [row for row in ROWS if row.group == group]


def state(quick: bool) -> Results:
    import torch

    rows = rows_of("state")
    pairs = {}
    for library, call in rows[0].calls.items():
        known = variables(call)
        pairs[library] = known["there"], known["back"]
    # As in a model: a few shapes, many times.
    tensors = {f"layer.{n}.weight": torch.ones(4 + n % 5, 6) for n in range(TENSORS)}
    rounds: dict[str, list[tuple[float, float]]] = {library: [] for library in pairs}
    for turn in range(5 if quick else 15):
        # Another library is first in each turn: the first finds the memory that the last one freed.
        first = turn % len(pairs)
        for library, (there, back) in (list(pairs.items()) * 2)[first : first + len(pairs)]:
            begun = time.thread_time_ns()
            held = {name: there(tensor) for name, tensor in tensors.items()}
            between = time.thread_time_ns()
            returned = {name: back(tensor) for name, tensor in held.items()}
            ended = time.thread_time_ns()
            assert all(returned[name].data_ptr() == tensors[name].data_ptr() for name in tensors)
            del held, returned
            rounds[library].append(((between - begun) / TENSORS, (ended - between) / TENSORS))
    ways = {library: list(zip(*times, strict=True)) for library, times in rounds.items()}
    return {row.name: {library: round(median(way[n]), 1) for library, way in ways.items()} for n, row in enumerate(rows)}


Span = tuple[float, float, int]
"""The begin and the end of a thread's calls, in seconds by the clock of all processes, and the number of calls."""


def calling(function: Callable[[Any], Any], seconds: float, start: Callable[[], Any]) -> Span:
    """Calls a function in this thread."""
    array = matrix().copy()
    start()
    begun, calls = time.perf_counter(), 0
    while time.perf_counter() - begun < seconds:
        for _ in range(1000):
            function(array)
        calls += 1000
    return begun, time.perf_counter(), calls


def each(spans: list[Span]) -> float:
    """Returns the nanoseconds from the first begin to the last end for each call."""
    begins, ends, calls = zip(*spans, strict=True)
    return float(round(1e9 * (max(ends) - min(begins)) / sum(calls), 2))


def of_threads(row: Row, library: str, seconds: float) -> float:
    function = variables(row.calls[library])["f"]
    start = threading.Barrier(THREADS)
    spans: list[Span] = []
    threads = [threading.Thread(target=lambda: spans.append(calling(function, seconds, start.wait))) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return each(spans)


def in_process(row: Row, library: str, seconds: float, start: Any, spans: Any) -> None:
    function = variables(row.calls[library])["f"]
    calling(function, 0.01, lambda: None)
    spans.put(calling(function, seconds, lambda: start.wait(PATIENCE)))


def of_processes(row: Row, library: str, seconds: float) -> float:
    # New processes, which share nothing with this one.
    context = multiprocessing.get_context("spawn")
    start, spans = context.Barrier(PROCESSES), context.Queue()
    arguments = (row, library, seconds, start, spans)
    processes = [context.Process(target=in_process, args=arguments, daemon=True) for _ in range(PROCESSES)]
    for process in processes:
        process.start()
    found = [spans.get(timeout=PATIENCE) for _ in processes]
    for process in processes:
        process.join()
    return each(found)


def at_once(measure: Callable[[Row, str, float], float], group: str, quick: bool) -> Results:
    seconds = 0.1 if quick else 1.0
    return {row.name: {library: measure(row, library, seconds) for library in row.calls} for row in rows_of(group)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("group", choices=["state", "threads", "processes"])
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    if options.group == "state":
        print(json.dumps(state(options.quick)))
    else:
        print(json.dumps(at_once({"threads": of_threads, "processes": of_processes}[options.group], options.group, options.quick)))


if __name__ == "__main__":
    main()
