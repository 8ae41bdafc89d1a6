"""Detects leaks: measures the memory that a process gains when a step is repeated."""

from __future__ import annotations

import ctypes
import gc
import os
import sys
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from dlbridge_conformance.context import Context
from dlbridge_conformance.crafter import DTYPES
from dlbridge_conformance.exports import HOST

Exported = TypeVar("Exported")

#: the bytes of an array that is large enough to measure
LARGE = 1 << 18
STATM = Path("/proc/self/statm")


class _Mallinfo(ctypes.Structure):
    """``struct mallinfo2`` of the C library."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost",
        )
    )  # fmt: skip


def taken() -> dict[str, int]:
    """The bytes of memory in use, by source: the system, Python, and malloc if the C library is glibc.

    The system alone misses small leaks, because they may fit into memory that the process already owns. Python reports
    the number of its small blocks, each of at least 16 bytes.
    """
    found = {
        "the system": int(STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE"),
        "Python": 16 * sys.getallocatedblocks(),
    }
    mallinfo: Any = getattr(ctypes.CDLL(None), "mallinfo2", None)
    if mallinfo is not None:
        mallinfo.restype = _Mallinfo
        info = mallinfo()
        found["malloc"] = info.uordblks + info.hblkhd
    return found


def expect_bounded(c: Context, step: Callable[[], None], times: int, lost: int, what: str) -> None:
    """Expects that repeating a step does not leak, where each leak would lose ``lost`` bytes.

    Memory that is allocated only once does not count: a leak grows in both halves of the repetitions.
    """
    c.needs(STATM.exists(), "this system does not report the memory of a process")
    half = max(times // 2, 1)
    for _ in range(max(half // 2, 2)):
        step()
    gc.collect()
    found = [taken()]
    for _ in range(2):
        for _ in range(half):
            step()
        gc.collect()
        found.append(taken())
    for teller in found[0]:
        first, second = (found[i + 1][teller] - found[i][teller] for i in (0, 1))
        more = min(first, second)
        c.got(f"by {teller}: {first} bytes more after {half} times, and {second} after as many again")
        c.expect(more < half * lost // 2, f"{what}: {more} bytes more after {half} times, by {teller}")


def large_arrays(c: Context) -> Callable[[], Any]:
    """A function that makes a new array of 256 KiB."""
    c.needs(c.lib.device[0] in HOST, f"the memory of device {c.lib.device} is not the process's")
    c.array()
    dtype = "float64" if "float64" in c.lib.dtypes else "float32"
    zeros = [0.0] * (LARGE // (DTYPES[dtype][1] // 8))
    c.fed(f"arrays of {dtype}, {len(zeros)} zeros")

    def make() -> Any:
        gc.collect(1)
        return c.lib.array(zeros, dtype)

    return make


def expect_arrays_freed(c: Context, use: Callable[[Any], None], what: str) -> None:
    """Expects that arrays which were used once and dropped are freed."""
    make = large_arrays(c)
    expect_bounded(c, lambda: use(make()), 16, LARGE, what)


def watch(array: Any) -> Callable[[], bool] | None:
    """A function that returns whether an array is gone; None if its class does not support weak references."""
    try:
        gone = weakref.ref(array)
    except TypeError:
        return None
    return lambda: gone() is None


def expect_let_go(
    c: Context, exports: Mapping[str, Callable[[Any], Exported]], delete: Callable[[Exported], None], what: str
) -> None:
    """Expects for each of several exports that an array dropped before its export is freed with the export.

    A weak reference shows whether the array is freed. Some classes do not support one, and some arrays die at once when
    dropped, because another object owns their memory. For all these exports together, the memory of the process shows
    it; on a device, they are not checked.
    """
    untold = {}
    for name, export in exports.items():
        array = c.array()
        is_gone = watch(array)
        exported = export(array)
        del array
        c.settle()
        tells = is_gone is not None and not is_gone()
        delete(exported)
        del exported
        c.settle()
        if is_gone is not None and tells:
            c.expect(is_gone(), f"the array lives on: {name}, {what}")
        else:
            untold[name] = export

    def use(array: Any) -> None:
        exported = [export(array) for export in untold.values()]
        del array
        for one in exported:
            delete(one)

    if len(untold) == len(exports) or (untold and c.lib.device[0] in HOST):
        c.got(f"a weak reference does not show when the array is freed: {', '.join(untold)}")
        expect_arrays_freed(c, use, f"memory is kept: {', '.join(untold)}, {what}")
