"""The plot of `docs/benchmarks.md`: each peer's time as a multiple of dlbridge's, as an SVG file."""

from __future__ import annotations

from math import log2
from xml.sax.saxutils import escape

from page import WORKS
from targets import Run, best, is_checked, is_floor, is_offer, is_ours, libraries, nanoseconds

SHOWN = (
    "vec",
    "four",
    "array",
    "numpy -> no-op",
    "torch -> no-op",
    "jax -> no-op",
    "numpy -> object",
    "new tensor -> capsule",
    "object -> numpy",
    "new tensor -> torch",
)

WIDTH, LEFT, RIGHT = 900, 190, 70
BAR, GAP, HEAD = 15, 3, 26
SLOWER, FASTER, FLOOR = "#4878a8", "#c05a3c", "#8a8a8a"
DOUBLINGS = (-3, 8)
"""The ends of the axis as powers of two: an eighth of dlbridge's time, and 256 times."""

HALO = 'paint-order="stroke" stroke="#fff" stroke-width="4"'
"""Keeps a text legible on a line of the grid."""


def across(ratio: float) -> float:
    """Returns the position of a ratio on the logarithmic axis."""
    low, high = DOUBLINGS
    share = (min(max(log2(ratio), low), high) - low) / (high - low)
    return LEFT + share * (WIDTH - LEFT - RIGHT)


def ratios(run: Run, work: str) -> list[tuple[str, float]]:
    """Returns each library's time over dlbridge's best, the fastest first."""
    ours = best(run, work, is_offer)
    if ours is None or ours[1] <= 0:
        return []
    others = [name for name in libraries(run, work) if not is_ours(name) and not is_checked(name)]
    found = [(name, nanoseconds(run, work, name)) for name in others]
    return sorted(((name, max(ns, 0.01) / ours[1]) for name, ns in found if ns is not None), key=lambda f: f[1])


def bar(top: float, name: str, ratio: float) -> list[str]:
    one, end = across(1), across(ratio)
    color = FLOOR if is_floor(name) else FASTER if ratio < 1 else SLOWER
    text = f"{ratio:.2f}" if ratio < 1.5 else f"{ratio:.1f}" if ratio < 10 else f"{ratio:.0f}"
    middle = top + BAR - 3.5
    return [
        f'<text x="{LEFT - 8}" y="{middle:.1f}" text-anchor="end">{escape(name.replace("`", ""))}</text>',
        f'<rect x="{min(one, end):.1f}" y="{top:.1f}" width="{max(abs(end - one), 1):.1f}" height="{BAR}" '
        f'fill="{color}"/>',
        f'<text x="{max(one, end) + 6:.1f}" y="{middle:.1f}" {HALO}>{text}</text>',
    ]


def svg(run: Run) -> str:
    """Returns the plot as SVG."""
    lines: list[str] = []
    top = 60.0
    for work in SHOWN:
        found = ratios(run, work)
        if not found:
            continue
        title = escape(WORKS[work].replace("`", ""))
        lines.append(f'<text x="8" y="{top + 17:.1f}" font-weight="bold" {HALO}>{title}</text>')
        top += HEAD
        for name, ratio in found:
            lines += bar(top, name, ratio)
            top += BAR + GAP
        top += 8
    grid = []
    for power in range(DOUBLINGS[0], DOUBLINGS[1] + 1):
        x = across(2.0**power)
        width = 1.5 if power == 0 else 0.5
        grid.append(
            f'<line x1="{x:.1f}" y1="50" x2="{x:.1f}" y2="{top:.1f}" stroke="#999" stroke-width="{width}"/>'
            f'<text x="{x:.1f}" y="44" text-anchor="middle">{2.0**power:g}</text>'
        )
    height = top + 12
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height:.0f}" '
            f'viewBox="0 0 {WIDTH} {height:.0f}" font-family="sans-serif" font-size="12" fill="#222">',
            f'<rect width="{WIDTH}" height="{height:.0f}" fill="#fff"/>',
            '<text x="8" y="20" font-size="15" font-weight="bold">Time of a call, as a multiple of dlbridge\'s</text>',
            f'<text x="{WIDTH - 8}" y="20" text-anchor="end">blue: a peer that is slower; '
            "red: one that is faster; grey: hand-written for this one case</text>",
            *grid,
            *lines,
            "</svg>\n",
        ]
    )
