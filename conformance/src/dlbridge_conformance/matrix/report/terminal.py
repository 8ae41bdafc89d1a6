"""The matrix as text for a terminal."""

from __future__ import annotations

from collections import Counter

from dlbridge_conformance.matrix.outcome import Cell, Change, Kind, Matrix, Way, repeat

#: up to this number of cells, each is shown by itself
FEW = 40


def details(matrix: Matrix) -> str:
    """Every cell in every way, for a small selection."""
    lines = []
    for pair in matrix.pairs:
        for cell in pair.cells:
            lines.append(f"{pair.producer} -> {pair.consumer}, {cell.spec}: {cell.change.value}")
            lines += [f"    {way.value:9} {outcome_text(cell, way)}" for way in Way if cell.ways[way].kind is not Kind.NONE]
    return "\n".join(lines)


def outcome_text(cell: Cell, way: Way) -> str:
    """The outcome of a cell in one way."""
    outcome = cell.ways[way]
    return outcome.kind.value + (f": {outcome.detail}" if outcome.detail else "")


def table(matrix: Matrix) -> str:
    """How many cells have which outcome, directly and through dlbridge, for each consumer."""
    rows = [["consumer", "cells", *(kind.value for kind in Kind if kind is not Kind.NONE)]]
    for consumer in matrix.consumers:
        cells = [cell for pair in matrix.pairs if pair.consumer == consumer for cell in pair.cells]
        direct = Counter(cell.ways[Way.DIRECT].kind for cell in cells)
        through = Counter(cell.through.kind for cell in cells)
        kinds = [f"{direct[kind]} -> {through[kind]}" for kind in Kind if kind is not Kind.NONE]
        rows.append([consumer, str(len(cells)), *kinds])
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    changes = Counter(cell.change for pair in matrix.pairs for cell in pair.cells)
    lines += ["", "directly -> through dlbridge; " + ", ".join(f"{changes[c]} {c.value}" for c in Change)]
    return "\n".join(lines)


def worse(matrix: Matrix) -> str:
    """The cells where dlbridge is worse than the direct way, each with the command that repeats it."""
    lines = []
    for pair in matrix.pairs:
        for cell in pair.cells:
            if cell.change is Change.WORSE:
                lines.append(f"worse than directly: {repeat(pair.producer, pair.consumer, cell.spec)}")
                way = Way.ASDLPACK if cell.ways[Way.TO].kind is Kind.NONE else Way.TO
                lines += [f"    directly {outcome_text(cell, Way.DIRECT)}", f"    {way.value} {outcome_text(cell, way)}"]
    return "\n".join(lines)
