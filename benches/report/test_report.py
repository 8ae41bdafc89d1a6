"""The page, the plot and the budgets, from invented results."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
import xml.etree.ElementTree
from pathlib import Path
from typing import Any

import budgets
import counted
import page
import plot
import pytest
import run
import targets
from targets import Target

ROOT = Path(__file__).parents[2]


def one_run(ours: float = 10.0) -> dict[str, Any]:
    rust = {
        f"{work}/{library}": {"ns": 20 + more, "allocations": 1 + blocks}
        for work in targets.RUST
        for library, more, blocks in (("source", 0, 0), ("floor", 9, 1), ("dlbridge", ours, 1), ("dlpark", 30, 2))
    }
    works = [work for work in page.WORKS if work not in targets.RUST]
    python: dict[str, Any] = {
        work: {
            "dlbridge": ours,
            targets.BARE: 4.0,
            "nanobind": 20.0,
            "dlpark": 25.0,
            "rust-numpy": "refused: TypeError",
        }
        for work in works
    }
    python["numpy -> no-op"]["floor: buffer"] = 5.0
    python["torch -> no-op"]["tvm-ffi"] = 1234.0
    python["new tensor -> torch"] = {"dlbridge: `into_library`": ours, "dlpark: capsule": 40.0}
    python["object -> numpy"]["pyo3-dlpack"] = "crash"
    sizes = {"1 KiB": 10.0, "1 GiB": 11.0}
    return {
        "rust": rust,
        "python": python,
        "startup": {"dlbridge": 4.0},
        "instructions": {row: 200 if row.endswith("source") else 390 for row in rust},
        "scale": {
            "bytes": {"numpy": {"dlbridge": sizes, "nanobind": sizes}},
            "tensors": {"dlbridge": {"100": {"there": 1.0, "back": 2.0}, "1000": {"there": 3.0, "back": 4.0}}},
            "many": {"list": {"dlbridge": {"1000": 5.0, "100000": 6.0}}},
            "threads": {"dlbridge": {"1": 4.0, "2": 2.0, "16": 1.0}},
            "processes": {"dlbridge": {"1": 4.0, "4": 8.0}},
            "rust threads": {"vec/dlbridge": {"1": 10.0, "2": 9.0, "16": 1.0}},
            "safetensors": {
                "bytes": 5_000_000_000,
                "tensors": 1000,
                "libraries": {"Rust: dlbridge": {"ms": 1.5, "resident": 2**20}},
            },
        },
    }


def results() -> dict[str, Any]:
    runs = [one_run(10.0), one_run(11.0)]
    return {"machine": {"processor": "abacus"}, "instructions": runs[0].pop("instructions"), "runs": runs}


def test_ratio_excludes_the_source() -> None:
    assert Target("vec", "", 1.15, "floor").measured(one_run()) == pytest.approx(10 / 9)
    assert Target("vec", "", 1, quantity="allocations").measured(one_run()) == 1
    assert Target("vec", "", 200, quantity="instructions").measured(one_run()) == 190


def test_target_is_reached_only_if_all_runs_reach_it() -> None:
    target = Target("vec", "", 1.15, "floor")
    assert target.reached([one_run(10.0), one_run(10.3)])
    assert not target.reached([one_run(10.0), one_run(10.4)])


def test_target_without_a_measurement_is_not_reached() -> None:
    missing = Target("object -> numpy", "", 0.8, "pyo3-dlpack")
    assert missing.measured(one_run()) is None
    assert not missing.reached([one_run()])


def test_target_can_subtract_another_row() -> None:
    assert Target("numpy -> no-op", "", 40, subtract=targets.BARE).measured(one_run()) == 6


def test_target_can_subtract_another_work() -> None:
    work = targets.FIRST.format("rust-numpy")
    run = one_run()
    run["python"][work]["dlbridge"] = 45.0
    target = next(t for t in targets.TARGETS if t.work == work)
    assert target.measured(run) == 35
    assert target.reached([run])


def test_best_peer_is_the_fastest_of_each_run() -> None:
    target = Target("torch -> no-op", "", 1, targets.BEST)
    assert target.measured(one_run(30.0)) == 1.5
    faster = one_run(30.0)
    faster["python"]["torch -> no-op"].update({"dlpark": 15.0, "floor: owned table": 1.0, "torch's own `from_dlpack`": 1.0})
    assert target.measured(faster) == 2
    assert page.promised(target) == "1 x the best peer"


def test_reference_can_be_of_another_work() -> None:
    run = one_run()
    run["python"]["jax -> no-op"]["nanobind"] = 50.0
    target = Target("jax -> object", "", 0.25, "nanobind", reference_work="jax -> no-op")
    assert target.measured(run) == 0.2 and target.reached([run])


def test_goals_of_other_tables_are_read_from_them() -> None:
    run = one_run()
    run["scale"]["tensors"] = {"dlbridge": {"10000": {"there": 9.0, "back": 2.0}}, "tvm-ffi": {"10000": {"there": 10.0}}}
    run["scale"]["tensors"]["tvm-ffi"]["10000"]["back"] = 8.0
    assert Target("state dict, there", "", 0.9, "tvm-ffi").measured(run) == 0.9
    assert Target("state dict, back", "", 0.9, "tvm-ffi").measured(run) == 0.25
    run["scale"]["many"] = {"list": {"dlbridge": {"1": 300.0, "1000": 100.0, "100000": 130.0}}}
    flat = Target("100000 in a list", "", 1.2, "dlbridge", reference_work="1000 in a list")
    assert flat.measured(run) == 1.3 and not flat.reached([run])
    assert page.promised(flat) == "1.2 x dlbridge of 1000"
    run["startup"] = {"dlbridge": 4.5}
    assert Target("import dlbridge", "", 5, quantity="ms").reached([run])
    run["copies"] = [
        {"dlbridge": 10.0, "numpy": 10.4, "torch": None},
        {"dlbridge": 10.0, "numpy": 5.0, "torch": 11.0},
        {"dlbridge": 10.0, "numpy": 11.0, "torch": 5.0},
    ]
    assert Target("copies", "", 0, quantity="cases").measured(run) == 2


def test_target_of_a_newer_row_is_left_out() -> None:
    run = one_run()
    assert "Series of polars" in page.targets([run])
    del run["python"]["polars -> no-op"]
    assert "Series of polars" not in page.targets([run])


@pytest.fixture
def rows(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module of the rows; no framework is imported before a row is measured."""
    monkeypatch.syspath_prepend(ROOT / "benches" / "python")
    return importlib.import_module("rows")


def test_every_group_of_rows_is_measured(rows: Any) -> None:
    assert {row.group for row in rows.rows()} == set(run.GROUPS)


def test_each_run_is_written_before_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "results.json"
    described, done = {"processor": "abacus"}, [0]

    def of_run(*_: object) -> int:
        if done[0] == 1:
            raise KeyboardInterrupt
        done[0] += 1
        return done[0]

    monkeypatch.setattr(run.machine, "described", lambda: described)
    monkeypatch.setattr(run.counted, "rust_rows", lambda *_: {"row": 1})
    monkeypatch.setattr(run, "run", of_run)
    with pytest.raises(KeyboardInterrupt):
        run.measure("rust", tmp_path, file, quick=False)
    parts: dict[str, Any] = {"machine": described, "instructions": {"row": 1}}
    assert json.loads(file.read_text()) == {**parts, "runs": [1]}
    done[0] = 5
    run.measure("rust", tmp_path, file, quick=False)
    assert json.loads(file.read_text()) == {**parts, "runs": [6, 7]}


def test_every_target_has_its_rows(rows: Any) -> None:
    measured = {(row.work, row.library) for row in rows.rows()}
    for target in targets.TARGETS:
        if target.work in targets.RUST or target.work in targets.IN_OTHER_TABLES:
            continue
        assert (target.work, target.ours) in measured, target.title
        if target.reference == targets.BEST_CHECKED:
            assert any(work == target.work and targets.is_checked(library) for work, library in measured)
        elif target.reference not in (None, targets.BEST):
            assert (target.reference_work or target.work, target.reference) in measured, target.title
        if target.subtract is not None:
            assert (target.subtracted_work or target.work, target.subtract) in measured, target.title


def test_best_considers_only_wanted_libraries() -> None:
    assert targets.best(one_run(), "numpy -> no-op", targets.is_peer) == ("nanobind", 20.0)
    assert targets.best(one_run(), "numpy -> no-op", targets.is_floor) == ("floor: buffer", 5.0)
    assert targets.best(one_run(), "vec", targets.is_peer, "allocations") == ("dlpark", 2)
    assert targets.best(one_run(), "numpy -> no-op", targets.is_offer) == ("dlbridge", 10.0)
    assert targets.best(one_run(), "vec", lambda name: name == "abacus") is None
    assert not targets.is_peer("numpy's own `from_dlpack`")
    assert targets.is_checked("tvm-ffi, with dlbridge's checks in Python") and not targets.is_checked("tvm-ffi")


def test_every_target_has_its_work_on_the_page() -> None:
    assert {target.work for target in targets.TARGETS} <= {*page.WORKS, *targets.IN_OTHER_TABLES}
    assert set(plot.SHOWN) <= set(page.WORKS)


def test_page_has_every_part() -> None:
    empty = "".join(
        f"<!-- begin: {n} -->\n<!-- end: {n} -->\n" for n in ("targets", "peers", "scale", "copies", "machine")
    )
    text = page.rendered(empty, results())
    assert "| 1.11 | 1.22 | <= 1.15 x floor | **no** |" in text
    assert "| 1.00 | 1.00 | <= 1 | yes |" in text
    assert "| NumPy array -> Rust no-op argument | 10.0 | nanobind: 20.0 | buffer: 5.00 | 0.50 | 0.55 |" in text
    assert "| rust-numpy | refused: TypeError |  | |" in text
    assert "| tvm-ffi | 1 234 | 1 234 | 123.40 |" in text
    assert "| dlbridge, there | 1.00 / 1.00 | 3.00 / 3.00 |" in text
    assert "A file of 5 GB, opened as 1000 tensors" in text
    assert "- processor: abacus" in text
    for title in ("Many arrays in one argument", "Imports", "Threads", "Processes"):
        assert f"\n### {title}\n" in text
    assert "| dlbridge | 5.00 / 5.00 | 6.00 / 6.00 |" in text
    assert "| `import dlbridge` | 4.00 / 4.00 |" in text
    # The results lack copies.
    assert "<!-- begin: copies -->\n<!-- end: copies -->" in text
    # Rendering a second time does not change the page.
    assert page.rendered(text, results()) == text


def test_page_with_measured_copies_has_them() -> None:
    rows = [{"case": "transposed", "bytes": 64 * 2**20, "dlbridge": 4.5, "numpy": 1.25, "torch": None, "memcpy": 10.0}]
    assert "| transposed | 64 MiB | 4.50 | 1.25 |  | 10.0 | 3.60 | 3.60 |" in page.copies([{"copies": rows}] * 2)


def test_plot_is_xml_and_shows_the_measured_libraries() -> None:
    picture = plot.svg(one_run())
    xml.etree.ElementTree.fromstring(picture)
    assert ">nanobind<" in picture and ">2.0<" in picture
    assert plot.across(1) < plot.across(2) < plot.across(1000) == plot.across(10_000)


def test_budget_tolerates_another_compiler() -> None:
    assert not budgets.over(103, 100)
    assert budgets.over(104, 100)
    assert budgets.over(1, None)


def test_budget_without_a_row_and_row_without_a_budget_are_reported() -> None:
    lines, wrong = budgets.compared({"a": 104, "b": 50, "c": 7}, {"a": 100, "b": 100, "d": 1})
    assert wrong == ["a: 104 instructions, of 100", "c: no budget", "d: a budget, and no row"]
    assert lines[1].endswith("OVER") and lines[2].endswith("less")
    assert budgets.compared({"a": 99}, {"a": 100})[1] == []


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
    assert counted.of_libraries(text, ("with_dlbridge",)) == 33
    assert counted.of_libraries(text, ("libtorch", "libc")) == 500
    assert counted.total(text) == 533


def test_row_of_a_missing_framework_keeps_its_budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "budgets.json"
    row = budgets.rows_of()["torch"][0]
    file.write_text(json.dumps({"Python: counted": 100, row: 50}))
    monkeypatch.setattr(budgets, "available", lambda: True)
    monkeypatch.setattr(budgets, "net_of_source", lambda _: {})
    monkeypatch.setattr(budgets, "rust_rows", lambda *_: {})
    monkeypatch.setattr(budgets, "python_rows", lambda group, _: {"Python: counted": 90} if group == "numpy" else {})
    monkeypatch.setattr(budgets, "groups", lambda: {"numpy": True, "torch": False})
    options = ["budgets.py", "--rust", "rust", "--scratch", str(tmp_path), "--budgets", str(file)]
    monkeypatch.setattr(sys, "argv", options)
    budgets.main()
    monkeypatch.setattr(sys, "argv", [*options, "--write"])
    budgets.main()
    assert json.loads(file.read_text()) == {"Python: counted": 90, row: 50}


def test_call_is_the_difference_of_two_lengths() -> None:
    # 500 instructions around the loop and 7 per turn; then a row with 11 per turn.
    assert counted.per_call([500 + 7 * 1000, 500 + 7 * 3000, 11 * 1000, 11 * 3000]) == [7, 11]


def test_row_that_ends_the_process_is_left_out_of_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []

    def answer(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        asked.append(command)
        if len(asked) == 1:
            return subprocess.CompletedProcess(command, -11, "", "begin: a: one\nbegin: a: two\n")
        return subprocess.CompletedProcess(command, 0, '{"a": {"one": 1.0, "two": "crash"}}\nlast words\n', "")

    monkeypatch.setattr(subprocess, "run", answer)
    assert run.group("numpy", quick=True) == {"a": {"one": 1.0, "two": "crash"}}
    assert asked[1][-2:] == ["--without", "a: two"]


def test_result_of_a_row_is_the_median_of_several_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    processes = iter([3.0, 1.0, 2.0, 9.0, 0.5])
    monkeypatch.setattr(run, "in_process", lambda *_: {"a": {"one": next(processes), "two": "refused: TypeError"}})
    assert run.group("numpy", quick=False) == {"a": {"one": 2.0, "two": "refused: TypeError"}}
    assert run.typical([1.0, 2.0, "crash"]) == "crash"


def test_sparse_file_is_a_safetensors_file(tmp_path: Path) -> None:
    path = run.large_file(tmp_path, 10_000_000, 10)
    size = int.from_bytes(path.read_bytes()[:8], "little")
    header = json.loads(path.read_bytes()[8 : 8 + size])
    assert len(header) == 10
    assert path.stat().st_size == 8 + size + max(entry["data_offsets"][1] for entry in header.values())
    assert (8 + size) % 64 == 0
