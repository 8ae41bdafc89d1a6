"""The suite's report: outcomes, exit codes, and the output on machines without a GPU."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import check
import children
import pytest
from check import FAILED, PASSED, SKIPPED, Bench, Check, Result, Skipped
from children import Ended, Runner
from report import STAND_IN, Report, nothing_ran

CHECKS = [{"name": name, "sentence": f"It {name}s."} for name in ("begin", "go", "end")]


def told(**outcomes: str) -> list[dict[str, Any]]:
    """Returns the events of a process that has run some of these checks."""
    events: list[dict[str, Any]] = [{"checks": CHECKS}, {"version": "1.2"}]
    for name, outcome in outcomes.items():
        events += [{"begins": name}, {"result": Result("torch", name, "", outcome).as_json()}]
    return events


def reported(answer: Ended) -> Report:
    """Returns the report of one process."""
    report = Report(hardware=True)
    children.add("torch", answer, report)
    return report


class FakeDriver:
    """A driver without work."""

    faults = 0

    def wait_for_all(self) -> None:
        """Returns at once."""


class FakeLibrary:
    """A library without arrays."""

    name = "fake"


def test_check_outcomes_are_passed_failed_or_skipped() -> None:
    def passes(_: Bench) -> None:
        """It passes."""

    def fails(_: Bench) -> None:
        raise ValueError("seven")

    def cannot(_: Bench) -> None:
        raise Skipped("the machine has one device")

    checks = [Check(function.__name__, "", function) for function in (passes, fails, cannot)]
    events: list[dict[str, Any]] = []
    check.run(Bench(FakeDriver(), FakeLibrary()), checks, events.append)  # type: ignore[arg-type]
    results = [event["result"] for event in events if "result" in event]
    assert [result["outcome"] for result in results] == [PASSED, FAILED, SKIPPED]
    assert "ValueError: seven" in results[1]["reason"]
    assert results[2]["reason"] == "the machine has one device"
    assert [event["begins"] for event in events if "begins" in event] == ["passes", "fails", "cannot"]


def test_use_of_freed_memory_is_a_failure() -> None:
    driver = FakeDriver()

    def uses_it(_: Bench) -> None:
        driver.faults += 1

    events: list[dict[str, Any]] = []
    check.run(Bench(driver, FakeLibrary()), [Check("uses", "", uses_it)], events.append)  # type: ignore[arg-type]
    assert (events[-1]["result"]["outcome"], "freed memory" in events[-1]["result"]["reason"]) == (FAILED, True)


def test_passed_checks_exit_with_0() -> None:
    report = reported(Ended(told(begin=PASSED, go=PASSED, end=SKIPPED), ""))
    assert [report.count(outcome) for outcome in (PASSED, FAILED, SKIPPED)] == [2, 0, 1]
    assert (report.exit_code, report.machine) == (0, {"torch": "1.2"})
    assert "on this machine's GPU: 2 passed, 0 failed, 1 skipped" in report.text()


def test_crash_fails_the_check_that_was_running() -> None:
    events = [*told(begin=PASSED), {"begins": "go"}]
    report = reported(Ended(events, "The process crashed: SIGSEGV.\nstack"))
    assert [result.outcome for result in report.results] == [PASSED, FAILED, FAILED]
    assert report.results[1].reason.startswith("The process crashed: SIGSEGV.")
    assert "was not run" in report.results[2].reason
    assert report.exit_code == 1


def test_crash_before_or_after_the_checks_is_a_failure() -> None:
    for events in ([], told(begin=PASSED, go=PASSED, end=PASSED)):
        report = reported(Ended(events, "The process crashed: SIGABRT."))
        assert (report.count(FAILED), report.exit_code) == (1, 1)


def test_missing_library_is_skipped_and_never_passed() -> None:
    report = reported(Ended([{"checks": CHECKS}, {"skipped": "it cannot be imported"}], ""))
    assert [report.count(outcome) for outcome in (PASSED, FAILED, SKIPPED)] == [0, 0, 3]
    assert "skipped  all 3 checks: it cannot be imported" in report.text()
    assert report.machine == {"torch": "skipped: it cannot be imported"}
    assert report.exit_code == 1
    assert report.text().endswith("3 skipped; no check ran, which counts as a failure")


def test_stand_in_is_named_first_and_last_without_timings() -> None:
    report = Report(hardware=False, timings=[{"heading": "times", "columns": ["a"], "rows": [["1"]]}])
    report.results.append(Result("driver", "a", "It is.", PASSED))
    lines = report.text().splitlines()
    assert (lines[0], lines[-1]) == (STAND_IN, STAND_IN)
    assert "times" not in lines
    content = report.as_json()
    assert (content["hardware"], content["ran"], content["timings"]) == (False, True, [])
    assert "on the stand-in: 1 passed" in report.text()


def test_table_columns_are_aligned() -> None:
    table = {"heading": "times", "columns": ["name", "ns"], "rows": [["one", "10"], ["another", "7"]]}
    report = Report(hardware=True, timings=[table])
    lines = report.text().splitlines()
    start = lines.index("times")
    assert lines[start + 1 : start + 4] == ["  name     ns", "  one      10", "  another   7"]
    assert report.as_json()["timings"] == [table]


def test_machine_without_driver_is_reported() -> None:
    sentence, content = nothing_ran("the driver is missing")
    assert sentence == "No CUDA device here: the driver is missing. Nothing was run on hardware."
    assert (content["ran"], content["hardware"]) == (False, False)


def test_process_ends_are_described() -> None:
    assert children.ended(None, 5) == "The process did not end within 5 seconds."
    assert children.ended(-11, 5) == "The process crashed: SIGSEGV."
    assert children.ended(3, 5) == "The process exited early with code 3."
    assert children.read('{"a": 1}\n{"b"') == [{"a": 1}]


@pytest.fixture
def empty_wheel(tmp_path: Path) -> Path:
    """A wheel with an empty package dlbridge."""
    path = tmp_path / "dlbridge-0.0.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr("dlbridge/__init__.py", "__version__ = '0.0.0'\n")
    return path


def suite(*words: str) -> subprocess.CompletedProcess[str]:
    """Runs the suite as a command."""
    command = [sys.executable, str(Path(__file__).parent), *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_invalid_driver_library_counts_as_no_device(empty_wheel: Path, tmp_path: Path) -> None:
    library, results = tmp_path / "libcuda.so.1", tmp_path / "results.json"
    library.write_text("not a library")
    done = suite("--wheel", str(empty_wheel), "--stand-in", str(library), "--json", str(results))
    assert done.returncode == 0
    assert done.stdout.startswith("No CUDA device here: the driver cannot be loaded")
    assert done.stdout.endswith("Nothing was run on hardware.\n")
    assert json.loads(results.read_text())["ran"] is False


def test_wrong_arguments_are_refused(empty_wheel: Path) -> None:
    for words, said in [(["--only", "abacus"], "--only: abacus"), (["--stand-in", "/nowhere"], "is not a file")]:
        done = suite("--wheel", str(empty_wheel), *words)
        assert (done.returncode, said in done.stderr) == (2, True)


def test_process_that_exits_early_is_reported(tmp_path: Path) -> None:
    # The packages do not exist, so an import fails and ends the process.
    answer = Runner(tmp_path, tmp_path / "nothing", tmp_path / "no library", quick=True, limit=60).start("driver")
    assert answer.failure.startswith("The process exited early with code 1.")
