"""The report as text for a terminal."""

from __future__ import annotations

from dlbridge.conformance.result import Library, Report, Status
from dlbridge.conformance.rule import Level


def table(report: Report) -> str:
    """How many rules each library keeps and breaks, by level."""
    rules = {rule.id: rule for rule in report.rules}
    rows = [["library", "version", "passed", "MUST broken", "SHOULD broken", "MAY broken", "crashed", "does not apply"]]
    for library in report.libraries:
        broken = [rules[result.rule].level for result in library.results if result.status.is_broken]
        crashed = library.count(Status.CRASHED) + library.count(Status.HUNG)
        rows.append(
            [
                library.name,
                library.version,
                str(library.count(Status.PASSED)),
                *(str(broken.count(level)) for level in Level),
                str(crashed),
                str(library.count(Status.NOT_APPLICABLE)),
            ]
        )
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join("  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows)


def broken(report: Report, library: Library) -> str:
    """The rules that a library breaks, each with what was found and how to see it again."""
    rules = {rule.id: rule for rule in report.rules}
    lines = []
    for result in library.results:
        if result.status.is_broken:
            rule = rules[result.rule]
            lines.append(f"{result.status.value.upper()} {rule.id} ({rule.level.value}): {rule.says}")
            lines.append(f"    {result.detail}")
            lines.append(f"    again: {report.command(library.name, rule.id)}")
    return "\n".join(lines)
