"""A badge for shields.io: how many of the rules that apply a library keeps."""

from __future__ import annotations

import json

from dlbridge_conformance.result import Report, Status
from dlbridge_conformance.rule import Level


def badge(report: Report) -> str:
    """The endpoint. Known failures count as broken, and a MAY does not count."""
    results = [r for library in report.libraries for r in library.results if report.level(r) is not Level.MAY]
    applicable = sum(r.status is not Status.NOT_APPLICABLE for r in results)
    broken = [report.level(r) for r in results if r.status.is_broken]
    colour = "red" if Level.MUST in broken else "yellow" if broken else "brightgreen"
    message = f"{applicable - len(broken)} of {applicable} rules kept" if broken else f"all {applicable} rules kept"
    if not applicable:
        message, colour = "no rule applies", "lightgrey"
    return json.dumps({"schemaVersion": 1, "label": "DLPack 1.3", "message": message, "color": colour}) + "\n"
