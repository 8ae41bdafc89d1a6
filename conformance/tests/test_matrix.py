"""The matrix: its outcomes, its failures, and its reports."""

from __future__ import annotations

import json as plain_json
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
from dlbridge_conformance.matrix import Cell, Change, Kind, Matrix, Outcome, Pair, Spec, Way, change
from dlbridge_conformance.matrix import exchange as exchange_module
from dlbridge_conformance.matrix import versions, worker
from dlbridge_conformance.matrix.__main__ import main as matrix_main
from dlbridge_conformance.matrix.buffers import ByteArray
from dlbridge_conformance.matrix.catalog import consumers, producers
from dlbridge_conformance.matrix.columns import View
from dlbridge_conformance.matrix.consumer import Consumer
from dlbridge_conformance.matrix.producer import Made, Producer
from dlbridge_conformance.matrix.report import html, json, markdown, terminal
from dlbridge_conformance.matrix.samples import LAYOUTS, encoded, laid_out, same, swapped, values
from dlbridge_conformance.outcome import NotApplicable

PLAIN = Spec("uint8", "C order")


def exchanged(producer: Producer, consumer: Consumer, spec: Spec = PLAIN, way: Way = Way.DIRECT) -> Kind:
    """Runs one exchange in this process."""
    return exchange_module.exchange(producer, consumer, spec, way).kind


class Odd(View):
    """A memoryview consumer with a given fault."""

    def __init__(self, take: Any = memoryview, address: int | None = None) -> None:
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
    turns = {Way.DIRECT: die, Way.ASDLPACK: sleep}

    class Deadly(Odd):
        conversion = "memoryview(obj)"

        def take(self, obj: Any, expected: Any) -> Any:
            return turns[Way.DIRECT if isinstance(obj, bytearray) else Way.ASDLPACK](obj)

        def convert(self, obj: Any) -> Any:
            return memoryview(obj)

    todo = [(0, way) for way in Way]
    found = {way: outcome for (_, way), outcome in worker.forked(ByteArray(), Deadly(), [PLAIN], todo, 1.0)}
    assert found[Way.DIRECT] == Outcome(Kind.CRASHED, "SIGKILL")
    assert found[Way.ASDLPACK] == Outcome(Kind.HUNG, "not done after 1 s")
    assert found[Way.TO] == Outcome(Kind.NONE)
    assert found[Way.CONVERTED] == Outcome(Kind.ZERO_COPY)


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


#: Every text has markup, so that a missing escape shows.
NASTY = "</script><b onclick=x>&'\"|`"


def small() -> Matrix:
    """A matrix of two cells."""
    cells = [
        Cell(Spec("float32", layout), {
            Way.DIRECT: Outcome(Kind.REFUSED, f"TypeError: {NASTY}"), Way.ASDLPACK: Outcome(Kind.ZERO_COPY),
            Way.TO: Outcome(to), Way.CONVERTED: Outcome(Kind.NONE),
        })
        for layout, to in (("C order", Kind.NONE), ("read-only", Kind.WRONG))
    ]  # fmt: skip
    pair = Pair(NASTY, "memoryview", cells)
    return Matrix({NASTY: "1"}, {"memoryview": ""}, [pair], "0", "3", "system")


def test_matrix_json_round_trips() -> None:
    matrix = small()
    assert json.read(json.write(matrix)) == matrix
    with pytest.raises(ValueError, match="schema"):
        json.read("[]")


def test_matrix_page_is_self_contained_and_escapes() -> None:
    page = html.page(small())
    assert page.count("</script>") == 2
    assert "<b onclick" not in page
    assert not re.search(r"(?:src|href)=", page)
    found = re.search(r'id="data">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    data = plain_json.loads(found[1])
    assert list(data["producers"]) == [NASTY]
    assert data["details"][1] == f"TypeError: {NASTY}"


def test_documentation_lists_worse_cells() -> None:
    text = markdown.document(small())
    assert "0 → 1/2 !" in text
    assert "1 exchanges are worse through dlbridge" in text
    assert "into memoryview (read-only: float32): directly refused" in text
    assert "worse than directly: python -m dlbridge_conformance.matrix" in terminal.worse(small())


def matrix(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs the command."""
    command = [sys.executable, "-m", "dlbridge_conformance.matrix", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


def test_matrix_command_writes_the_reports(tmp_path: Path) -> None:
    require("numpy")
    select = ["--producer", "numpy", "--producer", "bytearray", "--producer", "legacy object",
              "--consumer", "numpy", "--consumer", "memoryview"]  # fmt: skip
    written = []
    for name in ("first", "second"):
        target = tmp_path / f"{name}.md"
        run = matrix(*select, "--markdown", str(target), "--json", str(tmp_path / "all.json"))
        assert run.returncode == 0, run.stdout + run.stderr
        assert "6/6" in run.stderr
        written.append(target.read_text())
    assert written[0] == written[1]
    found = json.read((tmp_path / "all.json").read_text())
    pairs = {(pair.producer, pair.consumer): {str(cell.spec): cell for cell in pair.cells} for pair in found.pairs}
    cell = pairs["bytearray", "numpy"]["uint8, C order"]
    assert (cell.ways[Way.DIRECT].kind, cell.through.kind) == (Kind.REFUSED, Kind.ZERO_COPY)
    cell = pairs["numpy", "memoryview"]["float32, reversed"]
    assert (cell.ways[Way.DIRECT].kind, cell.through.kind) == (Kind.ZERO_COPY, Kind.ZERO_COPY)
    one = matrix("--producer", "bytearray", "--consumer", "memoryview")
    assert "bytearray -> memoryview, uint8, C order: same" in one.stdout


def test_wrong_arguments() -> None:
    for option in ("--producer", "--consumer", "--dtype", "--layout"):
        run = matrix(option, "nothing")
        assert (run.returncode, run.stdout) == (2, "")
        assert "'nothing'" in run.stderr
    assert "bytearray" in matrix("--list").stdout


def test_every_consumer_has_its_code() -> None:
    assert all("obj" in consumer.call for consumer in consumers().values())
    assert all(producer.specs() for producer in producers().values())


def test_versions_shows_releases_and_outcomes_that_differ() -> None:
    def matrix(version: str, kind: Kind) -> Matrix:
        cell = Cell(PLAIN, {way: Outcome(kind) for way in Way})
        return Matrix({"a": "1"}, {"b": version}, [Pair("a", "b", [cell])], "0.1", "3.11", "Linux")

    old, new = matrix("1", Kind.COPIED), matrix("2", Kind.ZERO_COPY)
    lines = list(versions.differences(old, new))
    assert lines[0] == "b: 1 -> 2"
    assert f"a -> b, {PLAIN}, to: {Kind.COPIED.value} -> {Kind.ZERO_COPY.value}" in lines
    assert len(lines) == 1 + len(Way)
    assert list(versions.differences(old, old)) == []


def test_versions_of_one_interpreter_do_not_differ(capsys: pytest.CaptureFixture[str]) -> None:
    same = ["--versions", "--python", sys.executable, "--python", sys.executable]
    assert matrix_main([*same, "--producer=bytearray", "--consumer=memoryview", "--layout=C order", "--dtype=uint8"]) == 0
    assert capsys.readouterr().out.endswith("    no difference\n")
    assert matrix_main(same[:3]) == 2
    assert matrix_main(["--versions", "--python", "/nowhere", *same[1:3]]) == 2
    assert "/nowhere cannot be run" in capsys.readouterr().err
