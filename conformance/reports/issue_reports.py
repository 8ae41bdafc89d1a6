"""Reads the drafts of issues in conformance/reports/upstream, and their index."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).with_name("upstream")
INDEX = FOLDER / "README.md"
#: The sections of a report, in this order. "Suggested fix" may be missing.
SECTIONS = ["Versions", "Observed", "Reproduction", "Expected", "Cause"]
OPTIONAL = "Suggested fix"
ROW = re.compile(
    r"^\| (?P<rank>\d+) \| (?P<library>\S+) (?P<version>\S+) \| \[(?P<title>[^\]]+)\]\((?P<file>[^)]+)\) "
    r"\| (?P<severity>[^|]+) \| (?P<finding>\d+) \| (?P<known>[^|]*) \|$",
    re.MULTILINE,
)

#: The values of the column severity, from the worst on.
SEVERITIES = ["use after free", "double free", "hang", "crash", "memory is written against its flag", "wrong values"]
#: A row of the table of findings without a draft.
LEFT_OUT = re.compile(r"^\| (?P<why>[^|]+) \| (?P<findings>\d+(?:, \d+)*) \|$", re.MULTILINE)


@dataclass(frozen=True)
class Report:
    """A draft of an issue."""

    path: Path
    title: str
    sections: dict[str, str]

    @property
    def script(self) -> str:
        """The code of the reproduction."""
        return only_block(self.sections["Reproduction"], "python")

    @property
    def output(self) -> str:
        """The output of the reproduction."""
        return only_block(self.sections["Observed"], "text")


def only_block(text: str, language: str) -> str:
    """Returns the content of the first code block of a language. Raises ValueError if there is none."""
    found = re.search(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    if found is None:
        raise ValueError(f"no block of {language} in:\n{text}")
    return found[1].rstrip("\n")


def report(path: Path) -> Report:
    """Reads a report. A line that begins with `## ` inside of a code block is not a heading."""
    title, sections, inside = "", {}, False
    current = ""
    for line in path.read_text(encoding="utf-8").splitlines(keepends=True):
        inside ^= line.startswith("```")
        if not inside and line.startswith("# ") and not title:
            title = line[2:].strip()
        elif not inside and line.startswith("## "):
            current = line[3:].strip()
            sections[current] = ""
        elif current:
            sections[current] += line
    return Report(path, title, sections)


def reports() -> list[Report]:
    """Reads all reports, by name."""
    return [report(path) for path in sorted(FOLDER.glob("*.md")) if path != INDEX]


def index_rows() -> list[dict[str, str]]:
    """Returns the rows of the index."""
    return [match.groupdict() for match in ROW.finditer(INDEX.read_text(encoding="utf-8"))]


def left_out() -> dict[str, list[str]]:
    """Returns the findings without a draft, as the index lists them, by the reason."""
    rows = LEFT_OUT.finditer(INDEX.read_text(encoding="utf-8"))
    return {row["why"]: row["findings"].split(", ") for row in rows}
