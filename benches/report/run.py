"""Runs everything that `cargo xtask bench` has built, twice or once with `--quick`, and writes the results and the page.

    run.py --rust FILE --scratch FOLDER --results FILE --page FILE --plot FILE [--quick]
    run.py --results FILE --page FILE --plot FILE --render

`--render` writes the page from existing results.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import Any

import counted
import machine
import page
import plot

PYTHON = Path(__file__).parents[1] / "python"
sys.path.append(str(PYTHON))

from rows import GROUPS

# Keeps the frameworks from using an accelerator or starting threads.
ENVIRONMENT = {
    "JAX_PLATFORMS": "cpu",
    "CUDA_VISIBLE_DEVICES": "",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "PYTHONHASHSEED": "0",
}

FILES = {
    "rust": ("dlbridge", "dlpark", "safetensors"),
    "python": ("dlbridge", "safetensors: `safe_open`", "safetensors: `load_file`"),
}
READS_ALL = "`load_file`"


def printed(text: str) -> Any:
    """Returns the JSON in a script's output; some libraries print lines of their own."""
    return json.loads(next(line for line in text.splitlines() if line.startswith("{")))


def answer(*command: str) -> Any:
    """Runs a command, and returns the JSON that it prints."""
    done = subprocess.run(command, env={**os.environ, **ENVIRONMENT}, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}: {done.returncode}\n{done.stderr}")
    return printed(done.stdout)


PROCESSES = 5
"""The processes that measure a group. The times of one call differ more between processes than between rounds of one."""


def group(name: str, quick: bool) -> Any:
    """Measures a group's rows in several processes. The result of a row is the median of theirs."""
    without: list[str] = []
    found = [in_process(name, quick, without) for _ in range(1 if quick else PROCESSES)]
    return {
        work: {library: typical([each[work][library] for each in found]) for library in libraries}
        for work, libraries in found[-1].items()
    }


def typical(results: list[float | str]) -> float | str:
    """Returns the median, or the reason why a number is missing in the last process."""
    numbers = [result for result in results if not isinstance(result, str)]
    return results[-1] if len(numbers) < len(results) else round(median(numbers), 2)


def in_process(name: str, quick: bool, without: list[str]) -> Any:
    """Measures a group's rows. A row that ends the process is a crash; the others run again without it."""
    while True:
        excluded = [word for row in without for word in ("--without", row)]
        command = [sys.executable, str(PYTHON / "measure.py"), name, *(["--quick"] if quick else []), *excluded]
        done = subprocess.run(command, env={**os.environ, **ENVIRONMENT}, capture_output=True, text=True)
        if done.returncode == 0:
            return printed(done.stdout)
        begun = [line.removeprefix("begin: ") for line in done.stderr.splitlines() if line.startswith("begin: ")]
        if done.returncode > 0 or not begun or begun[-1] in without:
            raise SystemExit(f"{name}: {done.returncode}\n{done.stderr}")
        print(f"{begun[-1]}: {signal.Signals(-done.returncode).name}")
        without.append(begun[-1])


def large_file(folder: Path, size: int, count: int) -> Path:
    """Makes a sparse safetensors file: it takes no disk space for the elements, which read as zeros."""
    rows = size // count // 4 // 1024
    each = rows * 1024 * 4
    header = {
        f"layer.{n:04}.weight": {"dtype": "F32", "shape": [rows, 1024], "data_offsets": [n * each, (n + 1) * each]}
        for n in range(count)
    }
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 64 + 56)
    path = folder / "large.safetensors"
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little"))
        file.write(text)
        file.truncate(8 + len(text) + count * each)
    return path


def files(rust: str, scratch: Path, quick: bool) -> dict[str, Any]:
    size, count = (500_000_000, 100) if quick else (5_000_000_000, 1000)
    path = large_file(scratch, size, count)
    scale = str(PYTHON / "scale.py")
    commands: dict[str, tuple[str, ...]] = {
        f"Rust: {name}": (rust, "safetensors", name, str(path)) for name in FILES["rust"]
    }
    for name in FILES["python"]:
        commands[f"Python: {name}"] = (sys.executable, scale, "safetensors", name, "--file", str(path))
    found = {}
    try:
        for name, command in commands.items():
            # A process opens the file once. A library that reads the whole file is too slow to repeat.
            times = [answer(*command) for _ in range(1 if READS_ALL in name else 9)]
            found[name] = sorted(times, key=lambda answered: answered["ms"])[len(times) // 2]
    finally:
        path.unlink()
    return {"bytes": size, "tensors": count, "libraries": found}


def run(rust: str, scratch: Path, quick: bool) -> dict[str, Any]:
    """Measures everything once."""
    flags = ["--quick"] if quick else []
    scale = str(PYTHON / "scale.py")
    done: dict[str, Any] = {"rust": answer(rust, "measure", *flags), "python": {}}
    for name in GROUPS:
        done["python"].update(group(name, quick))
    parts = ("bytes", "tensors", "many", "threads", "processes")
    done["scale"] = {what: answer(sys.executable, scale, what, *flags) for what in parts}
    done["scale"]["rust threads"] = answer(rust, "threads", *flags)
    done["startup"] = answer(sys.executable, str(PYTHON / "startup.py"), *flags)
    done["scale"]["safetensors"] = files(rust, scratch, quick)
    done["copies"] = copies(quick)
    return done


def copies(quick: bool) -> list[dict[str, Any]]:
    source = f"import sys; sys.path.insert(0, {str(PYTHON)!r})\n"
    source += f"import json, copies; print(json.dumps({{'rows': copies.rows({quick})}}))"
    found: list[dict[str, Any]] = answer(sys.executable, "-c", source)["rows"]
    return found


def measure(rust: str, scratch: Path, file: Path, quick: bool) -> None:
    """Measures everything, and writes the results after each run, so that an interruption keeps the runs before it."""
    counts = counted.rust_rows(rust, scratch)
    results: dict[str, Any] = {"machine": machine.described(), "instructions": counts, "runs": []}
    for _ in range(1 if quick else 2):
        results["runs"].append(run(rust, scratch, quick))
        write(file, results)


def write(file: Path, results: dict[str, Any]) -> None:
    """Writes the results to a new file, and replaces the old one with it, so that no reader finds half a file."""
    new = file.with_name(file.name + ".new")
    new.write_text(json.dumps(results, indent=1) + "\n")
    new.replace(file)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("results", "page", "plot"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--rust")
    parser.add_argument("--scratch", type=Path)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--render", action="store_true")
    options = parser.parse_args()
    if not options.render:
        measure(options.rust, options.scratch, options.results, options.quick)
    results = json.loads(options.results.read_text())
    options.page.write_text(page.rendered(options.page.read_text(), results))
    options.plot.write_text(plot.svg(results["runs"][0]))
    print(page.targets(page.complete(results)))


if __name__ == "__main__":
    main()
