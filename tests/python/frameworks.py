"""Frameworks that may be missing."""

from __future__ import annotations

import importlib
import os
from typing import Any, NoReturn

import pytest

#: Whether what is missing is a failure and not a skip.
REQUIRED = os.environ.get("DLBRIDGE_REQUIRE") == "1"


def missing(reason: str) -> NoReturn:
    """Skips the test or the file, or fails it where nothing may be missing."""
    if REQUIRED:
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason, allow_module_level=True)


def require(name: str) -> Any:
    """A framework, as a module; without it the test file is skipped, or fails."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name.partition(".")[0]:
            raise
        missing(f"{name} is not installed")
