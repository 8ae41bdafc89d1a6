"""The drafts in conformance/reports/upstream are complete, and agree with their index and with docs/findings.md."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

REPORTS = Path(__file__).parents[1] / "reports"
sys.path.insert(0, str(REPORTS))
issue_reports = pytest.importorskip("issue_reports", reason="needs a checkout")
findings_page = pytest.importorskip("findings_page", reason="needs a checkout")
reproduce = pytest.importorskip("reproduce", reason="needs a checkout")

DRAFTS = issue_reports.reports()
ROWS = issue_reports.index_rows()
FINDINGS = {f["number"]: f for f in findings_page.findings(findings_page.PAGE.read_text(encoding="utf-8"))}
each_draft = pytest.mark.parametrize("draft", DRAFTS, ids=lambda draft: draft.path.stem)


def test_index_lists_every_draft_once() -> None:
    assert sorted(row["file"] for row in ROWS) == [draft.path.name for draft in DRAFTS]
    assert [int(row["rank"]) for row in ROWS] == list(range(1, len(ROWS) + 1))
    assert len(ROWS) == 20
    assert {row["file"]: row["title"] for row in ROWS} == {draft.path.name: draft.title for draft in DRAFTS}


def test_index_says_that_nothing_was_sent() -> None:
    assert "None has been sent." in " ".join(issue_reports.INDEX.read_text(encoding="utf-8").split())


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
    finding["checked"] = "2.0 on CPython 3.13.0, fixed in lib 2.0"
    assert reproduce.state_of(finding, "2", {"output": "2"}) == "fixed in lib 2.0"
    assert reproduce.state_of(finding, "3", {"output": "2"}) == "changed"
    assert reproduce.state_of(finding, "1", {"output": "2"}) == "reproduced"


def test_script_that_a_signal_ends_names_the_signal() -> None:
    script = "import os, signal; print(1, flush=True); os.kill(os.getpid(), signal.SIGKILL)"
    assert reproduce.run_script(Path(sys.executable), script) == "1\nthe process dies of SIGKILL"


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
