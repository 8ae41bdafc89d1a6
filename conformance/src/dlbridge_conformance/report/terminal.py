"""The report as text for a terminal."""

from __future__ import annotations

import textwrap

from dlbridge_conformance.report.text import visible
from dlbridge_conformance.result import Library, Report
from dlbridge_conformance.rule import Level

#: how wide lines may be
WIDTH = 100
#: how wide the names and the versions of libraries may be
NAMES, VERSIONS = 28, 17
GREEN, RED, YELLOW, FAINT = 32, 31, 33, 2
#: how the numbers that are not zero are coloured, column by column
COLOURS = (GREEN, RED, YELLOW, FAINT, RED, FAINT)
HEADINGS = (
    ("", "", "", *(level.value for level in Level), "crashed", "not"),
    ("library", "version", "passed", *("broken" for _ in Level), "or hung", "applicable"),
)
WIDEST = [max(map(len, heads)) for heads in zip(*HEADINGS, strict=True)][2:]


def table(report: Report, colour: bool = False) -> str:
    """How many rules each library keeps and breaks, by level; in colour if the terminal supports it."""
    names = [(_cut(library.name, NAMES), _cut(library.version, VERSIONS)) for library in report.libraries]
    widths = [max(map(len, column)) for column in zip(("library", "version"), *names, strict=True)]
    lines = []
    for heads in HEADINGS:
        numbers = [head.rjust(WIDEST[i]) for i, head in enumerate(heads[2:])]
        lines.append("  ".join([heads[0].ljust(widths[0]), heads[1].ljust(widths[1]), *numbers]))
    for library, (name, version) in zip(report.libraries, names, strict=True):
        cells = [name.ljust(widths[0]), version.ljust(widths[1])]
        for count, width, code in zip(report.counts(library), WIDEST, COLOURS, strict=True):
            text = str(count).rjust(width)
            cells.append(f"\x1b[{code if count else FAINT}m{text}\x1b[0m" if colour else text)
        lines.append("  ".join(cells))
    return "\n".join(lines)


def broken(report: Report, library: Library) -> str:
    """The rules that a library breaks, without known failures, each with its finding and the command that repeats it."""
    rules = {rule.id: rule for rule in report.rules}
    lines = []
    if failure := library.import_failure:
        return "\n".join(_wrapped(visible(f"{library.name}: {failure}"), ""))
    for result in library.results:
        if result.status.is_broken and result.rule not in report.known:
            rule = rules[result.rule]
            lines += _wrapped(f"{result.status.value.upper()} {rule.id} ({rule.level.value}): {rule.says}", "")
            lines += _wrapped(visible(result.detail), "    ")
            lines.append(f"    again: {visible(report.command(library.name, rule.id))}")
    return "\n".join(lines)


def _cut(text: str, width: int) -> str:
    text = visible(text)
    return text if len(text) <= width else f"{text[: width - 1]}…"


def _wrapped(text: str, indent: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent=indent, subsequent_indent="    ")
