"""The extension as it is copied."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import template

#: Programs, and whether a type checker takes them.
PROGRAMS = [
    ("import numpy, template\ntemplate.row_sums(numpy.ones((2, 3)))", True),
    ("import template\ntemplate.row_sums(memoryview(b''))", True),
    ("import template\ntemplate.row_sums([1, 2])", False),
    ("import template\ntemplate.row_sums()", False),
]


def test_the_function() -> None:
    sums = np.from_dlpack(template.row_sums(np.arange(6, dtype="f4").reshape(2, 3)))
    assert (sums.tolist(), sums.dtype) == ([3, 12], "float32")
    with pytest.raises(TypeError, match=r"argument 'x': expected float32\[_, _\] on cpu; got float64"):
        template.row_sums(np.ones((2, 3)))


@pytest.mark.parametrize(("program", "right"), PROGRAMS)
def test_the_stub(tmp_path: Path, program: str, right: bool) -> None:
    pytest.importorskip("mypy")
    (tmp_path / "program.py").write_text(program)
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", "cache", "program.py"]
    result = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert (result.returncode == 0) == right, result.stdout
