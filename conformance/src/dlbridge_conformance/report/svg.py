"""The heat map as a picture in SVG: a row per library, a column per rule."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from html import escape

from dlbridge_conformance.report.text import visible
from dlbridge_conformance.report.topics import Topic, topics
from dlbridge_conformance.result import Library, Report, Status
from dlbridge_conformance.rule import Level

#: how wide all rules may be together, so that names can still be read where the picture is made smaller
RULES = 820
LEFT, TOP, RIGHT, MARGIN = 236, 150, 112, 20
ROW, CELL_HEIGHT, GAP = 23, 18, 8
#: how far apart the names of topics have to be, which stand aslant, and those of roles
TOPIC, ROLE = 27, 104

#: what the cells mean, and their colours, which stay apart for the colour-blind and in grey
COLOURS = {
    "passed": "#cfe2f3",
    "MUST broken": "#c5401a",
    "SHOULD broken": "#f2a863",
    "MAY broken": "#fbe0bf",
    "crashed or hung": "#1f1830",
    "not applicable": "#eceef1",
}
STYLE = (
    "text{font:15px system-ui,'Segoe UI',Helvetica,Arial,'DejaVu Sans',sans-serif;fill:#1b222c}"
    ".small{font-size:13.5px;fill:#59636f}.strong{font-weight:600}"
)


@dataclass(frozen=True)
class Size:
    """The size of a picture in pixels."""

    width: int
    height: int


def meaning(status: Status, level: Level) -> str:
    """The key of a cell in :data:`COLOURS`."""
    if status in (Status.CRASHED, Status.HUNG):
        return "crashed or hung"
    return f"{level.value} broken" if status is Status.FAILED else status.value


def picture(report: Report) -> tuple[str, Size]:
    """The SVG document, and its size."""
    # A multiple of one half, which is a whole pixel in the PNG.
    step = max(2, min(16, 2 * RULES // max(len(report.rules), 1) / 2))
    columns, parts, right = _columns(topics(report.rules), step)
    bottom = TOP + ROW * len(report.libraries)
    for number, library in enumerate(report.libraries):
        parts += _row(report, library, columns, TOP + ROW * number, step, right)
    parts.append(_text(right + 14, TOP - 8, "kept", "small"))
    legend, legend_end = _legend(bottom + 16)
    parts += legend
    versions = f"dlbridge {report.dlbridge}, Python {report.python}, {report.system}; {len(report.rules)} rules"
    parts.append(_text(LEFT, bottom + 60, versions, "small"))
    if report.note:
        parts.append(_text(LEFT, bottom + 82, report.note, "strong"))
        bottom += 22
    size = Size(max(right + RIGHT, legend_end) + MARGIN, bottom + 78)
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{size.width}" height="{size.height}" '
        f'viewBox="0 0 {size.width} {size.height}" role="img"><title>DLPack conformance</title>'
        f'<style>{STYLE}</style><rect width="100%" height="100%" fill="#fff"/>'
    )
    return "\n".join([head, *parts, "</svg>\n"]), size


def svg(report: Report) -> str:
    """The SVG document."""
    return picture(report)[0]


def _columns(found: list[Topic], step: float) -> tuple[dict[str, float], list[str], int]:
    """The horizontal position of each rule, the texts above the rules, and the right end of the map."""
    columns: dict[str, float] = {}
    parts: list[str] = []
    x = LEFT
    role_start = x
    for topic, following in zip(found, [*found[1:], None], strict=True):
        parts.append(
            f'<text class="small" transform="translate({x + 4} {TOP - 8}) rotate(-40)">{_safe(topic.name)}</text>'
        )
        for number, rule in enumerate(topic.rules):
            columns[rule.id] = x + step * number
        end = x + math.ceil(step * len(topic.rules))
        x = max(end + GAP, x + TOPIC)
        if following is None or following.role is not topic.role:
            parts.append(_text(role_start, 28, topic.role.value, "strong"))
            parts.append(f'<path d="M{role_start} 37H{end}" stroke="#c9d0d8"/>')
            x = max(x, role_start + ROLE) + 2 * GAP
            role_start = x
    return columns, parts, x - 3 * GAP


def _row(
    report: Report, library: Library, columns: dict[str, float], y: int, step: float, right: int
) -> Iterable[str]:
    """The row of a library: its name, its cells, and how many of the applicable rules it keeps."""
    levels = {rule.id: rule.level for rule in report.rules}
    name = library.name if len(library.name) <= 24 else f"{library.name[:23]}…"
    yield (
        f'<text x="{LEFT - 10}" y="{y + 14}" text-anchor="end"><tspan class="strong">{_safe(name)}</tspan> '
        f'<tspan class="small">{_safe(library.version)}</tspan></text>'
    )
    gap = 1 if step > 3 else 0.5
    cells: dict[str, list[str]] = {}
    for result in library.results:
        path = f"M{columns[result.rule]:g} {y}h{step - gap:g}v{CELL_HEIGHT}h{gap - step:g}z"
        cells.setdefault(meaning(result.status, levels[result.rule]), []).append(path)
    for kind, paths in cells.items():
        yield f'<path fill="{COLOURS[kind]}" d="{"".join(paths)}"/>'
    applicable = len(library.results) - library.count(Status.NOT_APPLICABLE)
    yield _text(right + 14, y + 14, f"{library.count(Status.PASSED)} of {applicable}", "")


def _legend(y: int) -> tuple[list[str], int]:
    parts, x = [], LEFT
    for label, colour in COLOURS.items():
        parts.append(f'<rect x="{x}" y="{y}" width="14" height="14" rx="2" fill="{colour}"/>')
        parts.append(_text(x + 20, y + 12, label, "small"))
        x += 40 + 8 * len(label)
    return parts, x


def _text(x: int, y: int, text: str, kind: str) -> str:
    return f'<text x="{x}" y="{y}" class="{kind}">{_safe(text)}</text>'


def _safe(text: str) -> str:
    return escape(visible(text))
