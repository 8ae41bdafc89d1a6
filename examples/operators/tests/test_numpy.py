"""The operators on arrays of NumPy and tvm-ffi."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import rust_operators
from cases import IDS_OF_TYPED, TYPED, Case, close, several

BOXES = np.array([[0, 0, 4, 4], [0, 0, 4, 3.5], [3, 3, 7, 7], [9, 9, 9, 9], [3, 3, 7, 6]], "float32")
SCORES = np.array([0.5, 0.9, 0.7, 0.1, 0.6], "float32")


@pytest.mark.parametrize(("case", "dtype"), TYPED, ids=IDS_OF_TYPED)
def test_operator_on_arrays_equals_formula(case: Case, dtype: str) -> None:
    arguments = case.typed(dtype)
    found = case.operator(*arguments)
    assert all(type(one) is np.ndarray for one in several(found))
    close(found, case.formula(np, *arguments))


@pytest.mark.parametrize(("case", "dtype"), TYPED, ids=IDS_OF_TYPED)
def test_operator_on_strided_arrays_equals_formula(case: Case, dtype: str) -> None:
    strided = tuple(one[::-1] if isinstance(one, np.ndarray) else one for one in case.typed(dtype))
    close(case.operator(*strided), case.formula(np, *strided))


@pytest.mark.parametrize(("case", "dtype"), TYPED, ids=IDS_OF_TYPED)
def test_out_is_filled_and_returned(case: Case, dtype: str) -> None:
    arguments = case.typed(dtype)
    expected = several(case.operator(*arguments))
    out = tuple(np.empty_like(one) for one in expected)
    found = several(case.operator(*arguments, out=out if len(out) > 1 else out[0]))
    assert all(one is other for one, other in zip(found, out))
    close(out, expected)


@pytest.mark.parametrize(("case", "dtype"), TYPED, ids=IDS_OF_TYPED)
def test_operator_on_tvm_tensors_equals_formula(case: Case, dtype: str, tvm_ffi: Any) -> None:
    arguments = case.typed(dtype)
    tensors = [tvm_ffi.from_dlpack(one) if isinstance(one, np.ndarray) else one for one in arguments]
    found = case.operator(*tensors)
    assert all(isinstance(one, tvm_ffi.Tensor) for one in several(found))
    close(found, case.formula(np, *arguments))


def test_tvm_module_has_the_operators(tvm_ffi: Any) -> None:
    module = tvm_ffi.load_module(rust_operators.mish.path)
    values, ids = np.ones((2, 3)), np.array([1, 1])
    found = module.segment_sum(tvm_ffi.from_dlpack(values), tvm_ffi.from_dlpack(ids), 2)
    close(found, np.array([[0, 0, 0], [2, 2, 2]]))


def test_quantise_of_zeros_is_zero() -> None:
    quantised, scale = rust_operators.quantise(np.zeros((2, 3), "float32"))
    assert not quantised.any()
    assert not scale.any()
    assert not rust_operators.fake_quantise(np.zeros((2, 3), "float32")).any()


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0,)])
def test_empty_arrays_give_empty_results(shape: tuple[int, ...]) -> None:
    empty = np.zeros(shape, "float32")
    assert rust_operators.mish(empty).shape == shape
    assert rust_operators.fake_quantise(empty).shape == shape
    sums = rust_operators.segment_sum(empty, np.zeros(shape[0], "int64"), 2)
    assert sums.shape == (2, *shape[1:])
    power = rust_operators.power_spectrum(empty)
    assert power.shape == (*shape[:-1], shape[-1] // 2 + 1)
    assert not power.any()


def test_suppression_keeps_the_best_of_overlapping_boxes() -> None:
    assert rust_operators.non_maximum_suppression(BOXES, SCORES).tolist() == [1, 2, 3]
    assert rust_operators.non_maximum_suppression(BOXES, SCORES, threshold=0.8).tolist() == [1, 2, 4, 3]
    assert rust_operators.non_maximum_suppression(BOXES, SCORES, 1.0).tolist() == [1, 2, 4, 0, 3]
    assert rust_operators.non_maximum_suppression(BOXES[:0], SCORES[:0]).tolist() == []


def test_wrong_arguments_are_refused() -> None:
    values = np.ones((3, 2))
    for ids, text in [([0, 5, 0], r"ids\[1\] is 5"), ([0, 0, -1], r"ids\[2\] is -1")]:
        with pytest.raises(RuntimeError, match=rf"segment_sum: {text}; it must be from 0 to 2"):
            rust_operators.segment_sum(values, np.array(ids), 3)
    with pytest.raises(RuntimeError, match=r"ids\[0\] is 0, but there are no segments; pass a larger n"):
        rust_operators.segment_sum(values, np.zeros(3, "int64"), 0)
    with pytest.raises(ValueError, match="an extent of the result would be -1; it must not be negative"):
        rust_operators.segment_sum(values, np.zeros(3, "int64"), -1)
    with pytest.raises(ValueError, match=r"values\[0\] == ids\[0\] is required, but the extents are \[3\] and \[2\]"):
        rust_operators.segment_sum(values, np.zeros(2, "int64"), 1)
    with pytest.raises(TypeError, match="ids must be int32 or int64, but is float64; convert it before the call"):
        rust_operators.segment_sum(values, np.zeros(3), 1)
    with pytest.raises(TypeError, match="mish: x must be float32 or float64, but is int64"):
        rust_operators.mish(np.arange(3))
    with pytest.raises(RuntimeError, match="distances: y has no rows, so none is the nearest"):
        rust_operators.distances(values, values[:0])
    with pytest.raises(TypeError, match="the dtypes must agree, but x is float64, y is float32"):
        rust_operators.distances(values, values.astype("float32"))
    with pytest.raises(ValueError, match=r"segment_sum_vjp: grad_out\[0\] == n is required, but the extents are \[2\] and \[3\]"):
        rust_operators.segment_sum_vjp(np.zeros(2, "int64"), 3, values[:2])
    with pytest.raises(ValueError, match=r"distances_vjp: x\[1\] == y\[1\] is required"):
        rust_operators.distances_vjp(values, values[:, :1], np.ones((3, 3)))
    with pytest.raises(ValueError, match="scores must have 1 dimensions, but has 2"):
        rust_operators.non_maximum_suppression(BOXES, SCORES[:, None])
