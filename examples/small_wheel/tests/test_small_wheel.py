"""Arguments and results of an extension without the class `Tensor`."""

from __future__ import annotations

import array
import ctypes
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
def test_arguments_accept_every_library(kind: str) -> None:
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


def test_imported_array_is_kept_and_freed() -> None:
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
def test_capsule_keeps_the_access(writable: bool) -> None:
    x = np.arange(3.0)
    x.flags.writeable = writable
    same = np.from_dlpack(Dlpack(small_wheel.as_capsule(x)))
    assert same.tolist() == [0, 1, 2]
    assert np.shares_memory(same, x)


def test_dtype_that_numpy_lacks_names_the_feature() -> None:
    torch = pytest.importorskip("torch")
    with pytest.raises(BufferError, match="bfloat16 on cpu; build the extension with the feature `tensor-class`"):
        small_wheel.as_numpy(torch.ones(2, dtype=torch.bfloat16))


class Interface:
    """An object that has only an array's array interface, under a given name."""

    def __init__(self, name: str, dtype: str = "f8") -> None:
        self.array = np.ones(2, dtype)
        setattr(self, name, getattr(self.array, name, None) or self.array.__array_interface__)


#: Objects whose protocols this extension is built without, by feature.
LEFT_OUT = {
    "array-interface": lambda: Interface("__array_interface__"),
    "array-struct": lambda: Interface("__array_struct__"),
    "cuda-array-interface": lambda: Interface("__cuda_array_interface__"),
    "buffer": lambda: array.array("d", [1, 2, 3]),
    "arrow": lambda: pytest.importorskip("polars").Series([1.0, 2.0]),
    "byte-order": lambda: np.ones(2).astype(">f8"),
    "strides": lambda: np.ones(2, "f8,i4")["f0"],
    "dtype": lambda: np.ones(2, pytest.importorskip("ml_dtypes").bfloat16),
}
FEATURES = {
    "array-struct": "array-interface",
    "cuda-array-interface": "array-interface",
    "byte-order": "array-interface",
    "strides": "array-interface",
    "dtype": "array-interface",
}


#: Features that this build includes.
BUILT_WITH = os.environ.get("SMALL_WHEEL_FEATURES", "").split()

#: The sums of those objects with float64 elements, for builds that include the feature.
SUMS = {"array-interface": 2.0, "array-struct": 2.0, "buffer": 6.0, "arrow": 3.0}


@pytest.mark.parametrize("kind", LEFT_OUT)
@pytest.mark.parametrize("function", ["sum", "as_numpy"])
def test_object_of_excluded_protocol_names_the_feature(function: str, kind: str) -> None:
    feature = FEATURES.get(kind, kind)
    if feature in BUILT_WITH:
        if kind in SUMS:
            found = getattr(small_wheel, function)(LEFT_OUT[kind]())
            assert np.sum(found) == SUMS[kind]
        return
    if kind in {"byte-order", "strides"} and "buffer" in BUILT_WITH:
        return
    if kind == "dtype" and function == "sum":
        with pytest.raises(TypeError, match=r"expected float64\[_\] on cpu; got bfloat16\[2\] on cpu"):
            small_wheel.sum(LEFT_OUT[kind]())
        return
    with pytest.raises(BufferError, match=f"build the extension with the feature `{feature}` of dlbridge-pyo3"):
        getattr(small_wheel, function)(LEFT_OUT[kind]())


def image() -> object:
    return pytest.importorskip("PIL.Image").new("RGB", (2, 2))


#: Objects that may be float64 vectors by a protocol that this extension is built without, and are not numbers.
NOT_TAKEN = {
    **{kind: LEFT_OUT[kind] for kind in LEFT_OUT if kind not in {"cuda-array-interface"}},
    "ctypes": lambda: (ctypes.c_double * 2)(1, 2),
    "bytes": lambda: b"12345678",
    "bytearray": lambda: bytearray(8),
    "image": image,
}


@pytest.mark.parametrize("number", [np.float64(1.5), np.float32(1.5), np.int16(3), 1.5], ids=type)
def test_number_after_a_failed_array_is_accepted(number: float) -> None:
    assert small_wheel.sum_or_number(number) == number


@pytest.mark.parametrize("kind", NOT_TAKEN)
def test_object_of_excluded_protocol_is_none_for_try_extract(kind: str) -> None:
    made = NOT_TAKEN[kind]()
    try:
        assert small_wheel.sum_or_number(made) in {2.0, 3.0, 6.0}
    except TypeError as error:
        assert "must be real number" in str(error) or "only 0-dimensional arrays" in str(error)


@pytest.mark.skipif("arrow" in BUILT_WITH, reason="the column is imported")
@pytest.mark.parametrize("error", [KeyboardInterrupt, TypeError, NotImplementedError])
def test_column_whose_length_raises_is_refused_or_raises_it(error: type[BaseException]) -> None:
    series = pytest.importorskip("polars").Series([1.0, 2.0])

    class Column:
        def __arrow_c_stream__(self, requested: object = None) -> object:
            return series.__arrow_c_stream__(requested)

        def __len__(self) -> int:
            raise error

    # Only an import can describe a column without a length.
    expected = error if error is KeyboardInterrupt else BufferError
    with pytest.raises(expected):
        small_wheel.sum(Column())


@pytest.mark.parametrize("dtype", ["M8[ns]", "O", "U3", "longdouble", "f8,f8", "V4"])
def test_array_without_dtype_is_refused_as_in_the_full_build(dtype: str) -> None:
    made = np.zeros(2, dtype)
    with pytest.raises(BufferError) as full:
        dlbridge.asdlpack(made)
    for function in [small_wheel.sum, small_wheel.as_numpy]:
        with pytest.raises(BufferError) as refusal:
            function(made)
        assert str(refusal.value).removeprefix("argument 'x': ") == str(full.value)
    with pytest.raises(TypeError, match="only 0-dimensional arrays"):
        small_wheel.sum_or_number(made)


@pytest.mark.parametrize(
    ("made", "found"),
    [
        (np.float64(1), r"float64\[\]"),
        (np.int8(1), r"int8\[\]"),
        (b"12345678", r"uint8\[8\]"),
        (bytearray(8), r"uint8\[8\]"),
        ((ctypes.c_float * 2)(), r"float32\[2\]"),
        (((ctypes.c_double * 2) * 3)(), r"float64\[3, 2\]"),
        (array.array("i", [1]), r"int32\[1\]"),
        (Interface("__array_interface__", "f4"), r"float32\[2\]"),
    ],
    ids=["float64", "int8", "bytes", "bytearray", "ctypes", "ctypes matrix", "array", "array interface"],
)
def test_unsuitable_object_is_refused_as_in_the_full_build(made: object, found: str) -> None:
    with pytest.raises(TypeError, match=rf"argument 'x': expected float64\[_\] on cpu; got {found} on cpu"):
        small_wheel.sum(made)
    assert number_or_error(made) is not BufferError


def number_or_error(made: object) -> object:
    """Returns the result, or the class of the error, of a function that also accepts numbers."""
    try:
        return small_wheel.sum_or_number(made)
    except Exception as error:
        return type(error)


def test_image_is_refused_as_in_the_full_build() -> None:
    with pytest.raises(TypeError, match=r"expected float64\[_\] on cpu; got uint8\[2, 2, 3\] on cpu"):
        small_wheel.sum(image())


def test_column_of_other_dtype_is_refused_as_in_the_full_build() -> None:
    polars = pytest.importorskip("polars")
    for dtype, found in {"Int16": "int16", "Boolean": "bool"}.items():
        with pytest.raises(TypeError, match=rf"expected float64\[_\] on cpu.*; got {found}\[2\] on cpu"):
            small_wheel.sum(polars.Series([0, 1], dtype=polars.Int8).cast(getattr(polars, dtype)))


@pytest.mark.parametrize("library", ["polars", "pyarrow"])
def test_column_of_text_is_refused_as_in_the_full_build(library: str) -> None:
    made = {"polars": lambda m: m.Series(["a", "b"]), "pyarrow": lambda m: m.array(["a", "b"])}[library](
        pytest.importorskip(library)
    )
    with pytest.raises(BufferError) as full:
        dlbridge.asdlpack(made)
    for function in [small_wheel.sum, small_wheel.as_numpy]:
        with pytest.raises(BufferError, match="the Arrow format '.*' is no") as refusal:
            function(made)
        assert str(refusal.value) == str(full.value)
    with pytest.raises(TypeError, match="must be real number"):
        small_wheel.sum_or_number(made)


@pytest.mark.parametrize(
    ("kind", "remedy"),
    [
        ("byte-order", r"x\.astype\(x\.dtype\.newbyteorder\('='\)\)"),
        ("strides", r"x\.copy\(\)"),
        ("dtype", r"x\.astype\('float32'\)"),
    ],
)
def test_numpy_array_that_needs_a_feature_names_a_replacement(kind: str, remedy: str) -> None:
    if BUILT_WITH:
        return
    with pytest.raises(BufferError, match=f"the feature `array-interface` of dlbridge-pyo3, or pass {remedy}"):
        small_wheel.as_numpy(LEFT_OUT[kind]())


def test_arrow_booleans_need_the_arrow_feature() -> None:
    made = pytest.importorskip("pyarrow").array([True, False])
    if "arrow" in BUILT_WITH:
        assert small_wheel.as_numpy(made).tolist() == [True, False]
        return
    with pytest.raises(BufferError, match="build the extension with the feature `arrow` of dlbridge-pyo3"):
        small_wheel.as_numpy(made)
    with pytest.raises(TypeError, match="must be real number"):
        small_wheel.sum_or_number(made)
