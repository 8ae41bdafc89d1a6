"""The pages about the conformance kit are about the kit as it is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from dlbridge_conformance import all_rules, known_adapters
from dlbridge_conformance.report.markdown import cell
from dlbridge_conformance.report.topics import topics

DOCS = Path(__file__).parents[2] / "docs"

pytestmark = pytest.mark.skipif(not DOCS.is_dir(), reason="there is no checkout")


def test_the_results_have_every_rule_as_it_is() -> None:
    """A rule that is added or changed is measured again: ``python -m dlbridge_conformance --markdown``."""
    page = (DOCS / "conformance-results.md").read_text(encoding="utf-8")
    found = re.findall(r"^\| `([A-Z0-9-]+)` \| (\w+) \| (.*?) \| (.*?) \| [^|]*\|$", page, re.MULTILINE)
    rules = [rule for topic in topics(list(all_rules().values())) for rule in topic.rules]
    assert found == [(rule.id, rule.level.value, cell(rule.says), cell(rule.source)) for rule in rules]


def test_every_adapter_is_in_the_guide() -> None:
    page = (DOCS / "conformance-adapters.md").read_text(encoding="utf-8")
    table = page.partition("## What the kit knows")[2]
    first_cells = [line.split("|")[1] for line in table.splitlines() if line.startswith("|")]
    assert set(re.findall(r"`([a-z0-9-]+)`", "\n".join(first_cells))) == set(known_adapters())


def test_numbers_in_the_pages() -> None:
    """What is said to be more than a number is."""
    root = DOCS.parent
    for file in (root / "README.md", root / "CHANGELOG.md"):
        for number in re.findall(r"more than (\d+) rules", file.read_text(encoding="utf-8")):
            assert int(number) < len(all_rules()) < int(number) + 100
    (adapters,) = re.findall(r"adapters for (\d+) libraries", (root / "CHANGELOG.md").read_text(encoding="utf-8"))
    assert int(adapters) == len(known_adapters()) - 1, "all but dlbridge itself"
