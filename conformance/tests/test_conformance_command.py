"""``python -m dlbridge_conformance``."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from crafted_report import COMMAND
from dlbridge_conformance import selected

ADAPTER = '''
import os
from dlbridge_conformance import Adapter, Level, Role, rule

class Mine(Adapter):
    name = "mine"
    module = "mine"
    def version(self):
        return "7.5"

@rule("MINE-ABORTS", Role.CONSUMER, Level.MUST, "It does not abort.", "nowhere")
def aborts(c):
    c.fed("the last words")
    os.abort()

@rule("MINE-PASSES", Role.PRODUCER, Level.MUST, "It passes.", "nowhere")
def passes(c):
    c.got("what \\x00 was due")
'''


def test_command_writes_every_format(tmp_path: Path) -> None:
    Path(tmp_path, "mine.py").write_text(ADAPTER)
    names = ["json", "html", "junit", "svg", "markdown"]
    options = [word for name in names for word in (f"--{name}", f"report.{name}")]
    command = [sys.executable, "-m", "dlbridge_conformance", "mine:Mine", "--rule", "MINE", "-q", *options]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (1, "")
    assert "mine:Mine MINE-PASSES: passed\n    got: what \\x00 was due\n" in done.stdout
    report = json.loads(Path(tmp_path, "report.json").read_text())
    aborted, passed = report["libraries"][0]["results"]
    assert (aborted["status"], aborted["signal"]) == ("crashed", "SIGABRT")
    assert aborted["evidence"][0] == ["fed", "the last words"]
    assert (passed["status"], passed["command"]) == ("passed", f"{COMMAND} mine:Mine --rule MINE-PASSES")
    for name in names:
        assert "mine:Mine" in Path(tmp_path, f"report.{name}").read_text(encoding="utf-8")


def test_command_missing_folder_is_refused_first(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "dlbridge_conformance", "--html", str(tmp_path / "nowhere" / "report.html")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"the folder does not exist: {tmp_path / 'nowhere' / 'report.html'}\n"


@pytest.mark.parametrize("name", ["nix", "nix:Nix", "json:Nix", "json:JSONDecoder"])
def test_command_unknown_library_is_refused(name: str) -> None:
    done = subprocess.run([sys.executable, "-m", "dlbridge_conformance", name], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert name in done.stderr


# -------------------------------------------------------------------------------------------- reports read again


def numpy_report(folder: Path, name: str, version: str) -> Path:
    """A report about a rule that NumPy keeps, with another version of NumPy."""
    file = folder / name
    command = [sys.executable, "-m", "dlbridge_conformance", "numpy", "--rule", "P-COPY-TRUE-FLAG", "-q", "--json", file]
    assert subprocess.run(command, capture_output=True).returncode == 0
    plain = json.loads(file.read_text())
    plain["libraries"][0]["version"] = version
    file.write_text(json.dumps(plain))
    return file


def test_reports_of_one_system_are_joined(tmp_path: Path) -> None:
    files = [numpy_report(tmp_path, f"{version}.json", version) for version in ("1.99", "2.99")]
    again = [word for file in files for word in ("--from-json", str(file))]
    command = [sys.executable, "-m", "dlbridge_conformance", *again, "--markdown", str(tmp_path / "all.md")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    lines = (tmp_path / "all.md").read_text().splitlines()
    assert [line for line in lines if line.startswith("| numpy")] == [
        "| numpy | 1.99 | 1 | 0 | 0 | 0 | 0 | 0 |", "| numpy | 2.99 | 1 | 0 | 0 | 0 | 0 | 0 |",
    ]  # fmt: skip


def test_reports_of_two_systems_are_refused(tmp_path: Path) -> None:
    files = [numpy_report(tmp_path, f"{version}.json", version) for version in ("1.99", "2.99")]
    files[1].write_text(files[1].read_text().replace('"system": "', '"system": "Other '))
    again = [word for file in files for word in ("--from-json", str(file))]
    done = subprocess.run([sys.executable, "-m", "dlbridge_conformance", *again], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr == f"{files[1]} has other rules, or another dlbridge, Python or system, than {files[0]}\n"


def test_selected_full_id_wins_over_its_group() -> None:
    assert list(selected(["C-HOSTILE-DATA-NULL"])) == ["C-HOSTILE-DATA-NULL"]
    assert len(selected(["C-HOSTILE"])) > 10
    with pytest.raises(ValueError, match="unknown rule 'C-HOST'; --list shows all"):
        selected(["C-HOST"])


def test_command_unwritable_report_still_prints_the_table(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "dlbridge_conformance", "numpy", "--rule", "P-COPY-TRUE-FLAG", "-q"]
    # A link whose target is in a folder that does not exist, which only the attempt to write shows.
    file = tmp_path / "report.json"
    file.symlink_to(tmp_path / "nowhere" / "report.json")
    done = subprocess.run([*command, "--json", str(file)], capture_output=True, text=True)
    assert done.returncode == 2
    assert "numpy P-COPY-TRUE-FLAG: passed" in done.stdout
    assert (done.stderr.count("\n"), str(file) in done.stderr) == (1, True)
