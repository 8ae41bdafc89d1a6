"""Instructions, counted by callgrind: the same number every day, under any load.

A program marks a point by a call of `getppid`. Callgrind with `--dump-before=getppid` then writes its counts and starts
again, so that one process measures many rows. Each row runs two times, the second time for longer; the difference
excludes the start and the end of the loop.
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
    """Returns the counts between the marks of a command."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    callgrind = ["valgrind", "--tool=callgrind", "--dump-before=getppid", f"--callgrind-out-file={folder}/counts"]
    # Random string hashes would change the number of steps of a lookup.
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    done = subprocess.run([*callgrind, *command], env=environment, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} under callgrind: {done.returncode}\n{done.stderr}")
    files = sorted(folder.glob("counts.*"), key=lambda file: int(file.suffix[1:]))
    totals = [re.search(r"^totals: (\d+)", file.read_text(), re.MULTILINE) for file in files]
    # The first count ends at the first mark, before any row.
    return [int(total[1]) for total in totals if total][1:]


def per_call(counted: list[int]) -> list[int]:
    """Returns the count per call of each row, from its two lengths."""
    pairs = zip(counted[::2], counted[1::2], strict=False)
    return [round((long - short) / (LONG - SHORT)) for short, long in pairs]


def rust_rows(rust: str, scratch: Path) -> Counts:
    """Returns every row of `benches/rust`, including the source."""
    if not available():
        return {}
    listed = json.loads(subprocess.run([rust, "rows"], capture_output=True, text=True, check=True).stdout)
    times = [word for row in listed for length in (SHORT, LONG) for word in (row, str(length))]
    return dict(zip(listed, per_call(segments([rust, "repeat", *times], scratch / "callgrind")), strict=True))
