"""The drafts in conformance/reports/upstream are complete, and the command that runs them compares their output."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "reports"))
reproduce = pytest.importorskip("reproduce", reason="needs a checkout")

DRAFTS = reproduce.drafts()
PYTHON = [sys.executable]


def test_every_heading_is_a_draft_that_is_read() -> None:
    files = set(reproduce.FOLDER.glob("*.md")) - {reproduce.FOLDER / "README.md"}
    headings = [line[3:] for file in sorted(files) for line in file.read_text().splitlines() if line.startswith("## ")]
    assert [draft.title for draft in DRAFTS] == headings
    assert len(DRAFTS) > len(files) > 5


@pytest.mark.parametrize("draft", DRAFTS, ids=lambda draft: f"{draft.library}: {draft.title}")
def test_draft_script_compiles_and_needs_no_dlbridge(draft: reproduce.Draft) -> None:
    compile(draft.script, draft.title, "exec")
    assert "dlbridge" not in draft.script
    assert draft.output


def test_output_of_a_crash_may_have_other_lines_before_its_last() -> None:
    crash = "(2, 3)\nthe process dies of SIGSEGV"
    assert reproduce.alike("(2, 3)\nFatalError\nthe process dies of SIGSEGV", crash)
    assert not reproduce.alike("(2, 3)\nthe process dies of SIGABRT", crash)
    assert not reproduce.alike("the process dies of SIGSEGV", crash)
    assert not reproduce.alike("(2, 3)", crash)
    assert not reproduce.alike("1\n2", "1")


def test_script_that_a_signal_ends_names_the_signal() -> None:
    script = "import os, signal; print(1, flush=True); os.kill(os.getpid(), signal.SIGKILL)"
    assert reproduce.run_script(PYTHON, script) == "1\nthe process dies of SIGKILL"
    assert reproduce.run_script(PYTHON, "print(1); raise SystemExit(137)") == "1\nthe process dies of SIGKILL"


def test_state_of_a_draft_is_that_of_its_output(monkeypatch: pytest.MonkeyPatch) -> None:
    def state(script: str) -> str:
        return reproduce.state(PYTHON, reproduce.Draft("x", "x", script, "1"))

    assert state("print(1); raise ValueError") == "reproduced"
    assert state("print(2)") == "changed\n2"
    assert state("import no_such_library") == "not tried: ModuleNotFoundError: No module named 'no_such_library'"
    monkeypatch.setattr(reproduce, "LIMIT", 0.5)
    assert state("import time; time.sleep(60)").endswith("timed out after 0.5 seconds")


def test_unknown_library_is_refused() -> None:
    done = subprocess.run([*PYTHON, reproduce.__file__, "tow"], capture_output=True, text=True)
    assert done.returncode == 2
    assert "no draft is about tow; known: dpnp, jax" in done.stderr
