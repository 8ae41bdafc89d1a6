"""The report as text for a terminal, as Markdown, as JUnit XML and as a badge."""

from __future__ import annotations

import json
import textwrap
import unicodedata
from xml.etree import ElementTree

from dlbridge_conformance.result import Library, Report, Result, Status
from dlbridge_conformance.rule import Level, Rule

#: control and format characters, lone surrogates, private and unassigned ones, separators of lines
HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


def visible(text: str) -> str:
    """Escapes every invisible character as Python does, like ``\\x00``, except line breaks."""
    return "".join(c if c == "\n" or unicodedata.category(c) not in HIDDEN else _escape(c) for c in text)


def _escape(character: str) -> str:
    return "    " if character == "\t" else ascii(character)[1:-1]


def account(report: Report, library: str, rule: Rule, result: Result) -> str:
    """The full account of a result: the finding, the rule, the evidence and the command that repeats it."""
    lines = [f"{rule.level.value} {result.status.value}: {result.detail}"]
    lines += [f"rule: {rule.says}", f"source: {rule.source}"]
    for kind, text in result.evidence:
        lines.append(f"    {kind}: " + text.replace("\n", "\n         "))
    return visible("\n".join([*lines, f"again: {report.command(library, rule.id)}"]))


# -------------------------------------------------------------------------------------------------------- for a terminal

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


def totals(report: Report, colour: bool = False) -> str:
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


def findings(report: Report, library: Library) -> str:
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


# ----------------------------------------------------------------------------------------------------------- as Markdown

HEADS = ["library", "version", "kept", *(f"{level.value} broken" for level in Level), "of these crashed or hung", "not applicable"]


def summary(report: Report) -> str:
    """The numbers, the broken rules of each library, and the command that repeats one."""
    versions = f"Run with dlbridge {report.dlbridge}, Python {report.python}, {report.system}; {len(report.rules)} rules."
    rows = [[library.name, library.version, *map(str, report.counts(library))] for library in report.libraries]
    parts = ["## DLPack conformance", visible(versions), markdown([HEADS, *rows])]
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
    return markdown([["rule", "level", "what it says", "found"], *rows])


def markdown(rows: list[list[str]]) -> str:
    """A table in Markdown, whose first row has the headings."""
    lines = [f"| {' | '.join(map(cell, row))} |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(rows[0]), *lines[1:]])


def cell(text: str) -> str:
    """Escapes text for a cell of a table, so that it neither ends the cell nor becomes markup."""
    text = visible(text).replace("\n", " ").replace("|", "\\|")
    return text if text.startswith("`") else text.replace("_", "\\_").replace("*", "\\*").replace("<", "\\<")


# ------------------------------------------------------------------------------------------ as JUnit XML, and as a badge


def junit(report: Report) -> str:
    """The XML document.

    A broken MUST or SHOULD is a failure, or an error if the process crashed or hung. A rule that does not apply is
    skipped, and so are known failures and a broken MAY, because a MAY is optional.
    """
    root = ElementTree.Element("testsuites", name="dlbridge_conformance")
    rules = {rule.id: rule for rule in report.rules}
    for library in report.libraries:
        root.append(_suite(report, library, rules))
    for counted in ("tests", "failures", "errors", "skipped"):
        root.set(counted, str(sum(int(suite.get(counted, 0)) for suite in root)))
    root.set("time", f"{sum(float(suite.get('time', 0)) for suite in root):.3f}")
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _suite(report: Report, library: Library, rules: dict[str, Rule]) -> ElementTree.Element:
    suite = ElementTree.Element("testsuite", name=visible(library.name))
    properties = ElementTree.SubElement(suite, "properties")
    versions = [(library.name, library.version), ("dlbridge", report.dlbridge), ("python", report.python)]
    for name, value in [*versions, ("system", report.system)]:
        ElementTree.SubElement(properties, "property", name=visible(name), value=visible(value))
    cases = [_case(report, library, rules[result.rule], result) for result in library.results]
    suite.extend(cases)
    suite.set("tests", str(len(cases)))
    for counted, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(counted, str(sum(case.find(tag) is not None for case in cases)))
    suite.set("time", f"{sum(result.seconds for result in library.results):.3f}")
    return suite


def _case(report: Report, library: Library, rule: Rule, result: Result) -> ElementTree.Element:
    case = ElementTree.Element("testcase", classname=visible(f"{library.name}.{rule.role.value}"), name=rule.id)
    case.set("time", f"{result.seconds:.3f}")
    if result.status is not Status.PASSED:
        tag, kind = _outcome(report, rule, result.status)
        outcome = ElementTree.SubElement(case, tag, type=kind, message=visible(result.detail))
        outcome.text = account(report, library.name, rule, result)
    return case


def _outcome(report: Report, rule: Rule, status: Status) -> tuple[str, str]:
    if status is Status.NOT_APPLICABLE:
        return "skipped", status.value
    if rule.id in report.known:
        return "skipped", f"known failure, {rule.level.value} {status.value}"
    if rule.level is Level.MAY:
        return "skipped", f"MAY {status.value}"
    return "failure" if status is Status.FAILED else "error", f"{rule.level.value} {status.value}"


def badge(report: Report) -> str:
    """The endpoint of a badge for shields.io: how many of the rules that apply are kept.

    Known failures count as broken, and a MAY does not count.
    """
    results = [r for library in report.libraries for r in library.results if report.level(r) is not Level.MAY]
    applicable = sum(r.status is not Status.NOT_APPLICABLE for r in results)
    broken = [report.level(r) for r in results if r.status.is_broken]
    colour = "red" if Level.MUST in broken else "yellow" if broken else "brightgreen"
    message = f"{applicable - len(broken)} of {applicable} rules kept" if broken else f"all {applicable} rules kept"
    if not applicable:
        message, colour = "no rule applies", "lightgrey"
    return json.dumps({"schemaVersion": 1, "label": "DLPack 1.3", "message": message, "color": colour}) + "\n"
