"""Whether memory is given back: what a process has more of after something was done many times."""

from __future__ import annotations

import gc
import os
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dlbridge.conformance.context import Context

#: elements of an array that is large enough to be seen
LARGE = 1 << 16
STATM = Path("/proc/self/statm")


def resident() -> int:
    """The bytes of memory that the process has."""
    return int(STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def expect_bounded(c: Context, step: Callable[[], None], times: int, lost: int, what: str) -> None:
    """Repeating a step does not take ever more memory, where each time would lose so many bytes if it did."""
    c.needs(STATM.exists(), "this system does not say how much memory a process has")
    for _ in range(max(times // 4, 2)):
        step()
    gc.collect()
    before = resident()
    for _ in range(times):
        step()
    gc.collect()
    more = resident() - before
    c.got(f"{more} bytes more after {times} times")
    c.expect(more < times * lost // 2, f"{what}: {more} bytes more after {times} times")


def large_arrays(c: Context) -> Callable[[], Any]:
    """What makes arrays of 256 KiB, a fresh one by every call."""
    c.array()
    zeros = [0.0] * LARGE
    c.fed(f"arrays of float32, {LARGE} zeros")

    def make() -> Any:
        gc.collect(1)
        return c.lib.array(zeros, "float32")

    return make


def expect_arrays_freed(c: Context, use: Callable[[Any], None], what: str) -> None:
    """Arrays that were used once and dropped are gone."""
    make = large_arrays(c)
    expect_bounded(c, lambda: use(make()), 24, 4 * LARGE, what)


def watch(array: Any) -> Callable[[], bool] | None:
    """What tells whether an array is gone; None for a class that has no weak references."""
    try:
        gone = weakref.ref(array)
    except TypeError:
        return None
    return lambda: gone() is None
