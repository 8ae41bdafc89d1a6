"""Batches in PyTorch and NumPy memory."""

from __future__ import annotations

import threading

import batch_loader
import numpy as np
import pytest

PIXELS = np.random.default_rng(0).integers(0, 256, (10, 5, 7, 3), dtype=np.uint8)
INDICES = np.array([3, 0, 9, 3])
EXPECTED = (PIXELS[INDICES].transpose(0, 3, 1, 2) / 255).astype("f4")


def test_pytorch_batch_is_reused() -> None:
    torch = pytest.importorskip("torch")
    pictures = batch_loader.Pictures(PIXELS)
    batch = torch.empty(4, 3, 5, 7)
    place = batch.data_ptr()
    for threads in (1, 2, 3, 100):
        batch.fill_(-1)
        pictures.load(torch.from_numpy(INDICES), batch, threads)
        assert np.allclose(batch.numpy(), EXPECTED)
    assert batch.data_ptr() == place


def test_pictures_are_not_copied() -> None:
    pictures = batch_loader.Pictures(PIXELS)
    assert np.asarray(pictures).ctypes.data == PIXELS.ctypes.data


def test_unsuitable_arguments_are_refused() -> None:
    pictures = batch_loader.Pictures(PIXELS)
    batch = np.zeros((4, 3, 5, 7), "f4")
    with pytest.raises(ValueError, match=r"batch must be of shape \[4, 3, 5, 7\], not \[3, 3, 5, 7\]"):
        pictures.load(INDICES, batch[:3])
    with pytest.raises(IndexError, match="no picture 10; there are 10, numbered from 0"):
        pictures.load(INDICES + 7, batch)
    with pytest.raises(IndexError, match="no picture -1"):
        pictures.load(INDICES - 4, batch)
    with pytest.raises(TypeError, match=r"argument 'batch': expected float32\[_, 3, _, _\] on cpu, C order"):
        pictures.load(INDICES, batch.astype("f8"))
    with pytest.raises(TypeError, match="read-only"):
        batch.flags.writeable = False
        pictures.load(INDICES, batch)
    with pytest.raises(TypeError, match=r"expected uint8\[_, _, _, 3\]"):
        batch_loader.Pictures(PIXELS[..., :2])


def test_two_threads_cannot_fill_one_batch_at_once() -> None:
    pictures = batch_loader.Pictures(PIXELS.repeat(200, 0))
    many = np.arange(2000)
    batch = np.zeros((2000, 3, 5, 7), "f4")
    refusals = []

    def fill() -> None:
        for _ in range(20):
            try:
                pictures.load(many, batch)
            except BufferError as error:
                assert "argument 'batch'" in str(error)
                refusals.append(error)

    threads = [threading.Thread(target=fill) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    pictures.load(many, batch)
    assert np.allclose(batch[::200], (PIXELS.transpose(0, 3, 1, 2) / 255).astype("f4"))
