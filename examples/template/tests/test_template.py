"""Tests of the extension, which are copied with it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import template

#: Programs, and whether a type checker accepts them.
PROGRAMS = [
    ("import numpy, template\ntemplate.row_sums(numpy.ones((2, 3)))", True),
    ("import template\ntemplate.row_sums(memoryview(b''))", True),
    ("import template\ntemplate.row_sums(memoryview(b'')).mean()", True),
    ("import template\ntemplate.row_sums(memoryview(b'')).no_method_of_arrays()", False),
    ("import template\ntemplate.row_sums([1, 2])", False),
    ("import template\ntemplate.row_sums()", False),
]


def test_row_sums_returns_a_numpy_array() -> None:
    sums = template.row_sums(np.arange(6, dtype="f4").reshape(2, 3))
    assert type(sums) is np.ndarray
    assert (sums.tolist(), sums.dtype) == ([3, 12], "float32")
    with pytest.raises(TypeError, match=r"argument 'x': expected float32\[_, _\] on cpu; got float64"):
        template.row_sums(np.ones((2, 3)))


def test_matrix_owns_its_values() -> None:
    matrix = np.from_dlpack(template.matrix([1, 2, 3, 4, 5, 6], 2, 3))
    assert (matrix.tolist(), matrix.dtype) == ([[1, 2, 3], [4, 5, 6]], "float32")


def test_matrix_of_wrong_shape_raises_the_core_error() -> None:
    with pytest.raises(BufferError, match="the shape has 4 elements, but there are 3"):
        template.matrix([1, 2, 3], 2, 2)


@pytest.fixture(scope="session")
def mypy_cache(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache that all programs share, kept for the next run: mypy needs half a minute to read NumPy's types."""
    cache: pytest.Cache | None = getattr(request.config, "cache", None)
    return cache.mkdir("mypy") if cache else tmp_path_factory.mktemp("mypy_cache")


@pytest.mark.parametrize(("program", "right"), PROGRAMS)
def test_stub_accepts_right_programs(tmp_path: Path, mypy_cache: Path, program: str, right: bool) -> None:
    pytest.importorskip("mypy")
    (tmp_path / "program.py").write_text(program)
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(mypy_cache), "program.py"]
    result = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert (result.returncode == 0) == right, result.stdout
