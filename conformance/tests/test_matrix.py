"""The matrix: its outcomes, its failures, and its reports."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from conftest import require
from dlbridge_conformance.matrix import Cell, Change, Kind, Matrix, Outcome, Pair, Spec, change
from dlbridge_conformance.matrix import exchange as exchange_module
from dlbridge_conformance.matrix import report, worker
from dlbridge_conformance.matrix.consumer import Consumer, View, consumers
from dlbridge_conformance.matrix.party import buffer_address
from dlbridge_conformance.matrix.producer import Made, Producer, producers
from dlbridge_conformance.matrix.samples import LAYOUTS, encoded, laid_out, same, swapped, values
from dlbridge_conformance.outcome import NotApplicable

PLAIN = Spec("uint8", "C order")


def exchanged(producer: Producer, consumer: Consumer, spec: Spec = PLAIN, through: bool = False) -> Kind:
    """Runs one exchange in this process."""
    return exchange_module.exchange(producer, consumer, spec, through).kind


class ByteArray(Producer):
    """bytearray."""

    name = "bytearray"
    dtypes = ("uint8",)
    read_only = False

    def make(self, spec: Spec) -> Made:
        obj = bytearray(range(12))
        return Made(obj, list(obj), buffer_address(obj), lambda: list(obj), self.read_only)


class Odd(View):
    """A memoryview consumer with a given fault."""

    def __init__(self, take: Any = memoryview, address: int | None = None) -> None:
        super().__init__()
        self.take_it, self.says = take, address

    def take(self, obj: Any, expected: Any) -> Any:
        return self.take_it(obj)

    def address(self, array: Any) -> int | None:
        return super().address(array) if self.says is None else self.says


class Frozen(ByteArray):
    """Bytes that are only declared as read-only."""

    read_only = True


def refuse(obj: Any) -> Any:
    raise BufferError("no\nmore")


def die(obj: Any) -> Any:
    os.kill(os.getpid(), signal.SIGKILL)


def sleep(obj: Any) -> Any:
    time.sleep(60)


def turned_round(obj: Any) -> Any:
    return memoryview(bytes(obj)[::-1])


@pytest.mark.parametrize(
    ("consumer", "kind"),
    [
        (Odd(), Kind.ZERO_COPY),
        (Odd(lambda obj: memoryview(bytearray(obj))), Kind.COPIED),
        (Odd(lambda obj: memoryview(bytes(obj))), Kind.COPIED),
        (Odd(turned_round), Kind.WRONG),
        (Odd(refuse), Kind.REFUSED),
    ],
)
def test_exchange_reports_every_kind_of_outcome(consumer: Consumer, kind: Kind) -> None:
    assert exchanged(ByteArray(), consumer) is kind


def test_written_read_only_memory_is_not_zero_copy() -> None:
    assert exchanged(Frozen(), Odd()) is Kind.UNPROTECTED
    assert exchanged(Frozen(), Odd(lambda obj: memoryview(obj).toreadonly())) is Kind.ZERO_COPY


def test_wrong_address_is_detected() -> None:
    class Liar(ByteArray):
        def make(self, spec: Spec) -> Made:
            made = super().make(spec)
            made.address = 4096
            return made

    copying = Odd(lambda obj: memoryview(bytearray(obj)), address=4096)
    assert exchanged(Liar(), copying) is Kind.WRONG


def test_producer_with_wrong_values_is_not_a_cell() -> None:
    class Off(ByteArray):
        def make(self, spec: Spec) -> Made:
            made = super().make(spec)
            return Made(made.obj, [0], made.address, made.read)

    with pytest.raises(NotApplicable):
        exchanged(Off(), Odd())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_crash_and_hang_are_outcomes_and_the_rest_runs() -> None:
    class Deadly(Odd):
        def take(self, obj: Any, expected: Any) -> Any:
            return die(obj) if isinstance(obj, bytearray) else sleep(obj)

    todo = [(0, False), (0, True), (1, False)]
    found = dict(worker.forked(ByteArray(), Deadly(), [PLAIN, PLAIN], todo, 1.0))
    killed = Outcome(Kind.CRASHED, "SIGKILL")
    assert found == {todo[0]: killed, todo[1]: Outcome(Kind.HUNG, "not done after 1 s"), todo[2]: killed}


@pytest.mark.parametrize(
    ("before", "after", "what"),
    [
        (Kind.REFUSED, Kind.ZERO_COPY, Change.WORKS),
        (Kind.WRONG, Kind.COPIED, Change.WORKS),
        (Kind.UNPROTECTED, Kind.COPIED, Change.WORKS),
        (Kind.CRASHED, Kind.REFUSED, Change.SAFE),
        (Kind.COPIED, Kind.ZERO_COPY, Change.SHARES),
        (Kind.ZERO_COPY, Kind.ZERO_COPY, Change.SAME),
        (Kind.WRONG, Kind.UNPROTECTED, Change.SAME),
        (Kind.ZERO_COPY, Kind.COPIED, Change.COPIES),
        (Kind.ZERO_COPY, Kind.REFUSED, Change.WORSE),
        (Kind.REFUSED, Kind.WRONG, Change.WORSE),
        (Kind.REFUSED, Kind.CRASHED, Change.WORSE),
    ],
)
def test_change_compares_two_outcomes(before: Kind, after: Kind, what: Change) -> None:
    assert change(Outcome(before), Outcome(after)) is what


def test_values_are_compared_by_shape_kind_and_number() -> None:
    assert same([[1, 2]], [[1, 2]])
    assert not same([[1, 2]], [[1, 3]])
    assert not same([1, 2], [[1, 2]])
    assert not same([1], [True])
    assert not same([1.0], [1])
    assert not same([[]], [])


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int64", "float16", "float64", "complex64", "bool", "bfloat16"])
def test_samples_have_twelve_numbers_and_two_byte_orders(dtype: str) -> None:
    numbers = [number for row in values(dtype) for number in row]
    assert len(numbers) == 12
    assert len({*map(str, numbers)}) >= (2 if dtype == "bool" else 11)
    data = encoded(numbers, dtype)
    assert swapped(swapped(data, dtype), dtype) == data
    assert encoded(numbers, dtype, big_endian=True) == swapped(data, dtype)


def test_layouts_move_values() -> None:
    rows = values("int32")
    moved = {"transposed", "stepped", "reversed", "broadcast", "sliced", "zero-size", "0-d", "size-1 axis", "byte offset"}
    for layout in LAYOUTS:
        assert (laid_out(layout, rows) != rows) is (layout in moved), layout


def small() -> Matrix:
    """A matrix of two cells."""
    refused, shared = Outcome(Kind.REFUSED, "TypeError: no"), Outcome(Kind.ZERO_COPY)
    cells = [Cell(Spec("float32", "C order"), refused, shared), Cell(Spec("float32", "read-only"), refused, Outcome(Kind.WRONG))]
    return Matrix({"made": "1"}, {"memoryview": ""}, [Pair("made", "memoryview", cells)], "0", "3", "system")


def test_report_names_worse_cells() -> None:
    text = report.document(small())
    assert "| made | 0 → 1/2 ! |" in text
    assert "1 works, 0 safe, 0 shares, 0 same, 0 copies, 1 worse" in text
    assert "worse than directly: python -m dlbridge_conformance.matrix" in report.worse(small())


def matrix(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs the command."""
    command = [sys.executable, "-m", "dlbridge_conformance.matrix", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


def test_matrix_command_writes_the_reports(tmp_path: Path) -> None:
    require("numpy")
    select = ["--producer", "numpy", "--producer", "memoryview", "--producer", "legacy object",
              "--consumer", "numpy", "--consumer", "memoryview"]  # fmt: skip
    written = []
    for name in ("first", "second"):
        target = tmp_path / f"{name}.md"
        run = matrix(*select, "--markdown", str(target))
        assert run.returncode == 0, run.stdout + run.stderr
        assert "6/6" in run.stderr
        written.append(target.read_text())
    assert written[0] == written[1]
    assert re.search(r"\| memoryview \| 0 → (\d+)/\1 \| \1/\1 \|", written[0])
    one = matrix("--producer", "memoryview", "--consumer", "memoryview", "--dtype", "uint8")
    assert "memoryview -> memoryview, uint8, C order: same" in one.stdout


def test_wrong_arguments() -> None:
    for option in ("--producer", "--consumer", "--dtype", "--layout"):
        run = matrix(option, "nothing")
        assert (run.returncode, run.stdout) == (2, "")
        assert "'nothing'" in run.stderr
    assert "memoryview" in matrix("--list").stdout


def test_every_producer_has_cells() -> None:
    assert all(producer.specs() for producer in producers().values())
    assert len(consumers()) > 20
