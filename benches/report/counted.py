"""Instructions, counted by callgrind: the same number on every day, whatever else the machine does.

A program makes marks: it asks the system for its parent. Callgrind, told `--dump-before=getppid`, then writes what it
has counted and begins anew, so that one process measures many rows. Each row runs two times, for longer the second
time; the difference is free of what a loop needs to begin and to end.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

SHORT, LONG = 1000, 3000

Counts = dict[str, int]


def available() -> bool:
    return shutil.which("valgrind") is not None


def segments(command: Sequence[str], folder: Path) -> list[int]:
    """What is counted between the marks of a command."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    callgrind = ["valgrind", "--tool=callgrind", "--dump-before=getppid", f"--callgrind-out-file={folder}/counts"]
    # Strings that are hashed in another order are looked up in another number of steps.
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    done = subprocess.run([*callgrind, *command], env=environment, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} under callgrind: {done.returncode}\n{done.stderr}")
    files = sorted(folder.glob("counts.*"), key=lambda file: int(file.suffix[1:]))
    totals = [re.search(r"^totals: (\d+)", file.read_text(), re.MULTILINE) for file in files]
    # The first ends at the first mark, and belongs to nobody.
    return [int(total[1]) for total in totals if total][1:]


def per_call(counted: list[int]) -> list[int]:
    """Of each row, from its two lengths."""
    pairs = zip(counted[::2], counted[1::2], strict=False)
    return [round((long - short) / (LONG - SHORT)) for short, long in pairs]


def rust_rows(rust: str, scratch: Path) -> Counts:
    """Every row of `benches/rust`, source and all."""
    if not available():
        return {}
    listed = json.loads(subprocess.run([rust, "rows"], capture_output=True, text=True, check=True).stdout)
    times = [word for row in listed for length in (SHORT, LONG) for word in (row, str(length))]
    return dict(zip(listed, per_call(segments([rust, "repeat", *times], scratch / "callgrind")), strict=True))
