"""One picture through six libraries: addresses, values, and ownership of the memory."""

from __future__ import annotations

import re
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("onnxruntime")

from crossing import MODEL, cross

#: The libraries, and which steps compute new numbers.
STEPS = [
    ("image", False), ("ndarray", False), ("candle", False), ("candle", True),
    ("ONNX Runtime", False), ("ONNX Runtime", True), ("Arrow", False), ("NumPy", False),
]  # fmt: skip

#: A model whose output is its input.
NOTHING = MODEL.replace(b"b\x1d\n\x01y", b"b\x1d\n\x01x")


def compared(steps: list[tuple[str, int, str]]) -> list[str]:
    """Returns the kind of each step after the first, after comparing the step's words with the addresses."""
    assert [library for library, _, _ in steps] == [library for library, _ in STEPS]
    found = []
    for (_, before, _), (_, address, words), (library, computes) in zip(steps, steps[1:], STEPS[1:], strict=False):
        elsewhere = "a result" if computes else "a copy"
        expected = "the same memory" if address == before else elsewhere
        assert words.startswith(f"{expected}: "), (library, words)
        found.append(expected)
    return found


def test_steps_without_computation_share_the_memory() -> None:
    steps, picture = cross(64, 48, MODEL)
    same, result = "the same memory", "a result"
    assert compared(steps) == [same, same, result, same, result, same, same]
    assert steps[-1][1] == picture.ctypes.data


def test_model_that_returns_its_input_shares_the_memory() -> None:
    assert NOTHING != MODEL
    steps, picture = cross(64, 48, NOTHING)
    same, result = "the same memory", "a result"
    assert compared(steps) == [same, same, result, same, same, same, same]
    assert np.allclose(picture[2], 1.375)


def test_values_are_right() -> None:
    _, picture = cross(64, 48, MODEL)
    red = np.tile(np.arange(64, dtype="f4") / 64, (48, 1))
    green = np.tile(np.arange(48, dtype="f4")[:, None] / 48, (1, 64))
    expected = np.stack([red, green, np.full_like(red, 0.5)]) + np.float32(2.25)
    assert picture.shape == (3, 48, 64)
    assert not picture.flags.writeable, "the memory belongs to Arrow"
    assert np.allclose(picture, expected)


def test_array_keeps_the_memory() -> None:
    pictures = [cross(64, 48, MODEL)[1] for _ in range(20)]
    first = pictures[0].copy()
    assert all(np.array_equal(picture, first) for picture in pictures)


def test_program_prints_the_steps() -> None:
    result = subprocess.run([sys.executable, "-m", "crossing"], capture_output=True, text=True, timeout=200)
    assert (result.returncode, result.stderr) == (0, "")
    lines = [re.fullmatch(r"(.{13}) (0x[0-9a-f]+)   (.+)", line) for line in result.stdout.splitlines()]
    steps = [(line[1].strip(), int(line[2], 16), line[3]) for line in lines if line]
    assert len(steps) == len(lines) == len(STEPS)
    assert "a copy" not in compared(steps)
