"""Points and spans of time as arguments and results: NumPy, pandas, polars and pyarrow."""

from __future__ import annotations

import ctypes
import gc
import subprocess
import sys
import weakref
from collections.abc import Callable
from typing import Any

import dlbridge
import numpy as np
import pytest
import typed_arguments as typed
from typed_arguments import _native as native

pa, pd, pl = pytest.importorskip("pyarrow"), pytest.importorskip("pandas"), pytest.importorskip("polars")

TIMES = np.array(["1970-01-01T00:00:00.000000005", "NaT", "2024-02-29"], "M8[ns]")
COUNTS = [5, None, 1_709_164_800_000_000_000]
WHOLE = TIMES[[0, 2]]

#: Every kind of column whose elements are datetime64[ns].
COLUMNS: dict[str, Callable[[Any], Any]] = {
    "numpy": lambda x: x,
    "strided": lambda x: np.repeat(x, 2)[::2],
    "reversed": lambda x: x[::-1].copy()[::-1],
    "pandas": pd.Series,
    "pandas-index": pd.DatetimeIndex,
    "pandas-arrow": lambda x: pd.Series(pa.array(x), dtype=pd.ArrowDtype(pa.timestamp("ns"))),
    "polars": pl.Series,
    "pyarrow": pa.array,
    "pyarrow-chunked": lambda x: pa.chunked_array([pa.array(x)]),
    "pyarrow-slice": lambda x: pa.concat_arrays([pa.array(x), pa.array(x)])[len(x) :],
}


def bool8(values: list[int | None]) -> Any:
    """An array of booleans of one byte each."""
    return pa.ExtensionArray.from_storage(pa.bool8(), pa.array(values, "int8"))


@pytest.mark.parametrize("make", COLUMNS.values(), ids=COLUMNS)
def test_times_of_every_library_are_read_with_their_unit(make: Callable[[Any], Any]) -> None:
    assert typed.nanoseconds(make(WHOLE)) == [COUNTS[0], COUNTS[2]]
    result = typed.same_times(make(WHOLE))
    assert result.dtype == "M8[ns]"
    assert (result == WHOLE).all()


@pytest.mark.parametrize("name", ["numpy", "strided", "pandas", "pandas-index"])
def test_nat_survives_a_round_trip(name: str) -> None:
    times = COLUMNS[name](TIMES)
    assert typed.nanoseconds(times) == COUNTS
    result = typed.same_times(times)
    assert np.isnat(result).tolist() == [False, True, False]
    assert result.flags.writeable


@pytest.mark.parametrize("name", ["pandas-arrow", "polars", "pyarrow", "pyarrow-chunked", "pyarrow-slice"])
def test_nulls_of_arrow_become_nat_if_a_copy_is_allowed(name: str) -> None:
    times = COLUMNS[name](TIMES)
    with pytest.raises(BufferError, match="1 null"):
        typed.nanoseconds(times)
    assert typed.nanoseconds_of_anything(times) == (COUNTS, True)
    assert typed.nanoseconds_of_anything(COLUMNS[name](WHOLE)) == ([COUNTS[0], COUNTS[2]], False)


def test_layouts_are_copied_if_that_is_allowed() -> None:
    assert typed.nanoseconds_of_anything(TIMES) == (COUNTS, False)
    assert typed.nanoseconds_of_anything(np.repeat(TIMES, 2)[::2]) == (COUNTS, True)
    assert typed.nanoseconds(TIMES[:0]) == []
    assert typed.nanoseconds(np.array(TIMES[2])) == [COUNTS[2]]


def test_spans_are_not_points() -> None:
    spans = np.array([1, "NaT"], "m8[ms]")
    assert typed.milliseconds(spans) == [1, None]
    assert typed.milliseconds(pl.Series(spans[:1])) == [1]
    assert typed.milliseconds(pa.array(spans[:1])) == [1]
    assert typed.milliseconds(pd.Series(spans)) == [1, None]
    for wrong in [spans.view("M8[ms]"), pl.Series(spans[:1].view("M8[ms]")), spans.view("i8")]:
        with pytest.raises(dlbridge.TensorMismatchError, match=r"expected timedelta64\[ms\]\[_\]"):
            typed.milliseconds(wrong)


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: TIMES.astype("M8[us]"), r"got datetime64\[us\]; convert it with numpy.asarray\(x\).astype\('datetime64\[ns\]'\)"),
        (lambda: TIMES.astype("M8[10ns]"), r"got datetime64\[10ns\]"),
        (lambda: np.array(["NaT"], "M8"), "got datetime64; convert it"),
        (lambda: TIMES.astype(">M8[ns]"), "in the other byte order"),
        (lambda: TIMES.view("i8"), r"got int64; pass numpy.asarray\(x\).view\('datetime64\[ns\]'\)"),
        (lambda: TIMES.view("f8"), "got float64"),
        (lambda: pl.Series(WHOLE).cast(pl.Datetime("us")), r"got datetime64\[us\]; convert it with numpy.asarray\(x\).astype"),
        (lambda: pl.Series([1, 2]), r"got int64; pass numpy.asarray\(x\).view"),
        (lambda: pl.Series(WHOLE).dt.date(), r"got dates of 32 bits; convert it with numpy.asarray\(x\).astype"),
        (lambda: pa.array(["a"]), "Arrow format 'u'"),
        (lambda: bool8([1, 0]), "got bool$"),
        (lambda: bool8([1, None]), "got bool$"),
        (lambda: pl.Series(WHOLE).dt.replace_time_zone("Europe/Berlin"), "with the time zone Europe/Berlin; take the zone away"),
        (lambda: dlbridge.asdlpack(TIMES.view("i8")), "got int64"),
        (lambda: typed.epoch(), "got a dlbridge.Tensor, which is no array or column with a unit of time"),
        (lambda: TIMES[0], "got a numpy.datetime64, which is no array or column with a unit of time"),
        (lambda: pd.DatetimeIndex(WHOLE).tz_localize("Europe/Berlin"), r"with the zone Europe/Berlin; .* x.tz_convert\(None\)"),
        (lambda: TIMES - TIMES[0], r"got timedelta64\[ns\]$"),
        (lambda: [1, 2], "got a list"),
        (lambda: 3, "got an int"),
    ],
)
def test_other_elements_are_refused_with_the_fix(make: Callable[[], Any], match: str) -> None:
    # Made here and not while tests are collected: polars has rust-numpy, whose registry would be the first.
    times = make()
    with pytest.raises(dlbridge.TensorMismatchError, match=match) as refusal:
        typed.nanoseconds(times)
    assert "expected datetime64[ns]" in str(refusal.value)


def test_booleans_with_nulls_are_not_read_as_times() -> None:
    # An import that allows copies fills nulls, and read 8 bytes for each of these elements of one byte.
    for booleans in [bool8([1, None]), bool8([1, 0])]:
        with pytest.raises(dlbridge.TensorMismatchError, match="got bool"):
            typed.nanoseconds_of_anything(booleans)


def test_unit_that_arrow_does_not_have_is_refused() -> None:
    class Renamed:
        """The capsules of an array of times, with another format."""

        def __init__(self, name: bytes) -> None:
            self.name = name

        def __arrow_c_array__(self, requested_schema: Any = None) -> Any:
            capsules = pa.array(WHOLE).__arrow_c_array__()
            pointer = ctypes.pythonapi.PyCapsule_GetPointer
            pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
            ctypes.c_char_p.from_address(pointer(capsules[0], b"arrow_schema")).value = self.name
            return capsules

    assert typed.nanoseconds(Renamed(b"tsn:")) == [COUNTS[0], COUNTS[2]]
    for name in [b"tsns:", b"tDns", b"tsx:", b"ts:"]:
        with pytest.raises(dlbridge.TensorMismatchError, match=f"got elements of the Arrow format '{name.decode()}'"):
            typed.nanoseconds(Renamed(name))


def test_times_with_a_zone_are_refused_by_pandas_too() -> None:
    index = pd.DatetimeIndex(WHOLE).tz_localize("Europe/Berlin")
    for times in [index, pd.Series(index)]:
        with pytest.raises((TypeError, BufferError)):
            typed.nanoseconds(times)
    assert typed.nanoseconds(index.tz_convert(None)) == [c - 3_600_000_000_000 for c in COUNTS if c is not None]


def test_dates_are_written_where_they_are() -> None:
    dates = np.array(["2024-02-28", "NaT", "2024-12-31"], "M8[D]")
    typed.next_day(dates[::2])
    assert dates.astype(str).tolist() == ["2024-02-29", "NaT", "2025-01-01"]
    typed.next_day(dates)
    assert np.isnat(dates).tolist() == [False, True, False]
    dates.flags.writeable = False
    with pytest.raises(dlbridge.TensorMismatchError, match="read-only"):
        typed.next_day(dates)


def test_times_are_borrowed_like_other_arrays() -> None:
    dates = np.array(["2024-02-28"], "M8[D]")
    counts = dates.view("i8")
    with pytest.raises(BufferError, match="borrow"):
        typed.while_reading(counts.view("f8"), lambda: typed.next_day(dates))


def test_spans_are_returned_with_their_unit() -> None:
    gaps = typed.gaps(np.array(["2024-01-01", "2024-01-02", "NaT"], "M8[s]"))
    assert gaps.dtype == "m8[s]"
    assert gaps.astype(str).tolist() == ["86400 seconds", "NaT"]


def test_memory_lives_as_long_as_the_argument() -> None:
    class Times(np.ndarray):
        """An array that can be referred to weakly."""

    times = TIMES.copy().view(Times)
    gone = weakref.ref(times)
    assert typed.nanoseconds(times) == COUNTS
    del times
    gc.collect()
    assert gone() is None


def test_masked_times_are_refused() -> None:
    times = np.ma.masked_array(TIMES, [True, False, False])
    with pytest.raises(BufferError, match="masked"):
        typed.nanoseconds(times)


def test_tensor_of_times_is_not_taken_for_integers() -> None:
    epoch = typed.epoch()
    assert epoch.dtype == "handle64"
    for consumer in [np.from_dlpack, np.asarray, memoryview]:
        with pytest.raises((BufferError, TypeError, RuntimeError, ValueError)):
            assert consumer(epoch).dtype != "O", "an array of one object, as for any object"
            raise TypeError
    with pytest.raises(BufferError):
        epoch.numpy()


@pytest.mark.parametrize("function", ["as_int64", "as_float64", "as_any"])
def test_tensor_of_times_in_a_list_is_not_taken_for_integers(function: str) -> None:
    for epoch in [typed.epoch(), dlbridge.asdlpack(typed.epoch())]:
        with pytest.raises(TypeError, match=r"element \[0\] is a .*handle64"):
            getattr(native, function)([epoch])


def test_untyped_imports_name_the_view() -> None:
    for times in [TIMES, pd.Series(TIMES), pd.DatetimeIndex(TIMES)]:
        with pytest.raises((BufferError, TypeError), match="int64|asi8"):
            dlbridge.asdlpack(times)
    assert dlbridge.asdlpack(TIMES.view("int64")).tolist()[0] == 5


def test_lists_of_times_are_refused() -> None:
    flat = pa.array(np.arange(4).view("M8[ns]"))
    with pytest.raises(TypeError, match="cast the column first"):
        typed.nanoseconds_of_anything(pa.FixedSizeListArray.from_arrays(flat, 2))


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the limit of memory is read from /proc")
def test_times_without_memory_for_a_copy_are_a_memory_error() -> None:
    program = """
import resource
import numpy, pyarrow
import typed_arguments as typed

times = numpy.zeros(1 << 24, "M8[ns]")
times[1] = "NaT"
column = pyarrow.array(times)
assert typed.nanoseconds_of_anything(column[:3])[0] == [0, None, 0]
pages = int(open("/proc/self/statm").read().split()[0])
limit = pages * resource.getpagesize() + (32 << 20)
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
try:
    typed.nanoseconds_of_anything(column)
except MemoryError as error:
    print(error)
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout == f"no memory for the {1 << 24} times, of an Arrow array; import a slice of it\n"


UNITS = ["ns", "us", "ms", "s", "m", "h", "D", "W"]

#: What makes a column of an array of times, and the units that the library has.
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
    for kind, function in [("M8", native.points_of_any_unit), ("m8", native.spans_of_any_unit)]:
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
    result = native.points_of_any_unit(times)[2]
    assert pl.Series(result).dtype == pl.Datetime("us")
    assert pl.Series(result).null_count() == 1
    assert pd.Series(result).dtype == "datetime64[us]"
    assert pa.array(result).type == pa.timestamp("us")
    assert pa.array(result).null_count == 1


def test_argument_of_several_units_refuses_others() -> None:
    spans = np.array([1], "m8[s]")
    match = r"expected timedelta64\[ns\], timedelta64\[us\] or timedelta64\[D\]\[_\] on cpu; got timedelta64\[s\]; convert"
    with pytest.raises(dlbridge.TensorMismatchError, match=match):
        native.spans_of_any_unit(spans)
    assert native.spans_of_any_unit(spans.astype("m8[us]"))[1] == [1_000_000]
    with pytest.raises(dlbridge.TensorMismatchError, match=r"got timedelta64\[us\]\[1, 1\]"):
        native.spans_of_any_unit(spans.astype("m8[us]").reshape(1, 1))


@pytest.mark.parametrize("unit", UNITS)
def test_cast_between_units_has_the_values_of_numpy(unit: str) -> None:
    counts = [5, -3, 61, -61, 3_599_999, -3_600_000, 1_700_000_000]
    times = np.array([*counts, "NaT"], f"M8[{unit}]")
    expected = [None if np.isnat(t) else int(t.astype("i8")) for t in times.astype("M8[s]")]
    assert native.cast_to_seconds(times) == (expected, unit != "s")
    for make, units in LIBRARIES.values():
        if unit in units and make is not LIBRARIES["numpy"][0]:
            assert native.cast_to_seconds(make(times))[0] == expected


def test_cast_between_units_of_any_layout() -> None:
    spans = np.arange(12).reshape(3, 4).astype("m8[D]")
    spans[1, 2] = "NaT"
    for view in [spans, spans[::-1, ::2], spans.T, spans[:0]]:
        expected = view.astype("m8[ns]").T
        counts = [None if np.isnat(t) else int(t.astype("i8")) for t in expected.ravel()]
        assert native.cast_to_nanoseconds(view) == counts
    with pytest.raises(dlbridge.TensorMismatchError, match="got datetime64"):
        native.cast_to_nanoseconds(spans.astype("M8[D]"))
    large = np.arange(300_000).astype("M8[ms]")
    assert native.cast_to_seconds(large[::3])[0] == (np.arange(300_000)[::3] // 1000).tolist()


def test_cast_to_a_longer_unit_needs_same_kind() -> None:
    assert native.cast_to_days_or_milliseconds(np.array([1], "M8[h]")) == "datetime64[ms]"
    assert native.cast_to_days_or_milliseconds(np.array([1], "M8[W]")) == "datetime64[D]"
    assert native.cast_to_days_or_milliseconds(np.array([1], "M8[us]")) == "datetime64[D]"
    assert native.cast_to_days_or_milliseconds(np.array([1], "M8[ms]")) == "datetime64[ms]"
    with pytest.raises(dlbridge.TensorMismatchError, match="expected timedelta64.*got timedelta64.10ns"):
        native.cast_to_nanoseconds(np.array([[1]], "m8[10ns]"))


def test_cast_that_overflows_is_refused_with_the_position() -> None:
    spans = np.array([[1, 2], [3, 10**17]], "m8[D]")
    match = r"got timedelta64\[D\]\[2, 2\] on cpu, but element \[1\]\[1\] is 100000000000000000, which is out of range for timedelta64\[ns\]"
    with pytest.raises(dlbridge.TensorMismatchError, match=match):
        native.cast_to_nanoseconds(spans)


def test_misaligned_times_are_cast() -> None:
    counts = np.array([-1001, 999, 86_400_000, 0])
    times = np.frombuffer(b"." + counts.tobytes(), "M8[ms]", offset=1)
    assert not times.flags.aligned
    assert native.cast_to_seconds(times) == ([-2, 0, 86_400, 0], True)
    assert native.cast_to_seconds(times[::-1]) == ([0, 86_400, 0, -2], True)
    with pytest.raises(dlbridge.TensorMismatchError, match=r"element \[1\]\[0\] is 9{12}, which is out of range"):
        native.cast_to_nanoseconds(np.frombuffer(b"." + np.array([1, 10**12 - 1]).tobytes(), "m8[D]", offset=1).reshape(2, 1))


def test_times_of_a_numpy_subclass_are_read_by_methods_of_numpy() -> None:
    class Overrides(np.ndarray[Any, Any]):
        """An array whose own methods say something else."""

        other: Any

        def view(self, *_: object) -> Any:
            return self.other

    class Relabelled(np.ndarray[Any, Any]):
        """An array whose own attribute names another dtype."""

        @property
        def dtype(self) -> Any:
            return np.dtype("M8[ns]")

    times = np.array([1, 2], "M8[s]")
    for other in (np.array([1.5, 2.5]), np.array([7, 8, 9]), None):
        x = times.view(Overrides)
        x.other = other
        assert native.cast_to_seconds(x) == ([1, 2], False)
    assert native.cast_to_seconds(times.view(Relabelled)) == ([1, 2], False)
    with pytest.raises(dlbridge.TensorMismatchError, match=r"got float64"):
        native.cast_to_seconds(np.array([1.5, 2.5]).view(Relabelled))


def test_times_are_part_of_every_result() -> None:
    days, hours, minutes, weeks, seconds = native.times_in_results()
    for array, dtype in [(days, "M8[D]"), (hours, "m8[h]"), (minutes[0], "M8[m]"), (weeks, "M8[W]"), (seconds, "M8[s]")]:
        assert array.dtype == dtype
        assert array.ravel().view("i8").tolist() == [7, np.iinfo("i8").min]
    assert (weeks.shape, seconds.shape) == ((1, 2), (1, 2))
    with pytest.raises(BufferError, match="return Numpy"):
        native.times_into_numpy()


@pytest.mark.parametrize("name", LIBRARIES)
def test_untyped_import_names_the_view_as_integers(name: str) -> None:
    for dtype in ["M8[us]", "m8[ns]"]:
        times = np.array([5, "NaT"], dtype)
        column = LIBRARIES[name][0](times)
        with pytest.raises((BufferError, TypeError), match=r"numpy.asarray\(x\).view\('int64'\)|a.asi8"):
            dlbridge.asdlpack(column)
        counts = column.asi8 if name == "pandas-index" else np.asarray(column).view("int64")
        assert dlbridge.asdlpack(counts).tolist() == [5, -(2**63)]


def test_untyped_import_of_dates_names_the_view_as_integers() -> None:
    dates = pl.Series(np.array([5, "NaT"], "M8[D]"))
    with pytest.raises(BufferError, match=r"numpy.asarray\(x\).view\('int64'\)"):
        dlbridge.asdlpack(dates)
    assert np.asarray(dates).view("int64").tolist() == [5, -(2**63)]


@pytest.mark.parametrize("name", LIBRARIES)
def test_remedy_of_a_refused_unit_works(name: str) -> None:
    column = LIBRARIES[name][0](np.array([5_000, "NaT"], "M8[us]"))
    with pytest.raises(dlbridge.TensorMismatchError, match=r"numpy.asarray\(x\).astype\('datetime64\[ns\]'\)"):
        native.nanoseconds(column)
    assert native.nanoseconds(np.asarray(column).astype("datetime64[ns]")) == [5_000_000, None]
