"""Reads and marks the findings in docs/findings.md."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/findings.md"
FINDING = re.compile(
    r"^### (?P<number>\d+)\. (?P<library>\S+) (?P<version>[^:]+): (?P<title>[^\n]+)\n"
    r"\n\* Severity: (?P<severity>[^\n]+)\n\* Last checked: (?P<checked>.*?)\n"
    r"\* Rules: (?P<rules>.*?)\n\* What happens: (?P<happens>.*?)"
    r"```python\n(?P<code>.*?)```\n+```text\n(?P<printed>.*?)\n```",
    re.DOTALL | re.MULTILINE,
)
#: From the worst on.
SEVERITIES = ["memory safety", "wrong values", "refusal", "convention"]
TABLE = re.compile(r"^\| library \|.*?^\| all \|[^\n]*\n", re.DOTALL | re.MULTILINE)


def findings(text: str) -> list[dict[str, str]]:
    """Returns the fields of every finding in the text of the page."""
    return [match.groupdict() for match in FINDING.finditer(text)]


def marked(text: str, marks: dict[tuple[str, str], str]) -> str:
    """Returns the page with new marks in `Last checked`, by library and title. Other findings keep their mark."""

    def replace(match: re.Match[str]) -> str:
        mark = marks.get((match["library"], match["title"]))
        if mark is None:
            return match[0]
        start, end = (position - match.start() for position in match.span("checked"))
        return match[0][:start] + mark + match[0][end:]

    text = FINDING.sub(replace, text)
    return TABLE.sub(lambda _: table(text), text, count=1)


def checked_version(finding: dict[str, str]) -> str:
    """Returns the version in the last check, or an empty text if the library cannot be imported."""
    return "" if "not importable" in finding["checked"] else finding["checked"].split(" on ")[0]


def is_fixed(finding: dict[str, str]) -> bool:
    """Returns whether the library, or one that it uses, has fixed the fault."""
    return ", fixed in " in finding["checked"]


def table(text: str) -> str:
    """Returns the table that counts the findings in the text of the page."""
    found = findings(text)
    lines = [f"| library | version | newest | {' | '.join(SEVERITIES)} | all | fixed in newest |"]
    lines.append("|---" * (6 + len(SEVERITIES) - 1) + "|")
    for library in dict.fromkeys(finding["library"] for finding in found):
        mine = [finding for finding in found if finding["library"] == library]
        lines.append(row([library, mine[0]["version"], checked_version(mine[0])], mine))
    lines.append(row(["all", "", ""], found))
    return "\n".join(lines) + "\n"


def row(first: list[str], found: list[dict[str, str]]) -> str:
    """Returns a row of the table: the first cells, the number of each severity, all, and those fixed."""
    counts = Counter(finding["severity"] for finding in found)
    numbers = [*(counts[severity] for severity in SEVERITIES), len(found), sum(map(is_fixed, found))]
    return f"| {' | '.join([*first, *map(str, numbers)])} |"
