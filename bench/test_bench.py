"""The rows, their tables, the budgets and the stored sizes, from invented results."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import instructions
import pytest
import report
import rows
import sizes
import speed
from rows import BEST, BEST_CHECKED, BY_NAME, ROWS, Call, Goal, Row

NO_OP = BY_NAME["PyTorch tensor -> no-op argument"]


def a_run(ours: float = 10.0, **more: float) -> dict[str, Any]:
    names = {library: 20.0 for row in ROWS for library in row.calls}
    run: dict[str, Any] = {row.name: {library: names[library] for library in row.calls} for row in ROWS}
    run[NO_OP.name] |= {"dlbridge": ours, **more}
    run["copies"] = [{"case": "transposed", "bytes": 64, "dlbridge": 4.5, "numpy": 1.25, "torch": None, "memcpy": 10.0}]
    return run


def test_every_goal_names_measured_rows() -> None:
    assert len(BY_NAME) == len(ROWS)
    for row in ROWS:
        for goal in row.goals:
            assert goal.ours in row.calls, row.name
            if goal.less:
                assert goal.less[1] in BY_NAME[goal.less[0]].calls, row.name
            elif goal.peer == BEST_CHECKED:
                assert any(map(report.is_checked, row.calls)), row.name
            elif goal.peer not in (None, BEST):
                assert goal.peer in BY_NAME[goal.of or row.name].calls, row.name


def test_every_budget_has_a_row_and_every_row_its_budget() -> None:
    budgets = json.loads(instructions.BUDGETS.read_text())
    assert [row.name for row in ROWS if row.budget and row.group == "rust"] == [n for n in budgets if n.startswith("Rust")]
    assert set(budgets) == {row.name for row in ROWS if row.budget}
    counted = [row for framework in instructions.FRAMEWORKS for row in instructions.with_budget(framework)]
    assert len(counted) == sum(row.group != "rust" for row in ROWS if row.budget)


def test_goal_compares_with_a_peer_a_limit_or_a_difference() -> None:
    run = a_run(30.0, dlpark=15.0, **{"floor: owned table": 1.0, "tvm-ffi" + rows.CHECKED: 40.0})
    assert report.measured(run, NO_OP, Goal(1, "dlpark")) == 2
    assert report.measured(run, NO_OP, Goal(1, BEST)) == 2
    assert report.measured(run, NO_OP, Goal(1, BEST_CHECKED)) == 1.5
    assert report.measured(run, NO_OP, Goal(1)) == 30
    assert report.measured(run, NO_OP, Goal(1, less=("PyTorch tensor -> import", "dlbridge"))) == 10
    assert report.measured(run, NO_OP, Goal(1, "nanobind", of="JAX array -> no-op argument")) == 1.5
    assert report.measured({}, NO_OP, Goal(1)) is None


def test_goal_is_met_only_if_every_run_meets_it() -> None:
    assert report.is_met(Goal(1.15, "floor"), [1.15, 1.0])
    assert not report.is_met(Goal(1.15, "floor"), [1.0, 1.16])
    assert not report.is_met(Goal(1.15, "floor"), [1.0, None])


def test_tables_have_goals_libraries_and_copies() -> None:
    runs = [a_run(30.0), a_run(10.0)]
    runs[0][NO_OP.name]["dlpk"] = "refused: TypeError"
    text = report.tables(runs)
    line = "| PyTorch tensor -> no-op argument | 30.0 | dlpark: 20.0 | 20.0 | 1.50 / 0.50 | <= 1 x the best peer | **no** |"
    assert line in text
    assert "| PyTorch tensor -> no-op argument | nanobind | 20.0 / 20.0 ns | 0.67 |" in text
    assert "| PyTorch tensor -> no-op argument | dlpk | refused: TypeError | |" in text
    assert "| transposed | 64 | 4.50 | 1.25 |  | 10.0 | 3.60 / 3.60 |" in text


def test_best_considers_only_wanted_libraries() -> None:
    run = {"a": {"numpy's own `from_dlpack`": 1.0, "floor: buffer": 2.0, "dlbridge": 3.0, "nanobind": 4.0, "dlpk": "crash"}}
    assert report.best(run, "a", report.is_peer) == ("nanobind", 4.0)
    assert report.best(run, "a", report.is_floor) == ("floor: buffer", 2.0)
    assert report.best(run, "a", report.is_checked) is None


def test_budget_without_a_row_and_row_without_a_budget_are_reported() -> None:
    lines, wrong = instructions.compared({"a": 104, "b": 50, "c": 7, "e": 103}, {"a": 100, "b": 100, "d": 1, "e": 100})
    assert wrong == ["a: 104 instructions, of 100", "c: no budget", "d: a budget, and no row"]
    assert lines[1].endswith("OVER") and lines[2].endswith("less")


def test_count_of_a_library_excludes_its_callees_and_callers() -> None:
    text = """version: 1
positions: line
events: Ir
ob=(1) /lib/with_dlbridge.so
fn=(1) noop
0 7
+3 5
cob=(2) /lib/libtorch.so
cfn=(2) export
calls=2 0
* 1000
-2 1
ob=(2)
fn=(2)
0 500
cob=(1)
cfn=(3) drop
calls=1 0
4 600
ob=(1)
fn=(3)
9 20
totals: 533
"""
    assert instructions.of_libraries(text, ("with_dlbridge",)) == 33
    assert instructions.of_libraries(text, ("libtorch", "libc")) == 500
    assert instructions.total(text) == 533


def test_row_of_a_missing_framework_keeps_its_budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "budgets.json"
    row = instructions.with_budget("torch")[0].name
    file.write_text(json.dumps({"counted": 100, row: 50}))
    monkeypatch.setattr(instructions, "of_rust", lambda *_: {})
    monkeypatch.setattr(instructions, "of_framework", lambda *_: {"counted": 90})
    monkeypatch.setattr(instructions, "find_spec", lambda name: name == "numpy")
    instructions.check("rust", tmp_path, False, file)
    instructions.check("rust", tmp_path, True, file)
    assert json.loads(file.read_text()) == {"counted": 90, row: 50}


def test_call_is_the_difference_of_two_lengths() -> None:
    # 500 instructions around the loop and 7 per turn; then a row with 11 per turn.
    assert instructions.per_call([500 + 7 * 1000, 500 + 7 * 3000, 11 * 1000, 11 * 3000]) == [7, 11]


def test_row_with_several_tensors_makes_fewer_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    row = Row("each", "numpy", {"dlbridge": Call("x.append(1)", "x = []")}, budget="dlbridge", each=1000)
    monkeypatch.setattr(instructions, "with_budget", lambda _: [row])
    monkeypatch.setattr(instructions, "loop", lambda call: made.append)
    instructions.run_rows("numpy", 1000, 3000)
    # The empty loop and the row: their warm-up, then both lengths.
    assert made == [100, 3, 1000, 3000, 1, 3]


def test_row_that_ends_the_process_is_left_out_of_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, ...]] = []

    def command(*words: str, **_: Any) -> subprocess.CompletedProcess[str]:
        asked.append(words)
        if len(asked) == 1:
            return subprocess.CompletedProcess(words, -11, "", "begin: a: one\nbegin: a: two\n")
        return subprocess.CompletedProcess(words, 0, '{"a": {"one": 1.0, "two": "crash"}}\nlast words\n', "")

    monkeypatch.setattr(speed, "command", command)
    assert speed.group("numpy", quick=True) == {"a": {"one": 1.0, "two": "crash"}}
    assert asked[1][-2:] == ("--without", "a: two")


def test_result_of_a_row_is_the_median_of_several_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    processes = iter([3.0, 1.0, 2.0, 9.0, 0.5])
    monkeypatch.setattr(speed, "in_process", lambda *_: {"a": {"one": next(processes), "two": "refused: TypeError"}})
    assert speed.group("numpy", quick=False) == {"a": {"one": 2.0, "two": "refused: TypeError"}}
    assert speed.typical([1.0, 2.0, "crash"]) == "crash"


def test_rust_row_excludes_its_source(monkeypatch: pytest.MonkeyPatch) -> None:
    works = {call.statement: {"ns": 30.0, "allocations": 2} for row in ROWS if row.group == "rust" for call in row.calls.values()}
    costs = works | {f"{work}/source": {"ns": 10.0, "allocations": 1} for work in ("vec", "four", "array")}
    monkeypatch.setattr(speed, "answer", lambda *_: costs)
    found = speed.of_rust("program", {name: 7 for name in costs}, quick=True)
    assert found["Rust: vec"]["dlpark"] == 20
    assert found["Rust: vec, allocations"]["dlbridge"] == 1
    assert found["Rust: vec, instructions"] == {"floor": 0, "dlbridge": 0, "dlpark": 0, "dlpk": 0, "dlpack-rs": 0}
    assert "Rust: vec, instructions" not in speed.of_rust("program", {}, quick=True)


def test_larger_size_fails_and_write_stores_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stored = {"template": 1_000_000, "one dtype": 2000, "gone": 1}
    assert sizes.faults({"template": 1_029_999, "one dtype": 2064, "gone": 0}, stored) == []
    assert sizes.faults({"template": 1_030_001, "one dtype": 2065, "new": 1}, stored) == [
        "template: 1030001 bytes, of 1000000",
        "one dtype: 2065 bytes, of 2000",
        "new: no stored size",
        "gone: a stored size, and no measurement",
    ]
    measured = {"template": 1000}
    monkeypatch.setattr(sizes, "sizes", lambda: measured)
    file = tmp_path / "sizes.json"
    with pytest.raises(SystemExit, match="template: no stored size"):
        sizes.check(False, file)
    sizes.check(True, file)
    sizes.check(False, file)
    measured["template"] = 1100
    with pytest.raises(SystemExit, match="template: 1100 bytes, of 1000"):
        sizes.check(False, file)


def test_extension_has_the_same_functions_with_nanobind() -> None:
    folder = Path(sizes.__file__).parent / "extension"
    rust = (folder / "src/typed_arguments.rs").read_text()
    names = [line.split(":")[0].strip() for line in rust.splitlines() if line.strip().startswith("of_")]
    cpp = (folder / "nanobind.cpp").read_text()
    assert len(names) == 13 and all(f'"{name}"' in cpp for name in names)
