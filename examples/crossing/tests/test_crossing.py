"""One picture through six libraries: the addresses, the values, and who keeps the memory."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
from crossing import MODEL, cross


def test_nothing_is_copied_on_the_way() -> None:
    steps, picture = cross(64, 48, MODEL)
    for (_, before, _), (library, address, words) in zip(steps, steps[1:], strict=False):
        assert words.startswith(("the same memory", "a result")), library
        assert (address == before) == words.startswith("the same memory"), library
    assert [library for library, _, _ in steps] == [
        "image", "ndarray", "candle", "candle", "ONNX Runtime", "ONNX Runtime", "Arrow", "NumPy",
    ]  # fmt: skip
    assert steps[-1][1] == picture.ctypes.data


def test_the_values_are_right() -> None:
    _, picture = cross(64, 48, MODEL)
    red = np.tile(np.arange(64, dtype="f4") / 64, (48, 1))
    green = np.tile(np.arange(48, dtype="f4")[:, None] / 48, (1, 64))
    expected = np.stack([red, green, np.full_like(red, 0.5)]) + np.float32(2.25)
    assert picture.shape == (3, 48, 64)
    assert not picture.flags.writeable, "the memory is Arrow's"
    assert np.allclose(picture, expected)


def test_the_array_keeps_the_memory() -> None:
    pictures = [cross(64, 48, MODEL)[1] for _ in range(20)]
    first = pictures[0].copy()
    assert all(np.array_equal(picture, first) for picture in pictures)


def test_the_program() -> None:
    result = subprocess.run([sys.executable, "-m", "crossing"], capture_output=True, text=True, timeout=200)
    assert (result.returncode, result.stderr) == (0, "")
    assert len(result.stdout.splitlines()) == 8
