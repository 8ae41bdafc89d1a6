"""Frameworks that may be missing, and the DLPack version that their release requests."""

import importlib
import importlib.util
import os
import re
from collections.abc import Callable
from typing import Any, NoReturn

import dlbridge
import pytest
from native import Producer

#: If true, a missing framework is a failure instead of a skip.
REQUIRED = os.environ.get("DLBRIDGE_REQUIRE") == "1"
#: The frameworks that are skipped all the same, with commas between them.
LEFT_OUT = os.environ.get("DLBRIDGE_LEFT_OUT", "").split(",")


def missing(reason: str) -> NoReturn:
    """Skips the test or the file, or fails it if DLBRIDGE_REQUIRE is 1.

    The reason begins with the name of the framework.
    """
    if REQUIRED and re.split(r"[.' ]", reason)[0] not in LEFT_OUT:
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason, allow_module_level=True)


def require(name: str) -> Any:
    """Imports a framework. If it is not installed, the test file is skipped or fails."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name.partition(".")[0]:
            raise
        missing(f"{name} is not installed")


def require_installed(*names: str) -> None:
    """As :func:`require`, without an import: one process cannot import all frameworks."""
    for name in names:
        if importlib.util.find_spec(name) is None:
            missing(f"{name} is not installed")


def requested(function: Callable[[Any], Any]) -> tuple[int, int] | None:
    """The version of DLPack that a framework's function requests; None for a legacy capsule."""
    producer = Producer(lambda keywords: dlbridge.empty((2, 3)).__dlpack__(**keywords))
    function(producer)
    return producer.asked[-1].get("max_version")
