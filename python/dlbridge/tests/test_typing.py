"""Type checkers accept what is right, and refuse what is wrong, line by line."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

import dlbridge
import pytest
from conftest import missing
from dlbridge import typing as dlbridge_typing

#: What is checked, as a program of somebody who has the package installed: among the packages
#: themselves mypy would take all that is installed for its own sources.
CASES = "typing_cases.py"


def marked(folder: Path) -> set[int]:
    """The lines that say that they are wrong, of a copy in a folder."""
    text = Path(__file__).with_name(CASES).read_text(encoding="utf-8")
    (folder / CASES).write_text(text, encoding="utf-8")
    return {n for n, line in enumerate(text.splitlines(), 1) if "  # error: " in line}


def mypy(folder: Path) -> set[int]:
    """The lines that mypy refuses."""
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(folder / "cache"), CASES]
    result = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    found = re.findall(r"typing_cases\.py:(\d+): error: ", result.stdout)
    assert f"Found {len(found)} error" in result.stdout, result.stdout + result.stderr
    return {int(line) for line in found}


def pyright(folder: Path) -> set[int]:
    """The lines that pyright refuses."""
    (folder / "pyrightconfig.json").write_text('{"typeCheckingMode": "strict"}')
    command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "--outputjson"]
    result = subprocess.run([*command, CASES], capture_output=True, text=True, cwd=folder)
    report = json.loads(result.stdout)
    assert report["summary"]["filesAnalyzed"] == 1
    errors = [entry for entry in report["generalDiagnostics"] if entry["severity"] == "error"]
    return {entry["range"]["start"]["line"] + 1 for entry in errors}


@pytest.mark.parametrize("checker", [mypy, pyright])
def test_the_marked_lines_are_refused_and_no_others(checker: object, tmp_path: Path) -> None:
    assert callable(checker)
    if importlib.util.find_spec(checker.__name__) is None:
        missing(f"{checker.__name__} is not installed")
    expected = marked(tmp_path)
    assert expected
    assert checker(tmp_path) == expected


def test_the_protocols_can_be_asked() -> None:
    tensor = dlbridge.empty(3)
    for name in dlbridge_typing.__all__:
        if name.startswith("Supports"):
            protocol = getattr(dlbridge_typing, name)
            lacking = ("CudaArrayInterface", "ArrowStream", "ArrowDeviceArray")
            there = name.removeprefix("Supports") not in lacking
            if name == "SupportsBuffer":
                # Python itself knows the method from 3.12 on.
                there = sys.version_info >= (3, 12)
            else:
                assert not isinstance(b"abc", protocol)
            assert isinstance(tensor, protocol) == there, name
