"""The pages about the conformance kit match the kit."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from dlbridge_conformance import all_rules, known_adapters, selected

DOCS = Path(__file__).parents[2] / "docs"

pytestmark = pytest.mark.skipif(not DOCS.is_dir(), reason="needs a checkout")


@pytest.mark.parametrize("page", ["conformance-results.md", "findings.md"])
def test_rules_in_a_page_exist(page: str) -> None:
    named = set(re.findall(r"`([CPX]-[A-Z0-9-]+)`", (DOCS / page).read_text(encoding="utf-8")))
    assert named
    assert selected(sorted(named))


def test_every_adapter_is_in_the_guide() -> None:
    page = (DOCS / "conformance-adapters.md").read_text(encoding="utf-8")
    table = page.partition("## Adapters of the kit")[2]
    first_cells = [line.split("|")[1] for line in table.splitlines() if line.startswith("|")]
    assert set(re.findall(r"`([a-z0-9-]+)`", "\n".join(first_cells))) == set(known_adapters())


def test_numbers_in_the_pages() -> None:
    """Counts that the pages state as "more than" are correct."""
    root = DOCS.parent
    for file in (root / "README.md", root / "CHANGELOG.md"):
        for number in re.findall(r"more than (\d+) rules", file.read_text(encoding="utf-8")):
            assert int(number) < len(all_rules()) < int(number) + 100
    (adapters,) = re.findall(r"adapters for (\d+) libraries", (root / "CHANGELOG.md").read_text(encoding="utf-8"))
    assert int(adapters) == len(known_adapters()) - 1, "all but dlbridge itself"


def test_text_of_every_deliberate_fault_is_once_in_its_file() -> None:
    for name, faults in tomllib.loads((DOCS.parent / "conformance/faults.toml").read_text(encoding="utf-8")).items():
        text = (DOCS.parent / name).read_text(encoding="utf-8")
        assert {fault: text.count(old) for fault, (old, _) in faults.items()} == dict.fromkeys(faults, 1)
