"""Repeats every finding of docs/findings.md, and every draft in conformance/reports/upstream, on the newest releases.

    python conformance/reports/reproduce.py --environments FOLDER --python 3.13 --write

Makes an environment for each library in FOLDER with uv, and runs each reproduction in a process of its own. Prints a
line for each: `reproduced`, `fixed` or `changed`. `changed` means that the output is neither that of the page nor that
of an earlier run with a mark as fixed: read the output, change the mark in the page to `fixed in LIBRARY VERSION`, and
run again. `--write` stores the outputs in last-checked.json and the marks in the page. Without `--environments`, the
libraries of the running Python are tried. The exit status is 1 if something is `changed`.
"""

from __future__ import annotations

import argparse
import json
import platform
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from environments import NOT_INSTALLABLE, Environments
from findings_page import PAGE, findings, marked
from issue_reports import index_rows, reports

RESULTS = Path(__file__).with_name("last-checked.json")
PROGRAM = Path(__file__).with_name("run_findings.py")
#: Seconds for all findings of a library, and for one draft.
LIMIT, DRAFT_LIMIT = 900, 180
CRASH = "the process dies of "


def alike(printed: str, expected: str) -> bool:
    """Returns whether an output is the expected one. A process that dies may print more before its last line."""
    if CRASH not in expected:
        return printed == expected
    lines = iter(printed.splitlines())
    return all(line in lines for line in expected.splitlines()) and next(lines, None) is None


def run_library(interpreter: Path, library: str, codes: list[str]) -> dict[str, Any]:
    """Returns the version of a library, that of Python, and the output of each code."""
    done = subprocess.run(
        [str(interpreter), str(PROGRAM), library],
        input=json.dumps(codes), capture_output=True, text=True, timeout=LIMIT,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"{library} did not run: {done.stderr[-2000:]}")
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def state_of(finding: dict[str, str], output: str, before: dict[str, Any] | None) -> str:
    """Returns what an output says about a finding. `before` is the entry of the last run."""
    if alike(output, finding["printed"]):
        return "reproduced"
    fixed = re.search(r"fixed in .+$", finding["checked"])
    if fixed and (before is None or before["output"] in (output, None)):
        return fixed[0]
    return "changed"


def check_findings(only: list[str], environments: Environments | None) -> list[dict[str, Any]]:
    """Runs the findings of some libraries, or of all, and prints a line for each."""
    all_findings = findings(PAGE.read_text(encoding="utf-8"))
    stored = json.loads(RESULTS.read_text())["findings"] if RESULTS.exists() else []
    before = {(entry["library"], entry["title"]): entry for entry in stored}
    entries = []
    for library in dict.fromkeys(finding["library"] for finding in all_findings):
        mine = [finding for finding in all_findings if finding["library"] == library]
        if only and library not in only:
            entries += [before[library, f["title"]] for f in mine if (library, f["title"]) in before]
            continue
        if library in NOT_INSTALLABLE:
            answer = {"version": mine[0]["version"], "python": "", "outcomes": [None] * len(mine)}
        else:
            interpreter = environments.interpreter(library) if environments else Path(sys.executable)
            answer = run_library(interpreter, library, [finding["code"] for finding in mine])
        for finding, output in zip(mine, answer["outcomes"], strict=True):
            key = (library, finding["title"])
            state = NOT_INSTALLABLE.get(library) or state_of(finding, output, before.get(key))
            if state == "reproduced":
                # Without the trace of a signal handler, which has the time and the id of the process.
                output = "\n".join(line for line in output.splitlines() if line in finding["printed"].splitlines())
            entries.append({
                "library": library, "title": finding["title"], "version": answer["version"],
                "python": answer["python"], "state": state, "output": output,
            })  # fmt: skip
            print(f"{library} {answer['version']}, {finding['number']}. {finding['title']}: {state}", flush=True)
            if state == "changed":
                print(output)
    return entries


def check_drafts(only: list[str], environments: Environments | None) -> bool:
    """Runs the scripts of the drafts, and returns whether all print the output that the draft shows."""
    libraries = {row["file"]: row["library"] for row in index_rows()}
    same = True
    for draft in reports():
        library = libraries[draft.path.name]
        if only and library not in only:
            continue
        interpreter = environments.interpreter(library) if environments else Path(sys.executable)
        output = run_script(interpreter, draft.script)
        holds = alike(output, draft.output)
        print(f"upstream/{draft.path.name}: {'reproduced' if holds else 'changed'}", flush=True)
        if not holds:
            print(output)
        same &= holds
    return same


def run_script(interpreter: Path, script: str) -> str:
    """Returns what a script prints on stdout. A line names the signal that ended it."""
    done = subprocess.run([str(interpreter), "-c", script], capture_output=True, text=True, timeout=DRAFT_LIMIT)
    lines = done.stdout.splitlines()
    if done.returncode < 0:
        lines.append(f"{CRASH}{signal.Signals(-done.returncode).name}")
    return "\n".join(lines)


def mark(entry: dict[str, Any]) -> str:
    """Returns the text of `Last checked` in the page."""
    python = f" on CPython {entry['python']}" if entry["python"] else ""
    return f"{entry['version']}{python}, {entry['state']}"


def main() -> int:
    """Runs what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("libraries", nargs="*", help="only the findings and drafts of these libraries")
    parser.add_argument("--environments", type=Path, help="a folder for an environment with the newest release of each")
    parser.add_argument("--python", default="3.13", help="the Python of new environments (default: %(default)s)")
    parser.add_argument("--uv", default="uv", help="the command uv (default: %(default)s)")
    parser.add_argument("--write", action="store_true", help="store the results, and mark the findings in the page")
    arguments = parser.parse_args()
    environments = None
    if arguments.environments:
        environments = Environments(arguments.environments, arguments.python, arguments.uv)
    entries = check_findings(arguments.libraries, environments)
    same = check_drafts(arguments.libraries, environments)
    if arguments.write:
        system = f"{platform.system()} {platform.machine()}"
        RESULTS.write_text(json.dumps({"system": system, "findings": entries}, indent=1) + "\n")
        marks = {(entry["library"], entry["title"]): mark(entry) for entry in entries}
        PAGE.write_text(marked(PAGE.read_text(encoding="utf-8"), marks), encoding="utf-8")
    return int(not same or any(entry["state"] == "changed" for entry in entries))


if __name__ == "__main__":
    sys.exit(main())
