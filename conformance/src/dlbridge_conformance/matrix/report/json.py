"""The matrix as JSON, and back."""

from __future__ import annotations

import json
from typing import Any

from dlbridge_conformance.matrix.outcome import Cell, Kind, Matrix, Outcome, Pair, Spec, Way, repeat


def write(matrix: Matrix) -> str:
    """The matrix as JSON."""
    return json.dumps(to_dict(matrix), indent=1) + "\n"


def to_dict(matrix: Matrix) -> dict[str, Any]:
    """The matrix as plain values."""
    return {
        "schema": 1,
        "dlbridge": matrix.dlbridge,
        "python": matrix.python,
        "system": matrix.system,
        "producers": matrix.producers,
        "consumers": matrix.consumers,
        "pairs": [
            {
                "producer": pair.producer,
                "consumer": pair.consumer,
                "cells": [
                    {
                        "dtype": cell.spec.dtype,
                        "layout": cell.spec.layout,
                        "change": cell.change.value,
                        "command": repeat(pair.producer, pair.consumer, cell.spec),
                        **{
                            way.value: {"outcome": outcome.kind.value, "detail": outcome.detail}
                            for way, outcome in cell.ways.items() if outcome.kind is not Kind.NONE
                        },
                    }
                    for cell in pair.cells
                ],
            }
            for pair in matrix.pairs
        ],
    }  # fmt: skip


def read(text: str) -> Matrix:
    """Reads the matrix that :func:`write` wrote. Raises ValueError for any other text."""
    found = json.loads(text)
    if not isinstance(found, dict) or found.get("schema") != 1:
        raise ValueError("not a matrix of schema 1")
    pairs = [
        Pair(pair["producer"], pair["consumer"], [_cell(cell) for cell in pair["cells"]]) for pair in found["pairs"]
    ]
    return Matrix(
        found["producers"], found["consumers"], pairs, found["dlbridge"], found["python"], found["system"]
    )


def _cell(fields: dict[str, Any]) -> Cell:
    ways = {
        way: Outcome(Kind(fields[way.value]["outcome"]), fields[way.value]["detail"]) if way.value in fields
        else Outcome(Kind.NONE)
        for way in Way
    }  # fmt: skip
    return Cell(Spec(fields["dtype"], fields["layout"]), ways)
