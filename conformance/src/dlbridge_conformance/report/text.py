"""A result as text, and escapes for text from libraries."""

from __future__ import annotations

import unicodedata

from dlbridge_conformance.result import Report, Result
from dlbridge_conformance.rule import Rule

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
