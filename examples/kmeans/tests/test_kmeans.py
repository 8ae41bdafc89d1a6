"""k-means on matrices of several frameworks, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from kmeans import kmeans

RANDOM = np.random.default_rng(0)
POINTS = np.concatenate([RANDOM.normal(centre, 0.1, (40, 3)) for centre in (0, 5, -5)])
RANDOM.shuffle(POINTS)


def expected(points: Any, k: int, iterations: int = 20) -> tuple[Any, Any]:
    """Computes the same in NumPy."""
    centres = points[:k].astype("f8")
    for _ in range(iterations):
        distances = ((points[:, None] - centres) ** 2).sum(2)
        labels = distances.argmin(1)
        for centre in set(labels):
            centres[centre] = points[labels == centre].mean(0, dtype="f8")
    return centres, labels


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("view", [lambda p: p, lambda p: np.asfortranarray(p), lambda p: p[::-2, ::2]])
def test_groups_equal_those_of_numpy(dtype: str, view: Any) -> None:
    points = view(POINTS.astype(dtype))
    centres, labels = kmeans(points, 3)
    right = expected(points, 3)
    assert (centres.dtype, labels.dtype) == (dtype, "i8")
    assert np.allclose(centres, right[0], atol=1e-5)
    assert np.array_equal(labels, right[1])


def test_results_are_in_the_callers_framework() -> None:
    torch, jax = pytest.importorskip("torch"), pytest.importorskip("jax")
    points = POINTS.astype("f4")
    right = expected(points, 2)
    centres, labels = kmeans(torch.from_numpy(points), 2)
    assert type(centres) is type(labels) is torch.Tensor
    assert np.allclose(centres.numpy(), right[0], atol=1e-5)
    jax.config.update("jax_enable_x64", True)
    centres, labels = kmeans(jax.numpy.asarray(points), k=2, iterations=20)
    assert isinstance(centres, jax.Array)
    assert np.array_equal(labels, right[1])


def test_unsuitable_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="k must be 1 to 120, the rows; got 121"):
        kmeans(POINTS, 121)
    with pytest.raises(TypeError, match=r"'points': expected float32 or float64\[_, _\] on cpu; got complex128"):
        kmeans(POINTS.astype("c16"), 2)


def test_rows_of_a_table_are_grouped() -> None:
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    columns = {"a": POINTS[:, 0], "b": POINTS[:, 1].round().astype("i4"), "c": POINTS[:, 2].astype("f4")}
    right = expected(np.column_stack(list(columns.values())), 3)
    for table in (pd.DataFrame(columns), pl.DataFrame(columns)):
        centres, labels = kmeans(table, 3)
        assert np.allclose(np.asarray(centres), right[0])
        assert np.array_equal(np.asarray(labels), right[1])
