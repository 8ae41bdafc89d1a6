"""The memory that each way to another process needs, as docs/processes.md states it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from conftest import require
from shared_segments import on_linux

require("numpy")

pytestmark = on_linux

#: The new memory of the sender and of the receiver, as multiples of the size of the tensor.
ROWS: dict[str, dict[tuple[str, str], tuple[float, float]]] = {
    "multiprocessing": {
        ("`Tensor`", "to a worker"): (3, 3),
        ("`Tensor`", "back"): (3, 3),
        ("`SharedTensor`", "to a worker"): (0, 0),
        ("`scope.empty`", "back"): (0, 0),
    },
    "loader": {
        ("`Tensor`", "to the loop"): (2, 3),
        ("`scope.empty`", "to the loop"): (0, 0),
    },
    "ray": {
        ("`ray.put`", "to the object store"): (1, 0),
        ("`ray.get`", "from the object store"): (0, 0),
        ("argument of a task", "to a worker"): (0, 0),
        ("result of a task", "back"): (1, 0),
    },
}

#: The library of an engine.
LIBRARIES = {"loader": "torch", "ray": "ray"}


@pytest.mark.parametrize("engine", ROWS)
def test_engine_needs_the_memory_that_the_page_states(engine: str) -> None:
    if engine in LIBRARIES:
        require(LIBRARIES[engine])
    # Sometimes an engine uses memory again that it has, which then is not new.
    for _ in range(2):
        if all(used == pytest.approx(ROWS[engine][row], abs=0.3) for row, used in measured(engine).items()):
            return
    for row, used in measured(engine).items():
        assert used == pytest.approx(ROWS[engine][row], abs=0.3), row


def measured(engine: str) -> dict[tuple[str, str], tuple[float, float]]:
    """The memory of each way through an engine."""
    program = Path(__file__).with_name("engine_memory.py")
    result = subprocess.run(
        [sys.executable, str(program), "64", engine], capture_output=True, text=True, timeout=200
    )
    assert result.returncode == 0, result.stderr
    found = {}
    for line in result.stdout.splitlines()[2:]:
        _, _, what, direction, sender, receiver, _ = (cell.strip() for cell in line.split("|"))
        found[what, direction] = (float(sender), float(receiver))
    assert found.keys() == ROWS[engine].keys()
    return found
