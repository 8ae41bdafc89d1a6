"""Runs Python code in separate processes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

#: The folder of the tests' helpers, added to the path of such code.
HELPERS = [str(Path(__file__).parent)]

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def run() -> Run:
    """Runs Python code in a separate process, with the test helpers on its path.

    ``options`` are options of the interpreter; by default its development mode is on and warnings are errors.
    """

    def run(
        code: str, *arguments: str, options: Sequence[str] = ("-X", "dev", "-W", "error")
    ) -> subprocess.CompletedProcess[str]:
        path = [*HELPERS, *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path)}
        command = [sys.executable, *options, "-c", code, *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)

    return run
