"""Runs the comparison, and prints its tables. They and each cell's result or exception are written to `target/bench`.

Each cell is a process of its own (`cell.py`), so that a crash is an outcome like any other.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor

from build import BUILT, ENVIRONMENT
from report import table

from compare.cell import RESULTS
from compare.inputs import EITHER, INPUTS, REFUSED, VALUE
from compare.sources import LIBRARIES, Library, counted

SECONDS = 120
"""The time limit of a cell."""

Outcome = dict[str, str]
Outcomes = dict[str, dict[str, Outcome]]
"""Outcomes by row, then by library."""


def run(library: Library, row: str) -> Outcome:
    """Runs one cell."""
    command = [sys.executable, "-m", "compare.cell", library.module, row]
    environment = {**os.environ, **ENVIRONMENT}
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return {"outcome": "hang", "evidence": ""}
    if done.returncode < 0:
        return {"outcome": f"crash ({signal.Signals(-done.returncode).name})", "evidence": ""}
    if done.returncode > 0:
        raise SystemExit(f"{library.name}, {row}:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def run_all(only: str) -> Outcomes:
    """Runs the rows that contain a text."""
    rows = [f"{given.function}: {given.label}" for given in INPUTS]
    rows += [*(f"result: {label}" for label in RESULTS), "words"]
    rows = [row for row in rows if only in row]
    cells = [(library, row) for row in rows for library in LIBRARIES]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        outcomes = list(pool.map(lambda cell: run(*cell), cells))
    found: Outcomes = {}
    for (library, row), outcome in zip(cells, outcomes, strict=True):
        found.setdefault(row, {})[library.name] = outcome
    return found


RIGHT = {VALUE: "yes", REFUSED: "refused", EITHER: "yes or refused"}


def wrong(outcome: str) -> bool:
    """Returns True for an outcome that is an error. A refusal of an argument that could be accepted is not one."""
    return outcome not in ("yes", "refused", "panic")


def accepted(outcomes: Outcomes, function: str, labels: list[tuple[str, str]]) -> str:
    """Returns the table of one function, with the number of right rows per library."""
    rows = []
    count = dict.fromkeys((library.name for library in LIBRARIES), 0)
    for label, right in labels:
        cells = []
        for library in LIBRARIES:
            outcome = outcomes[f"{function}: {label}"][library.name]["outcome"]
            cells.append(f"**{outcome}**" if wrong(outcome) else outcome)
            count[library.name] += outcome in RIGHT[right].split(" or ")
        rows.append([label, RIGHT[right], *cells])
    rows.append([f"right rows, of {len(labels)}", "", *map(str, count.values())])
    return table(["", "right", *(library.name for library in LIBRARIES)], rows)


def said(outcomes: Outcomes) -> str:
    """Returns each library's message for a wrong argument."""
    text = []
    for name, outcome in outcomes.get("words", {}).items():
        lines = [textwrap.fill(line, 120, subsequent_indent="    ") for line in outcome["evidence"].splitlines()]
        text.append("\n".join([name, "", "```text", *lines, "```"]))
    return "\n\n".join(text)


def cells(outcomes: Outcomes) -> str:
    """Returns the outcome of each cell, one line each."""
    shown = {
        row: {name: f"{o['outcome']}: {o['evidence']}".removesuffix(": ") for name, o in found.items()}
        for row, found in outcomes.items()
    }
    return json.dumps(shown, indent=1) + "\n"


def tables(outcomes: Outcomes) -> str:
    rows = {f: [(given.label, given.right) for given in INPUTS if given.function == f] for f in ("mean", "invert", "twice")}
    parts = [(f, f"Arguments of `{f}`", labels) for f, labels in rows.items()]
    parts.append(("result", "Consumers of the result of `twice`", [(label, VALUE) for label in RESULTS]))
    text = ["### Lines and `unsafe`", counted()]
    for function, title, labels in parts:
        known = [(label, right) for label, right in labels if f"{function}: {label}" in outcomes]
        text += [f"### {title}", accepted(outcomes, function, known)] if known else []
    return "\n\n".join([*text, "### Error messages for a float64 array of shape (2, 3, 4)", said(outcomes)])


def main(only: str) -> None:
    outcomes = run_all(only)
    shown = tables(outcomes)
    (BUILT / "compare.json").write_text(cells(outcomes))
    (BUILT / "compare.md").write_text(shown + "\n")
    print(shown)
