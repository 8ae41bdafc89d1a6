"""Repeats every finding of docs/findings.md, and every draft in conformance/reports/upstream, on the newest releases.

    python conformance/reports/reproduce.py --environments FOLDER --python 3.13 --write

Makes an environment for each library in FOLDER with uv, and runs each reproduction in a process of its own. Prints a
line for each: `reproduced`, `fixed`, `changed` or `not tried`. `changed` means that the output is neither that of the
page, nor the stored one of a finding with a mark as fixed: store it with `--write`, read it, change the mark in the page
to `fixed in LIBRARY VERSION`, and run again. `not tried` means that the library could not be installed or did not run.
`--write` stores the outputs and the states of drafts in last-checked.json, with the date if every library ran, and
the marks in the page. Without `--environments`, the libraries of the running Python are tried. The exit status is 1 if
something is `changed` or `not tried`.
"""

from __future__ import annotations

import argparse
import json
import platform
import re
import signal
import subprocess
import sys
from datetime import UTC, datetime
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
#: The beginning of the state of a finding whose library could not be installed, or did not run.
NOT_TRIED = "not tried: "
#: Failures of one library. The others are still tried.
FAILURES = (subprocess.SubprocessError, RuntimeError, OSError, ValueError)


def alike(printed: str, expected: str) -> bool:
    """Returns whether an output is the expected one. A process that dies may print more before its last line."""
    if CRASH not in expected:
        return printed == expected
    lines = iter(printed.splitlines())
    return all(line in lines for line in expected.splitlines()) and next(lines, None) is None


def run_library(interpreter: Path, library: str, codes: list[str]) -> dict[str, Any]:
    """Returns the version of a library, that of Python, and the output of each code.

    Raises RuntimeError if the library cannot be imported or the answer lacks a part, and TimeoutExpired if the process
    does not end.
    """
    done = subprocess.run(
        [str(interpreter), str(PROGRAM), library],
        input=json.dumps(codes), capture_output=True, text=True, timeout=LIMIT,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError((done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1])
    answer: dict[str, Any] = json.loads(done.stdout)
    if not {"version", "python", "outcomes"} <= set(answer) or len(answer["outcomes"]) != len(codes):
        raise RuntimeError(f"the answer is not of {len(codes)} reproductions: {done.stdout.strip()}")
    return answer


def reason(failure: Exception) -> str:
    """Returns why a library was not tried, in one line."""
    if isinstance(failure, subprocess.TimeoutExpired):
        return f"it did not end within {failure.timeout:g} seconds"
    if isinstance(failure, subprocess.CalledProcessError):
        command = [failure.cmd] if isinstance(failure.cmd, str) else [str(part) for part in failure.cmd]
        return f"{' '.join(command)[:200]} ended with {failure.returncode}"
    return " ".join(f"{type(failure).__name__}: {failure}".split())[:300]


def state_of(finding: dict[str, str], output: str, before: dict[str, Any] | None) -> str:
    """Returns what an output says about a finding. `before` is the entry of the last run.

    A mark as fixed counts only for the output that was stored when it was made.
    """
    if alike(output, finding["printed"]):
        return "reproduced"
    fixed = re.search(r"fixed in .+$", finding["checked"])
    if fixed and before is not None and before["output"] is not None and before["output"] == output:
        return fixed[0]
    return "changed"


def check_findings(only: list[str], environments: Environments | None) -> list[dict[str, Any]]:
    """Runs the findings of some libraries, or of all, and prints a line for each."""
    all_findings = findings(PAGE.read_text(encoding="utf-8"))
    before = {(entry["library"], entry["title"]): entry for entry in stored().get("findings", [])}
    entries = []
    for library in dict.fromkeys(finding["library"] for finding in all_findings):
        mine = [finding for finding in all_findings if finding["library"] == library]
        if only and library not in only:
            entries += [before[library, f["title"]] for f in mine if (library, f["title"]) in before]
            continue
        answer: dict[str, Any]
        if library in NOT_INSTALLABLE:
            answer = {"version": mine[0]["version"], "python": "", "outcomes": [None] * len(mine)}
        else:
            try:
                interpreter = environments.interpreter(library) if environments else Path(sys.executable)
                answer = run_library(interpreter, library, [finding["code"] for finding in mine])
            except FAILURES as failure:
                entries += [not_tried(finding, failure, before.get((library, finding["title"]))) for finding in mine]
                print(f"{library}: {entries[-1]['state']}", flush=True)
                continue
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


def not_tried(finding: dict[str, str], failure: Exception, before: dict[str, Any] | None) -> dict[str, Any]:
    """Returns the entry of a finding that was not tried. It keeps the version and the output of the last run.

    The next run needs that output as the evidence of a mark as fixed.
    """
    last = before or {"version": "", "python": "", "output": None}
    kept = {name: last[name] for name in ("version", "python", "output")}
    return {"library": finding["library"], "title": finding["title"], **kept, "state": NOT_TRIED + reason(failure)}


def check_drafts(only: list[str], environments: Environments | None) -> dict[str, str]:
    """Runs the drafts of some libraries, or of all. Returns the state of each that it ran, by its file."""
    libraries = {row["file"]: row["library"] for row in index_rows()}
    states = {}
    for draft in reports():
        library = libraries[draft.path.name]
        if only and library not in only:
            continue
        output = ""
        try:
            interpreter = environments.interpreter(library) if environments else Path(sys.executable)
            output = run_script(interpreter, draft.script)
            state = "reproduced" if alike(output, draft.output) else "changed"
        except FAILURES as failure:
            state = NOT_TRIED + reason(failure)
        states[draft.path.name] = state
        print(f"upstream/{draft.path.name}: {state}", flush=True)
        if state == "changed":
            print(output)
    return states


def run_script(interpreter: Path, script: str) -> str:
    """Returns what a script prints on stdout. A line names the signal that ended it.

    Raises RuntimeError with the last line of stderr if an error ended it before it printed anything.
    """
    done = subprocess.run([str(interpreter), "-c", script], capture_output=True, text=True, timeout=DRAFT_LIMIT)
    lines = done.stdout.splitlines()
    if done.returncode > 0 and not lines:
        raise RuntimeError((done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1])
    if done.returncode < 0:
        lines.append(f"{CRASH}{signal.Signals(-done.returncode).name}")
    return "\n".join(lines)


def mark(entry: dict[str, Any]) -> str:
    """Returns the text of `Last checked` in the page."""
    python = f" on CPython {entry['python']}" if entry["python"] else ""
    return f"{entry['version']}{python}, {entry['state']}"


def write(entries: list[dict[str, Any]]) -> None:
    """Stores entries, and marks their findings in the page. A finding that was not tried keeps its mark."""
    store(system=f"{platform.system()} {platform.machine()}", findings=entries)
    tried = [entry for entry in entries if not entry["state"].startswith(NOT_TRIED)]
    marks = {(entry["library"], entry["title"]): mark(entry) for entry in tried}
    PAGE.write_text(marked(PAGE.read_text(encoding="utf-8"), marks), encoding="utf-8")


def write_date(date: str) -> None:
    """Stores the date of a run of all findings, and writes it into the page."""
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(re.sub(r"(a later run, of )\d{4}-\d\d-\d\d,", rf"\g<1>{date},", text), encoding="utf-8")
    store(date=date)


def stored() -> dict[str, Any]:
    """Returns what earlier runs stored."""
    results: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    return results


def store(**changed: Any) -> None:
    """Stores results, and keeps those of other kinds."""
    RESULTS.write_text(json.dumps(stored() | changed, indent=1) + "\n")


def main() -> int:
    """Runs what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("libraries", nargs="*", help="only the findings and drafts of these libraries")
    parser.add_argument("--environments", type=Path, help="a folder for an environment with the newest release of each")
    parser.add_argument("--python", default="3.13", help="the Python of new environments (default: %(default)s)")
    parser.add_argument("--uv", default="uv", help="the command uv (default: %(default)s)")
    parser.add_argument("--write", action="store_true", help="store the results, and mark the findings in the page")
    arguments = parser.parse_args()
    known = {finding["library"] for finding in findings(PAGE.read_text(encoding="utf-8"))}
    if unknown := sorted(set(arguments.libraries) - known):
        parser.error(f"no finding is about {', '.join(unknown)}; known: {', '.join(sorted(known))}")
    environments = None
    if arguments.environments:
        environments = Environments(arguments.environments, arguments.python, arguments.uv)
    entries = check_findings(arguments.libraries, environments)
    ran = [entry for entry in entries if not arguments.libraries or entry["library"] in arguments.libraries]
    if arguments.write:
        # Before the drafts, so that nothing there can lose these results.
        write(entries)
        if not arguments.libraries and not any(entry["state"].startswith(NOT_TRIED) for entry in entries):
            write_date(f"{datetime.now(UTC):%Y-%m-%d}")
    states = check_drafts(arguments.libraries, environments)
    if arguments.write:
        drafts = (stored().get("drafts") or {}) | states
        store(drafts={row["file"]: drafts[row["file"]] for row in index_rows() if row["file"] in drafts})
    states_of_all = [*states.values(), *(entry["state"] for entry in ran)]
    return int(any(state.startswith(("changed", NOT_TRIED)) for state in states_of_all))


if __name__ == "__main__":
    sys.exit(main())
