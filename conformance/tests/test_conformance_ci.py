"""The needs of a CI job: known failures, badges, summaries, and a README whose commands are right."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from conftest import require
from crafted_report import crafted_report
from dlbridge_conformance import Report, Status, arguments, known_failures
from dlbridge_conformance.report import badge, junit, summary
from own_adapter import command, every_rule, kit

ROOT = Path(__file__).parents[2]
README = ROOT / "conformance/README.md"


# ------------------------------------------------------------------------------------------------- known failures


def test_known_failure_does_not_fail(folder: Path) -> None:
    assert kit(folder).returncode == 1
    Path(folder, "known.txt").write_text("# a comment\n\nMINE-FAILS  # until 2.0\n")
    done = kit(folder, "--known-failures", "known.txt", "--junit", "j.xml", "--summary", "s.md")
    assert (done.returncode, done.stderr) == (0, "")
    assert "1 known failures, by known.txt" in done.stdout
    root = ElementTree.parse(folder / "j.xml").getroot()
    assert (root.get("failures"), root.get("errors"), root.get("skipped")) == ("0", "0", "2")
    assert "<summary>mine:Mine: 1 known failures</summary>" in Path(folder, "s.md").read_text()


def test_known_failure_that_is_kept_fails(folder: Path) -> None:
    Path(folder, "known.txt").write_text("MINE-FAILS\nMINE-PASSES\n")
    done = kit(folder, "--known-failures", "known.txt")
    assert done.returncode == 1
    assert "MINE-PASSES is kept now: remove it from known.txt" in done.stdout


@pytest.mark.parametrize(
    ("text", "words", "message"),
    [
        ("MINE-NIX\n", ("--known-failures", "known.txt"), "known.txt, line 1: 'MINE-NIX' is not the id of a rule; --list shows all ids\n"),
        ("", ("--write-known-failures", "known.txt"), "--write-known-failures needs the results of all rules: leave --rule out\n"),
        ("", ("--known-failures", "nix.txt"), "[Errno 2] No such file or directory: 'nix.txt'\n"),
        ("MINE-FAILS \udcff\n", ("--known-failures", "known.txt"), "known.txt is not UTF-8: byte 11 is 0xff\n"),
        ("", ("--badge", "folder"), "a folder, and not a file: folder\n"),
        ("", ("--junit", "nowhere/j.xml"), "the folder does not exist: nowhere/j.xml\n"),
        ("", ("--json", "a.json", "--badge", "a.json"), "one file for two reports: {folder}/a.json\n"),
    ],
)
def test_wrong_file_of_known_failures_is_refused(folder: Path, text: str, words: tuple[str, ...], message: str) -> None:
    Path(folder, "folder").mkdir()
    Path(folder, "known.txt").write_text(text, encoding="utf-8", errors="surrogateescape")
    done = kit(folder, *words)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", message.replace("{folder}", str(folder)))


def test_known_failures_with_a_byte_order_mark_are_read(folder: Path) -> None:
    Path(folder, "known.txt").write_text("MINE-FAILS\n", encoding="utf-8-sig")
    done = kit(folder, "--known-failures", "known.txt")
    assert (done.returncode, done.stderr) == (0, "")


def test_malformed_file_to_write_is_refused_before_the_run(folder: Path) -> None:
    Path(folder, "known.txt").write_text("MINE-NIX\n")
    done = every_rule(folder, "mine:Mine", "--write-known-failures", "known.txt")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "known.txt, line 1: 'MINE-NIX' is not the id of a rule; --list shows all ids\n"


def test_library_that_cannot_be_imported_writes_no_known_failures(folder: Path) -> None:
    done = every_rule(folder, "mine:Unloadable", "--write-known-failures", "known.txt", "--json", "r.json")
    assert done.returncode == 2
    assert done.stderr == (
        "known.txt is not written, because mine:Unloadable was not checked: "
        "the library could not be imported: the process ended with 1: OSError: no driver\n"
    )
    assert not Path(folder, "known.txt").exists()
    assert Path(folder, "r.json").exists()


def test_library_whose_later_import_fails_writes_no_known_failures(tmp_path: Path) -> None:
    report = crafted_report()
    del report.libraries[1:]
    assert report.libraries[0].import_failure == ""
    report.libraries[0].results[-1].detail = "the library could not be imported: the process died of SIGSEGV"
    with pytest.raises(ValueError, match="known.txt is not written, because mylib:Adapter was not checked: the library could"):
        known_failures.write(tmp_path / "known.txt", report)


def test_known_failures_of_two_libraries_are_refused(folder: Path) -> None:
    options = arguments.parser().parse_args(["mine:Mine", "numpy", "--known-failures", "known.txt"])
    assert arguments.wrong(options) == "--known-failures needs exactly one LIBRARY, and 2 are named"


def test_written_known_failures_are_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    report = crafted_report()
    del report.libraries[1:]
    monkeypatch.setattr(known_failures, "all_rules", lambda: {rule.id: rule for rule in report.rules})
    file = tmp_path / "known.txt"
    file.write_text("P-TWO # issue 12\n")
    known_failures.write(file, report)
    report.known = known_failures.read(file)
    assert list(report.known) == ["P-TWO", "P-THREE", "C-ONE", "E-ONE"], "every broken MUST and SHOULD, and no MAY"
    assert report.known["P-TWO"] == "issue 12"
    assert not any(report.fails(result) for result in report.libraries[0].results)
    assert 'failures="0" errors="0"' in junit(report)
    assert known_failures.kept(report) == []
    report.libraries[0].results[1].status = Status.PASSED
    assert known_failures.kept(report) == ["P-TWO"]


# ------------------------------------------------------------------------------------------ badges and summaries


def reduced(**statuses: Status) -> Report:
    """A report of one library, with all rules passed except some."""
    report = crafted_report()
    del report.libraries[1:]
    for result in report.libraries[0].results:
        result.status = statuses.get(result.rule.replace("-", "_"), Status.PASSED)
    return report


@pytest.mark.parametrize(
    ("report", "message", "colour"),
    [
        (reduced(), "all 5 rules kept", "brightgreen"),
        (reduced(C_TWO=Status.FAILED), "all 5 rules kept", "brightgreen"),
        (reduced(P_THREE=Status.FAILED, P_ONE=Status.NOT_APPLICABLE), "3 of 4 rules kept", "yellow"),
        (reduced(P_TWO=Status.CRASHED, P_THREE=Status.HUNG), "3 of 5 rules kept", "red"),
    ],
)
def test_badge_has_the_numbers_and_the_colour(report: Report, message: str, colour: str) -> None:
    endpoint = json.loads(badge(report))
    assert endpoint == {"schemaVersion": 1, "label": "DLPack 1.3", "message": message, "color": colour}


def test_badge_counts_known_failures_as_broken() -> None:
    report = reduced(P_TWO=Status.FAILED)
    report.known = {"P-TWO": ""}
    assert "4 of 5" in badge(report)


def test_summary_is_appended(folder: Path) -> None:
    Path(folder, "s.md").write_text("before\n")
    assert kit(folder, "--summary", "s.md", "--badge", "b.json").returncode == 1
    text = Path(folder, "s.md").read_text()
    assert text.startswith("before\n## DLPack conformance\n")
    assert "| `MINE-FAILS` | MUST | It fails. | it # failed |" in text
    assert "1 of 2 rules kept" in Path(folder, "b.json").read_text()


def test_summary_escapes_text_of_libraries() -> None:
    text = summary(crafted_report())
    assert "<img" not in text.replace("\\<img", "")
    assert "\x00" not in text


def test_entry_point_has_the_name_of_the_distribution() -> None:
    script = Path(sys.executable).with_name("dlbridge-conformance")
    done = subprocess.run([script, "dlbridge", "--rule", "C-DEVICE-CPU", "-h"], capture_output=True, text=True)
    assert done.stdout.startswith("usage: dlbridge-conformance [-h]")
    assert arguments.EXIT_STATUS.rstrip() in done.stdout


# ------------------------------------------------------------------------------------------------------- the README


def readme() -> str:
    """The README of the distribution."""
    if not README.exists():
        pytest.skip("needs a checkout")
    return README.read_text(encoding="utf-8")


def blocks(text: str, language: str) -> list[str]:
    """The blocks of code in a language."""
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def commands_of_the_kit(shell: str) -> list[list[str]]:
    """The arguments of the kit in lines of a shell, with comments dropped."""
    found = []
    for line in shell.splitlines():
        words = shlex.split(line.removeprefix("$ "), comments=True)
        for start, word in enumerate(words):
            if word == "dlbridge-conformance" and words[0] not in ("pip",) or word == "&&":
                found.append([w for w in words[start + 1 :] if w != "dlbridge-conformance"])
                break
    return found


def test_commands_of_the_pages_are_known_to_the_parser() -> None:
    page = (ROOT / "docs/conformance.md").read_text(encoding="utf-8")
    found = [words for text in (readme(), page) for shell in blocks(text, "console") for words in commands_of_the_kit(shell)]
    assert len(found) > 8
    for words in found:
        options = arguments.parser().parse_args(words)
        assert arguments.wrong(options) == "", words


def test_ci_example_is_a_workflow_whose_commands_are_known() -> None:
    yaml = require("yaml")
    (text,) = blocks(readme(), "yaml")
    workflow = yaml.safe_load(text)
    # YAML 1.1 reads the key "on" as a boolean.
    assert set(workflow) == {"name", True, "jobs"}
    steps = workflow["jobs"]["dlpack"]["steps"]
    assert all(("uses" in step) != ("run" in step) for step in steps)
    (words,) = (found for step in steps for found in commands_of_the_kit(step.get("run", "").replace("\n", " ")))
    options = arguments.parser().parse_args(words)
    assert options.libraries == ["mylibrary"]
    assert (options.known_failures, options.junit, options.badge) == (
        Path("dlpack-known-failures.txt"), Path("dlpack.xml"), Path("dlpack.json"),
    )  # fmt: skip
    assert arguments.wrong(options) == ""
    assert options.summary == Path("$GITHUB_STEP_SUMMARY")


def test_exit_statuses_of_the_pages_are_those_of_the_command() -> None:
    rows = re.findall(r"^\| (\d+) \| (.+?) \|$", readme(), re.MULTILINE)
    listed = re.findall(r"^  (\d+) +(.+)$", arguments.EXIT_STATUS, re.MULTILINE)
    assert [status for status, _ in rows] == [status for status, _ in listed]


def test_adapter_of_the_readme_runs(tmp_path: Path) -> None:
    require("numpy")
    (text,) = blocks(readme(), "python")
    Path(tmp_path, "my_adapter.py").write_text(text)
    done = command(tmp_path, "my_adapter:MyLibrary", "--rule", "P-FLAGS-READ-ONLY")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "my_adapter:MyLibrary P-FLAGS-READ-ONLY: passed" in done.stdout
