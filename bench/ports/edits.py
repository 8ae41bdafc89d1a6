"""Edit scripts: the port's own lines, and their places in an extension's sources.

A script has one part per file, after a line `*** PATH`. Each part is what `diff --ed OLD NEW` writes. `apply` refuses added
lines that the original file has too. `{dlbridge}` stands for the folder of this repository.
"""

from __future__ import annotations

import re
from itertools import takewhile
from pathlib import Path

COMMAND = re.compile(r"(\d+)(?:,(\d+))?([acd])")

#: Added lines up to this length may also be in the original: a bracket, the name of an argument.
SHORT = 20


def apply(script: Path, folder: Path, repository: Path, original: Path) -> tuple[int, int]:
    """Edits the files in a folder. Returns the numbers of added and removed lines.

    `original` is the folder of the files before all scripts. An added line that its file has there is a `ValueError`.
    """
    added = removed = 0
    theirs: list[str] = []
    text = script.read_text().replace("{dlbridge}", repository.as_posix())
    before, *parts = re.split(r"^\*\*\* ", text, flags=re.MULTILINE)
    number = before.count("\n") + 1
    for part in parts:
        name, _, commands = part.partition("\n")
        path = folder / name
        if path == folder or not path.resolve().is_relative_to(folder.resolve()):
            raise ValueError(f"{script.name} edits {name!r}, which is not in the extension")
        known = {line.strip() for line in (original / name).read_text().splitlines()}
        lines, new, less = edited(path.read_text().splitlines(), commands.splitlines())
        for index, line in new.items():
            if len(line.strip()) > SHORT and line.strip() in known:
                theirs.append(f"{script.name}, line {number + 1 + index}: {line.strip()!r} is a line of {name}")
        path.write_text("\n".join(lines) + "\n")
        added, removed = added + len(new), removed + less
        number += part.count("\n")
    if theirs:
        raise ValueError("\n".join([*theirs, "a script must not contain such lines: word them differently"]))
    return added, removed


def edited(lines: list[str], commands: list[str]) -> tuple[list[str], dict[int, str], int]:
    """Applies commands, which are sorted from the last line to the first.

    Returns the edited lines, the added lines by their index in the commands, and the number of removed lines.
    """
    added: dict[int, str] = {}
    removed = 0
    rest = enumerate(commands)
    for _, command in rest:
        match = COMMAND.fullmatch(command)
        if not match:
            raise ValueError(f"not a command of an edit script: {command!r}")
        first, last = int(match[1]), int(match[2] or match[1])
        if not first <= last <= len(lines) or first < (match[3] != "a"):
            raise ValueError(f"{command!r} is outside of a file of {len(lines)} lines")
        new = {} if match[3] == "d" else dict(takewhile(lambda numbered: numbered[1] != ".", rest))
        # `a` adds after the line, and the other commands replace it.
        start = first if match[3] == "a" else first - 1
        removed += last - start
        added |= new
        lines[start:last] = new.values()
    return lines, added, removed
