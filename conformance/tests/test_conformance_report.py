"""The reports of the conformance kit in the terminal and as JUnit XML."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest
from crafted_report import COMMAND, HOSTILE, crafted_report
from dlbridge_conformance import Report, Status
from dlbridge_conformance.report import account, findings, junit, totals, visible


@pytest.fixture
def report() -> Report:
    return crafted_report()


def test_visible_escapes_invisible_characters() -> None:
    text = "a\x00\x1b\ud800\u202e\u2028\tb\nc é ✓ 漢"
    assert visible(text) == "a\\x00\\x1b\\ud800\\u202e\\u2028    b\nc é ✓ 漢"


def test_account_has_the_finding_rule_and_evidence(report: Report) -> None:
    rule, result = report.rules[1], report.libraries[0].results[1]
    lines = account(report, "mylib:Adapter", rule, result).splitlines()
    assert lines[0] == f"MUST failed: {visible(HOSTILE)}"
    assert lines[1:3] == ["rule: What P-TWO says.", "source: dlpack.h 1.3"]
    assert lines[3:6] == [f"    fed: {visible(HOSTILE)}", "    got: two", "         lines"]
    assert lines[6:] == [f"again: {COMMAND} mylib:Adapter --rule P-TWO"]


# -------------------------------------------------------------------------------------------- terminal


def test_terminal_table_counts_outcomes(report: Report) -> None:
    lines = totals(report).splitlines()
    assert [line.split() for line in lines[2:]] == [
        ["mylib:Adapter", "1.0+cpu", "1", "2", "2", "1", "2", "0"],
        ["other", "2", "4", "0", "0", "0", "0", "2"],
    ]


def test_terminal_table_fits_the_width(report: Report) -> None:
    report.libraries[0].name = "a.module.somewhere:" + "Adapter" * 9
    report.libraries[1].version = "2.20.0.dev20260101+cuda" * 3
    lines = totals(report).splitlines() + findings(report, report.libraries[1]).splitlines()
    assert max(map(len, lines)) == 100
    report.libraries[1].results[0].status = Status.FAILED
    report.libraries[1].results[0].detail = "a word " * 50
    assert max(map(len, findings(report, report.libraries[1]).splitlines())) <= 100


def test_colours_appear_only_on_a_terminal(report: Report) -> None:
    plain, coloured = totals(report), totals(report, True)
    assert "\x1b" not in plain + findings(report, report.libraries[0])
    assert "\x1b[31m" in coloured
    assert re.sub(r"\x1b\[\d+m", "", coloured) == plain


# -------------------------------------------------------------------------------------------- JUnit


def test_junit_has_every_result(report: Report) -> None:
    root = ElementTree.fromstring(junit(report).encode())
    counts = {"tests": "12", "failures": "2", "errors": "2", "skipped": "3", "time": "6.000"}
    assert (root.tag, root.attrib) == ("testsuites", {"name": "dlbridge_conformance", **counts})
    first, second = root
    assert [suite.get("name") for suite in root] == ["mylib:Adapter", "other"]
    assert {entry.get("name"): entry.get("value") for entry in first[0]} == {
        "mylib:Adapter": "1.0+cpu", "dlbridge": "0.1.0", "python": report.python, "system": report.system,
    }  # fmt: skip
    cases = first.iter("testcase")
    outcomes = {case.get("name"): [(child.tag, child.get("type")) for child in case] for case in cases}
    assert outcomes == {
        "P-ONE": [],
        "P-TWO": [("failure", "MUST failed")],
        "P-THREE": [("failure", "SHOULD failed")],
        "C-ONE": [("error", "MUST crashed")],
        "C-TWO": [("skipped", "MAY failed")],
        "E-ONE": [("error", "SHOULD hung")],
    }
    skipped = [case.get("name") for case in second.iter("testcase") if case.find("skipped") is not None]
    assert skipped == ["P-THREE", "E-ONE"]


def test_junit_survives_any_evidence(report: Report) -> None:
    failure = ElementTree.fromstring(junit(report).encode()).find(".//failure")
    assert failure is not None
    assert failure.get("message") == visible(HOSTILE)
    assert failure.text == account(report, "mylib:Adapter", report.rules[1], report.libraries[0].results[1])
