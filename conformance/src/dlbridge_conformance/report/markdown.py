"""The report as Markdown for the documentation. Two runs with the same outcomes write the same page."""

from __future__ import annotations

from dlbridge_conformance.report.text import visible
from dlbridge_conformance.report.topics import Topic, topics
from dlbridge_conformance.result import Report, Result, Status
from dlbridge_conformance.rule import Level, Rule

INTRODUCTION = """\
# Every rule, and the libraries that break it

`python -m dlbridge_conformance --markdown FILE` writes this page; `--html FILE` writes one that has the evidence for each
cell too. `python -m dlbridge_conformance LIBRARY --rule ID` repeats one cell, and shows its inputs and results.

A rule does not apply to a library that lacks the feature; it then does not count as kept. A crash, an abort or a hang of
the process breaks the rule, and is named."""


def document(report: Report) -> str:
    """The page."""
    parts = [INTRODUCTION, *filter(None, [report.note]), versions(report), "## The libraries", table(report)]
    for topic in topics(report.rules):
        parts += [f"## {topic.role.value.capitalize().replace('-api', ' API')}: {topic.name}", _rules(report, topic)]
    return "\n\n".join(parts) + "\n"


def versions(report: Report) -> str:
    """The versions of the run."""
    return visible(f"Run with dlbridge {report.dlbridge}, Python {report.python}, {report.system}; {len(report.rules)} rules.")


def table(report: Report) -> str:
    """How many rules each library keeps and breaks, by level."""
    levels = {rule.id: rule.level for rule in report.rules}
    heads = ["library", "version", "kept", *(f"{level.value} broken" for level in Level), "of these crashed or hung",
             "not applicable"]  # fmt: skip
    rows = [heads]
    for library in report.libraries:
        broken = [levels[result.rule] for result in library.results if result.status.is_broken]
        numbers = [
            library.count(Status.PASSED),
            *(broken.count(level) for level in Level),
            library.count(Status.CRASHED) + library.count(Status.HUNG),
            library.count(Status.NOT_APPLICABLE),
        ]
        rows.append([library.name, library.version, *map(str, numbers)])
    return _table(rows)


def _rules(report: Report, topic: Topic) -> str:
    rows = [["rule", "level", "what it says", "source", "broken by"]]
    rows += [
        [f"`{rule.id}`", rule.level.value, rule.says, rule.source, ", ".join(_breaking(report, rule))]
        for rule in topic.rules
    ]
    return _table(rows)


def _breaking(report: Report, rule: Rule) -> list[str]:
    """The libraries that break a rule, each with its crash or hang, if any."""
    names = [library.name for library in report.libraries]
    found = []
    for library in report.libraries:
        # Versions of one library, each from an environment of its own.
        name = f"{library.name} {library.version}" if names.count(library.name) > 1 else library.name
        broken = (result for result in library.results if result.rule == rule.id and result.status.is_broken)
        found += [f"{name}{_death(result)}" for result in broken]
    return found


def _death(result: Result) -> str:
    if result.status is Status.CRASHED:
        return f" ({result.signal or 'exit'})"
    return " (hangs)" if result.status is Status.HUNG else ""


def _table(rows: list[list[str]]) -> str:
    lines = [f"| {' | '.join(map(cell, row))} |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(rows[0]), *lines[1:]])


def cell(text: str) -> str:
    """Escapes text for a cell of a table, so that it neither ends the cell nor becomes markup."""
    text = visible(text).replace("\n", " ").replace("|", "\\|")
    return text if text.startswith("`") else text.replace("_", "\\_").replace("*", "\\*").replace("<", "\\<")
