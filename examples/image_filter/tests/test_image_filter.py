"""The filters against NumPy, on pictures of several frameworks."""

from __future__ import annotations

from typing import Any

import image_filter
import numpy as np
import pytest

PICTURE = np.random.default_rng(0).integers(0, 256, (13, 17, 3), dtype=np.uint8)


def blurred(picture: Any, radius: int) -> Any:
    """Computes the means axis by axis, rounded down each time."""
    for axis in (0, 1):
        count = picture.shape[axis]
        means = [
            picture.take(range(max(0, i - radius), min(count, i + radius + 1)), axis).mean(axis)
            for i in range(count)
        ]
        picture = np.stack(means, axis).astype(np.uint8)
    return picture


@pytest.mark.parametrize("radius", [0, 1, 4, 100])
def test_blur_equals_numpy(radius: int) -> None:
    result = image_filter.blur(PICTURE, radius)
    assert type(result) is np.ndarray
    assert np.array_equal(result, blurred(PICTURE, radius))
    assert image_filter.blur(PICTURE[:0], radius).shape == (0, 17, 3)


def test_blur_returns_the_framework_of_the_picture() -> None:
    torch = pytest.importorskip("torch")
    result = image_filter.blur(torch.from_numpy(PICTURE), 1)
    assert type(result) is torch.Tensor
    assert np.array_equal(result.numpy(), blurred(PICTURE, 1))


def test_blur_names_the_expected_picture() -> None:
    with pytest.raises(TypeError, match=r"argument 'image': expected uint8\[_, _, 3\] on cpu, C order"):
        image_filter.blur(PICTURE.transpose(1, 0, 2), 1)
    with pytest.raises(TypeError, match=r"got float64\[13, 17, 3\] on cpu$"):
        image_filter.blur(PICTURE / 2, 1)


def test_darken_works_in_place_on_any_slice() -> None:
    picture = PICTURE.copy()
    image_filter.darken(picture[::2, ::-3])
    expected = PICTURE.copy()
    expected[::2, ::-3] //= 2
    assert np.array_equal(picture, expected)
    with pytest.raises(TypeError, match="read-only"):
        image_filter.darken(memoryview(bytes(12)).cast("B", (2, 2, 3)))


def test_blur_with_radius_above_the_size_equals_full_radius() -> None:
    image = np.arange(48, dtype="u1").reshape(4, 4, 3)
    whole = image_filter.blur(image, 4)
    assert np.array_equal(image_filter.blur(image, 2**64 - 1), whole)
