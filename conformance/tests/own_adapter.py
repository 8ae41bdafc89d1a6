"""An adapter that a test writes into a folder, with rules of its own, and the kit's command there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ADAPTER = '''
from dlbridge_conformance import Adapter, Level, Role, rule

class Mine(Adapter):
    name = module = "mine"

class Unloadable(Mine):
    def load(self):
        raise OSError("no driver")

@rule("MINE-PASSES", Role.PRODUCER, Level.MUST, "It passes.", "nowhere")
def passes(c):
    pass

@rule("MINE-FAILS", Role.PRODUCER, Level.MUST, "It fails.", "nowhere")
def fails(c):
    c.expect(False, "it # failed")

@rule("MINE-MAY", Role.CONSUMER, Level.MAY, "It may fail.", "nowhere")
def may(c):
    c.expect(False, "as it may")
'''


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A directory with the adapter and its rules."""
    Path(tmp_path, "mine.py").write_text(ADAPTER)
    return tmp_path


def kit(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Runs the rules of the adapter in a directory."""
    return every_rule(folder, "mine:Mine", "--rule", "MINE", *words)


def every_rule(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Runs the kit in a directory, with all rules unless the words name some."""
    return command(folder, "-q", *words)


def command(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Runs the kit's command in a directory."""
    program = [sys.executable, "-m", "dlbridge_conformance", *words]
    return subprocess.run(program, capture_output=True, text=True, cwd=folder, timeout=600)
