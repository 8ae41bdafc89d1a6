"""A badge: how many of the rules that apply a library keeps."""

from __future__ import annotations

import json
from html import escape

from dlbridge_conformance.report.text import visible
from dlbridge_conformance.result import Library, Report, Status
from dlbridge_conformance.rule import Level

LABEL = "DLPack 1.3"
#: the colours of shields.io by their names there
COLOURS = {"brightgreen": "#4c1", "yellow": "#dfb317", "red": "#e05d44", "lightgrey": "#9f9f9f"}


def badge(report: Report, suffix: str) -> str:
    """The badge: for ``.json`` an endpoint of shields.io, for ``.svg`` a picture. Known failures count as broken."""
    message, colour = _message(report)
    if suffix == ".json":
        return json.dumps({"schemaVersion": 1, "label": LABEL, "message": message, "color": colour}) + "\n"
    return _svg(message, COLOURS[colour])


def _message(report: Report) -> tuple[str, str]:
    """The text, and the colour: red if a MUST is broken, yellow if only a SHOULD is."""
    levels = [report.level(r) for library in report.libraries for r in library.results if r.status.is_broken]
    musts, shoulds = levels.count(Level.MUST), levels.count(Level.SHOULD)
    applicable = sum(_binding(report, library) for library in report.libraries)
    if not applicable:
        return "no rule applies", "lightgrey"
    if musts + shoulds == 0:
        return f"all {applicable} rules kept", "brightgreen"
    return f"{applicable - musts - shoulds} of {applicable} rules kept", "red" if musts else "yellow"


def _binding(report: Report, library: Library) -> int:
    """How many MUST and SHOULD rules apply to a library."""
    return sum(r.status is not Status.NOT_APPLICABLE and report.level(r) is not Level.MAY for r in library.results)


def _svg(message: str, colour: str) -> str:
    """A flat badge, which names its fonts and needs no network."""
    left, right = (round(6.6 * len(text)) + 12 for text in (LABEL, message))
    label, text = escape(LABEL), escape(visible(message))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + right}" height="20" role="img" '
        f'aria-label="{label}: {text}"><title>{label}: {text}</title>'
        f'<clipPath id="r"><rect width="{left + right}" height="20" rx="3"/></clipPath><g clip-path="url(#r)">'
        f'<rect width="{left}" height="20" fill="#555"/><rect x="{left}" width="{right}" height="20" fill="{colour}"/></g>'
        '<g fill="#fff" text-anchor="middle" font-family="Verdana,Geneva,DejaVu Sans,sans-serif" font-size="11">'
        f'<text x="{left / 2:g}" y="14">{label}</text><text x="{left + right / 2:g}" y="14">{text}</text></g></svg>\n'
    )
