"""Units of times: every unit of every library, casts between units, and the fixes that refusals name."""

import re
import sys
from collections.abc import Callable
from typing import Any

import dlbridge
import numpy as np
import pytest
import typed_arguments as typed

pa, pd, pl = pytest.importorskip("pyarrow"), pytest.importorskip("pandas"), pytest.importorskip("polars")


@pytest.mark.parametrize(
    ("times", "dtype"),
    [
        (np.array(["2024"], ">M8[s]" if sys.byteorder == "little" else "<M8[s]"), "datetime64[s]"),
        (np.array(["2024"], "M8[Y]"), "datetime64[D]"),
        (pa.array([1], "date32"), "datetime64[D]"),
    ],
)
def test_remedy_for_times_names_a_unit_that_has_their_values(times: Any, dtype: str) -> None:
    with pytest.raises(TypeError, match=re.escape(f"numpy.asarray(x).astype('{dtype}')")):
        typed.points_of_any_unit(times)


UNITS = ["ns", "us", "ms", "s", "m", "h", "D", "W"]


#: For each library: a function that makes a column from an array of times, and the units that the library has.
LIBRARIES: dict[str, tuple[Callable[[Any], Any], list[str]]] = {
    "numpy": (lambda x: x, UNITS),
    "pandas": (pd.Series, ["ns", "us", "ms", "s"]),
    "pandas-index": (pd.Index, ["ns", "us", "ms", "s"]),
    "pandas-arrow": (lambda x: pd.Series(pa.array(x), dtype=pd.ArrowDtype(pa.array(x).type)), ["ns", "us", "ms", "s"]),
    "polars": (pl.Series, ["ns", "us", "ms"]),
    "pyarrow": (pa.array, ["ns", "us", "ms", "s"]),
    "pyarrow-chunked": (lambda x: pa.chunked_array([pa.array(x)]), ["ns", "us", "ms", "s"]),
}


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("name", LIBRARIES)
def test_round_trip_of_every_library_keeps_unit_and_nat(name: str, unit: str) -> None:
    make, units = LIBRARIES[name]
    for kind, function in [("M8", typed.points_of_any_unit), ("m8", typed.spans_of_any_unit)]:
        if unit not in units or (kind == "m8" and unit not in ("ns", "us", "D")):
            continue
        times = np.array([5, "NaT", -3], f"{kind}[{unit}]")
        found, counts, result = function(make(times))
        assert found == times.dtype.name
        assert counts == [5, None, -3]
        library = {"pyarrow-chunked": "pyarrow", "pandas-arrow": "pandas"}.get(name, name)
        expected = LIBRARIES[library][0](times)
        assert type(result) is type(expected)
        # The array of NumPy keeps unit and NaT, and so does a column that is made from it.
        assert np.asarray(result).dtype == times.dtype
        assert np.array_equal(np.asarray(result).view("i8"), times.view("i8"))
        assert str(getattr(result, "dtype", None)) == str(getattr(expected, "dtype", None))
        assert str(getattr(result, "type", None)) == str(getattr(expected, "type", None))
        assert function(result)[1] == counts
        assert function(make(times[:0]))[1] == []


def test_column_made_of_a_result_keeps_unit_and_nat() -> None:
    times = np.array([5, "NaT"], "M8[us]")
    result = typed.points_of_any_unit(times)[2]
    assert pl.Series(result).dtype == pl.Datetime("us")
    assert pl.Series(result).null_count() == 1
    assert pd.Series(result).dtype == "datetime64[us]"
    assert pa.array(result).type == pa.timestamp("us")
    assert pa.array(result).null_count == 1


@pytest.mark.parametrize("name", ["polars", "pyarrow"])
@pytest.mark.parametrize(
    ("function", "found", "units"),
    [
        (typed.hour_like, "datetime64[h]", {"polars": ["D", "ms", "us", "ns"], "pyarrow": ["D", "s", "ms", "us", "ns"]}),
        (typed.day_like, "timedelta64[D]", {"polars": ["ms", "us", "ns"], "pyarrow": ["s", "ms", "us", "ns"]}),
    ],
)
def test_result_of_a_unit_that_the_library_lacks_is_refused_with_its_units(function: Any, found: str, units: Any, name: str) -> None:
    column = LIBRARIES[name][0]
    fitting = [f"{found.split('[')[0]}[{unit}]" for unit in units[name]]
    for unit in fitting:
        assert len(column(np.array([1], unit))) == 1
    text = f"{name} lacks columns of {found} and has those of {', '.join(fitting)}; return times of one of these units, or an array of NumPy"
    with pytest.raises(BufferError, match=f"^{re.escape(text)}$") as refusal:
        function(column(np.array([1])))
    assert isinstance(refusal.value.__cause__, (ValueError, NotImplementedError))


def test_result_of_a_unit_that_pandas_lacks_is_stored_in_seconds() -> None:
    assert typed.hour_like(pd.Series([1])).dtype == "datetime64[s]"
    assert typed.day_like(pd.Series([1])).dtype == "timedelta64[s]"


def test_argument_of_several_units_refuses_others() -> None:
    spans = np.array([1], "m8[s]")
    match = r"expected timedelta64\[ns\], timedelta64\[us\] or timedelta64\[D\]\[_\] on cpu; got timedelta64\[s\]; convert"
    with pytest.raises(dlbridge.TensorMismatchError, match=match):
        typed.spans_of_any_unit(spans)
    assert typed.spans_of_any_unit(spans.astype("m8[us]"))[1] == [1_000_000]
    with pytest.raises(dlbridge.TensorMismatchError, match=r"got timedelta64\[us\]\[1, 1\]"):
        typed.spans_of_any_unit(spans.astype("m8[us]").reshape(1, 1))


@pytest.mark.parametrize("unit", UNITS)
def test_cast_between_units_has_the_values_of_numpy(unit: str) -> None:
    counts = [5, -3, 61, -61, 3_599_999, -3_600_000, 1_700_000_000]
    times = np.array([*counts, "NaT"], f"M8[{unit}]")
    expected = [None if np.isnat(t) else int(t.astype("i8")) for t in times.astype("M8[s]")]
    assert typed.cast_to_seconds(times) == (expected, unit != "s")
    for make, units in LIBRARIES.values():
        if unit in units and make is not LIBRARIES["numpy"][0]:
            assert typed.cast_to_seconds(make(times))[0] == expected


def test_cast_between_units_of_any_layout() -> None:
    spans = np.arange(12).reshape(3, 4).astype("m8[D]")
    spans[1, 2] = "NaT"
    for view in [spans, spans[::-1, ::2], spans.T, spans[:0]]:
        expected = view.astype("m8[ns]").T
        counts = [None if np.isnat(t) else int(t.astype("i8")) for t in expected.ravel()]
        assert typed.cast_to_nanoseconds(view) == counts
    with pytest.raises(dlbridge.TensorMismatchError, match="got datetime64"):
        typed.cast_to_nanoseconds(spans.astype("M8[D]"))
    large = np.arange(300_000).astype("M8[ms]")
    assert typed.cast_to_seconds(large[::3])[0] == (np.arange(300_000)[::3] // 1000).tolist()


def test_cast_to_several_units_prefers_one_that_has_all_values() -> None:
    assert typed.cast_to_days_or_milliseconds(np.array([1], "M8[h]")) == "datetime64[ms]"
    assert typed.cast_to_days_or_milliseconds(np.array([1], "M8[W]")) == "datetime64[D]"
    assert typed.cast_to_days_or_milliseconds(np.array([1], "M8[us]")) == "datetime64[D]"
    assert typed.cast_to_days_or_milliseconds(np.array([1], "M8[ms]")) == "datetime64[ms]"
    with pytest.raises(dlbridge.TensorMismatchError, match="expected timedelta64.*got timedelta64.10ns"):
        typed.cast_to_nanoseconds(np.array([[1]], "m8[10ns]"))


def test_cast_that_overflows_is_refused_with_the_position() -> None:
    spans = np.array([[1, 2], [3, 10**17]], "m8[D]")
    match = r"got timedelta64\[D\]\[2, 2\] on cpu, but element \[1\]\[1\] is 100000000000000000, which is out of range for timedelta64\[ns\]"
    with pytest.raises(dlbridge.TensorMismatchError, match=match):
        typed.cast_to_nanoseconds(spans)


def test_misaligned_times_are_cast() -> None:
    counts = np.array([-1001, 999, 86_400_000, 0])
    times = np.frombuffer(b"." + counts.tobytes(), "M8[ms]", offset=1)
    assert not times.flags.aligned
    assert typed.cast_to_seconds(times) == ([-2, 0, 86_400, 0], True)
    assert typed.cast_to_seconds(times[::-1]) == ([0, 86_400, 0, -2], True)
    with pytest.raises(dlbridge.TensorMismatchError, match=r"element \[1\]\[0\] is 9{12}, which is out of range"):
        typed.cast_to_nanoseconds(np.frombuffer(b"." + np.array([1, 10**12 - 1]).tobytes(), "m8[D]", offset=1).reshape(2, 1))


@pytest.mark.parametrize("name", LIBRARIES)
def test_untyped_import_names_the_view_as_integers(name: str) -> None:
    for dtype in ["M8[us]", "m8[ns]"]:
        times = np.array([5, "NaT"], dtype)
        column = LIBRARIES[name][0](times)
        with pytest.raises((BufferError, TypeError), match=r"numpy.asarray\(x(, '\S+')?\).view\('int64'\)|a.asi8"):
            dlbridge.asdlpack(column)
        counts = column.asi8 if name == "pandas-index" else np.asarray(column).view("int64")
        assert dlbridge.asdlpack(counts).tolist() == [5, -(2**63)]


def test_untyped_import_of_dates_names_the_view_as_integers() -> None:
    dates = pl.Series(np.array([5, "NaT"], "M8[D]"))
    with pytest.raises(BufferError, match=r"numpy.asarray\(x, 'datetime64\[D\]'\).view\('int64'\)"):
        dlbridge.asdlpack(dates)
    assert np.asarray(dates, "datetime64[D]").view("int64").tolist() == [5, -(2**63)]


@pytest.mark.parametrize("name", LIBRARIES)
def test_remedy_of_a_refused_unit_works(name: str) -> None:
    column = LIBRARIES[name][0](np.array([5_000, "NaT"], "M8[us]"))
    with pytest.raises(dlbridge.TensorMismatchError, match=r"numpy.asarray\(x\).astype\('datetime64\[ns\]'\)"):
        typed.nanoseconds(column)
    assert typed.nanoseconds(np.asarray(column).astype("datetime64[ns]")) == [5_000_000, None]
