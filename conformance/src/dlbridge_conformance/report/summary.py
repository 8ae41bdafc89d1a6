"""The report in short as Markdown, for the summary of a CI job, a comment or a page."""

from __future__ import annotations

from dlbridge_conformance.report.text import visible
from dlbridge_conformance.result import Library, Report, Result
from dlbridge_conformance.rule import Level

HEADS = ["library", "version", "kept", *(f"{level.value} broken" for level in Level), "of these crashed or hung", "not applicable"]


def summary(report: Report) -> str:
    """The numbers, the broken rules of each library, and the command that repeats one."""
    versions = f"Run with dlbridge {report.dlbridge}, Python {report.python}, {report.system}; {len(report.rules)} rules."
    rows = [[library.name, library.version, *map(str, report.counts(library))] for library in report.libraries]
    parts = ["## DLPack conformance", visible(versions), table([HEADS, *rows])]
    for library in report.libraries:
        broken = [result for result in library.results if result.status.is_broken]
        binding = [result for result in broken if report.level(result) is not Level.MAY]
        new = [result for result in binding if result.rule not in report.known]
        old = [result for result in binding if result.rule in report.known]
        parts += _list(report, library, "broken", new)
        parts += _folded(report, library, "known failures", old)
        parts += _folded(report, library, "broken MAY, which are optional", [r for r in broken if r not in binding])
    return "\n\n".join(parts) + "\n"


def _list(report: Report, library: Library, what: str, results: list[Result]) -> list[str]:
    if not results:
        return [f"### {cell(library.name)}: no MUST and no SHOULD is broken{', except known ones' * bool(report.known)}"]
    again = visible(report.command(library.name, results[0].rule))
    return [f"### {cell(library.name)}: {len(results)} {what}", _rows(report, results), f"Repeat one: `{again}`"]


def _folded(report: Report, library: Library, what: str, results: list[Result]) -> list[str]:
    if not results:
        return []
    head = f"<summary>{cell(library.name)}: {len(results)} {what}</summary>"
    return [f"<details>{head}", _rows(report, results), "</details>"]


def _rows(report: Report, results: list[Result]) -> str:
    says = {rule.id: rule.says for rule in report.rules}
    rows = [[f"`{r.rule}`", report.level(r).value, says[r.rule], r.detail] for r in results]
    return table([["rule", "level", "what it says", "found"], *rows])


def table(rows: list[list[str]]) -> str:
    """A table in Markdown, whose first row has the headings."""
    lines = [f"| {' | '.join(map(cell, row))} |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(rows[0]), *lines[1:]])


def cell(text: str) -> str:
    """Escapes text for a cell of a table, so that it neither ends the cell nor becomes markup."""
    text = visible(text).replace("\n", " ").replace("|", "\\|")
    return text if text.startswith("`") else text.replace("_", "\\_").replace("*", "\\*").replace("<", "\\<")
