"""Python code in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

#: Where such code finds the helpers of the tests.
HELPERS = [str(Path(__file__).parent)]

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def run() -> Run:
    """Runs Python code in a process of its own, with the test helpers on its path.

    ``options`` are those of the interpreter; by default it checks itself, and warnings are errors.
    """

    def run(
        code: str, *arguments: str, options: Sequence[str] = ("-X", "dev", "-W", "error")
    ) -> subprocess.CompletedProcess[str]:
        path = [*HELPERS, *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path)}
        command = [sys.executable, *options, "-c", code, *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)

    return run
