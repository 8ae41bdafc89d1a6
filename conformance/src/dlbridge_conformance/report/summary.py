"""The report in short as Markdown, for the summary of a CI job or a comment."""

from __future__ import annotations

from dlbridge_conformance.report.markdown import cell, table, versions
from dlbridge_conformance.report.text import visible
from dlbridge_conformance.result import Library, Report, Result
from dlbridge_conformance.rule import Level


def summary(report: Report) -> str:
    """The numbers, the broken rules of each library, and the command that repeats one."""
    parts = ["## DLPack conformance", *filter(None, [report.note]), versions(report), table(report)]
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
        those = " of the rules that ran" if report.is_interrupted else ""
        return [f"### {cell(library.name)}: no MUST and no SHOULD{those} is broken{', except known ones' * bool(report.known)}"]
    again = visible(report.command(library.name, results[0].rule))
    return [f"### {cell(library.name)}: {len(results)} {what}", _rows(report, results), f"Repeat one: `{again}`"]


def _folded(report: Report, library: Library, what: str, results: list[Result]) -> list[str]:
    if not results:
        return []
    head = f"<summary>{cell(library.name)}: {len(results)} {what}</summary>"
    return [f"<details>{head}", _rows(report, results), "</details>"]


def _rows(report: Report, results: list[Result]) -> str:
    says = {rule.id: rule.says for rule in report.rules}
    lines = ["| rule | level | what it says | found |", "|---|---|---|---|"]
    lines += [
        f"| `{r.rule}` | {report.level(r).value} | {cell(says[r.rule])} | {cell(r.detail)} |" for r in results
    ]
    return "\n".join(lines)
