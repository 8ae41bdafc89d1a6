"""The operators, with arguments and a formula of the same values in the functions that NumPy, PyTorch and JAX share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import rust_operators

RANDOM = np.random.default_rng(0)


@dataclass
class Case:
    """An operator, its arguments, and a formula of its results."""

    name: str
    arguments: tuple[Any, ...]
    formula: Callable[..., Any]
    # The positions of the arguments with gradients.
    inputs: tuple[int, ...] = (0,)
    dtypes: tuple[str, ...] = ("float32", "float64")
    # A formula with the same gradient, if the operator's gradient is not that of its results.
    smooth: Callable[..., Any] | None = None

    @property
    def operator(self) -> Any:
        """Return the function."""
        return getattr(rust_operators, self.name)

    def typed(self, dtype: str) -> tuple[Any, ...]:
        """Return the arguments, with arrays of floats in this dtype."""
        floats = [isinstance(one, np.ndarray) and one.dtype.kind == "f" for one in self.arguments]
        return tuple(one.astype(dtype) if cast else one for one, cast in zip(self.arguments, floats))


def mish(xp: Any, x: Any) -> Any:
    """Return x * tanh(softplus(x))."""
    return x * xp.tanh(xp.log1p(xp.exp(x)))


def segment_sum(xp: Any, values: Any, ids: Any, n: int) -> Any:
    """Return the sum of the rows of each segment."""
    return xp.stack([xp.where((ids == segment)[:, None], values, 0.0).sum(0) for segment in range(n)])


def distances(xp: Any, x: Any, y: Any) -> Any:
    """Return the squared distances of all rows, and the index of the nearest."""
    squared = ((x[:, None] - y) ** 2).sum(-1)
    return squared, squared.argmin(1)


def quantise(xp: Any, x: Any) -> Any:
    """Return x in 8 bits, and the scale of each row."""
    scale = xp.amax(xp.abs(x), -1) / np.float32(127)
    return xp.round(x / scale[..., None]), scale


def dequantise(xp: Any, quantised: Any, scale: Any) -> Any:
    """Return the numbers that 8 bits and a scale stand for."""
    return quantised * scale[..., None]


def fake_quantise(xp: Any, x: Any) -> Any:
    """Return x with the rounding errors of 8 bits."""
    return dequantise(xp, *quantise(xp, x))


def power_spectrum(xp: Any, x: Any) -> Any:
    """Return the squared magnitudes of the Fourier coefficients."""
    coefficients = xp.fft.rfft(x)
    return coefficients.real**2 + coefficients.imag**2


ROWS = RANDOM.normal(size=(5, 3))
IDS = np.array([2, 0, 2, 3, 0])
ONLY_FLOAT32 = ("float32",)
CASES = [
    Case("mish", (RANDOM.normal(size=(2, 3, 4)) * 3,), mish),
    Case("segment_sum", (ROWS, IDS, 4), segment_sum),
    Case("segment_sum", (ROWS, IDS.astype("int32"), 4), segment_sum),
    Case("distances", (ROWS, RANDOM.normal(size=(4, 3))), distances, inputs=(0, 1)),
    Case("quantise", (RANDOM.normal(size=(2, 3, 9)),), quantise, inputs=(), dtypes=ONLY_FLOAT32),
    Case(
        "dequantise",
        (RANDOM.integers(-127, 128, (4, 9), "int8"), RANDOM.uniform(size=4)),
        dequantise,
        inputs=(1,),
        dtypes=ONLY_FLOAT32,
    ),
    Case("fake_quantise", (RANDOM.normal(size=(4, 9)),), fake_quantise, dtypes=ONLY_FLOAT32, smooth=lambda xp, x: x),
    Case("power_spectrum", (RANDOM.normal(size=(2, 3, 8)),), power_spectrum),
    Case("power_spectrum", (RANDOM.normal(size=7),), power_spectrum),
]
TYPED = [(case, dtype) for case in CASES for dtype in case.dtypes]
IDS_OF_TYPED = [f"{case.name}-{dtype}" for case, dtype in TYPED]


def several(results: Any) -> tuple[Any, ...]:
    """Return the results as a tuple."""
    return tuple(results) if isinstance(results, (tuple, list)) else (results,)


def close(found: Any, expected: Any) -> None:
    """Check that results have the expected shapes and values."""
    found, expected = several(found), several(expected)
    assert len(found) == len(expected)
    for one, other in zip(found, expected):
        one = np.from_dlpack(one) if not isinstance(one, np.ndarray) else one
        tolerance = 1e-4 if one.dtype == "float32" else 1e-10
        np.testing.assert_allclose(one, np.asarray(other), rtol=tolerance, atol=tolerance)
