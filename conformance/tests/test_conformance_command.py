"""``python -m dlbridge_conformance``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from crafted_report import COMMAND
from dlbridge_conformance import arguments, selected
from own_adapter import command

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
    names = ["json", "junit", "summary"]
    options = [word for name in names for word in (f"--{name}", f"report.{name}")]
    done = command(tmp_path, "mine:Mine", "--rule", "MINE", "-q", *options)
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
    done = command(tmp_path, "--json", str(tmp_path / "nowhere" / "report.json"))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"the folder does not exist: {tmp_path / 'nowhere' / 'report.json'}\n"


@pytest.mark.parametrize("limit", ["0", "-1", "nan", "inf", "1e999", "soon"])
def test_limit_that_is_not_a_finite_number_above_0_is_refused(limit: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        arguments.parser().parse_args(["numpy", f"--limit={limit}"])
    assert ended.value.code == 2
    assert f"--limit: {limit!r} is not a finite number of seconds above 0\n" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["nix", "nix:Nix", "json:Nix", "json:JSONDecoder"])
def test_command_unknown_library_is_refused(name: str, tmp_path: Path) -> None:
    done = command(tmp_path, name)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert name in done.stderr


def test_selected_full_id_wins_over_its_group() -> None:
    assert list(selected(["C-HOSTILE-DATA-NULL"])) == ["C-HOSTILE-DATA-NULL"]
    assert len(selected(["C-HOSTILE"])) > 10
    with pytest.raises(ValueError, match="unknown rule 'C-HOST'; --list shows all"):
        selected(["C-HOST"])


def test_command_unwritable_report_still_prints_the_table(tmp_path: Path) -> None:
    # A link whose target is in a folder that does not exist, which only the attempt to write shows.
    file = tmp_path / "report.json"
    file.symlink_to(tmp_path / "nowhere" / "report.json")
    done = command(tmp_path, "numpy", "--rule", "P-COPY-TRUE-FLAG", "-q", "--json", str(file))
    assert done.returncode == 2
    assert "numpy P-COPY-TRUE-FLAG: passed" in done.stdout
    assert (done.stderr.count("\n"), str(file) in done.stderr) == (1, True)
