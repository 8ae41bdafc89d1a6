"""Points and spans of time as arguments and results: NumPy, pandas, polars and pyarrow."""

import ctypes
import gc
import sys
import weakref
from collections.abc import Callable
from typing import Any

import dlbridge
import numpy as np
import pytest
import typed_arguments as typed
from processes import output

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


def arrow_index() -> Any:
    """An index of pandas with times of Arrow, which supports no protocol."""
    return pd.Index(pd.Series(WHOLE).astype("timestamp[ns][pyarrow]"))


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
        (lambda: pl.Series(WHOLE).dt.replace_time_zone("Europe/Berlin"), "with the time zone Europe/Berlin; remove the zone"),
        (lambda: dlbridge.asdlpack(TIMES.view("i8")), "got int64"),
        (lambda: typed.epoch(), "got a dlbridge.Tensor, which is not an array or column with a unit of time"),
        (lambda: TIMES[0], "got a numpy.datetime64, which is not an array or column with a unit of time"),
        (lambda: pd.DatetimeIndex(WHOLE).tz_localize("Europe/Berlin"), r"with the zone Europe/Berlin; .* x.tz_convert\(None\)"),
        (arrow_index, r"got a pandas.Index of timestamp\[ns\]\[pyarrow\], which supports no exchange protocol; pass x.to_numpy\(\)"),
        (lambda: arrow_index().array, r"got a pandas.*Array of timestamp\[ns\]\[pyarrow\], .*; pass x.to_numpy\(\)"),
        (lambda: pd.Index([1], dtype="int64[pyarrow]"), "got a pandas.Index, which is not an array or column with a unit of time"),
        (lambda: TIMES - TIMES[0], r"got timedelta64\[ns\]$"),
        (lambda: [1, 2], "got a list"),
        (lambda: 3, "got an int"),
    ],
)
def test_other_elements_are_refused_with_the_fix(make: Callable[[], Any], match: str) -> None:
    # Made here and not while pytest collects: polars contains rust-numpy, whose registry would come first.
    times = make()
    with pytest.raises(dlbridge.TensorMismatchError, match=match) as refusal:
        typed.nanoseconds(times)
    assert "expected datetime64[ns]" in str(refusal.value)


def test_booleans_with_nulls_are_not_read_as_times() -> None:
    # An import that allows copies fills nulls. It once read 8 bytes for each of these elements of one byte.
    for booleans in [bool8([1, None]), bool8([1, 0])]:
        with pytest.raises(dlbridge.TensorMismatchError, match="got bool"):
            typed.nanoseconds_of_anything(booleans)


def test_unit_that_arrow_does_not_have_is_refused() -> None:
    class Renamed:
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


def test_dates_are_written_in_place() -> None:
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
        """An array that supports weak references."""

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


def test_tensor_of_times_is_not_imported_as_integers() -> None:
    epoch = typed.epoch()
    assert epoch.dtype == "handle64"
    for consumer in (np.from_dlpack, np.asarray, memoryview, lambda t: t.numpy()):
        with pytest.raises((BufferError, RuntimeError), match="handle64|Unsupported dtype"):
            consumer(epoch)


@pytest.mark.parametrize("function", ["as_int64", "as_float64", "as_any"])
def test_tensor_of_times_in_a_list_is_not_imported_as_integers(function: str) -> None:
    for epoch in [typed.epoch(), dlbridge.asdlpack(typed.epoch())]:
        with pytest.raises(TypeError, match=r"element \[0\] is a .*handle64"):
            getattr(typed, function)([epoch])


def test_lists_of_times_are_refused() -> None:
    flat = pa.array(np.arange(4).view("M8[ns]"))
    with pytest.raises(TypeError, match="which is a list; take its values first"):
        typed.nanoseconds_of_anything(pa.FixedSizeListArray.from_arrays(flat, 2))
    with pytest.raises(TypeError, match="take one column of it first"):
        typed.nanoseconds_of_anything(pl.DataFrame({"x": TIMES}))


def test_borrow_of_a_column_covers_its_elements_and_their_validity_bits() -> None:
    counts, bits = np.arange(100), np.full(13, 0xF7, "u1")
    buffers = [pa.py_buffer(bits), pa.py_buffer(counts)]
    times = pa.Array.from_buffers(pa.timestamp("ns"), 100, buffers)[40:60]
    packed = pa.Array.from_buffers(pa.bool_(), 100, [None, pa.py_buffer(bits)])[40:60]
    for read in (lambda: typed.nanoseconds_of_anything(times), lambda: typed.count_of_anything(packed)):
        with pytest.raises(dlbridge.TensorBorrowError):
            typed.while_writing(bits[6:7], read)
        # No byte is shared.
        assert typed.while_writing(bits[:5], read) == typed.while_writing(bits[8:], read) == read()
    read = lambda: typed.nanoseconds_of_anything(times)  # noqa: E731
    with pytest.raises(dlbridge.TensorBorrowError):
        typed.while_writing(counts[59:], read)
    assert typed.while_writing(counts[:40], read) == typed.while_writing(counts[60:], read) == read()


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
    assert output(program, options=()) == f"no memory for a copy of {1 << 27} bytes; copy a slice of the tensor\n"


def test_times_of_a_numpy_subclass_are_read_by_methods_of_numpy() -> None:
    class Overrides(np.ndarray[Any, Any]):
        other: Any

        def view(self, *_: object) -> Any:
            return self.other

    class Relabelled(np.ndarray[Any, Any]):
        @property
        def dtype(self) -> Any:
            return np.dtype("M8[ns]")

    times = np.array([1, 2], "M8[s]")
    for other in (np.array([1.5, 2.5]), np.array([7, 8, 9]), None):
        x = times.view(Overrides)
        x.other = other
        assert typed.cast_to_seconds(x) == ([1, 2], False)
    assert typed.cast_to_seconds(times.view(Relabelled)) == ([1, 2], False)
    with pytest.raises(dlbridge.TensorMismatchError, match=r"got float64"):
        typed.cast_to_seconds(np.array([1.5, 2.5]).view(Relabelled))


def test_times_are_part_of_every_result() -> None:
    days, hours, minutes, weeks, seconds = typed.times_in_results()
    for array, dtype in [(days, "M8[D]"), (hours, "m8[h]"), (minutes[0], "M8[m]"), (weeks, "M8[W]"), (seconds, "M8[s]")]:
        assert array.dtype == dtype
        assert array.ravel().view("i8").tolist() == [7, np.iinfo("i8").min]
    assert (weeks.shape, seconds.shape) == ((1, 2), (1, 2))
    with pytest.raises(BufferError, match="return Numpy"):
        typed.times_into_numpy()
