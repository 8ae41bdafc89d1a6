"""Compares the matrices of several interpreters, each with its own releases of the libraries."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from dlbridge_conformance.matrix.outcome import Matrix, Way
from dlbridge_conformance.matrix.report import json


def measured(python: str, options: Sequence[str]) -> Matrix:
    """Runs the matrix with an interpreter. Raises ValueError if that fails."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "matrix.json")
        command = [python, "-m", "dlbridge_conformance.matrix", *options, "--json", str(path)]
        try:
            ended = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        except OSError as error:
            raise ValueError(f"{python} cannot be run: {error}") from error
        # 1 means that dlbridge is worse than the direct way in some cell.
        if ended.returncode not in (0, 1) or not path.exists():
            said = (ended.stderr.strip().splitlines() or ["no message"])[-1]
            raise ValueError(f"{python} ended with {ended.returncode}: {said}")
        return json.read(path.read_text())


def outcomes(matrix: Matrix) -> dict[tuple[str, str, str, Way], str]:
    """The outcome of each cell in each way."""
    return {
        (pair.producer, pair.consumer, str(cell.spec), way): outcome.kind.value
        for pair in matrix.pairs
        for cell in pair.cells
        for way, outcome in cell.ways.items()
    }


def differences(one: Matrix, other: Matrix) -> Iterator[str]:
    """Yields a line for each release and outcome that differs. It skips cells that only one matrix has."""
    old, new = one.producers | one.consumers, other.producers | other.consumers
    for name in old:
        if old[name] != new.get(name, old[name]):
            yield f"{name}: {old[name]} -> {new[name]}"
    before, after = outcomes(one), outcomes(other)
    for cell in before:
        if cell in after and before[cell] != after[cell]:
            producer, consumer, spec, way = cell
            yield f"{producer} -> {consumer}, {spec}, {way.value}: {before[cell]} -> {after[cell]}"


def compare(pythons: Sequence[str], options: Sequence[str]) -> list[str]:
    """The differences between the first interpreter and each other one. Raises ValueError if a matrix fails."""
    first, *others = (measured(python, options) for python in pythons)
    lines = []
    for python, other in zip(pythons[1:], others, strict=True):
        lines.append(f"{pythons[0]} (Python {first.python}) -> {python} (Python {other.python})")
        lines += [f"    {line}" for line in differences(first, other)] or ["    no difference"]
    return lines


def main(pythons: Sequence[str], options: Sequence[str]) -> int:
    """Prints the differences. Returns 0, or 2 if a matrix fails."""
    try:
        print("\n".join(compare(pythons, options)))
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    return 0
