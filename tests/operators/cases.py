"""Calls of operators with their results by formulas of NumPy, which each framework's tests make with its own tensors."""

import os
from dataclasses import dataclass
from typing import Any

import numpy as np

X = np.linspace(-3, 3, 8, dtype="float32")
D = np.linspace(-2, 2, 6)

# The default text of the operator `texts`, as it returns texts.
TEXT = np.full(128, -1, dtype="int64")
_BYTES = "\u200b\0\r\n\t\a\x1b\x7f\xe9\U0001f600\\ \\7 \"it's\"".encode()
TEXT[: len(_BYTES)] = list(_BYTES)


def softclip(x: Any) -> Any:
    return x / (1 + abs(x))


@dataclass(frozen=True)
class Case:
    """A call: the arguments in order, and the results, beginning with the arguments that change in place."""

    name: str
    operator: str
    arguments: tuple[Any, ...]
    results: tuple[Any, ...]
    changed: int = 0

    def __str__(self) -> str:
        return self.name

    def copied(self) -> tuple[Any, ...]:
        """Return the arguments, each array with memory of its own and the same strides."""
        return tuple(map(_copied, self.arguments))


def _copied(value: Any) -> Any:
    if not isinstance(value, np.ndarray):
        return value
    owner = value if value.base is None else value.base
    copy = owner.copy(order="K")
    offset = value.ctypes.data - owner.ctypes.data
    return np.ndarray(value.shape, value.dtype, copy, offset, value.strides)


def _cases() -> list[Case]:
    bias = np.array([1, 10], dtype="float32")
    wide = np.arange(12, dtype="float32").reshape(3, 4) - 5
    square = np.arange(12.0).reshape(3, 4)
    counts = np.arange(-3, 4, dtype="int64")
    columns = np.array([[-1, 5], [2, -6], [-3, 7]], dtype="float32")[:, 0]
    found = [
        Case("softclip", "softclip", (X,), (softclip(X),)),
        Case("softclip-strided", "softclip", (X[::2],), (softclip(X[::2]),)),
        Case("softclip-transposed", "softclip", (wide.T,), (softclip(wide.T),)),
        Case("softclip-second-gradient", "softclip_vjp_vjp", (X[4:], X[4:], X[4:]), _second(X[4:])),
        Case("negative", "negative", (D,), (D < 0,)),
        Case("inverted", "inverted", (D < 0,), (D >= 0,)),
        Case("strided-sum", "strided_sum", (square.T, square.T), (np.sum(square * square),)),
        Case("strided-sum-columns", "strided_sum", (square[:, ::2], square[:, 1::2]), (_dot(square),)),
        Case("affine", "affine", (X,), (2 * X,)),
        Case("affine-bias", "affine", (X, bias, 3), (3 * X + np.tile(bias, 4),)),
        Case("affine-none", "affine", (X, None, 0.5), (0.5 * X,)),
        Case("scaled", "scaled", (X, 2, [2, 0.5], [1, 2]), (2 * X + 3,)),
        Case("scaled-empty", "scaled", (D, -1, [], []), ((-D).astype("float32").astype("float64"),)),
        Case("described", "described", (X,), (np.full((1, 2), 11),)),
        Case("described-text", "described", (X, "é", True, 2), (np.full((2, 2), 16),)),
        Case("described-long-text", "described", (X, "long " * 100), (np.full((1, 2), 508),)),
        Case("described-none", "described", (X, "a", False, 0), (np.zeros((0, 2), "int64"),)),
        Case("mixed", "mixed", (D,), (2.5 * D + 8.5,)),
        Case(
            "mixed-all",
            "mixed",
            (D, np.ones(6), 1.5, -2, True, "äbc", [4, 5, 6], [1.5, 2.5]),
            (1 - (1.5 * D + 21),),
        ),
        Case("mixed-empty", "mixed", (D, None, 1, 2**40, False, "", [], []), (D + 2**40,)),
        Case("min-max", "min_max", (wide,), (wide.min(1), wide.max(1))),
        Case("min-max-transposed", "min_max", (wide.T,), (wide.min(0), wide.max(0))),
        Case("outer", "outer", (D, D[:4]), (np.outer(D, D[:4]),)),
        Case("divmod", "divmod", (counts,), divmod(counts, 2)),
        Case("divmod-by", "divmod", (counts, 3), divmod(counts, 3)),
        Case("halves", "halves", (X[:5],), (X[:5:2],)),
        Case("nonzero", "nonzero", (np.float32([0, 1, 0, 2]),), (np.array([1, 3]),)),
        Case("nonzero-nothing", "nonzero", (np.zeros(3, "float32"),), (np.zeros(0, "int64"),)),
        Case("ragged", "ragged", (X,), (X[X > 0], np.array(4))),
        Case("accumulated", "accumulated", (X,), (X, X)),
        Case("accumulated-vector", "accumulated_vector", (X,), (X,)),
        Case("planar", "planar", (wide,), (np.full((3, 4), 4, "float32"),)),
        Case("relu", "relu_", (X,), (np.maximum(X, 0),), 1),
        Case("relu-strided", "relu_", (columns,), (np.maximum(columns, 0),), 1),
        Case("add", "add_", (X, X + 1), (2 * X + 1, np.sum(2 * X + 1)), 1),
        Case("takes-none", "takes_none", (None,), (np.array(0),)),
        Case("takes-tensor", "takes_none", (X,), (np.array(1),)),
        Case("nested", "nested", (X,), (softclip(softclip(X)),)),
        Case("multiply", "multiply", (D, D + 1), (D * (D + 1),)),
        Case("biased-none", "biased", (None, D), (D,)),
        Case("biased-gradient", "biased_vjp", (D + 1, D, D), (D * D, D * (D + 1))),
        Case("late", "late", (3.0, X), (3 * X + 1,)),
        Case("exponential", "exponential", (X,), (np.exp(X),)),
        Case("exponential-gradient", "exponential_vjp", (X, X), (X * X,)),
        Case("texts", "texts", (X,), (TEXT,)),
        Case("parted", "parted", (X, 3), (X[:2],)),
    ]
    for shape in [(), (0,), (0, 3), (2, 1, 3), (1, 1, 1, 1, 1, 1, 2)]:
        x = np.full(shape, -2, dtype="float32")
        found.append(Case(f"softclip-{list(shape)}", "softclip", (x,), (softclip(x),)))
    for dtype in ["float32", "float64", "int32", "int64", "float16", "complex64"]:
        x = np.arange(6).astype(dtype)
        found.append(Case(f"twice-{dtype}", "twice", (x,), (2 * x,)))
    return found


def _second(x: Any) -> tuple[Any, Any]:
    """Return the results of softclip's second gradient for positive x in all arguments."""
    return -2 * x * x / (1 + x) ** 3, x / (1 + x) ** 2


def _dot(x: Any) -> Any:
    return np.sum(x[:, ::2] * x[:, 1::2])


CASES = _cases()


def check(case: Case, results: Any) -> None:
    """Check dtypes, shapes and elements of results, as arrays."""
    assert len(results) == len(case.results)
    for found, expected in zip(results, case.results):
        found, expected = np.asarray(found), np.asarray(expected)
        assert found.dtype == expected.dtype
        assert found.shape == expected.shape
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def several(result: Any) -> tuple[Any, ...]:
    """Return the results of a call that returns nothing, one result or a sequence of them."""
    if result is None:
        return ()
    return tuple(result) if type(result).__name__ in ("tuple", "list", "Array") else (result,)


def resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
