"""docs/findings.md says what its reproductions do, in the versions that it names."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import missing
from dlbridge.conformance.adapter import known_adapters
from dlbridge.conformance.result import CAN_FORK

pytestmark = pytest.mark.skipif(not CAN_FORK, reason="a reproduction may crash the process, and there is no fork")

PROGRAM = Path(__file__).with_name("findings_program.py")
PAGE = Path(__file__).parents[3] / "docs/findings.md"
FINDING = re.compile(
    r"^### \d+\. (?P<library>\S+) (?P<version>[^:]+): (?P<title>[^\n]+)\n.*?"
    r"```python\n(?P<code>.*?)```\n+```text\n(?P<printed>.*?)\n```",
    re.DOTALL | re.MULTILINE,
)
FINDINGS = [match.groupdict() for match in FINDING.finditer(PAGE.read_text(encoding="utf-8"))] if PAGE.exists() else []


def test_every_finding_has_a_reproduction() -> None:
    if not PAGE.exists():
        pytest.skip("there is no checkout")
    assert len(FINDINGS) == len(re.findall(r"^### ", PAGE.read_text(encoding="utf-8"), re.MULTILINE)) > 0


@pytest.mark.parametrize("library", sorted({finding["library"] for finding in FINDINGS}))
def test_the_reproductions_do_what_the_page_says(library: str) -> None:
    if not known_adapters()[library].is_installed():
        if library == "mxnet":
            pytest.skip("mxnet needs an older NumPy than the others")
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
