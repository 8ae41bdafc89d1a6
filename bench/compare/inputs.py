"""The arguments of the functions: the tables' rows, each with its right outcome."""

from __future__ import annotations

import array
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

VALUE = "value"
"""The function runs, and its result is right."""
REFUSED = "refused"
"""The function raises, and does not change the memory."""
EITHER = "either"
"""The result is right, or the function raises; it must not misread the argument."""


@dataclass(frozen=True)
class Input:
    """One row."""

    function: str
    label: str
    right: str
    make: Callable[[], Any]


INPUTS: list[Input] = []


def given(function: str, label: str, right: str = VALUE) -> Callable[[Callable[[], Any]], None]:
    """Registers a function that makes an argument."""
    return lambda make: INPUTS.append(Input(function, label, right, make))


# Squares, so that the mean of wrong elements differs.
def matrix(dtype: str = "float32") -> np.ndarray:
    return (np.arange(24, dtype=dtype) ** 2).reshape(4, 6)


def picture(channels: int = 3) -> np.ndarray:
    return np.arange(4 * 6 * channels, dtype="uint8").reshape(4, 6, channels)


def vector() -> np.ndarray:
    return np.arange(10, dtype="float32") ** 2


def readonly(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array


def torch() -> Any:
    import torch

    return torch


def jax(values: np.ndarray) -> Any:
    import jax

    return jax.numpy.asarray(values)


def tensorflow(values: np.ndarray) -> Any:
    import tensorflow

    return tensorflow.constant(values)


def paddle(values: np.ndarray) -> Any:
    import paddle

    return paddle.to_tensor(values)


class OldProducer:
    """A producer from before DLPack 1.0, whose method accepts only `stream`."""

    def __init__(self, lent: np.ndarray) -> None:
        self.lent = lent

    def __dlpack__(self, stream: Any = None) -> Any:
        return self.lent.__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def tolist(self) -> Any:
        return self.lent.tolist()


class ArrayInterface:
    """An object with `__array_interface__` and nothing else."""

    def __init__(self, lent: np.ndarray) -> None:
        self.lent = lent

    @property
    def __array_interface__(self) -> Any:
        return self.lent.__array_interface__

    def tolist(self) -> Any:
        return self.lent.tolist()


given("mean", "NumPy, C order")(matrix)
given("mean", "NumPy, Fortran order")(lambda: np.asfortranarray(matrix()))
given("mean", "NumPy, read-only")(lambda: readonly(matrix()))
given("mean", "NumPy, `a[::2, ::2]`")(lambda: matrix()[::2, ::2])
given("mean", "NumPy, `a[::-1]`")(lambda: matrix()[::-1])
given("mean", "NumPy, `a[:1, :2]`: an extent of 1")(lambda: matrix()[:1, :2])
given("mean", "NumPy, `broadcast_to(row, (4, 6))`")(lambda: np.broadcast_to(matrix()[1], (4, 6)))
given("mean", "NumPy, shape (0, 3)", EITHER)(lambda: np.empty((0, 3), "float32"))
given("mean", "PyTorch")(lambda: torch().tensor(matrix()))
given("mean", "PyTorch, `t[:, 1:].T`")(lambda: torch().tensor(matrix())[:, 1:].T)


given("mean", "JAX")(lambda: jax(matrix()))
given("mean", "TensorFlow")(lambda: tensorflow(matrix()))
given("mean", "Paddle")(lambda: paddle(matrix()))


@given("mean", "PyArrow `Tensor`")
def _() -> Any:
    import pyarrow

    return pyarrow.Tensor.from_numpy(matrix())


@given("mean", "PyArrow `FixedSizeListArray`")
def _() -> Any:
    import pyarrow

    return pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(matrix().ravel()), 6)


@given("mean", "`memoryview`, 2-D (buffer protocol alone)")
def _() -> Any:
    return memoryview(array.array("f", matrix().ravel().tolist())).cast("B").cast("f", (4, 6))


given("mean", "an object with `__array_interface__` alone")(lambda: ArrayInterface(matrix()))
given("mean", "a producer of before DLPack 1.0")(lambda: OldProducer(matrix()))
given("mean", "NumPy, big-endian", EITHER)(lambda: matrix().astype(">f4"))


@given("mean", "NumPy, at an odd address", EITHER)
def _() -> Any:
    return np.frombuffer(b"\0" + matrix().tobytes(), "float32", offset=1).reshape(4, 6)


@given("mean", "NumPy, a field of records of 6 bytes", EITHER)
def _() -> Any:
    records = np.zeros((4, 6), [("number", "f4"), ("tag", "u2")])
    records["number"] = matrix()
    return records["number"]


@given("mean", "NumPy, an element masked", EITHER)
def _() -> Any:
    return np.ma.masked_array(matrix(), matrix() == 529)


@given("mean", "PyTorch, `.conj().imag` (negated when it is read)", EITHER)
def _() -> Any:
    numbers = torch().tensor(matrix())
    return torch().complex(numbers, numbers).conj().imag


@given("mean", "PyTorch, `requires_grad`", REFUSED)
def _() -> Any:
    return torch().tensor(matrix(), requires_grad=True)


given("mean", "PyTorch, `device='meta'`", REFUSED)(lambda: torch().empty((4, 6), device="meta"))
given("mean", "NumPy, float64", REFUSED)(lambda: matrix("float64"))
given("mean", "NumPy, 3-D", REFUSED)(lambda: matrix().reshape(2, 2, 6))

given("invert", "NumPy, C order")(picture)
given("invert", "NumPy, `image[::2, ::2]`")(lambda: picture()[::2, ::2])
given("invert", "NumPy, `image[::-1]`")(lambda: picture()[::-1])
given("invert", "Paddle")(lambda: paddle(picture()))
given("invert", "PyTorch")(lambda: torch().tensor(picture()))
given("invert", "PyTorch, `t.permute(1, 0, 2)`")(lambda: torch().tensor(picture()).permute(1, 0, 2))


@given("invert", "`memoryview` of a `bytearray` (buffer protocol alone)")
def _() -> Any:
    return memoryview(bytearray(picture().tobytes())).cast("B", (4, 6, 3))


given("invert", "a producer of before DLPack 1.0", EITHER)(lambda: OldProducer(picture()))
given("invert", "NumPy, read-only", REFUSED)(lambda: readonly(picture()))
given("invert", "JAX, which is immutable", REFUSED)(lambda: jax(picture()))
given("invert", "TensorFlow, which is immutable", REFUSED)(lambda: tensorflow(picture()))
given("invert", "NumPy, 4 channels", REFUSED)(lambda: picture(4))
given("invert", "NumPy, float32", REFUSED)(lambda: picture().astype("float32"))


@given("invert", "NumPy, all rows at one address", REFUSED)
def _() -> Any:
    return np.lib.stride_tricks.as_strided(picture(), (4, 6, 3), (0, 3, 1))


given("twice", "NumPy")(vector)
given("twice", "NumPy, `x[::2]`")(lambda: vector()[::2])
given("twice", "NumPy, `x[::-1]`")(lambda: vector()[::-1])
given("twice", "NumPy, no elements")(lambda: vector()[:0])
given("twice", "PyTorch, `x[::2]`")(lambda: torch().tensor(vector())[::2])
given("twice", "JAX")(lambda: jax(vector()))
given("twice", "`memoryview` (buffer protocol alone)")(lambda: memoryview(vector().tobytes()).cast("f"))
given("twice", "an object with `__array_interface__` alone")(lambda: ArrayInterface(vector()))
given("twice", "a producer of before DLPack 1.0")(lambda: OldProducer(vector()))
