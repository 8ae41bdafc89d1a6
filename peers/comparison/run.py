"""Runs the comparison and writes its tables: `run.py [--page FILE] [--evidence FILE]`.

Each cell is a process of its own (`cell.py`), so that a crash is an outcome like any other. `--page` replaces what
stands between the markers of a Markdown page, `--evidence` writes each cell's answer or exception as JSON; the tables
are printed.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from cell import RESULTS
from inputs import EITHER, INPUTS, REFUSED, VALUE
from sources import LIBRARIES, Library, counted, listing, table

SECONDS = 120
"""How long a cell may take."""

Outcome = dict[str, str]
Outcomes = dict[str, dict[str, Outcome]]
"""By row, and in that by library."""

# No framework is to look for an accelerator, or to say that there is none.
ENVIRONMENT = {"JAX_PLATFORMS": "cpu", "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}


def run(library: Library, row: str) -> Outcome:
    """One cell."""
    command = [sys.executable, str(Path(__file__).with_name("cell.py")), library.module, row]
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


def run_all() -> Outcomes:
    rows = [f"{given.function}: {given.label}" for given in INPUTS]
    rows += [*(f"result: {label}" for label in RESULTS), "words"]
    cells = [(library, row) for row in rows for library in LIBRARIES]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        outcomes = list(pool.map(lambda cell: run(*cell), cells))
    found: Outcomes = {}
    for (library, row), outcome in zip(cells, outcomes, strict=True):
        found.setdefault(row, {})[library.name] = outcome
    return found


RIGHT = {VALUE: "yes", REFUSED: "refused", EITHER: "yes or refused"}


def wrong(outcome: str) -> bool:
    """Whether a function must not do that. A refusal of what could be taken is no error."""
    return outcome not in ("yes", "refused", "panic")


def accepted(outcomes: Outcomes, function: str, labels: list[tuple[str, str]]) -> str:
    """The table of one function, with how many of the rows each library has right."""
    rows = []
    count = dict.fromkeys((library.name for library in LIBRARIES), 0)
    for label, right in labels:
        cells = []
        for library in LIBRARIES:
            outcome = outcomes[f"{function}: {label}"][library.name]["outcome"]
            cells.append(f"**{outcome}**" if wrong(outcome) else outcome)
            count[library.name] += outcome in RIGHT[right].split(" or ")
        rows.append([label, RIGHT[right], *cells])
    rows.append([f"as it is right, of {len(labels)}", "", *map(str, count.values())])
    return table(["", "right", *(library.name for library in LIBRARIES)], rows)


def said(outcomes: Outcomes) -> str:
    """What each library says to a wrong argument."""
    text = []
    for name, outcome in outcomes["words"].items():
        lines = [textwrap.fill(line, 120, subsequent_indent="    ") for line in outcome["evidence"].splitlines()]
        text.append("\n".join([name, "", "```text", *lines, "```"]))
    return "\n\n".join(text)


def cells(outcomes: Outcomes) -> str:
    """What each cell came to, a line for each."""
    shown = {
        row: {name: f"{o['outcome']}: {o['evidence']}".removesuffix(": ") for name, o in found.items()}
        for row, found in outcomes.items()
    }
    return json.dumps(shown, indent=1) + "\n"


def tables(outcomes: Outcomes) -> str:
    text = ["### What was counted", counted()]
    for function in ("mean", "invert", "twice"):
        labels = [(given.label, given.right) for given in INPUTS if given.function == function]
        text += [f"### What `{function}` takes", accepted(outcomes, function, labels)]
    text += ["### What takes the result of `twice`", accepted(outcomes, "result", [(r, VALUE) for r in RESULTS])]
    text += ["### What they say to a float64 array of shape (2, 3, 4)", said(outcomes)]
    return "\n\n".join(text)


def replaced(page: str, name: str, text: str) -> str:
    """The page with a text between its markers."""
    begin, end = f"<!-- begin: {name} -->\n", f"<!-- end: {name} -->"
    if page.count(begin) != 1 or page.count(end) != 1:
        raise SystemExit(f"the page has not one `{begin.strip()}` and one `{end}`")
    return re.sub(f"{begin}.*{end}", lambda _: f"{begin}\n{text}\n\n{end}", page, flags=re.DOTALL)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--page", type=Path)
    parser.add_argument("--evidence", type=Path)
    options = parser.parse_args()
    outcomes = run_all()
    shown = tables(outcomes)
    print(shown)
    if options.evidence:
        options.evidence.write_text(cells(outcomes))
    if options.page:
        page = replaced(options.page.read_text(), "tables", shown)
        options.page.write_text(replaced(page, "sources", listing()))


if __name__ == "__main__":
    main()
