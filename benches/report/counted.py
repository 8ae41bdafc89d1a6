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


def segments(command: Sequence[str], folder: Path, libraries: tuple[str, ...] | None = None) -> list[int]:
    """Returns the counts between the marks of a command: of the whole process, or of the code of some libraries.

    A framework chooses other instructions on another processor, so a row with a framework counts only ours.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    callgrind = ["valgrind", "--tool=callgrind", "--dump-before=getppid", f"--callgrind-out-file={folder}/counts"]
    # Random string hashes would change the number of steps of a lookup.
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    if libraries is not None:
        # The import of a framework would take minutes if it were counted. The program starts the counting.
        callgrind.append("--instr-atstart=no")
        environment["COUNTING_STARTS"] = "after the warm-up"
    done = subprocess.run([*callgrind, *command], env=environment, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} under callgrind: {done.returncode}\n{done.stderr}")
    files = sorted(folder.glob("counts.*"), key=lambda file: int(file.suffix[1:]))
    texts = [text for text in (file.read_text() for file in files) if re.search(r"^totals: \d", text, re.MULTILINE)]
    # The first count ends at the first mark, before any row.
    return [total(text) if libraries is None else of_libraries(text, libraries) for text in texts[1:]]


def total(text: str) -> int:
    """Returns the count of a file of callgrind."""
    found = re.search(r"^totals: (\d+)", text, re.MULTILINE)
    return int(found[1]) if found else 0


def of_libraries(text: str, libraries: tuple[str, ...]) -> int:
    """Returns the count of the functions in files with these names, without the functions that they call."""
    names: dict[str, str] = {}
    count, inside, skip = 0, False, False
    for line in text.splitlines():
        if line.startswith(("ob=", "cob=")):
            kind, _, rest = line.partition("=")
            # The first mention of a number has the name.
            number, _, name = rest.partition(" ")
            path = names.setdefault(number, name)
            if kind == "ob":
                inside = Path(path).name.startswith(libraries)
        elif line.startswith("calls="):
            # The next line is the count of the called function.
            skip = True
        elif line[:1] in "0123456789+-*" and line:
            if inside and not skip:
                count += int(line.split()[1])
            skip = False
    return count


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
