"""The instruction budgets: callgrind counts the same number every day, under any load.

A program marks a point by a call of `getppid`. Callgrind with `--dump-before=getppid` then writes its counts and starts
again, so that one process measures many rows. Each row runs two times, the second time for longer; the difference
excludes the start and the end of the loop.

`instructions.py FRAMEWORK SHORT LONG` runs the rows of a framework with a budget, for callgrind.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import partial
from importlib.util import find_spec
from itertools import repeat
from pathlib import Path
from typing import Any

from rows import ROWS, Call, Row, variables

BUDGETS = Path(__file__).with_name("budgets.json")

SHORT, LONG = 1000, 3000

TOLERANCE = 0.03
"""The allowed excess over a budget, as a share: another minor release of the compiler changes counts that much."""

PYTHON = (3, 11)
"""The Python of the budgets: each release has another interpreter, with other counts."""

OUR_CODE = ("with_dlbridge", "_core.abi3")

FRAMEWORKS: dict[str, tuple[str, ...] | None] = {"numpy": None, "torch": OUR_CODE, "jax": OUR_CODE}
"""The libraries whose instructions count; `None` for all. PyTorch and JAX choose their instructions by the processor."""

Counts = dict[str, int]


def with_budget(framework: str) -> list[Row]:
    """Returns the rows with a budget that need a framework, or NumPy alone."""
    budgeted = [row for row in ROWS if row.budget and row.group != "rust"]
    return [row for row in budgeted if (row.group if row.group in FRAMEWORKS else "numpy") == framework]


def segments(command: Sequence[str], folder: Path, libraries: tuple[str, ...] | None = None) -> list[int]:
    """Returns the counts between the marks of a command: of the whole process, or of the code of some libraries."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    callgrind = ["valgrind", "--tool=callgrind", "--dump-before=getppid", f"--callgrind-out-file={folder}/counts"]
    # Random string hashes would change the number of steps of a lookup.
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    if libraries is not None:
        # The import of a framework would take minutes if it were counted. The program starts the counting.
        callgrind.append("--instr-atstart=no")
        environment["COUNTING_STARTS"] = "after the warm-up"
    done = subprocess.run([*callgrind, *command], env=environment, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} under callgrind: {done.returncode}\n{done.stderr}")
    files = sorted(folder.glob("counts.*"), key=lambda file: int(file.suffix[1:]))
    texts = [text for text in (file.read_text() for file in files) if re.search(r"^totals: \d", text, re.MULTILINE)]
    # The first count ends at the first mark, before any row.
    return [total(text) if libraries is None else of_libraries(text, libraries) for text in texts[1:]]


def total(text: str) -> int:
    """Returns the count of a file of callgrind."""
    found = re.search(r"^totals: (\d+)", text, re.MULTILINE)
    return int(found[1]) if found else 0


def of_libraries(text: str, libraries: tuple[str, ...]) -> int:
    """Returns the count of the functions in files with these names, without the functions that they call."""
    names: dict[str, str] = {}
    count, inside, skip = 0, False, False
    for line in text.splitlines():
        if line.startswith(("ob=", "cob=")):
            kind, _, rest = line.partition("=")
            # The first mention of a number has the name.
            number, _, name = rest.partition(" ")
            path = names.setdefault(number, name)
            if kind == "ob":
                inside = Path(path).name.startswith(libraries)
        elif line.startswith("calls="):
            # The next line is the count of the called function.
            skip = True
        elif line[:1] in "0123456789+-*" and line:
            if inside and not skip:
                count += int(line.split()[1])
            skip = False
    return count


def per_call(counted: list[int]) -> list[int]:
    """Returns the count per call of each row, from its two lengths."""
    pairs = zip(counted[::2], counted[1::2], strict=False)
    return [round((long - short) / (LONG - SHORT)) for short, long in pairs]


def rust_rows(program: str, scratch: Path) -> Counts:
    """Returns every row of the program `rust`, including the source."""
    listed = json.loads(subprocess.run([program, "rows"], capture_output=True, text=True, check=True).stdout)
    times = [word for row in listed for length in (SHORT, LONG) for word in (row, str(length))]
    return dict(zip(listed, per_call(segments([program, "repeat", *times], scratch)), strict=True))


def of_rust(program: str, scratch: Path) -> Counts:
    """Returns dlbridge's Rust rows, minus the source that they begin with."""
    counted = rust_rows(program, scratch)
    budgeted = [row for row in ROWS if row.budget and row.group == "rust"]
    return {row.name: counted[row.calls["dlbridge"].statement] - counted[row.calls["source"].statement] for row in budgeted}


def of_framework(framework: str, scratch: Path) -> Counts:
    """Returns the rows of a framework, minus the empty loop."""
    rows = with_budget(framework)
    command = [sys.executable, __file__, framework, str(SHORT), str(LONG)]
    counted = segments(command, scratch, FRAMEWORKS[framework])
    # Other calls of `getppid` come before the rows, so the rows are the last counts.
    empty, *found = per_call(counted[-2 * (len(rows) + 1) :])
    return {row.name: count - empty // row.each for row, count in zip(rows, found, strict=True)}


def loop(call: Call) -> Callable[[int], None]:
    """Returns a function that runs a statement a given number of times."""
    known = {name: value for name, value in variables(call).items() if not name.startswith("__")}
    # Local variables of a function need no dictionary lookup.
    source = [f"def wrap({', '.join(known)}, repeat):", " def run(times):", "  for _ in repeat(None, times):"]
    scope: dict[str, Any] = {}
    exec("\n".join([*source, f"   {call.statement}", " return run"]), scope)
    run: Callable[[int], None] = scope["wrap"](**known, repeat=repeat)
    return run


def free_blocks() -> list[object]:
    """Returns objects of all sizes of Python's allocator, with free blocks between them. If the blocks of one size are used
    up, each call of a row takes a pool of memory and returns it, which adds 80 instructions in a few of 400 layouts."""
    makers: list[Callable[[], object]] = [object, lambda: float("nan"), *(partial(bytes, size) for size in range(1, 480, 16))]
    same_size = [[make() for _ in range(16)] for make in makers]
    return [kept for objects in same_size for kept in objects[::2]]


def run_rows(framework: str, short: int, long: int) -> None:
    """Runs the rows of a framework between marks: the empty loop, then each row. A row with several tensors in a call
    makes fewer calls."""
    loops = [(loop(Call("pass")), 1)]
    loops += [(loop(row.calls[row.budget]), row.each) for row in with_budget(framework) if row.budget]
    # Warm-up: the interpreter specialises its code, and the libraries fill their caches.
    for run, each in loops:
        run(max(100 // each, 3))
    blocks = free_blocks()
    if "COUNTING_STARTS" in os.environ:
        subprocess.run(["callgrind_control", "-i", "on", str(os.getpid())], check=True, capture_output=True)
    os.getppid()
    for run, each in loops:
        for times in (short, long):
            run(times // each)
            os.getppid()
    del blocks


def compared(measured: Counts, budgets: Counts) -> tuple[list[str], list[str]]:
    """Returns the table and the faults."""
    width = max(map(len, measured))
    lines = [f"{'instructions of a call':{width}}  measured  budget"]
    wrong = []
    for name, count in measured.items():
        budget = budgets.get(name)
        over = budget is None or count > budget * (1 + TOLERANCE)
        mark = "  OVER" if over else "  less" if budget and count < budget * (1 - TOLERANCE) else ""
        lines.append(f"{name:{width}}  {count:8}  {'none' if budget is None else budget:>6}{mark}")
        if over:
            wrong.append(f"{name}: {count} instructions, of {budget}" if budget else f"{name}: no budget")
    return lines, wrong + [f"{name}: a budget, and no row" for name in budgets if name not in measured]


def check(program: str, scratch: Path, write: bool, file: Path = BUDGETS) -> None:
    """Counts the rows, and compares the counts with the budgets, or stores them as the budgets."""
    budgets: Counts = json.loads(file.read_text())
    measured = of_rust(program, scratch)
    left_out: Counts = {}
    for framework in FRAMEWORKS:
        if find_spec(framework):
            measured |= of_framework(framework, scratch)
        else:
            print(f"{framework} is not installed, so its rows are not counted")
            names = [row.name for row in with_budget(framework)]
            left_out |= {name: budgets.pop(name) for name in names if name in budgets}
    lines, wrong = compared(measured, budgets)
    print("\n".join(lines))
    if write:
        file.write_text(json.dumps({**measured, **left_out}, indent=2) + "\n")
    elif wrong:
        raise SystemExit("\n".join([*wrong, "if this is intended, run `bench/run.py instructions --write` to update the budgets"]))


if __name__ == "__main__":
    run_rows(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
