"""Runs Python code in separate processes."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

#: Python's development mode, with warnings as errors.
DEVELOPMENT = ("-X", "dev", "-W", "error")


def child_environment() -> dict[str, str]:
    """The variables of this process, with this folder on Python's path."""
    path = [str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path)}


def run(
    code: str, *arguments: object, options: Sequence[str] = DEVELOPMENT, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Runs code in a separate process, with this folder on its path."""
    command = [sys.executable, *options, "-c", code, *map(str, arguments)]
    env = {**child_environment(), **environment}
    return subprocess.run(command, capture_output=True, text=True, timeout=300, env=env)


def output(
    code: str, *arguments: object, options: Sequence[str] = DEVELOPMENT, quiet: bool = True, **environment: str
) -> str:
    """As :func:`run`, for code that must succeed and, if `quiet`, print nothing to stderr; returns what it printed."""
    done = run(code, *arguments, options=options, **environment)
    assert (done.returncode, quiet and done.stderr) == (0, quiet and ""), done.stdout + done.stderr
    return done.stdout


def printed(program: str, *arguments: str) -> list[Any]:
    """The lines of JSON that a program in this folder prints."""
    command = [sys.executable, str(Path(__file__).with_name(program)), *arguments]
    result = subprocess.run(command, capture_output=True, text=True, timeout=500)
    assert result.returncode == 0, result.stderr[-2000:]
    return [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]
