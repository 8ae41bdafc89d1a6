"""The matrix as one self-contained HTML page."""

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
        # Without "<", the JSON can neither end the script element nor begin a comment.
        "DATA": json.dumps(packed(matrix), separators=(",", ":")).replace("<", "\\u003c"),
    }
    for name, insert in inserts.items():
        before, found, after = text.partition(f"<!-- {name} -->")
        if not found:
            raise ValueError(f"the page lacks the placeholder {name}")
        text = before + insert + after
    return text


def packed(matrix: Matrix) -> dict[str, Any]:
    """The matrix as indices into lists of texts, because texts repeat thousands of times."""
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
