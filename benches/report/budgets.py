"""The instruction budgets: `budgets.py --rust FILE --scratch FOLDER --budgets FILE [--write]`.

Times differ from machine to machine and from day to day; the number of instructions does not. Each row has a
budget, and this fails if a change makes it slower. `--write` stores the measured numbers as the budgets.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
from pathlib import Path

from counted import LONG, SHORT, Counts, available, per_call, rust_rows, segments

REPEAT = Path(__file__).parents[1] / "python" / "repeat.py"

TOLERANCE = 0.03
"""The allowed excess over a budget, as a share: another minor release of the compiler changes counts that much."""

OURS = ("vec", "four", "array")


def net_of_source(rows: Counts) -> Counts:
    """Returns dlbridge's Rust rows, minus the source that they begin with."""
    return {f"Rust: {work}": rows[f"{work}/dlbridge"] - rows[f"{work}/source"] for work in OURS}


def groups() -> dict[str, bool]:
    """Returns the groups of `benches/python/repeat.py`, and if their framework is installed."""
    return {group: importlib.util.find_spec(group) is not None for group in rows_of()}


def rows_of() -> dict[str, list[str]]:
    """Returns the budgeted rows of each group."""
    sys.path.insert(0, str(REPEAT.parent))
    from repeat import EMPTY, ROWS

    return {group: [f"Python: {row}" for row in rows if row != EMPTY] for group, rows in ROWS.items()}


def python_rows(group: str, scratch: Path) -> Counts:
    """Returns the paths of a group of `benches/python/repeat.py`, minus the loop."""
    sys.path.insert(0, str(REPEAT.parent))
    from repeat import COLLECTIONS, COUNTED, EMPTY, MANY, ROWS

    command = [sys.executable, str(REPEAT), group, str(SHORT), str(LONG)]
    counted = segments(command, scratch / "callgrind", COUNTED[group])
    # Other calls of `getppid` come before the rows, so the rows are the last counts.
    rows = ROWS[group]
    found = dict(zip(rows, per_call(counted[-2 * len(rows) :]), strict=True))
    empty = found.pop(EMPTY)
    return {f"Python: {row}": count - (empty // MANY if row in COLLECTIONS else empty) for row, count in found.items()}


def over(measured: int, budget: int | None) -> bool:
    """Returns True if a row exceeds its budget, or has none."""
    return budget is None or measured > budget * (1 + TOLERANCE)


def compared(measured: Counts, budgets: Counts) -> tuple[list[str], list[str]]:
    """Returns the table and the faults."""
    width = max(map(len, measured))
    lines = [f"{'instructions of a call':{width}}  measured  budget"]
    wrong = []
    for name, count in measured.items():
        budget = budgets.get(name)
        mark = "  OVER" if over(count, budget) else "  less" if budget and count < budget * (1 - TOLERANCE) else ""
        lines.append(f"{name:{width}}  {count:8}  {'none' if budget is None else budget:>6}{mark}")
        if over(count, budget):
            wrong.append(f"{name}: {count} instructions, of {budget}" if budget else f"{name}: no budget")
    wrong += [f"{name}: a budget, and no row" for name in budgets if name not in measured]
    return lines, wrong


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rust", required=True)
    parser.add_argument("--scratch", type=Path, required=True)
    parser.add_argument("--budgets", type=Path, required=True)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    if not available():
        raise SystemExit("valgrind is not installed")
    measured = net_of_source(rust_rows(options.rust, options.scratch))
    budgets: Counts = json.loads(options.budgets.read_text()) if options.budgets.exists() else {}
    left_out: Counts = {}
    for group, is_installed in groups().items():
        if is_installed:
            measured.update(python_rows(group, options.scratch))
        else:
            print(f"{group} is not installed, so its rows are not counted")
            left_out.update((row, budgets.pop(row)) for row in rows_of()[group] if row in budgets)
    lines, wrong = compared(measured, budgets)
    print("\n".join(lines))
    if options.write:
        options.budgets.write_text(json.dumps({**measured, **left_out}, indent=2) + "\n")
    elif wrong:
        hint = "if this is intended, run `cargo xtask bench --instructions --write` to update the budgets"
        raise SystemExit("\n".join([*wrong, hint]))


if __name__ == "__main__":
    main()
