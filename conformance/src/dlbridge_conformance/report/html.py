"""The report as one self-contained HTML page: a heat map of rules and libraries, with the evidence."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

from dlbridge_conformance.report.text import visible
from dlbridge_conformance.report.topics import topics
from dlbridge_conformance.result import Library, Report, Status
from dlbridge_conformance.rule import Level, Role, Rule


def page(report: Report) -> str:
    """Inserts the style sheet, the scripts, and the report as JSON into ``page.html``."""
    folder = files("dlbridge_conformance.report")
    text = folder.joinpath("page.html").read_text(encoding="utf-8")
    for name in ("page.css", "filters.js", "panel.js", "page.js"):
        text = text.replace(f"/* {name} */", folder.joinpath(name).read_text(encoding="utf-8").strip())
    return text.replace("{/* report */}", script_safe(json.dumps(_content(report), separators=(",", ":"))))


def script_safe(json_text: str) -> str:
    """Escapes JSON so that it can neither end its script element nor begin a comment there."""
    for character in "<>&":
        json_text = json_text.replace(character, f"\\u{ord(character):04x}")
    return json_text


def _content(report: Report) -> dict[str, Any]:
    return {
        "note": report.note,
        "versions": [["dlbridge", report.dlbridge], ["Python", report.python], ["system", visible(report.system)]],
        "statuses": [status.value for status in Status],
        "levels": [level.value for level in Level],
        "roles": [role.value for role in Role],
        "topics": [
            {
                "role": topic.role.value,
                "name": topic.name,
                "about": visible(topic.about),
                "rules": [_rule(rule) for rule in topic.rules],
            }
            for topic in topics(report.rules)
        ],
        "libraries": [_library(report, library) for library in report.libraries],
    }


def _rule(rule: Rule) -> dict[str, str]:
    return {"id": rule.id, "level": rule.level.value, "says": visible(rule.says), "source": visible(rule.source)}


def _library(report: Report, library: Library) -> dict[str, Any]:
    return {
        "name": visible(library.name),
        "version": visible(library.version),
        "results": {
            result.rule: {
                "status": result.status.value,
                "detail": visible(result.detail),
                "evidence": [[kind, visible(text)] for kind, text in result.evidence],
                "signal": result.signal,
                "seconds": result.seconds,
                "command": report.command(library.name, result.rule),
            }
            for result in library.results
        },
    }
