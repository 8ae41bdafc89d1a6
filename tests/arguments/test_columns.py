"""Columns of polars, pandas and pyarrow as typed arguments."""

from typing import Any

import dlbridge
import numpy as np
import pytest
import typed_arguments as typed

from test_import_asked import calls_of_getattr

pa, pd, pl = pytest.importorskip("pyarrow"), pytest.importorskip("pandas"), pytest.importorskip("polars")


@pytest.mark.parametrize(
    ("function", "dtype", "result"),
    [(typed.dtype, "float64", "float64"), (typed.dtype, "int64", "int64"), (typed.total_of_anything, "float64", (3.0, False))],
)
def test_attributes_that_polars_series_lacks_are_not_looked_up(function: Any, dtype: str, result: Any) -> None:
    series = pl.Series(np.arange(3).astype(dtype))
    assert calls_of_getattr(lambda: function(series)) == 0
    assert function(series) == result


def test_attributes_that_pandas_series_lacks_are_not_looked_up() -> None:
    series = pd.Series([1.0, 2.0])
    assert calls_of_getattr(lambda: typed.dtype(series)) == calls_of_getattr(series.to_numpy)
    series = series.astype(pd.ArrowDtype(pa.float64()))
    assert calls_of_getattr(lambda: typed.dtype(series)) == calls_of_getattr(series.__arrow_c_stream__)


@pytest.mark.parametrize("make", [lambda x: pl.Series(x), lambda x: pa.array(x), lambda x: pa.chunked_array([x])])
def test_packed_booleans_are_unpacked_if_a_copy_is_allowed(make: Any) -> None:
    column = make([True, False] * 50 + [True])
    assert typed.count_of_anything(column) == (51, True)
    assert typed.count_of_anything(column[1:12]) == (5, True)
    assert typed.count_of_anything(make([True])[:0]) == (0, True)
    with pytest.raises(TypeError, match="packed, eight to a byte"):
        typed.count(column)


def test_pandas_booleans_are_borrowed_where_numpy_holds_them() -> None:
    assert typed.count_of_anything(pd.Series([True, False, True])) == (2, False)
    packed = pd.Series([True, False, True], dtype=pd.ArrowDtype(pa.bool_()))
    assert typed.count_of_anything(packed) == (2, True)


def test_booleans_with_nulls_are_refused() -> None:
    for column in [pl.Series([True, None]), pa.array([True, None])]:
        with pytest.raises(BufferError, match="1 null"):
            typed.count_of_anything(column)


TABLE = {"a": [1.0, 2.0, 3.0], "b": [4.0, 5.0, 6.0]}
MIXED = {"a": np.arange(3, dtype="i4"), "b": np.array([0.5, 1.5, 2.5], "f4"), "c": np.array([True, False, True])}
BATCH = pa.RecordBatch.from_pydict(TABLE)


@pytest.mark.parametrize("table", [pd.DataFrame(TABLE), pl.DataFrame(TABLE), pa.table(TABLE), BATCH, pa.Table.from_batches([BATCH[:1], BATCH[1:]])])
def test_table_is_a_matrix_if_a_copy_is_allowed(table: Any) -> None:
    assert typed.by_columns(table) == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    with pytest.raises((TypeError, BufferError), match="table"):
        typed.total(table)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_columns_of_a_table_are_converted_as_the_argument_allows(frame: Any) -> None:
    assert typed.by_columns(frame(MIXED)) == [0.0, 1.0, 2.0, 0.5, 1.5, 2.5, 1.0, 0.0, 1.0]
    with pytest.raises(TypeError, match=r"argument 'x': expected float64\[_, _\] on cpu, Fortran order; got int64\[2, 1\]"):
        typed.by_columns(frame({"a": [1, 2]}))
    with pytest.raises(BufferError, match="column 'b': "):
        typed.by_columns(frame({"a": [1.0], "b": ["text"]}))


def test_copy_of_a_table_has_the_order_of_the_argument(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    matrix = dlbridge._core._matrix
    monkeypatch.setattr("dlbridge._core._matrix", lambda *arguments: made.append(matrix(*arguments)) or made[-1])
    assert typed.by_columns(pl.DataFrame(MIXED))[:3] == [0.0, 1.0, 2.0]
    assert (made[0].strides, made[0].copied) == ((1, 3), True)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_table_of_times_is_not_taken_for_numbers(frame: Any) -> None:
    days = np.array(["2020-01-01", "NaT"], "datetime64[ms]")
    table = frame({"day": days[:1], "month": days[:1]})
    with pytest.raises(BufferError, match="column 'day': it has datetime64.*, and the argument takes numbers"):
        typed.by_columns(table)
    assert dlbridge.matrix(table).shape == (1, 2)


def test_column_is_not_a_table() -> None:
    with pytest.raises(TypeError, match=r"expected float64\[_, _\] on cpu, Fortran order; got float64\[2\]"):
        typed.by_columns(pl.Series([1.0, 2.0]))
