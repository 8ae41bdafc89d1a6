"""The matrix: its outcomes, crashes and tables, and its command."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from conftest import require
from dlbridge_conformance import matrix
from dlbridge_conformance.adapters.dlbridge import DLBridge
from dlbridge_conformance.matrix import TO, Exchange, arrays, exchange, exchanges, grid, kinds

import dlbridge
from dlbridge._core import _consumers


class Ours(DLBridge):
    """dlbridge, with one dtype."""

    dtypes = ("float32",)

    def __init__(self) -> None:
        self.load()


class Copying(Ours):
    """A consumer that copies."""

    def from_dlpack(self, producer: Any, **keywords: Any) -> Any:
        return dlbridge.asdlpack(producer, copy=True)


class Refusing(Ours):
    """A consumer that raises."""

    def from_dlpack(self, producer: Any, **keywords: Any) -> Any:
        raise BufferError("no\nmore")


class Reversing(Ours):
    """A consumer with other elements."""

    def from_dlpack(self, producer: Any, **keywords: Any) -> Any:
        return self.reversed(super().from_dlpack(producer))


class Writing(Ours):
    """A consumer that writes read-only memory."""

    def from_dlpack(self, producer: Any, **keywords: Any) -> Any:
        return super().from_dlpack(producer)

    def write(self, array: Any, value: float) -> None:
        super().write(type("Writable", (), {"readonly": False, "address": array.address, "dtype": array.dtype}), value)


class Deadly(Ours):
    """A consumer whose process dies for a transposed array, and hangs for a reversed one."""

    def from_dlpack(self, producer: Any, **keywords: Any) -> Any:
        array = super().from_dlpack(producer)
        if array.strides[0] == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        if array.strides[0] < 0:
            time.sleep(60)
        return array


@pytest.mark.parametrize(
    ("consumer", "layout", "outcome"),
    [
        (Ours(), "C order", ("zero-copy", "")),
        (Ours(), "sliced", ("zero-copy", "")),
        (Ours(), "read_only", ("zero-copy", "")),
        (Copying(), "C order", ("copied", "")),
        (Refusing(), "C order", ("refused", "BufferError: no")),
        (Writing(), "C order", ("zero-copy", "")),
        (Writing(), "read_only", ("wrong", "read-only memory can be written")),
    ],
)
def test_exchange_has_every_kind_of_outcome(consumer: Ours, layout: str, outcome: tuple[str, str]) -> None:
    assert exchange(Ours(), consumer, "float32", layout, False) == outcome


def test_other_elements_are_wrong_and_shown() -> None:
    found = exchange(Ours(), Reversing(), "float32", "C order", False)
    assert found is not None
    assert found[0] == "wrong"
    assert found[1].startswith("[[") and "not [[0.0, 1.0, -2.5]" in found[1]


def test_array_that_the_producer_cannot_make_is_left_out() -> None:
    assert exchange(Ours(), Ours(), "float4_e2m1fn", "sliced", False) is None


def test_crash_and_hang_are_outcomes_and_the_rest_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matrix, "LIMIT", 1.0)
    found = {one.layout: tuple(one.direct) for one in exchanges(Ours(), Deadly(), arrays(Ours()))}
    assert found["transposed"] == ("crashed", "the process died of SIGKILL")
    assert found["reversed"] == ("crashed", "not done after 1 s")
    assert {kind for kind, _ in found.values()} == {"zero-copy", "crashed"}


def test_tables_count_right_elements_and_mark_worse_pairs() -> None:
    shared, refused = ("zero-copy", ""), ("refused", "TypeError: no")
    better = [Exchange("int8", "C order", refused, shared), Exchange("int8", "stepped", shared, shared)]
    rows = {"torch": {"made": better, "other": [Exchange("int8", "C order", shared, refused)]}}
    assert grid(rows, ["made", "other"]).splitlines()[2:] == ["| made | 1 → 2/2 |", "| other | 1 → 0/1 ! |"]
    assert kinds(rows).splitlines()[2:] == ["| torch | 3 | 2 |  | 1 |  |  |"]


def test_names_of_to_are_those_of_dlbridge() -> None:
    assert {consumer["name"] for consumer in _consumers()} - {"pandas", "pillow", "polars"} == TO


def command(*words: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Runs the command."""
    line = [sys.executable, "-m", "dlbridge_conformance.matrix", *words]
    return subprocess.run(line, capture_output=True, text=True, timeout=300, cwd=cwd)


def test_command_shows_tables_and_each_exchange_of_a_pair() -> None:
    require("numpy")
    both = command("--producer", "numpy", "--producer", "dlbridge", "--consumer", "numpy")
    assert (both.returncode, both.stderr) == (0, "numpy: 1 of 1 consumers\n")
    assert both.stdout.count("\n| ") == 5
    pair = command("--producer", "dlbridge", "--consumer", "numpy", "-q")
    assert (pair.returncode, pair.stderr) == (0, "")
    assert "\nfloat32, C order: directly zero-copy; through dlbridge zero-copy\n" in pair.stdout
    assert "\nbfloat16, C order: directly refused: " in pair.stdout


def test_library_whose_import_crashes_is_an_outcome(tmp_path: Path) -> None:
    Path(tmp_path, "deadlib.py").write_text("import os\nos.abort()\n")
    done = command("--producer", "dlbridge", "--consumer", "deadlib", "-q", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "\nfloat32, C order: directly crashed: the process died of SIGABRT; " in done.stdout


def test_unknown_library_is_refused() -> None:
    done = command("--consumer", "nix")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("unknown library 'nix'")
