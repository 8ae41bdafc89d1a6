"""A buffer that changes while it is exported."""

from __future__ import annotations

import gc

import numpy as np
import pytest
from recording import Recording


def test_recorded_samples_are_visible_in_all_exports() -> None:
    torch = pytest.importorskip("torch")
    recording = Recording(4, 2)
    array, tensor, view = np.asarray(recording), torch.from_dlpack(recording), memoryview(recording)
    recording.record(np.arange(6, dtype="f4").reshape(3, 2))
    expected = [[0, 0], [0, 1], [2, 3], [4, 5]]
    assert array.tolist() == tensor.tolist() == view.tolist() == expected
    recording.record(torch.full((1, 2), 7, dtype=torch.int16))
    assert array.tolist() == [[0, 1], [2, 3], [4, 5], [7, 7]]
    recording.record(np.arange(20, dtype="f4").reshape(10, 2)[::-1])
    assert array.tolist() == [[6, 7], [4, 5], [2, 3], [0, 1]]
    recording.record(np.zeros((0, 2), "f4"))
    assert array[0, 0] == 6


def test_recording_its_own_memory_is_refused() -> None:
    recording = Recording(4, 2)
    with pytest.raises(BufferError, match="overlaps"):
        recording.record(np.asarray(recording)[:2])


def test_memory_outlives_the_recording() -> None:
    recording = Recording(100_000, 2)
    array = np.asarray(recording)
    del recording
    gc.collect()
    array[:] = 1
    assert array.sum() == 200_000


def test_unsuitable_samples_are_refused() -> None:
    with pytest.raises(ValueError, match="the recording has 2 channels, but the samples have 3"):
        Recording(4, 2).record(np.zeros((1, 3), "f4"))
    with pytest.raises(TypeError, match=r"argument 'samples': expected float32\[_, _\]"):
        Recording(4, 2).record(np.zeros((1, 2)))
