"""Fixtures that the tests of the kit share with the other Python tests: processes, and missing frameworks."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

sys.path.append(str(Path(__file__).parents[2] / "tests/python"))

import processes  # noqa: E402
from frameworks import missing, require  # noqa: E402
from own_adapter import folder  # noqa: E402

__all__ = ["Run", "folder", "missing", "require"]

Run = Callable[..., Any]


@pytest.fixture
def run() -> Run:
    """Runs Python code in a separate process."""
    return processes.run
