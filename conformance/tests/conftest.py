"""Fixtures that the tests of the kit share with the other Python tests: a folder with an adapter, and missing frameworks."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "tests/python"))

from frameworks import missing, require  # noqa: E402
from own_adapter import folder  # noqa: E402

__all__ = ["folder", "missing", "require"]
