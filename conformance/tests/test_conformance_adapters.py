"""Adapters describe their libraries correctly, and a user can write one for any other library."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import missing
from dlbridge_conformance import Adapter, known_adapters
from own_adapter import command

PROGRAM = Path(__file__).with_name("adapter_program.py")
ROOT = Path(__file__).parents[2]

#: Libraries that are only installed by hand: they need another Python, another NumPy or a GPU.
ELSEWHERE = {"cudf", "cupy", "kornia-rs", "torch-cuda"}


@pytest.mark.parametrize("name", known_adapters())
def test_adapter_attributes_match_the_library(name: str) -> None:
    if not known_adapters()[name].is_installed():
        if name in ELSEWHERE:
            pytest.skip(f"{name} is not installed")
        missing(f"{name} is not installed, or does not run here")
    done = subprocess.run([sys.executable, str(PROGRAM), name], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    found = [line for line in done.stdout.splitlines() if line]
    assert found[-1].endswith(": done")
    assert found[:-1] == []


def test_adapter_method_not_overridden_does_not_apply() -> None:
    class Nothing(Adapter):
        name = module = "nothing_of_this_name"

    library = Nothing()
    assert not library.is_installed()
    for call in (library.array, library.from_dlpack, library.address, library.transposed, library.stepped):
        with pytest.raises(Exception) as raised:
            call([0])
        assert type(raised.value).__name__ == "NotApplicable"


def example() -> str:
    """The adapter that the page shows."""
    page = (ROOT / "docs/conformance-adapters.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    return next(block for block in blocks if block.startswith('"""my_adapter.py'))


@pytest.fixture
def adapter_folder(tmp_path: Path) -> Path:
    """A directory with the page's example as ``my_adapter.py``."""
    if not (ROOT / "docs/conformance-adapters.md").exists():
        pytest.skip("needs a checkout")
    pytest.importorskip("numpy")
    (tmp_path / "my_adapter.py").write_text(example())
    return tmp_path


def test_adapter_example_of_the_page_runs(adapter_folder: Path) -> None:
    assert len([line for line in example().splitlines() if line and not line.startswith('"""')]) <= 10
    rules = ("--rule", "C-DELETER-ONCE", "--rule", "P-CAPSULE-LEGACY-NAME")
    done = command(adapter_folder, "my_adapter:MyLibrary", *rules)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "my_adapter:MyLibrary C-DELETER-ONCE: passed" in done.stdout
    assert "my_adapter:MyLibrary P-CAPSULE-LEGACY-NAME: passed" in done.stdout
