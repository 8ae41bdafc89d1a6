"""The tables of results: numbers beside goals, every library, and copies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rows import BEST, BEST_CHECKED, CHECKED, ROWS, Goal, Row

Run = dict[str, Any]
"""The results of one run, by row and library: a number, or the reason why one is missing. `copies` has those of `copies.py`."""

BEHIND = 0.95
"""Below this share of the faster library's speed a copy is behind: two runs of one copy differ by less than the rest."""


def number(value: float | None) -> str:
    """Returns a number with three significant digits and separated thousands."""
    if value is None:
        return ""
    if abs(value) >= 100:
        return f"{value:,.0f}".replace(",", " ")
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}" if abs(value) >= 0.02 or value == 0 else f"{value:.4f}"


def table(header: list[str], rows: list[list[str]]) -> str:
    """Returns a Markdown table; the first column is text, the others are numbers."""
    rule = ["---", *["---:"] * (len(header) - 1)]
    return "\n".join("| " + " | ".join(line).rstrip() + " |" for line in [header, rule, *rows])


def is_peer(library: str) -> bool:
    """Returns True for other libraries as they are: no hand-written code, and no framework's own function."""
    return not (library.startswith(("dlbridge", "floor")) or is_checked(library) or "'s own " in library)


def is_checked(library: str) -> bool:
    return library.endswith(CHECKED)


def is_floor(library: str) -> bool:
    return library.startswith("floor")


def value(run: Run, row: str, library: str) -> float | None:
    found = run.get(row, {}).get(library)
    return found if isinstance(found, (int, float)) else None


def best(run: Run, row: str, wanted: Callable[[str], bool]) -> tuple[str, float] | None:
    """Returns the wanted library with the least number."""
    known = [(library, value(run, row, library)) for library in run.get(row, {}) if wanted(library)]
    return min(((library, found) for library, found in known if found is not None), key=lambda found: found[1], default=None)


def measured(run: Run, row: Row, goal: Goal) -> float | None:
    """Returns the number to compare with the goal: a ratio, or the number itself."""
    ours = value(run, row.name, goal.ours)
    if ours is None:
        return None
    if goal.less:
        less = value(run, *goal.less)
        return None if less is None else ours - less
    if goal.peer is None:
        return ours
    if goal.peer in (BEST, BEST_CHECKED):
        found = best(run, row.name, is_peer if goal.peer == BEST else is_checked)
        peer = found[1] if found else None
    else:
        peer = value(run, goal.of or row.name, goal.peer)
    return ours / peer if peer else None


def is_met(goal: Goal, values: list[float | None]) -> bool:
    """Returns True if all runs meet the goal."""
    return all(value is not None and value <= goal.limit for value in values)


def wanted(row: Row, goal: Goal) -> str:
    if goal.less:
        return f"{goal.limit:g} {row.unit} more than {': '.join(goal.less)}"
    if goal.peer is None:
        return f"{goal.limit:g} {row.unit}"
    return f"{goal.limit:g} x {goal.peer}" + (f" of {goal.of}" if goal.of else "")


def goals(runs: list[Run]) -> str:
    """Returns each goal: our number and the best peer's in the first run, and the compared number of each run."""
    lines = []
    first = runs[0]
    for row in ROWS:
        for goal in row.goals:
            values = [measured(run, row, goal) for run in runs]
            if values[0] is None:
                # A quick run lacks some rows, and a peer may refuse one.
                continue
            peer = best(first, row.name, is_checked if goal.peer == BEST_CHECKED else is_peer)
            lines.append(
                [
                    row.name if goal.ours == "dlbridge" else f"{row.name}, {goal.ours}",
                    number(value(first, row.name, goal.ours)),
                    f"{peer[0]}: {number(peer[1])}" if peer else "",
                    number((best(first, row.name, is_floor) or (None, None))[1]),
                    " / ".join(map(number, values)),
                    f"<= {wanted(row, goal)}",
                    "yes" if is_met(goal, values) else "**no**",
                ]
            )
    return table(["row", "dlbridge", "best peer", "floor", "measured", "goal", "met"], lines)


def libraries(runs: list[Run]) -> str:
    """Returns the number of every row with every library, and its multiple of dlbridge's best in the first run."""
    lines = []
    for row in ROWS:
        ours = best(runs[0], row.name, lambda library: library.startswith("dlbridge"))
        for library, found in runs[0].get(row.name, {}).items():
            if isinstance(found, str):
                lines.append([row.name, library, found, ""])
                continue
            each = " / ".join(number(value(run, row.name, library)) for run in runs)
            lines.append([row.name, library, f"{each} {row.unit}", number(found / ours[1]) if ours and ours[1] > 0 else ""])
    return table(["row", "library", "number", "x dlbridge"], lines)


def copy_ratio(row: dict[str, Any]) -> float:
    """Returns dlbridge's speed as a multiple of the faster of NumPy and PyTorch."""
    return float(row["dlbridge"]) / max(row[other] or 0 for other in ("numpy", "torch"))


def copies(runs: list[Run]) -> str:
    """Returns the results of `copies.py`: gigabytes per second in the first run, and the ratio in each."""
    names = ("dlbridge", "numpy", "torch", "memcpy")
    lines = []
    for each in zip(*(run["copies"] for run in runs), strict=True):
        speeds = (number(each[0][name]) for name in names)
        lines.append([each[0]["case"], str(each[0]["bytes"]), *speeds, " / ".join(number(copy_ratio(row)) for row in each)])
    return table(["copy", "bytes", *(f"{name}, GB/s" for name in names), "x the faster of NumPy and PyTorch"], lines)


def tables(runs: list[Run]) -> str:
    return "\n\n".join(["# Goals", goals(runs), "# Every library", libraries(runs), "# Copies", copies(runs)]) + "\n"
