"""Fixtures that the tests of the kit share with the other Python tests: processes, and missing frameworks."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.append(str(HERE.parents[1] / "tests/python"))

import processes  # noqa: E402
from frameworks import missing, require  # noqa: E402
from own_adapter import folder  # noqa: E402
from processes import Run, run  # noqa: E402

__all__ = ["Run", "folder", "missing", "require", "run"]

processes.HELPERS.insert(0, str(HERE))
