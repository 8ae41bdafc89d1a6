"""The reports of the conformance kit: in the terminal, as JUnit XML, as a picture in SVG, as Markdown, as JSON."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest
from crafted_report import COMMAND, HOSTILE, crafted_report
from dlbridge_conformance import Report, Status, all_rules
from dlbridge_conformance.report import junit, markdown, svg, terminal
from dlbridge_conformance.report.text import account, visible
from dlbridge_conformance.result import read


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
    lines = terminal.table(report).splitlines()
    assert [line.split() for line in lines[2:]] == [
        ["mylib:Adapter", "1.0+cpu", "1", "2", "2", "1", "2", "0"],
        ["other", "2", "4", "0", "0", "0", "0", "2"],
    ]


def test_terminal_table_fits_the_width(report: Report) -> None:
    report.libraries[0].name = "a.module.somewhere:" + "Adapter" * 9
    report.libraries[1].version = "2.20.0.dev20260101+cuda" * 3
    lines = terminal.table(report).splitlines() + terminal.broken(report, report.libraries[1]).splitlines()
    assert max(map(len, lines)) == 100
    report.libraries[1].results[0].status = Status.FAILED
    report.libraries[1].results[0].detail = "a word " * 50
    assert max(map(len, terminal.broken(report, report.libraries[1]).splitlines())) <= 100


def test_colours_appear_only_on_a_terminal(report: Report) -> None:
    plain, coloured = terminal.table(report), terminal.table(report, True)
    assert "\x1b" not in plain + terminal.broken(report, report.libraries[0])
    assert "\x1b[31m" in coloured
    assert re.sub(r"\x1b\[\d+m", "", coloured) == plain


# -------------------------------------------------------------------------------------------- JUnit


def test_junit_has_every_result(report: Report) -> None:
    root = ElementTree.fromstring(junit.suites(report).encode())
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
    failure = ElementTree.fromstring(junit.suites(report).encode()).find(".//failure")
    assert failure is not None
    assert failure.get("message") == visible(HOSTILE)
    assert failure.text == account(report, "mylib:Adapter", report.rules[1], report.libraries[0].results[1])


# -------------------------------------------------------------------------------------------- pictures


def test_svg_shows_every_cell(report: Report) -> None:
    root = ElementTree.fromstring(svg.svg(report))
    name = "{http://www.w3.org/2000/svg}"
    text = " ".join("".join(element.itertext()) for element in root.iter(f"{name}text"))
    for words in ("mylib:Adapter 1.0+cpu", "1 of 6", "4 of 4", "producer", "consumer", "dlbridge 0.1.0"):
        assert words in text
    paths = [path for path in root.iter(f"{name}path") if path.get("fill")]
    cells = [(path.get("fill"), path.get("d", "").count("M")) for path in paths]
    colours = svg.COLOURS
    assert sorted(cells) == sorted(
        [(colours[kind], 1) for kind in ("passed", "MUST broken", "SHOULD broken", "MAY broken")]
        + [(colours["crashed or hung"], 2), (colours["passed"], 4), (colours["not applicable"], 2)]
    )


# -------------------------------------------------------------------------------------------- Markdown


def test_markdown_names_the_libraries_that_break_a_rule(report: Report) -> None:
    lines = markdown.document(report).splitlines()
    rows = {cells[1]: cells[2:-1] for cells in ([cell.strip() for cell in line.split("|")] for line in lines if "|" in line)}
    assert rows["mylib:Adapter"] == ["1.0+cpu", "1", "2", "2", "1", "2", "0"]
    assert rows["other"] == ["2", "4", "0", "0", "0", "0", "2"]
    broken = {id.strip("`"): cells[-1] for id, cells in rows.items() if id.startswith("`")}
    assert broken == {
        "P-ONE": "", "P-TWO": "mylib:Adapter", "P-THREE": "mylib:Adapter", "C-ONE": "mylib:Adapter (SIGSEGV)",
        "C-TWO": "mylib:Adapter", "E-ONE": "mylib:Adapter (hangs)",
    }  # fmt: skip


def test_markdown_distinguishes_versions(report: Report) -> None:
    report.libraries[1].name = report.libraries[0].name
    line = next(line for line in markdown.document(report).splitlines() if "`C-ONE`" in line)
    assert line.endswith("| mylib:Adapter 1.0+cpu (SIGSEGV) |")


def test_markdown_escapes_foreign_text_in_cells(report: Report) -> None:
    report.libraries[0].name = "a|b_*<i>\n# c"
    line = next(line for line in markdown.document(report).splitlines() if line.startswith("| a"))
    assert line.startswith("| a\\|b\\_\\*\\<i> # c | 1.0+cpu |")


# -------------------------------------------------------------------------------------------- JSON


def test_json_round_trips(report: Report) -> None:
    report.rules = list(all_rules().values())[:6]
    for library in report.libraries:
        for rule, result in zip(report.rules, library.results, strict=True):
            result.rule = rule.id
    again = read(report.to_json())
    assert again == report
    assert again.libraries[0].results[3].status is Status.CRASHED


@pytest.mark.parametrize("text", ["", "[]", "{}", "nix", '{"rules": [{"id": "NO-SUCH-RULE"}], "libraries": []}'])
def test_other_json_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        read(text)
