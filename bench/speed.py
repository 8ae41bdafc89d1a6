"""Times all rows, and prints them beside their goals. The results and the tables are written to `target/bench`."""

from __future__ import annotations

import json
import os
import platform
import shutil
import signal
import subprocess
import sys
from importlib.metadata import distributions
from pathlib import Path
from statistics import median
from typing import Any

import report
from build import BENCH, BUILT, ENVIRONMENT
from instructions import rust_rows
from report import Run
from rows import GROUPS, ROWS

ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")

PROCESSES = 5
"""The processes that measure a group. The times of one call differ more between processes than between rounds of one."""


def command(*words: str, threads: bool = False) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **ENVIRONMENT, "PYTHONHASHSEED": "0", **({} if threads else ONE_THREAD)}
    return subprocess.run(words, env=environment, capture_output=True, text=True)


def printed(text: str) -> Any:
    """Returns the JSON in a script's output; some libraries print lines of their own."""
    return json.loads(next(line for line in text.splitlines() if line.startswith("{")))


def answer(*words: str) -> Any:
    """Runs a program, and returns the JSON that it prints."""
    done = command(*words)
    if done.returncode:
        raise SystemExit(f"{' '.join(words)}: {done.returncode}\n{done.stderr}")
    return printed(done.stdout)


def script(name: str, *words: str) -> Any:
    return answer(sys.executable, str(BENCH / name), *words)


def group(name: str, quick: bool) -> Run:
    """Measures a group's rows in several processes. The result of a row is the median of theirs."""
    without: list[str] = []
    found = [in_process(name, quick, without) for _ in range(1 if quick else PROCESSES)]
    return {
        row: {library: typical([each[row][library] for each in found]) for library in libraries}
        for row, libraries in found[-1].items()
    }


def typical(results: list[float | str]) -> float | str:
    """Returns the median, or the reason why a number is missing in the last process."""
    numbers = [result for result in results if not isinstance(result, str)]
    return results[-1] if len(numbers) < len(results) else round(median(numbers), 2)


def in_process(name: str, quick: bool, without: list[str]) -> Any:
    """Measures a group's rows. A row that ends the process is a crash; the others run again without it."""
    while True:
        excluded = [word for row in without for word in ("--without", row)]
        done = command(sys.executable, str(BENCH / "measure.py"), name, *(["--quick"] if quick else []), *excluded)
        if done.returncode == 0:
            return printed(done.stdout)
        begun = [line.removeprefix("begin: ") for line in done.stderr.splitlines() if line.startswith("begin: ")]
        if done.returncode > 0 or not begun or begun[-1] in without:
            raise SystemExit(f"{name}: {done.returncode}\n{done.stderr}")
        print(f"{begun[-1]}: {signal.Signals(-done.returncode).name}")
        without.append(begun[-1])


def of_rust(program: str, counted: dict[str, int], quick: bool) -> Run:
    """Returns the rows of the program `rust`, minus the source that they begin with."""
    costs = answer(program, "measure", *(["--quick"] if quick else []))
    found: Run = {}
    for row in ROWS:
        if row.group != "rust" or (row.unit == "instructions" and not counted):
            continue

        def cost(call: str, unit: str = row.unit) -> float:
            return counted[call] if unit == "instructions" else costs[call][unit]

        calls = {library: call.statement for library, call in row.calls.items()}
        source = cost(calls.pop("source"))
        found[row.name] = {library: cost(call) - source for library, call in calls.items()}
    return found


def run(program: str, counted: dict[str, int], quick: bool) -> Run:
    """Measures everything once."""
    flags = ["--quick"] if quick else []
    found = of_rust(program, counted, quick)
    for name in GROUPS:
        print(f"measuring {name}", flush=True)
        found |= group(name, quick)
    for name in ("state", "threads", "processes"):
        print(f"measuring {name}", flush=True)
        found |= script("scale.py", name, *flags)
    found |= script("startup.py", *flags)
    print("measuring copies", flush=True)
    done = command(sys.executable, str(BENCH / "copies.py"), "--json", *flags, threads=True)
    if done.returncode:
        raise SystemExit(f"copies.py: {done.returncode}\n{done.stderr}")
    found["copies"] = printed(done.stdout)["rows"]
    behind = sum(report.copy_ratio(row) < report.BEHIND for row in found["copies"])
    return found | {"copies behind NumPy or PyTorch": {"dlbridge": behind}}


def machine() -> dict[str, str]:
    """Returns the versions of everything, without names of the machine or of folders."""
    processor = next((line.split(":")[1].strip() for line in Path("/proc/cpuinfo").open() if line.startswith("model name")), "unknown")
    rust = subprocess.run(["rustc", "--version"], capture_output=True, text=True).stdout.strip()
    installed = {one.metadata["Name"]: one.version for one in distributions()}
    return {"processor": processor, "processors": str(os.cpu_count()), "system": platform.platform(), "Rust": rust, **installed}


def measure(program: str, runs: int, quick: bool) -> None:
    """Measures everything, and writes the results after each run, so that an interruption keeps the runs before it."""
    counted = rust_rows(program, BUILT / "callgrind") if shutil.which("valgrind") else {}
    results: dict[str, Any] = {"machine": machine(), "runs": []}
    for _ in range(runs):
        results["runs"].append(run(program, counted, quick))
        (BUILT / "speed.json").write_text(json.dumps(results, indent=1) + "\n")
    text = report.tables(results["runs"])
    (BUILT / "speed.md").write_text(text)
    print(text)
