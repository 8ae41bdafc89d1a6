"""Whether memory is given back: what a process has more of after something was done many times."""

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

#: bytes of an array that is large enough to be seen
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
    """The bytes of memory that are in use, by whom is asked.

    What is lost a little at a time may be found in memory that the process has anyway, so that the system alone does
    not tell. ``malloc`` tells with the C library of GNU; Python tells how many small blocks there are, of 16 bytes at
    the least.
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
    """Repeating a step does not take ever more memory, where each time would lose so many bytes if it did.

    What is taken once does not count: memory that is lost grows in both halves of the repetitions.
    """
    c.needs(STATM.exists(), "this system does not say how much memory a process has")
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
    """What makes arrays of 256 KiB, a fresh one by every call."""
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
    """Arrays that were used once and dropped are gone."""
    make = large_arrays(c)
    expect_bounded(c, lambda: use(make()), 16, LARGE, what)


def watch(array: Any) -> Callable[[], bool] | None:
    """What tells whether an array is gone; None for a class that has no weak references."""
    try:
        gone = weakref.ref(array)
    except TypeError:
        return None
    return lambda: gone() is None


def expect_let_go(
    c: Context, exports: Mapping[str, Callable[[Any], Exported]], delete: Callable[[Exported], None], what: str
) -> None:
    """An array that is dropped before its export is deleted goes with it, for each of several exports, by name.

    Its weak reference tells. If there is none, or it goes when the array is dropped, as one does whose memory has an
    owner of its own, the memory of the process tells, for all such exports at once. On a device nothing else tells.
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
        c.got(f"no weak reference tells when an array is let go: {', '.join(untold)}")
        expect_arrays_freed(c, use, f"memory is kept: {', '.join(untold)}, {what}")
