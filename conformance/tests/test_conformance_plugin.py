"""``pytest --dlpack LIBRARY``."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest

ADAPTER = '''
import os
from dlbridge_conformance import Adapter, Level, Role, rule

class Mine(Adapter):
    name = module = "mine"
    def version(self):
        return "7.5"

class Broken(Mine):
    def load(self):
        raise RuntimeError("not here")

class Missing(Mine):
    module = "not_installed"

@rule("MINE-PASSES", Role.PRODUCER, Level.MUST, "It passes.", "nowhere")
def passes(c):
    c.got(str(os.getppid()))

@rule("MINE-FAILS", Role.PRODUCER, Level.MUST, "It fails.", "a source")
def fails(c):
    c.fed("a tensor \\x00")
    c.expect(False, f"the parent is {os.getppid()}")

@rule("MINE-SHOULD", Role.CONSUMER, Level.SHOULD, "It should not fail.", "nowhere")
def should(c):
    c.expect(False, f"the parent is {os.getppid()}")

@rule("MINE-MAY", Role.CONSUMER, Level.MAY, "It may fail.", "nowhere")
def may(c):
    c.expect(False, "as it may")

@rule("MINE-NONE", Role.CONSUMER, Level.MUST, "It does not apply.", "nowhere")
def none(c):
    c.needs(False, "mine lacks the feature")

@rule("MINE-CRASHES", Role.EXCHANGE_API, Level.MUST, "It does not crash.", "nowhere")
def crashes(c):
    c.fed("the last words")
    os.kill(os.getpid(), 11)
'''

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Runs pytest in a folder with an adapter, and without tests."""
    Path(tmp_path, "mine.py").write_text(ADAPTER)

    def run(*options: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", "import sys, pytest; sys.exit(pytest.main(sys.argv[1:]))"]
        command += ["-p", "no:cacheprovider", *options]
        return subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)

    return run


MINE = ("--dlpack", "mine:Mine", "--dlpack-rule", "MINE")


def test_every_rule_is_an_item(run: Run) -> None:
    done = run(*MINE, "-rsxf", "-W", "error")
    assert done.returncode == 1
    assert "dlpack: mine:Mine 7.5, 6 rules" in done.stdout
    assert "collected 6 items" in done.stdout
    assert "dlpack:mine:Mine .FFxsF" in done.stdout
    assert "3 failed, 1 passed, 1 skipped, 1 xfailed" in done.stdout
    assert "mine lacks the feature" in done.stdout
    assert "XFAIL dlpack:mine:Mine::MINE-MAY - MAY: as it may" in done.stdout
    assert "MUST crashed: the process died of SIGSEGV\n" in done.stdout
    assert "    fed: the last words\n" in done.stdout


def test_failure_shows_the_full_account(run: Run) -> None:
    done = run(*MINE, "-k", "MINE-FAILS or MINE-SHOULD")
    lines = done.stdout.splitlines()
    begin = next(number for number, line in enumerate(lines) if line.startswith("MUST failed: "))
    assert "mine:Mine MINE-FAILS" in lines[begin - 1]
    assert lines[begin + 1 : begin + 5] == [
        "rule: It fails.",
        "source: a source",
        "    fed: a tensor \\x00",
        "again: python -m dlbridge_conformance mine:Mine --rule MINE-FAILS",
    ]
    parents = {line.rpartition(" ")[2] for line in lines if line.startswith(("MUST failed", "SHOULD failed"))}
    assert len(parents) == 1, "the two checks did not come from one process"
    assert "Traceback" not in done.stdout


def test_rules_can_be_selected(run: Run) -> None:
    assert "1 passed" in run("--dlpack", "mine:Mine", "--dlpack-rule", "MINE-PASSES").stdout
    assert "1 failed, 5 deselected" in run(*MINE, "-k", "SHOULD").stdout
    assert "1 failed, 1 skipped, 3 deselected, 1 xfailed" in run(*MINE, "-k", "consumer").stdout
    assert "2 tests collected" in run(*MINE[:3], "MINE-FAILS", "--dlpack-rule", "MINE-MAY", "--collect-only").stdout


def test_rules_run_with_the_tests_of_a_project(run: Run, tmp_path: Path) -> None:
    Path(tmp_path, "test_own.py").write_text("def test_own():\n    pass\n")
    both = ["--dlpack", "mine:Mine", "--dlpack-rule", "MINE-PASSES"]
    assert "2 passed" in run(*both).stdout
    assert "1 passed, 1 deselected" in run(*both, "-m", "dlpack").stdout
    assert "1 passed in" in run("--strict-markers").stdout


def test_junit_of_pytest(run: Run, tmp_path: Path) -> None:
    run(*MINE, "--junitxml", "results.xml")
    cases = ElementTree.parse(tmp_path / "results.xml").getroot().iter("testcase")
    properties = {case.get("name"): {p.get("name"): p.get("value") for p in case.iter("property")} for case in cases}
    assert properties["MINE-FAILS"] == {"level": "MUST", "role": "producer", "source": "a source"}
    assert len(properties) == 6


def test_library_that_cannot_be_imported_fails_its_rules(run: Run) -> None:
    done = run("--dlpack", "mine:Broken", "--dlpack-rule", "MINE-PASSES", "--dlpack-rule", "MINE-FAILS")
    assert "2 failed" in done.stdout
    assert done.stdout.count("the library could not be imported: the process ended with 1: RuntimeError: not here") >= 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--dlpack", "nix"), "unknown library 'nix': "),
        (("--dlpack", "json"), "json lacks from_dlpack, and asarray or array that makes arrays with __dlpack__. "),
        (("--dlpack", "mine:Nix"), "cannot load the adapter mine:Nix: "),
        (("--dlpack", "mine:Missing"), "not installed: mine:Missing"),
        ((*MINE, "--dlpack-rule", "Y"), "unknown rule 'Y'; --list shows all"),
        ((*MINE, "--dlpack", "mine:Broken", "--dlpack-known-failures", "mine.py"), "mine.py, line "),
    ],
)
def test_wrong_options(run: Run, options: tuple[str, ...], message: str) -> None:
    done = run(*options)
    assert done.returncode == 4
    assert done.stderr.startswith(f"ERROR: --dlpack: {message}")


def test_known_failures_are_expected_until_they_are_kept(run: Run, tmp_path: Path) -> None:
    Path(tmp_path, "known.txt").write_text("MINE-FAILS # first\nMINE-CRASHES\nMINE-PASSES\n")
    done = run(*MINE, "-rxf", "--dlpack-known-failures", "known.txt")
    assert "2 failed, 1 skipped, 3 xfailed" in done.stdout
    assert "XFAIL dlpack:mine:Mine::MINE-CRASHES - known failure: the process died of SIGSEGV" in done.stdout
    assert "MINE-PASSES is kept now: remove it from the file of known failures" in done.stdout


def test_module_without_adapter(run: Run, tmp_path: Path) -> None:
    Path(tmp_path, "mylib.py").write_text("from dlbridge import from_dlpack\n")
    done = run("--dlpack", "mylib", "--dlpack-rule", "P-CAPSULE-TYPE")
    assert "mylib unknown: checked by the names of the array API\n    arrays: imported by from_dlpack, int8" in done.stdout
    assert "1 passed" in done.stdout


def test_numpy(run: Run) -> None:
    pytest.importorskip("numpy")
    done = run("--dlpack", "numpy", "--dlpack-rule", "P-CAPSULE-TYPE")
    assert "dlpack:numpy ." in done.stdout
    assert "1 passed" in done.stdout
