"""The drafts in conformance/reports/upstream are complete, and agree with their index and with docs/findings.md."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

REPORTS = Path(__file__).parents[1] / "reports"
sys.path.insert(0, str(REPORTS))
issue_reports = pytest.importorskip("issue_reports", reason="needs a checkout")
findings_page = pytest.importorskip("findings_page", reason="needs a checkout")
reproduce = pytest.importorskip("reproduce", reason="needs a checkout")
environments = pytest.importorskip("environments", reason="needs a checkout")

DRAFTS = issue_reports.reports()
ROWS = issue_reports.index_rows()
FINDINGS = {f["number"]: f for f in findings_page.findings(findings_page.PAGE.read_text(encoding="utf-8"))}
PREFACE = " ".join(issue_reports.INDEX.read_text(encoding="utf-8").partition("\n| # |")[0].split())
each_draft = pytest.mark.parametrize("draft", DRAFTS, ids=lambda draft: draft.path.stem)


def test_index_lists_every_draft_once() -> None:
    assert sorted(row["file"] for row in ROWS) == [draft.path.name for draft in DRAFTS]
    assert [int(row["rank"]) for row in ROWS] == list(range(1, len(ROWS) + 1))
    assert len(ROWS) == 24
    assert "The twenty worst findings" in PREFACE and "and four more with wrong values" in PREFACE
    assert {row["file"]: row["title"] for row in ROWS} == {draft.path.name: draft.title for draft in DRAFTS}


def test_index_says_that_nothing_was_sent() -> None:
    assert "None has been sent." in PREFACE


def test_index_agrees_with_the_findings() -> None:
    stored = json.loads((REPORTS / "last-checked.json").read_text())["findings"]
    states = {(entry["library"], entry["title"]): entry["state"] for entry in stored}
    for row in ROWS:
        finding = FINDINGS[row["finding"]]
        assert row["library"] == finding["library"], row
        assert row["version"] == findings_page.checked_version(finding), row
        assert finding["severity"] in ("memory safety", "wrong values"), row
        assert states[finding["library"], finding["title"]] == "reproduced", row
    assert len({row["finding"] for row in ROWS}) == len(ROWS)
    severities = [FINDINGS[row["finding"]]["severity"] for row in ROWS]
    assert severities == sorted(severities, key=findings_page.SEVERITIES.index)
    ranks = [row["severity"] for row in ROWS]
    assert ranks == sorted(ranks, key=issue_reports.SEVERITIES.index)


def test_every_draft_was_reproduced_in_the_last_run() -> None:
    drafts = json.loads((REPORTS / "last-checked.json").read_text())["drafts"]
    assert drafts == {draft.path.name: "reproduced" for draft in DRAFTS}


def test_every_bad_finding_has_a_draft_or_a_reason() -> None:
    """The list is the worst findings: none about memory safety or wrong values is forgotten."""
    bad = {number for number, f in FINDINGS.items() if f["severity"] in ("memory safety", "wrong values")}
    named = [row["finding"] for row in ROWS] + sum(issue_reports.left_out().values(), [])
    assert sorted(named, key=int) == sorted(bad, key=int)


def says(finding: dict[str, str], words: str) -> bool:
    """Returns whether the text of a finding contains a pattern, whatever its lines."""
    return bool(re.search(words, " ".join(finding["happens"].split())))


#: The reasons of the second table that the text of a finding can confirm, by their first words.
CONFIRMED = {
    "The struct is invalid": lambda finding: says(finding, "producer is at fault"),
    "The struct or the table has a major version": lambda finding: says(finding, "major version"),
    "Memory is never freed": lambda finding: says(finding, "leaks|never freed"),
    "Fixed": lambda finding: findings_page.is_fixed(finding) or not findings_page.checked_version(finding),
    "The draft about nanobind": lambda finding: finding["library"] == "mlx",
}
#: The reason that is a judgement.
RARE = "Wrong values or a crash only for a rare request"


def test_reasons_agree_with_the_findings() -> None:
    left_out = issue_reports.left_out()
    assert len(left_out) == len(CONFIRMED) + 1
    for why, numbers in left_out.items():
        (confirmed,) = [check for words, check in CONFIRMED.items() if why.startswith(words)] or [None]
        assert confirmed or why.startswith(RARE)
        assert not confirmed or [number for number in numbers if not confirmed(FINDINGS[number])] == [], why


def test_drafts_are_not_about_findings_that_rank_below_them() -> None:
    for row in ROWS:
        finding = FINDINGS[row["finding"]]
        assert not CONFIRMED["The struct is invalid"](finding), row
        assert not CONFIRMED["Memory is never freed"](finding), row


@each_draft
def test_draft_has_its_sections(draft: issue_reports.Report) -> None:
    sections = list(draft.sections)
    assert [name for name in sections if name != issue_reports.OPTIONAL] == issue_reports.SECTIONS
    assert sections.index(issue_reports.OPTIONAL) == len(sections) - 1
    assert draft.title
    assert all(text.strip() for text in draft.sections.values())
    sources = r"https://(github\.com/dmlc/dlpack|dmlc\.github\.io/dlpack|data-apis\.org)/"
    assert re.search(sources, draft.sections["Expected"])
    assert '"' in draft.sections["Expected"], "the specification is quoted"


@each_draft
def test_draft_names_the_version_of_the_index(draft: issue_reports.Report) -> None:
    (row,) = [row for row in ROWS if row["file"] == draft.path.name]
    assert row["version"] in draft.sections["Versions"]
    assert "CPython 3.1" in draft.sections["Versions"]


@each_draft
def test_draft_script_compiles_and_needs_no_dlbridge(draft: issue_reports.Report) -> None:
    compile(draft.script, draft.path.name, "exec")
    assert "dlbridge" not in draft.script
    assert draft.output


@each_draft
def test_draft_links_a_known_report_that_the_index_names(draft: issue_reports.Report) -> None:
    (row,) = [row for row in ROWS if row["file"] == draft.path.name]
    if row["known"] == "none found":
        assert re.search(r"We found\s+no\s+report", draft.sections["Cause"])
    else:
        number = re.search(r"#(\d+)", row["known"])
        assert number is not None
        assert re.search(rf"/(pull|issues)/{number[1]}\b", draft.sections["Cause"])


def test_section_inside_of_a_code_block_is_no_section(tmp_path: Path) -> None:
    page = tmp_path / "draft.md"
    page.write_text("# T\n\n## Versions\n\n```text\n## Cause\n```\n")
    assert issue_reports.report(page).sections == {"Versions": "\n```text\n## Cause\n```\n"}


def test_missing_block_is_an_error() -> None:
    with pytest.raises(ValueError, match="no block of python"):
        issue_reports.only_block("```text\n1\n```\n", "python")


def test_output_of_a_crash_may_have_other_lines_before_its_last() -> None:
    crash = "(2, 3)\nthe process dies of SIGSEGV"
    assert reproduce.alike("(2, 3)\nFatalError\nthe process dies of SIGSEGV", crash)
    assert not reproduce.alike("(2, 3)\nthe process dies of SIGABRT", crash)
    assert not reproduce.alike("the process dies of SIGSEGV", crash)
    assert not reproduce.alike("(2, 3)", crash)
    assert not reproduce.alike("1\n2", "1")


def test_other_output_is_changed_until_it_is_marked_as_fixed() -> None:
    finding = {"printed": "1", "checked": "2.0 on CPython 3.13.0, reproduced"}
    assert reproduce.state_of(finding, "1", None) == "reproduced"
    assert reproduce.state_of(finding, "2", None) == "changed"
    assert reproduce.state_of(finding, "2", {"output": "2"}) == "changed"
    finding["checked"] = "2.0 on CPython 3.13.0, fixed in lib 2.0"
    assert reproduce.state_of(finding, "2", {"output": "2"}) == "fixed in lib 2.0"
    assert reproduce.state_of(finding, "3", {"output": "2"}) == "changed"
    assert reproduce.state_of(finding, "1", {"output": "2"}) == "reproduced"


def test_mark_as_fixed_without_a_stored_output_is_changed() -> None:
    finding = {"printed": "1", "checked": "2.0 on CPython 3.13.0, fixed in lib 2.0"}
    assert reproduce.state_of(finding, "2", None) == "changed"
    assert reproduce.state_of(finding, "2", {"output": None}) == "changed"


TABLE = """
| library | version | newest | memory safety | wrong values | refusal | convention | all | fixed in newest |
|---|---|---|---|---|---|---|---|---|
| all |  |  | 0 | 0 | 0 | 0 | 0 | 0 |
"""


def finding_text(number: int, library: str, checked: str) -> str:
    """Returns a finding whose code and output are its number."""
    fields = {"Severity": "refusal", "Last checked": checked, "Rules": "none yet", "What happens": "This."}
    lines = "\n".join(f"* {name}: {value}" for name, value in fields.items())
    code = f"```python\n{number}\n```\n\n```text\n{number}\n```\n"
    return f"\n### {number}. {library} 1.0: a fault\n\n{lines}\n\n{code}"


@pytest.fixture
def two_libraries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Makes the command use a page with a finding of each of two libraries, without drafts. Returns the results."""
    page, results = tmp_path / "findings.md", tmp_path / "last-checked.json"
    one = finding_text(1, "one", "1.0 on CPython 3.13.0, fixed in one 1.0")
    page.write_text(TABLE + one + finding_text(2, "two", "never"))
    stored = {"library": "one", "title": "a fault", "version": "1.0", "python": "3.13.0", "output": "0"}
    results.write_text(json.dumps({"findings": [{**stored, "state": "fixed in one 1.0"}]}))
    monkeypatch.setattr(reproduce, "PAGE", page)
    monkeypatch.setattr(reproduce, "RESULTS", results)
    monkeypatch.setattr(reproduce, "reports", list)
    monkeypatch.setattr(sys, "argv", ["reproduce.py", "--write"])
    return results


FAILURES = {
    "it did not end within 900 seconds": subprocess.TimeoutExpired("python", 900),
    "uv pip install one ended with 1": subprocess.CalledProcessError(1, ["uv", "pip", "install", "one"]),
    "RuntimeError: ImportError: one": RuntimeError("ImportError: one"),
    "FileNotFoundError: uv": FileNotFoundError("uv"),
}


@pytest.mark.parametrize("reason", FAILURES)
def test_library_that_fails_is_recorded_and_the_next_is_tried(
    two_libraries: Path, monkeypatch: pytest.MonkeyPatch, reason: str
) -> None:
    def run_library(_: Path, library: str, codes: list[str]) -> dict[str, object]:
        if library == "one":
            raise FAILURES[reason]
        return {"version": "1.0", "python": "3.13.0", "outcomes": [code.strip() for code in codes]}

    monkeypatch.setattr(reproduce, "run_library", run_library)
    assert reproduce.main() == 1
    first, second = json.loads(two_libraries.read_text())["findings"]
    assert first["state"] == f"not tried: {reason}"
    assert second["state"] == "reproduced"
    page = reproduce.PAGE.read_text()
    assert "* Last checked: 1.0 on CPython 3.13.0, reproduced" in page
    # The mark as fixed and its output stay, so that the next run can compare.
    assert "* Last checked: 1.0 on CPython 3.13.0, fixed in one 1.0" in page
    assert first["output"] == "0"


def test_library_that_does_not_run_gives_the_last_line_of_its_error(monkeypatch: pytest.MonkeyPatch) -> None:
    failed = subprocess.CompletedProcess([], 1, "", "Traceback\n  line\nImportError: libx.so\n")
    monkeypatch.setattr(reproduce.subprocess, "run", lambda *_, **__: failed)
    with pytest.raises(RuntimeError, match=r"^ImportError: libx\.so$"):
        reproduce.run_library(Path(sys.executable), "one", [])


def test_environment_that_cannot_be_made_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = tmp_path / "uv"
    tool.write_text('#!/bin/sh\nif [ "$2" = venv ]; then mkdir -p "$5/bin" && touch "$5/bin/python"; else exit 3; fi\n')
    tool.chmod(0o755)
    made = environments.Environments(tmp_path / "folder", "3.13", str(tool))
    monkeypatch.setattr(made, "wheels", list)
    for _ in range(2):
        with pytest.raises(subprocess.CalledProcessError):
            made.interpreter("numpy")
        assert not (tmp_path / "folder/numpy").exists()
    # A folder that the task did not make, such as a checkout of the library.
    Path(tmp_path, "folder/numpy").mkdir(parents=True)
    with pytest.raises(FileExistsError, match="numpy exists, and is not an environment"):
        made.interpreter("numpy")
    assert (tmp_path / "folder/numpy").exists()


def test_draft_that_does_not_end_does_not_end_the_others(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run_script(_: Path, script: str) -> str:
        if script == DRAFTS[0].script:
            raise subprocess.TimeoutExpired("python", 180)
        return next(draft.output for draft in DRAFTS if draft.script == script)

    monkeypatch.setattr(reproduce, "run_script", run_script)
    states = reproduce.check_drafts([], None)
    assert list(states) == [draft.path.name for draft in DRAFTS]
    lines = capsys.readouterr().out.splitlines()
    assert lines == [f"upstream/{file}: {state}" for file, state in states.items()]
    assert lines[0].endswith(": not tried: it did not end within 180 seconds")
    assert [line.rpartition(" ")[2] for line in lines[1:]] == ["reproduced"] * (len(DRAFTS) - 1)


def test_script_that_a_signal_ends_names_the_signal() -> None:
    script = "import os, signal; print(1, flush=True); os.kill(os.getpid(), signal.SIGKILL)"
    assert reproduce.run_script(Path(sys.executable), script) == "1\nthe process dies of SIGKILL"


def test_script_that_ends_before_its_first_output_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="^ModuleNotFoundError: No module named 'no_such_library'$"):
        reproduce.run_script(Path(sys.executable), "import no_such_library")
    assert reproduce.run_script(Path(sys.executable), "print(1); raise ValueError") == "1"


def test_date_of_a_run_of_all_findings_is_in_the_page(two_libraries: Path) -> None:
    page = reproduce.PAGE
    page.write_text("`Last checked` is a later run, of 2020-01-31, on a newer Python." + page.read_text())
    reproduce.write_date("2026-11-28")
    assert page.read_text().startswith("`Last checked` is a later run, of 2026-11-28, on")
    assert json.loads(two_libraries.read_text())["date"] == "2026-11-28"


def test_unknown_library_is_refused(
    two_libraries: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = two_libraries.read_text()
    monkeypatch.setattr(sys, "argv", ["reproduce.py", "--write", "tow"])
    with pytest.raises(SystemExit):
        reproduce.main()
    assert "no finding is about tow; known: one, two" in capsys.readouterr().err
    assert two_libraries.read_text() == before


def test_mark_replaces_only_its_finding() -> None:
    text = findings_page.PAGE.read_text(encoding="utf-8")
    first, second = findings_page.findings(text)[:2]
    changed = findings_page.marked(text, {(first["library"], first["title"]): "9.9 on CPython 3.13.0, fixed in x 9"})
    after = findings_page.findings(changed)
    assert after[0]["checked"] == "9.9 on CPython 3.13.0, fixed in x 9"
    assert after[1] == second
    assert len(after) == len(FINDINGS)
    assert findings_page.table(changed) in changed
    assert findings_page.marked(text, {}) == text
