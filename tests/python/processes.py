"""Runs Python code in separate processes."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

#: Python's development mode, with warnings as errors.
DEVELOPMENT = ("-X", "dev", "-W", "error")


def run(
    code: str, *arguments: object, options: Sequence[str] = DEVELOPMENT, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Runs code in a separate process, with this folder on its path."""
    path = [str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    command = [sys.executable, *options, "-c", code, *map(str, arguments)]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(path), **environment}
    return subprocess.run(command, capture_output=True, text=True, timeout=300, env=env)


def output(
    code: str, *arguments: object, options: Sequence[str] = DEVELOPMENT, quiet: bool = True, **environment: str
) -> str:
    """As :func:`run`, for code that must succeed and, if `quiet`, print nothing to stderr; returns what it printed."""
    done = run(code, *arguments, options=options, **environment)
    assert (done.returncode, quiet and done.stderr) == (0, quiet and ""), done.stdout + done.stderr
    return done.stdout
