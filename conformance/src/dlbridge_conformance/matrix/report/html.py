"""The matrix as one HTML page that needs nothing else."""

from __future__ import annotations

import html
import json
from importlib.resources import files
from typing import Any

from dlbridge_conformance.matrix.catalog import calls
from dlbridge_conformance.matrix.outcome import Kind, Matrix, Spec, Way
from dlbridge_conformance.matrix.samples import LAYOUTS


def page(matrix: Matrix) -> str:
    """The page."""
    parts = files("dlbridge_conformance.matrix.report")
    text = parts.joinpath("page.html").read_text("utf-8")
    versions = f"dlbridge {matrix.dlbridge}, Python {matrix.python}, {matrix.system}"
    inserts = {
        "VERSIONS": html.escape(versions),
        "STYLE": parts.joinpath("page.css").read_text("utf-8"),
        "SCRIPT": parts.joinpath("page.js").read_text("utf-8"),
        # Neither the end of the element nor a comment may begin in it.
        "DATA": json.dumps(packed(matrix), separators=(",", ":")).replace("<", "\\u003c"),
    }
    for name, insert in inserts.items():
        before, found, after = text.partition(f"<!-- {name} -->")
        if not found:
            raise ValueError(f"the page has no place for {name}")
        text = before + insert + after
    return text


def packed(matrix: Matrix) -> dict[str, Any]:
    """The matrix as numbers that point into lists of names, since the details repeat a thousand times."""
    details: dict[str, int] = {"": 0}
    specs: dict[Spec, int] = {}
    kinds = [kind.value for kind in Kind]
    pairs = []
    for pair in matrix.pairs:
        cells: list[list[int]] = []
        for cell in pair.cells:
            row = [specs.setdefault(cell.spec, len(specs))]
            for way in Way:
                outcome = cell.ways[way]
                row += [kinds.index(outcome.kind.value), details.setdefault(outcome.detail, len(details))]
            cells.append(row)
        pairs.append([pair.producer, pair.consumer, cells])
    return {
        "kinds": kinds,
        "ways": [way.value for way in Way],
        "layouts": list(LAYOUTS),
        "specs": [[spec.dtype, spec.layout] for spec in specs],
        "details": list(details),
        "producers": matrix.producers,
        "consumers": matrix.consumers,
        "calls": calls(),
        "pairs": pairs,
    }
