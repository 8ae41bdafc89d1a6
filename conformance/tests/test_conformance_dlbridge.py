"""dlbridge keeps every rule of the conformance kit; only rules about devices may not apply."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from dlbridge_conformance import Library, Status
from dlbridge_conformance.result import read

#: rules about a device that does not exist, and about devices that this machine may lack
DEVICES = {
    "C-DEVICE-UNKNOWN-CLASS", "C-STREAM-PASSED", "C-STREAM-CUDA-NOT-0", "C-STREAM-ROCM-NOT-1-2",
    "P-KEYWORDS-DL-DEVICE-NO-COPY", "P-STREAM-NONE", "P-STREAM-CUDA-TAKEN", "P-STREAM-ROCM-TAKEN",
    "P-STREAM-CUDA-NOT-0", "P-STREAM-ROCM-NOT-1-2", "P-STREAM-NEGATIVE", "P-STREAM-ERROR",
}  # fmt: skip


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Library:
    """All results, as the command reports them."""
    file: Path = tmp_path_factory.mktemp("report") / "dlbridge.json"
    command = [sys.executable, "-m", "dlbridge_conformance", "dlbridge", "--quiet", "--json", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    (library,) = read(file.read_text()).libraries
    return library


def test_every_rule_is_kept(library: Library) -> None:
    broken = {result.rule: result.detail for result in library.results if result.status.is_broken}
    assert broken == {}


def test_rules_except_device_rules_apply(library: Library) -> None:
    left_out = {result.rule for result in library.results if result.status is Status.NOT_APPLICABLE}
    assert left_out <= DEVICES
    assert library.count(Status.PASSED) + len(left_out) == len(library.results) >= 400
