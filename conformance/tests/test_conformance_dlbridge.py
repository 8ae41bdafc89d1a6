"""dlbridge keeps every rule of the conformance kit; only rules about devices may not apply."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from own_adapter import command

#: rules about a device that does not exist, and about devices that this machine may lack
DEVICES = {
    "C-DEVICE-UNKNOWN-CLASS", "C-STREAM-PASSED", "C-STREAM-CUDA-NOT-0", "C-STREAM-ROCM-NOT-1-2",
    "P-KEYWORDS-DL-DEVICE-NO-COPY", "P-STREAM-NONE", "P-STREAM-CUDA-TAKEN", "P-STREAM-ROCM-TAKEN",
    "P-STREAM-CUDA-NOT-0", "P-STREAM-ROCM-NOT-1-2", "P-STREAM-NEGATIVE", "P-STREAM-ERROR",
}  # fmt: skip


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, str]]:
    """All results, as the command reports them."""
    folder: Path = tmp_path_factory.mktemp("report")
    done = command(folder, "dlbridge", "--quiet", "--json", "dlbridge.json")
    assert done.returncode == 0, done.stdout + done.stderr
    (library,) = json.loads((folder / "dlbridge.json").read_text())["libraries"]
    found: list[dict[str, str]] = library["results"]
    return found


def test_every_rule_is_kept(results: list[dict[str, str]]) -> None:
    assert {r["rule"]: r["detail"] for r in results if r["status"] not in ("passed", "not applicable")} == {}


def test_rules_except_device_rules_apply(results: list[dict[str, str]]) -> None:
    assert {r["rule"] for r in results if r["status"] == "not applicable"} <= DEVICES
    assert len(results) >= 400
