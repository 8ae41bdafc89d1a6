"""Calls of tsdownsample's compiled functions."""

from collections.abc import Callable
from typing import Any

import numpy as np
from tsdownsample._rust import _tsdownsample_rs as native  # type: ignore[import-not-found]


def calls() -> dict[str, Callable[[], Any]]:
    """The measured calls, by name."""
    minmax, lttb = native.minmax, native.lttb
    few_x, few = samples(100)
    many_x, many = samples(1_000_000)
    half = few.astype("f2")
    return {
        "1 array in, 1 out, small": lambda: minmax.sequential.downsample_f64(few, 10),
        "1 float16 array in, 1 out, small": lambda: minmax.sequential.downsample_f16(half, 10),
        "2 arrays in, 1 out, small": lambda: minmax.sequential.downsample_i64_f64(few_x, few, 10),
        "1 array in, 1 out, large": lambda: minmax.sequential.downsample_f64(many, 1000),
        "2 arrays in, 1 out, large": lambda: lttb.sequential.downsample_i64_f64(many_x, many, 1000),
        "1 array in, 1 large out, large": lambda: minmax.sequential.downsample_f64(many, 500_000),
    }


def with_argument(convert: Callable[[Any], Any]) -> list[Any]:
    """A result that depends on one array, which is converted first."""
    return native.minmax.sequential.downsample_f64(convert(samples(100)[1]), 10).tolist()


def samples(count: int) -> tuple[Any, Any]:
    """Times and values."""
    x = np.arange(count)
    return x, np.sin(x * 0.37) * (x % 101)
