"""Checks dlbridge on an NVIDIA GPU: python gpu --wheel dlbridge-….whl

The checks need only this folder, the wheel, and Python. They check the libraries that are installed, and skip the others
by name. Each library runs in its own process, so a crash ends only the checks of that library.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import zipfile
from pathlib import Path

import children
from check import LIBRARIES
from report import Report, nothing_ran

TIMINGS = "timings"


def arguments() -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(prog="python gpu", description=__doc__.split("\n\n")[0])
    parser.add_argument("--wheel", type=Path, required=True, help="dlbridge's wheel, which the suite does not install")
    parser.add_argument("--json", type=Path, help="a file for the results")
    parser.add_argument("--only", help=f"names, separated by commas: {', '.join((*LIBRARIES, TIMINGS))}")
    parser.add_argument("--quick", action="store_true", help="fewer repeats, and copies of up to 16 MiB")
    parser.add_argument("--stand-in", type=Path, help="a library in place of the driver; it is not a GPU")
    options = parser.parse_args()
    wanted = options.only.split(",") if options.only else [*LIBRARIES, TIMINGS]
    unknown = [name for name in wanted if name not in (*LIBRARIES, TIMINGS)]
    if unknown:
        parser.error(f"unknown names in --only: {', '.join(unknown)}")
    for path in (options.wheel, options.stand_in):
        if path is not None and not path.is_file():
            parser.error(f"{path} is not a file")
    options.only = wanted
    return options


def write(path: Path | None, content: object) -> None:
    """Writes the results, if the command line names a file."""
    if path is not None:
        path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def main() -> int:
    """Runs the requested checks, and returns the exit code."""
    options = arguments()
    with tempfile.TemporaryDirectory(prefix="dlbridge-gpu-") as folder:
        packages = Path(folder, "packages")
        with zipfile.ZipFile(options.wheel) as wheel:
            wheel.extractall(packages)
        runner = children.Runner(Path(folder), packages, options.stand_in, options.quick)
        machine = runner.machine()
        if isinstance(machine, str):
            sentence, content = nothing_ran(machine)
            print(sentence)
            write(options.json, content)
            return 0
        report = Report(options.stand_in is None, {**machine, "wheel": options.wheel.name})
        for name in LIBRARIES:
            if name in options.only:
                runner.check(name, report)
        if report.hardware and TIMINGS in options.only:
            runner.measure(report)
    print(report.text())
    write(options.json, report.as_json())
    return report.exit_code


if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1] == children.MARK:
        import child

        child.main(json.loads(sys.argv[2]))
        sys.stdout.flush()
        # A library may crash at exit, after all checks: that says nothing about them.
        os._exit(0)
    sys.exit(main())
