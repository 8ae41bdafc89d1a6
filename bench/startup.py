"""Measures imports in new processes: `startup.py [--quick]`; prints the milliseconds beyond a bare interpreter as JSON.

The processes take turns, and the time is the processor's time for the whole process. A result is the median over the
rounds of the difference between the process with the import and the bare one beside it.
"""

from __future__ import annotations

import json
import os
import sys
from statistics import median

from rows import ROWS

BARE = "bare"


def taken(program: str) -> float:
    """Returns the milliseconds of processor time that a new interpreter takes for a program."""
    command = [sys.executable, "-c", program]
    # Not `subprocess`, whose own work would be in the total for all children.
    process = os.posix_spawn(sys.executable, command, os.environ)
    _, status, usage = os.wait4(process, 0)
    if status:
        raise SystemExit(f"{program}: {os.waitstatus_to_exitcode(status)}")
    return (usage.ru_utime + usage.ru_stime) * 1000


def measure(programs: dict[str, str], rounds: int) -> dict[str, float]:
    times: dict[str, list[float]] = {name: [] for name in programs}
    # The first round fills the caches of the file system, and writes compiled modules.
    for round_number in range(rounds + 1):
        for name, program in programs.items():
            milliseconds = taken(program)
            if round_number:
                times[name].append(milliseconds)
    bare = times.pop(BARE)
    more = {name: [with_it - alone for with_it, alone in zip(of_it, bare)] for name, of_it in times.items()}
    return {name: round(median(differences), 2) for name, differences in more.items()}


if __name__ == "__main__":
    row = next(row for row in ROWS if row.group == "startup")
    programs = {BARE: "pass", **{library: call.statement for library, call in row.calls.items()}}
    print(json.dumps({row.name: measure(programs, 3 if "--quick" in sys.argv else 60)}))
