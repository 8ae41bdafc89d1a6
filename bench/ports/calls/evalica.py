"""Calls of evalica's compiled functions."""

from collections.abc import Callable
from typing import Any

import jax.numpy
import numpy as np
import pyarrow
import torch
from evalica import _brzo as native  # type: ignore[attr-defined,import-not-found]

#: objects of other dtypes than the argument, which are tried too
CONVERTERS = {
    "torch, int64 for unsigned": lambda a: torch.from_numpy(a.astype("i8")),
    "JAX, int32 for unsigned": lambda a: jax.numpy.asarray(a.astype("i4")),
    "pyarrow, int64 for unsigned": lambda a: pyarrow.array(a.astype("i8")),
}


def calls() -> dict[str, Callable[[], Any]]:
    """The measured calls, by name."""
    few, many = comparisons(10), comparisons(1_000_000)
    lists, long_lists = (tuple(a.tolist() for a in arrays) for arrays in (few, comparisons(100_000)))
    scores = np.linspace(0.1, 1, 2)
    return {
        "1 array in, 1 out, small": lambda: native.pairwise_scores(scores),
        "4 arrays and numbers in, 1 out, small": lambda: native.counting(*few, 7, 1.0, 0.5),
        "4 arrays in, 2 out, small": lambda: native.matrices(*few, 7),
        "4 lists and numbers in, 1 out, small": lambda: native.counting(*lists, 7, 1.0, 0.5),
        "4 arrays and numbers in, 1 out, large": lambda: native.counting(*many, 7, 1.0, 0.5),
        "4 lists and numbers in, 1 out, large": lambda: native.counting(*long_lists, 7, 1.0, 0.5),
    }


def with_argument(convert: Callable[[Any], Any]) -> list[Any]:
    """A result that depends on one array, which is converted first."""
    xs, ys, winners, weights = comparisons(10)
    return native.counting(convert(xs), ys, winners, weights, 7, 1.0, 0.5).tolist()


def comparisons(count: int) -> tuple[Any, ...]:
    """The numbers of both sides, the winners and the weights, of seven players."""
    index = np.arange(count, dtype="u8")
    return index % 7, (index + 1) % 7, (index % 3).astype("u1"), 1 + (index % 5) * 0.5
