"""Arguments and results of an extension without the class `Tensor`."""

from __future__ import annotations

import array
import gc
import os
import weakref
from typing import Any

import numpy as np
import pytest
import small_wheel

dlbridge = pytest.importorskip("dlbridge")

#: A vector of each kind, with the elements 1, 2 and 3.
VECTORS = {
    "array": lambda: np.array([1.0, 2.0, 3.0]),
    "strided": lambda: np.array([1.0, 0.0, 2.0, 0.0, 3.0])[::2],
    "pandas": lambda: pytest.importorskip("pandas").Series([1.0, 2.0, 3.0]),
    "dlbridge": lambda: dlbridge.asdlpack(np.array([1.0, 2.0, 3.0])),
    "torch": lambda: pytest.importorskip("torch").tensor([1.0, 2.0, 3.0]).double(),
    "pyarrow": lambda: pytest.importorskip("pyarrow").array([1.0, 2.0, 3.0]),
}


class Dlpack:
    """An object that has only `__dlpack__`."""

    def __init__(self, capsule: object) -> None:
        self.capsule = capsule

    def __dlpack__(self, **_keywords: object) -> object:
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


@pytest.mark.parametrize("kind", VECTORS)
def test_arguments_take_every_library(kind: str) -> None:
    vector: Any = VECTORS[kind]()
    assert small_wheel.sum(vector) == 6.0


@pytest.mark.parametrize("kind", VECTORS)
def test_results_are_numpy_arrays(kind: str) -> None:
    scaled = small_wheel.scale(VECTORS[kind](), 2.0)
    assert type(scaled) is np.ndarray
    assert (scaled.tolist(), scaled.dtype) == ([2, 4, 6], "float64")


@pytest.mark.parametrize("kind", ["array", "strided", "dlbridge", "torch"])
def test_elements_are_written_in_place(kind: str) -> None:
    vector: Any = VECTORS[kind]()
    small_wheel.scale_in_place(vector, 3.0)
    assert small_wheel.sum(vector) == 18.0


def test_errors_name_every_difference() -> None:
    with pytest.raises(TypeError, match=r"argument 'x': expected float64\[_\] on cpu; got float32\[2, 2\]"):
        small_wheel.sum(np.ones((2, 2), "f4"))
    with pytest.raises(TypeError, match="argument 'x'"):
        small_wheel.sum("text")


def test_borrowed_memory_is_not_written() -> None:
    x = np.ones(3)
    kept = small_wheel.as_numpy(x)
    with pytest.raises(BufferError):
        small_wheel.scale_in_place(x, 2.0)
    del kept
    small_wheel.scale_in_place(x, 2.0)
    assert x.tolist() == [2, 2, 2]


def test_an_imported_array_is_kept_and_freed() -> None:
    class Array(np.ndarray):
        pass

    x = np.arange(3.0).view(Array)
    freed = weakref.ref(x)
    same = small_wheel.as_numpy(x)
    del x
    gc.collect()
    assert same.tolist() == [0, 1, 2]
    del same
    gc.collect()
    assert freed() is None


@pytest.mark.parametrize("writable", [True, False])
def test_a_capsule_keeps_what_may_be_written(writable: bool) -> None:
    x = np.arange(3.0)
    x.flags.writeable = writable
    same = np.from_dlpack(Dlpack(small_wheel.as_capsule(x)))
    assert same.tolist() == [0, 1, 2]
    assert np.shares_memory(same, x)


def test_a_dtype_that_numpy_lacks_names_the_feature() -> None:
    torch = pytest.importorskip("torch")
    with pytest.raises(BufferError, match="bfloat16 on cpu; build the extension with the feature `tensor-class`"):
        small_wheel.as_numpy(torch.ones(2, dtype=torch.bfloat16))


class Interface:
    """An object that has only the array interface of an array, under some name."""

    def __init__(self, name: str) -> None:
        self.array = np.ones(2)
        setattr(self, name, getattr(self.array, name, None) or self.array.__array_interface__)


#: Objects whose protocols this extension is built without: the feature, and the object.
LEFT_OUT = {
    "array-interface": lambda: Interface("__array_interface__"),
    "array-struct": lambda: Interface("__array_struct__"),
    "cuda-array-interface": lambda: Interface("__cuda_array_interface__"),
    "buffer": lambda: array.array("d", [1, 2, 3]),
    "arrow": lambda: pytest.importorskip("polars").Series([1.0, 2.0]),
    "byte-order": lambda: np.ones(2).astype(">f8"),
    "dtype": lambda: np.ones(2, pytest.importorskip("ml_dtypes").bfloat16),
}
FEATURES = {
    "array-struct": "array-interface",
    "cuda-array-interface": "array-interface",
    "byte-order": "array-interface",
    "dtype": "array-interface",
}


#: The features that this build has after all.
BUILT_WITH = os.environ.get("SMALL_WHEEL_FEATURES", "").split()

#: Left out or not, these have float64 elements: their sum.
SUMS = {"array-interface": 2.0, "array-struct": 2.0, "buffer": 6.0, "arrow": 3.0}


@pytest.mark.parametrize("kind", LEFT_OUT)
@pytest.mark.parametrize("function", ["sum", "as_numpy"])
def test_an_object_of_a_protocol_that_is_left_out_names_the_feature(function: str, kind: str) -> None:
    feature = FEATURES.get(kind, kind)
    if feature in BUILT_WITH:
        if kind in SUMS:
            found = getattr(small_wheel, function)(LEFT_OUT[kind]())
            assert np.sum(found) == SUMS[kind]
        return
    if kind == "byte-order" and "buffer" in BUILT_WITH:
        return
    with pytest.raises(BufferError, match=f"build the extension with the feature `{feature}` of dlbridge-pyo3"):
        getattr(small_wheel, function)(LEFT_OUT[kind]())
