"""The matrix as text for a terminal, and as Markdown. Two runs with the same versions write the same page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from dlbridge_conformance.matrix.outcome import RANK, Change, Kind, Matrix, Outcome, Pair, repeat

#: up to this number of cells, each is shown by itself
FEW = 40

INTRODUCTION = """\
# Every producer/consumer pair

`python -m dlbridge_conformance.matrix --markdown docs/interop.md` wrote this page.

* *Directly* is the consumer's `from_dlpack(obj)`; for consumers without one, their closest function.
* *Through dlbridge* is `dlbridge.asdlpack(obj).to(library)`, or `from_dlpack(dlbridge.asdlpack(obj))` if dlbridge has no
  `to` for the library.

Values are always compared. *Zero-copy* means the same address on both sides; if the consumer can write, the producer also
sees the writes. *Unprotected* means that the consumer can write read-only memory: of a read-only array, or of a library with
immutable arrays. *Wrong* means other values, without an exception.

Arrays have four rows of three. All dtypes of a producer are exchanged in C order; the other layouts with float32 and int64.
Arrays begin at a multiple of 64 bytes if their library has such memory. Values are compared as Python numbers, so a wider
dtype with the same numbers counts as right."""


def details(matrix: Matrix) -> str:
    """Every cell, for a small selection."""
    lines = []
    for pair in matrix.pairs:
        for cell in pair.cells:
            lines.append(f"{pair.producer} -> {pair.consumer}, {cell.spec}: {cell.change.value}")
            lines += [f"    directly {_text(cell.direct)}", f"    through dlbridge {_text(cell.through)}"]
    return "\n".join(lines)


def table(matrix: Matrix) -> str:
    """How many cells have which outcome, directly and through dlbridge, for each consumer."""
    rows = _by_consumer(matrix)
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([*lines, "", f"directly -> through dlbridge; {_changes(matrix)}"])


def worse(matrix: Matrix) -> str:
    """The cells where dlbridge is worse than the direct way, each with the command that repeats it."""
    lines = []
    for pair in matrix.pairs:
        for cell in pair.cells:
            if cell.change is Change.WORSE:
                lines.append(f"worse than directly: {repeat(pair.producer, pair.consumer, cell.spec)}")
                lines += [f"    directly {_text(cell.direct)}", f"    through dlbridge {_text(cell.through)}"]
    return "\n".join(lines)


def document(matrix: Matrix) -> str:
    """The page."""
    known = {**matrix.producers, **matrix.consumers}
    named = sorted({f"{name} {version}" for name, version in known.items() if version}, key=str.lower)
    versions = f"Run with dlbridge {matrix.dlbridge}, Python {matrix.python}, {matrix.system}: {', '.join(named)}."
    rows = [["producer \\ consumer", *matrix.consumers]]
    pairs = {(pair.producer, pair.consumer): pair for pair in matrix.pairs}
    for producer in matrix.producers:
        rows.append([producer, *(_square(pairs.get((producer, consumer))) for consumer in matrix.consumers)])
    grid = (
        "## The table\n\nHow many exchanges arrive with the right values: directly → through dlbridge, of all. "
        "A single number means that both are the same. `!` marks a pair in which dlbridge is worse in some exchange.\n\n"
        + _markdown(rows)
    )
    outcomes = f"## Outcomes\n\nDirectly -> through dlbridge; {_changes(matrix)}.\n\n{_markdown(_by_consumer(matrix))}"
    return "\n\n".join([INTRODUCTION, versions, grid, outcomes]) + "\n"


def _square(pair: Pair | None) -> str:
    if pair is None or not pair.cells:
        return ""
    before = sum(_is_right(cell.direct) for cell in pair.cells)
    after = sum(_is_right(cell.through) for cell in pair.cells)
    worse = " !" if any(cell.change is Change.WORSE for cell in pair.cells) else ""
    return f"{before}/{len(pair.cells)}{worse}" if before == after else f"{before} → {after}/{len(pair.cells)}{worse}"


def _is_right(outcome: Outcome) -> bool:
    return RANK[outcome.kind] >= RANK[Kind.COPIED]


def _by_consumer(matrix: Matrix) -> list[list[str]]:
    """A row for each consumer: how many of its exchanges have which outcome."""
    rows = [["consumer", "exchanges", *(kind.value for kind in Kind)]]
    for consumer in matrix.consumers:
        cells = [cell for pair in matrix.pairs if pair.consumer == consumer for cell in pair.cells]
        direct, through = Counter(cell.direct.kind for cell in cells), Counter(cell.through.kind for cell in cells)
        rows.append([consumer, str(len(cells)), *(f"{direct[kind]} -> {through[kind]}" for kind in Kind)])
    return rows


def _changes(matrix: Matrix) -> str:
    found = Counter(cell.change for pair in matrix.pairs for cell in pair.cells)
    return ", ".join(f"{found[change]} {change.value}" for change in Change)


def _text(outcome: Outcome) -> str:
    return outcome.kind.value + (f": {outcome.detail}" if outcome.detail else "")


def _markdown(rows: Iterable[list[str]]) -> str:
    first, *others = (f"| {' | '.join(row)} |" for row in rows)
    return "\n".join([first, "|" + "---|" * (first.count(" | ") + 1), *others])
