"""Assertions about the tensor that a list becomes, and about refusals."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest


def assert_same(made: Any, expected: Any) -> None:
    """Asserts that a tensor has the dtype, shape and values of an array, with the signs of zeros."""
    array = made.numpy()
    assert array.dtype == expected.dtype
    assert array.shape == expected.shape
    np.testing.assert_array_equal(array, expected)
    if array.dtype.kind == "f":
        np.testing.assert_array_equal(np.signbit(array), np.signbit(expected))


def refused(function: Callable[..., Any], x: Any, message: str, argument: str = "x") -> None:
    """Asserts that the call raises a mismatch error with exactly this message."""
    with pytest.raises(TypeError) as refusal:
        function(x)
    assert type(refusal.value).__name__ == "TensorMismatchError"
    assert str(refusal.value) == f"argument {argument!r}: {message}"
