"""The fixture and the context manager that find exports which are not released."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path

import dlbridge
import pytest
from dlbridge.testing import LeakedExports, exports_released


def test_released_exports_are_not_leaks() -> None:
    with exports_released():
        tensor = dlbridge.empty(3)
        view = memoryview(tensor)
        view.release()
        tensor.__dlpack__()
    assert dlbridge.live_exports() == []


def test_leaks_are_listed() -> None:
    kept = []
    with pytest.raises(LeakedExports) as caught, exports_released():
        kept.append(memoryview(dlbridge.empty((2, 3), "int16")))
        kept.append(dlbridge.empty(5).__dlpack__(max_version=(1, 0)))
    assert [export["protocol"] for export in caught.value.exports] == ["buffer", "dlpack"]
    text = str(caught.value)
    assert text.startswith("2 exported tensors were not released:\n  int16 of shape (2, 3) on cpu, ")
    assert "float32 of shape (5,) on cpu, exported through dlpack 0." in text
    with exports_released():
        pass
    assert dlbridge.record_exports(False) is False
    kept.clear()


def test_exception_is_not_hidden() -> None:
    kept = []
    with pytest.raises(ZeroDivisionError), exports_released():
        kept.append(memoryview(dlbridge.empty(3)))
        raise ZeroDivisionError
    assert dlbridge.record_exports(False) is False


def test_pickled_or_shared_tensor_is_not_a_leak() -> None:
    with exports_released():
        again = pickle.loads(pickle.dumps(dlbridge.empty(3), 5))
        shared = dlbridge.share_memory(b"abc")
    assert (again.shape, shared.tensor.shape) == ((3,), (3,))
    buffers: list[pickle.PickleBuffer] = []
    with pytest.raises(LeakedExports, match="exported through pickle"), exports_released():
        pickled = pickle.dumps(dlbridge.empty(3), 5, buffer_callback=buffers.append)
    assert pickle.loads(pickled, buffers=buffers).shape == (3,)


def test_garbage_is_collected_first() -> None:
    with exports_released():
        cycle: list[object] = [memoryview(dlbridge.empty(3))]
        cycle.append(cycle)
        del cycle


def test_fixture_fails_tests_that_leak_exports(tmp_path: Path) -> None:
    file = tmp_path / "test_example.py"
    file.write_text(
        "import dlbridge, pytest\n"
        "kept = []\n"
        "def test_good(no_leaked_exports):\n"
        "    memoryview(dlbridge.empty(3)).release()\n"
        "def test_bad(no_leaked_exports):\n"
        "    kept.append(memoryview(dlbridge.empty(3)))\n"
        "def test_without():\n"
        "    kept.append(memoryview(dlbridge.empty(3)))\n"
        "def test_failed(no_leaked_exports):\n"
        "    view = memoryview(dlbridge.empty(3))\n"
        "    assert not view\n"
        "@pytest.fixture\n"
        "def view():\n"
        "    return memoryview(dlbridge.empty(3))\n"
        "def test_fixture(no_leaked_exports, view):\n"
        "    assert len(view) == 3\n"
        "def test_fixture_before(view, no_leaked_exports):\n"
        "    assert len(view) == 3\n"
        "def test_fixture_and_bad(no_leaked_exports, view):\n"
        "    kept.append(view)\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(file)]
    result = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=os.environ)
    assert result.returncode == 1
    assert "1 failed, 6 passed, 2 errors" in result.stdout
    assert "ERROR test_example.py::test_fixture_and_bad" in result.stdout
    assert "FAILED test_example.py::test_failed" in result.stdout
    assert "ERROR test_example.py::test_bad - dlbridge.testing.LeakedExports: 1 exported" in result.stdout
