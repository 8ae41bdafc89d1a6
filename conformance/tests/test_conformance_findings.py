"""docs/findings.md shows the output of its reproductions, names existing rules, and covers every broken MUST."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from conftest import missing
from dlbridge_conformance.adapter import adapter_named
from dlbridge_conformance.result import CAN_FORK
from dlbridge_conformance.rule import all_rules

REPORTS = Path(__file__).parents[1] / "reports"
sys.path.insert(0, str(REPORTS))
findings_page = pytest.importorskip("findings_page", reason="needs a checkout")
environments = pytest.importorskip("environments", reason="needs a checkout")

PROGRAM = REPORTS / "run_findings.py"
PAGE, SEVERITIES = findings_page.PAGE, findings_page.SEVERITIES
RESULTS = PAGE.with_name("conformance-results.md")
TEXT = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
FINDINGS = findings_page.findings(TEXT)
#: stands in place of rules, for a finding that no rule covers
NO_RULE = "none yet"

with_the_page = pytest.mark.skipif(not PAGE.exists(), reason="needs a checkout")


def rules_of(finding: dict[str, str]) -> list[str]:
    """The ids in the line Rules."""
    rules = " ".join(finding["rules"].split())
    return [] if rules == NO_RULE else rules.split(", ")


def is_installed(library: str) -> bool:
    """Returns whether a library can be imported; one without an adapter is checked by its module."""
    try:
        return adapter_named(library).is_installed()
    except LookupError:
        return False


def rows(text: str) -> list[list[str]]:
    """The cells of all rows of all tables in a page."""
    lines = re.findall(r"^\| (.*) \|$", text, re.MULTILINE)
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)] for line in lines]


def broken(text: str, *levels: str) -> set[tuple[str, str]]:
    """The rules of some levels in a page of results, each with a library that breaks it, in the findings' version."""
    versions = {finding["library"]: finding["version"] for finding in FINDINGS}
    found = set()
    for rule, level, _, _, breaking in (cells for cells in rows(text) if len(cells) == 5 and cells[1] in levels):
        for name in filter(None, breaking.split(", ")):
            library, _, version = re.sub(r" \(.*\)$", "", name).partition(" ")
            if version in ("", versions.get(library)):
                found.add((rule.strip("`"), library))
    return found


@with_the_page
def test_every_finding_has_the_expected_form() -> None:
    assert [int(finding["number"]) for finding in FINDINGS] == list(range(1, len(FINDINGS) + 1))
    assert len(FINDINGS) == len(re.findall(r"^### ", TEXT, re.MULTILINE)) > 0


@with_the_page
def test_findings_are_under_their_library_by_severity() -> None:
    headings = re.findall(r"^##(#?) (?:\d+\. )?([^:\n]+)", TEXT, re.MULTILINE)
    sections = [heading for level, heading in headings if not level]
    assert len(sections) == len(set(sections))
    section, above = "", []
    for level, heading in headings:
        section = section if level else heading
        above += [section] if level else []
    assert above == [f"{finding['library']} {finding['version']}" for finding in FINDINGS]
    for section in set(above):
        found = [finding["severity"] for finding, of in zip(FINDINGS, above, strict=True) if of == section]
        assert found == sorted(found, key=SEVERITIES.index), section


@with_the_page
def test_findings_table_counts_the_findings() -> None:
    libraries = dict.fromkeys((finding["library"], finding["version"]) for finding in FINDINGS)
    counts = Counter((finding["library"], finding["severity"]) for finding in FINDINGS)
    found = {cells[0]: cells[1:] for cells in rows(TEXT)}
    assert list(found) == ["library", *(library for library, _ in libraries), "all"]
    for library, version in libraries:
        numbers = [counts[library, severity] for severity in SEVERITIES]
        fixed = sum(", fixed in " in finding["checked"] for finding in FINDINGS if finding["library"] == library)
        assert found[library][0] == version
        assert found[library][2:] == [*map(str, numbers), str(sum(numbers)), str(fixed)], library
    sums = [sum(finding["severity"] == severity for finding in FINDINGS) for severity in SEVERITIES]
    assert found["all"][2:7] == [*map(str, sums), str(len(FINDINGS))]
    assert findings_page.table(TEXT) in TEXT


@with_the_page
def test_every_finding_agrees_with_the_last_check() -> None:
    results = json.loads((REPORTS / "last-checked.json").read_text())
    assert f"a later run, of {results['date']}," in TEXT
    entries = results["findings"]
    stored = {(entry["library"], entry["title"]): entry for entry in entries}
    assert list(stored) == [(finding["library"], finding["title"]) for finding in FINDINGS]
    for finding in FINDINGS:
        entry = stored[finding["library"], finding["title"]]
        python = f" on CPython {entry['python']}" if entry["python"] else ""
        assert finding["checked"] == f"{entry['version']}{python}, {entry['state']}"
        # A run may store "changed" or "not tried: ...". The committed files may not have them.
        assert re.fullmatch(r"reproduced|fixed in \S+ \S+|not importable: .+", entry["state"]), finding["title"]
        if not python:
            assert "not importable" in entry["state"]
            continue
        assert tuple(map(int, entry["python"].split(".")[:2])) >= (3, 12)
        # A process that dies may print the trace of a signal handler between the lines of the page.
        lines = finding["printed"].splitlines()
        shown = [line for line in entry["output"].splitlines() if line in lines]
        assert (shown == lines) == (entry["state"] == "reproduced"), finding["title"]


@with_the_page
def test_every_library_with_a_finding_is_pinned() -> None:
    """The tests install each of them, so that none of their findings is skipped where everything is required."""
    pins = REPORTS.parents[1] / "xtask/src/pins.rs"
    if not pins.exists():
        pytest.skip("needs a checkout")
    pinned = set(re.findall(r'"([a-z0-9-]+)(?:\[\w+\])?==', pins.read_text().partition("#[cfg(test)]")[0]))
    libraries = {finding["library"] for finding in FINDINGS} - set(environments.NOT_INSTALLABLE)
    names = {environments.SAME_AS.get(library, library) for library in libraries}
    wanted = {requirement.partition("[")[0] for name in names for requirement in environments.REQUIREMENTS[name]}
    assert "numkong" in wanted
    assert wanted - pinned == set()


def test_library_that_is_not_installed_is_not_found() -> None:
    assert not is_installed("a_library_of_this_name_does_not_exist")


@with_the_page
def test_every_named_rule_exists() -> None:
    known = all_rules()
    assert [rule for finding in FINDINGS for rule in rules_of(finding) if rule not in known] == []


def test_broken_rules_are_read_from_the_results_page() -> None:
    page = (
        "| rule | level | what it says | source | broken by |\n|---|---|---|---|---|\n"
        "| `C-A` | MUST | Says \\| this. | dlpack.h | one (SIGSEGV), two, three (hangs) |\n"
        "| `C-B` | SHOULD | Says this. | dlpack.h | one |\n| `C-C` | MUST | Says this. | dlpack.h |  |\n"
        "| `C-D` | MUST | Says this. | dlpack.h | one 0.0.1 (exit) |\n"
    )
    assert broken(page, "MUST") == {("C-A", "one"), ("C-A", "two"), ("C-A", "three")}


@with_the_page
def test_every_broken_must_is_in_a_finding() -> None:
    if not RESULTS.exists():
        pytest.skip("docs/conformance-results.md does not exist")
    named = {(rule, finding["library"]) for finding in FINDINGS for rule in rules_of(finding)}
    musts = broken(RESULTS.read_text(encoding="utf-8"), "MUST")
    assert musts
    assert sorted((rule, library) for rule, library in musts - named if library != "dlbridge") == []


@with_the_page
def test_every_rule_in_a_finding_is_broken_by_its_library() -> None:
    if not RESULTS.exists():
        pytest.skip("docs/conformance-results.md does not exist")
    text = RESULTS.read_text(encoding="utf-8")
    measured = {cells[0] for cells in rows(text) if len(cells) > 5}
    named = {(rule, f["library"]) for f in FINDINGS for rule in rules_of(f) if f["library"] in measured}
    assert sorted(named - broken(text, "MUST", "SHOULD", "MAY")) == []


@pytest.mark.skipif(not CAN_FORK, reason="a reproduction may crash the process; needs fork")
@pytest.mark.parametrize("library", sorted({finding["library"] for finding in FINDINGS}))
def test_reproductions_print_the_output_of_the_page(library: str) -> None:
    if not is_installed(library):
        if library in environments.NOT_INSTALLABLE:
            pytest.skip(f"{library} is {environments.NOT_INSTALLABLE[library]}")
        missing(f"{library} is not installed, or does not run here")
    findings = [finding for finding in FINDINGS if finding["library"] == library]
    done = subprocess.run(
        [sys.executable, str(PROGRAM), library],
        input=json.dumps([finding["code"] for finding in findings]),
        capture_output=True, text=True, timeout=500,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    answer = json.loads(done.stdout)
    assert {finding["version"] for finding in findings} == {answer["version"]}
    found = {finding["title"]: printed for finding, printed in zip(findings, answer["outcomes"], strict=True)}
    assert found == {finding["title"]: finding["printed"] for finding in findings}
