"""Edit scripts: our own lines, and where they go in the sources of others.

A script has one part per file, behind a line `*** PATH`. Each part is what `diff --ed OLD NEW` writes, so it contains no
line of the old file. `{dlbridge}` stands for the folder of this repository.
"""

from __future__ import annotations

import re
from pathlib import Path

COMMAND = re.compile(r"(\d+)(?:,(\d+))?([acd])")


def apply(script: Path, folder: Path, repository: Path) -> tuple[int, int]:
    """Edits the files in a folder. Returns the number of lines that were added and removed."""
    added = removed = 0
    text = script.read_text().replace("{dlbridge}", repository.as_posix())
    for part in re.split(r"^\*\*\* ", text, flags=re.MULTILINE)[1:]:
        name, _, commands = part.partition("\n")
        path = folder / name
        if path == folder or not path.resolve().is_relative_to(folder.resolve()):
            raise ValueError(f"{script.name} edits {name!r}, which is not in the extension")
        lines, more, less = edited(path.read_text().splitlines(), commands.splitlines())
        path.write_text("\n".join(lines) + "\n")
        added, removed = added + more, removed + less
    return added, removed


def edited(lines: list[str], commands: list[str]) -> tuple[list[str], int, int]:
    """The lines after the commands, which go from the last line to the first, and how many were added and removed."""
    added = removed = 0
    rest = iter(commands)
    for command in rest:
        match = COMMAND.fullmatch(command)
        if not match:
            raise ValueError(f"not a command of an edit script: {command!r}")
        first, last = int(match[1]), int(match[2] or match[1])
        if not first <= last <= len(lines) or first < (match[3] != "a"):
            raise ValueError(f"{command!r} is outside of a file of {len(lines)} lines")
        new = [] if match[3] == "d" else list(iter(rest.__next__, "."))
        # `a` adds behind the line, and the others replace it.
        start = first if match[3] == "a" else first - 1
        removed += last - start
        added += len(new)
        lines[start:last] = new
    return lines, added, removed
