"""Runs the scripts of the drafts in conformance/reports/upstream, and compares what they print with the drafts.

    python conformance/reports/reproduce.py               # with the libraries of this Python
    python conformance/reports/reproduce.py --newest jax  # with the newest release of JAX, which uv installs

Prints `reproduced`, `changed` or `not tried` for each draft. The exit status is 1 if one of them changed.
"""

from __future__ import annotations

import argparse
import re
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).with_name("upstream")
#: The packages of a library whose package has another name.
REQUIREMENTS = {
    "dpnp": ["dpnp", "intel-opencl-rt"],
    "paddle": ["paddlepaddle"],
    "tensorflow": ["tensorflow-cpu"],
    "tvm-ffi": ["apache-tvm-ffi"],
}
DRAFT = re.compile(r"^## (.+?)$.*?^```python\n(.+?)^```$.*?^```text\n(.+?)^```$", re.DOTALL | re.MULTILINE)
CRASH = "the process dies of "
#: Seconds for a script.
LIMIT = 180


@dataclass(frozen=True)
class Draft:
    """A draft of an issue: its script, and what the script prints. A crash is the last line of the output."""

    library: str
    title: str
    script: str
    output: str


def drafts() -> list[Draft]:
    """Reads all drafts, by library."""
    files = sorted(set(FOLDER.glob("*.md")) - {FOLDER / "README.md"})
    return [
        Draft(file.stem, title, script, output.rstrip("\n"))
        for file in files
        for title, script, output in DRAFT.findall(file.read_text(encoding="utf-8"))
    ]


def alike(printed: str, expected: str) -> bool:
    """Returns whether an output is the expected one. A process that dies may print more before its last line."""
    if CRASH not in expected:
        return printed == expected
    lines = iter(printed.splitlines())
    return all(line in lines for line in expected.splitlines()) and next(lines, None) is None


def run_script(python: list[str], script: str) -> str:
    """Returns what a script prints on stdout. A last line names the signal that ended it.

    Raises RuntimeError with the last line of stderr if an error ended it before it printed anything.
    """
    done = subprocess.run([*python, "-c", script], capture_output=True, text=True, timeout=LIMIT)
    lines = done.stdout.splitlines()
    # uv reports a signal of its child as a shell does.
    number = -done.returncode if done.returncode < 0 else done.returncode - 128
    if number > 0:
        lines.append(f"{CRASH}{signal.Signals(number).name}")
    elif done.returncode and not lines:
        raise RuntimeError((done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1])
    return "\n".join(lines)


def state(python: list[str], draft: Draft) -> str:
    """Runs a draft. Returns its state, with the output if it changed."""
    try:
        output = run_script(python, draft.script)
    except (subprocess.SubprocessError, RuntimeError, OSError) as failure:
        return f"not tried: {failure}"
    return "reproduced" if alike(output, draft.output) else f"changed\n{output}"


def main() -> int:
    """Runs the drafts that the command line names."""
    known = sorted({draft.library for draft in drafts()})
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("libraries", nargs="*", help=f"only the drafts of these libraries: {', '.join(known)}")
    parser.add_argument("--newest", action="store_true", help="run with the newest releases, which uv installs")
    parser.add_argument("--python", default="3.13", help="the Python for --newest (default: %(default)s)")
    arguments = parser.parse_args()
    if unknown := sorted(set(arguments.libraries) - set(known)):
        parser.error(f"no draft is about {', '.join(unknown)}; known: {', '.join(known)}")
    changed = False
    for draft in drafts():
        if arguments.libraries and draft.library not in arguments.libraries:
            continue
        python = [sys.executable]
        if arguments.newest:
            needed = ["numpy", *REQUIREMENTS.get(draft.library, [draft.library])]
            needed = [part for name in needed for part in ("--with", name)]
            python = ["uv", "run", "--quiet", "--no-project", "--python", arguments.python, *needed, "python"]
        found = state(python, draft)
        changed |= found.startswith("changed")
        print(f"{draft.library}: {draft.title}: {found}", flush=True)
    return int(changed)


if __name__ == "__main__":
    sys.exit(main())
