"""Attributes that columns of polars and pandas lack, which dlbridge does not look up."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import dlbridge
import pytest
from conftest import require


def calls_of_getattr(function: Callable[[], object]) -> int:
    """Returns how often a function calls a ``__getattr__`` written in Python."""
    count = 0

    def trace(frame: FrameType, event: str, _: Any) -> None:
        nonlocal count
        count += event == "call" and frame.f_code.co_name == "__getattr__"

    function()
    sys.setprofile(trace)
    try:
        function()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("dtype", ["float64", "int64", "bool"])
def test_attributes_that_polars_series_lacks_are_not_looked_up(dtype: str) -> None:
    np, pl = require("numpy"), require("polars")
    series = pl.Series(np.arange(3).astype(dtype))
    assert calls_of_getattr(lambda: dlbridge.asdlpack(series)) == 0
    assert calls_of_getattr(lambda: dlbridge.asdlpack(series, protocol="arrow")) == 0
    assert dlbridge.asdlpack(series).tolist() == series.to_list()


def test_attributes_that_pandas_series_lacks_are_not_looked_up() -> None:
    pa, pd = require("pyarrow"), require("pandas")
    for dtype in ["float64", pd.ArrowDtype(pa.float64())]:
        series = pd.Series([1.0, 2.0], dtype=dtype)
        numpy_dtype = dtype == "float64"
        by_pandas = calls_of_getattr(series.to_numpy if numpy_dtype else series.__arrow_c_stream__)
        assert calls_of_getattr(lambda: dlbridge.asdlpack(series)) == by_pandas
        assert dlbridge.asdlpack(series).tolist() == [1.0, 2.0]


def test_attributes_of_a_wrapper_are_looked_up_each_time() -> None:
    np = require("numpy")

    class Wrapper:
        """A wrapper that forwards attributes to another object."""

        def __init__(self, inner: object) -> None:
            self.inner = inner

        def __getattr__(self, name: str) -> Any:
            return getattr(self.inner, name)

    with pytest.raises(TypeError, match="supports no exchange protocol"):
        dlbridge.asdlpack(Wrapper([1.0]))
    assert dlbridge.asdlpack(Wrapper(np.array([2.0]))).tolist() == [2.0]


def test_label_named_like_a_method_is_not_called() -> None:
    pa, pd = require("pyarrow"), require("pandas")
    dtype = pd.ArrowDtype(pa.float64())
    assert dlbridge.asdlpack(pd.Series([1.0], dtype=dtype)).tolist() == [1.0]
    series = pd.Series([2.0], index=["__dlpack__"], dtype=dtype)
    assert dlbridge.asdlpack(series).tolist() == [2.0]
