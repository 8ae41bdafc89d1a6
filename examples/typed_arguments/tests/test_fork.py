"""Forks while native threads run deleters: no child hangs, and the parent goes on."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent

#: Of the process that forks; the children have a limit of their own.
LIMIT = 300


@pytest.fixture(scope="module")
def deleters(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """deleters.c, compiled."""
    compiler = shutil.which(os.environ.get("CC", "cc")) or shutil.which("gcc")
    if compiler is None:
        if os.environ.get("DLBRIDGE_REQUIRE") == "1":
            pytest.fail("no C compiler was found", pytrace=False)
        pytest.skip("no C compiler was found")
    path = tmp_path_factory.mktemp("deleters") / "deleters.so"
    source = str(FOLDER / "deleters.c")
    command = [compiler, "-shared", "-fPIC", "-pthread", "-O1", "-Wall", source, "-o", str(path)]
    subprocess.run(command, check=True)
    return path


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform does not have os.fork")
@pytest.mark.parametrize("record", [True, False], ids=["recorded", "not recorded"])
def test_fork_while_threads_run_deleters_hangs_no_child(deleters: Path, record: bool) -> None:
    program = str(FOLDER / "fork_program.py")
    command = [sys.executable, program, str(deleters), "1000", str(record)]
    # NumPy's threads would be stopped and started anew at each fork, a fifth of the time.
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    result = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, env=environment)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == "{0: 1000}\n"
