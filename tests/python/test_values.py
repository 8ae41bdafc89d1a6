"""A tensor has the values of its producer, or the import is refused with a fix."""

from __future__ import annotations

import datetime
import decimal
import re
from collections.abc import Callable
from typing import Any

import dlbridge
import pytest
from conftest import require

np = require("numpy")
pa = require("pyarrow")
pc = require("pyarrow.compute")
pd = require("pandas")
pl = require("polars")


def numbers(*values: Any, dtype: str) -> Any:
    return np.array(values, dtype)


PLAIN = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64"]

#: Columns of pandas that can be imported.
PANDAS: dict[str, Callable[[], Any]] = {
    **{dtype: lambda dtype=dtype: pd.Series([1, 2, 3], dtype=dtype) for dtype in [*PLAIN, "float16"]},
    "bool": lambda: pd.Series([True, False]),
    "complex128": lambda: pd.Series([1j, 2]),
    "float with NaN": lambda: pd.Series([1.0, np.nan]),
    "float32 with NaN": lambda: pd.Series([1.0, np.nan], dtype="float32"),
    "strided": lambda: pd.Series(np.arange(6.0)[::2], copy=False),
    "reversed": lambda: pd.Series([1.0, 2.0])[::-1],
    "column of a frame": lambda: pd.DataFrame(np.arange(6.0).reshape(3, 2))[1],
    "NumPy extension array": lambda: pd.Series(pd.arrays.NumpyExtensionArray(np.array([1.0, np.nan]))),
    "range": lambda: pd.Series(range(3)),
    "empty": lambda: pd.Series([], dtype="float64"),
    "Int64": lambda: pd.Series([1, 2], dtype="Int64"),
    "UInt8": lambda: pd.Series([1, 2], dtype="UInt8"),
    "Float64": lambda: pd.Series([1.0, 2.0], dtype="Float64"),
    "boolean": lambda: pd.Series([True, False], dtype="boolean"),
    "int64[pyarrow]": lambda: pd.Series([1, 2], dtype="int64[pyarrow]"),
    "double[pyarrow]": lambda: pd.Series([1.0, 2.0], dtype="double[pyarrow]"),
    "bool[pyarrow]": lambda: pd.Series([True, False], dtype="bool[pyarrow]"),
}

#: Columns of pandas that are refused, and text of the refusal.
PANDAS_REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "period": (lambda: pd.Series(pd.period_range("2020", periods=3, freq="M")), r"dtype is period\[M\].*astype"),
    "interval": (lambda: pd.Series(pd.interval_range(0, 3)), r"dtype is interval.*s\.array\.left\.to_numpy"),
    "category": (lambda: pd.Series(["a", "b"], dtype="category"), r"dtype is category.*s\.cat\.codes"),
    "category of numbers": (lambda: pd.Series([10, 20, 10], dtype="category"), r"s\.astype\(s\.cat\.categories"),
    "sparse": (lambda: pd.Series(pd.arrays.SparseArray([0, 1])), r"dtype is Sparse.*to_dense\(\)"),
    "sparse floats": (lambda: pd.Series(pd.arrays.SparseArray([0.0, 1.0])), r"dtype is Sparse.*to_dense\(\)"),
    "datetime": (lambda: pd.Series(pd.date_range("2020", periods=2)), r"dates or durations.*numpy.asarray\(x\).view\('int64'\)"),
    "datetime with a zone": (lambda: pd.Series(pd.date_range("2020", periods=2, tz="UTC")), r"UTC\].*astype"),
    "timedelta": (lambda: pd.Series(pd.timedelta_range("1D", periods=2)), r"dates or durations.*numpy.asarray\(x\).view\('int64'\)"),
    "str": (lambda: pd.Series(["a", "b"]), r"cannot express its values.*to_numeric"),
    "object": (lambda: pd.Series([1, "a"], dtype=object), "Python objects.*convert them to numbers"),
    "object of integers": (lambda: pd.Series([1, 2], dtype=object), "Python objects.*convert them to numbers"),
    "Int64 with NA": (lambda: pd.Series([1, None], dtype="Int64"), r"has 1 null, .*fillna\(0\).*dropna\(\)"),
    "Float64 with NA": (lambda: pd.Series([1, None], dtype="Float64"), r"has 1 null, .*fillna\(0\).*dropna\(\)"),
    "boolean with NA": (lambda: pd.Series([True, None], dtype="boolean"), r"has 1 null, .*fillna\(False\)"),
    "int64[pyarrow] with NA": (lambda: pd.Series([1, None], dtype="int64[pyarrow]"), r"has 1 null, .*fillna\(0\)"),
    "timestamp[pyarrow]": (lambda: pd.Series([1], dtype="timestamp[s][pyarrow]"), "cast it to integers first"),
    "frame": (lambda: pd.DataFrame({"a": [1]}), "take one column of it first"),
    "frame with a sparse column": (lambda: pd.DataFrame({"a": pd.arrays.SparseArray([0, 1])}), "not supported"),
}


class Mine(pa.ExtensionType):  # type: ignore[misc]
    """An extension type that only this test defines."""

    def __init__(self) -> None:
        super().__init__(pa.int64(), "tests.mine")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: Any, serialized: bytes) -> Mine:
        return cls()


def extension(kind: Any, storage: Any) -> Any:
    return pa.ExtensionArray.from_storage(kind, storage)


def lists(items: Any, size: int = 1) -> Any:
    return pa.FixedSizeListArray.from_arrays(items, size)


ARROW: dict[str, Callable[[], Any]] = {
    **{dtype: lambda dtype=dtype: pa.array(np.array([1, 2, 3], dtype)) for dtype in [*PLAIN, "float16"]},
    "bool": lambda: pa.array([True, False]),
    "floats with NaN": lambda: pa.array([1.0, float("nan")]),
    "bool8": lambda: extension(pa.bool8(), pa.array([1, 0], "int8")),
    "bool8 of other bytes": lambda: extension(pa.bool8(), pa.array([2, 0, -1], "int8")),
}

ONE = decimal.Decimal(1)

ARROW_REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "null": (lambda: pa.nulls(2), "nulls"),
    "missing": (lambda: pa.array([1, None]), "has 1 null, "),
    **{
        str(kind): (lambda kind=kind: pa.array([1], "int64").cast(kind), "cast it to integers")
        for kind in (pa.date64(), pa.time64("us"), pa.timestamp("s"), pa.timestamp("s", "UTC"), pa.duration("s"))
    },
    "date32": (lambda: pa.array([1], "int32").cast(pa.date32()), "cast it to integers"),
    "time32": (lambda: pa.array([1], "int32").cast(pa.time32("s")), "cast it to integers"),
    "month_day_nano": (lambda: pa.array([pa.MonthDayNano([1, 2, 3])]), "convert it to numbers"),
    **{
        str(kind): (lambda kind=kind: pa.array([ONE], kind), "cast it to floats")
        for kind in (pa.decimal32(3), pa.decimal64(3), pa.decimal128(3), pa.decimal256(3))
    },
    **{
        str(kind): (lambda kind=kind: pa.array([b"ab"], kind), "convert it to numbers")
        for kind in (pa.binary(), pa.binary(2), pa.large_binary(), pa.binary_view())
    },
    **{
        str(kind): (lambda kind=kind: pa.array(["a"], kind), "convert it to numbers")
        for kind in (pa.string(), pa.large_string(), pa.string_view())
    },
    **{
        str(kind): (lambda kind=kind: pa.array([[1]], kind), "fixed-size lists")
        for kind in (pa.list_(pa.int8()), pa.large_list(pa.int8()), pa.list_view(pa.int8()))
    },
    "struct": (lambda: pa.array([{"a": 1}]), "take one column"),
    "map": (lambda: pa.array([[(1, 2)]], pa.map_(pa.int8(), pa.int8())), "take the keys or the items"),
    "union": (lambda: pa.UnionArray.from_sparse(pa.array([0], "int8"), [pa.array([1])]), "take one child, with field"),
    "dictionary": (lambda: pa.array([5, 6, 5]).dictionary_encode(), r"dictionary_decode\(\)"),
    "lists of a dictionary": (lambda: lists(pa.array([5]).dictionary_encode()), r"dictionary_decode\(\)"),
    "lists of dates": (lambda: lists(pa.array([1], "int32").cast(pa.date32())), "cast it to integers"),
    "runs": (lambda: pa.RunEndEncodedArray.from_arrays(pa.array([2, 3]), pa.array([5, 6])), "run_end_decode"),
    "uuid": (lambda: extension(pa.uuid(), pa.array([b"a" * 16], pa.binary(16))), r"'arrow\.uuid'.*storage"),
    "json": (lambda: extension(pa.json_(), pa.array(["1"])), r"'arrow\.json'.*storage"),
    "opaque": (lambda: extension(pa.opaque(pa.int64(), "x", "y"), pa.array([1])), r"'arrow\.opaque'.*storage"),
    "unknown": (lambda: extension(Mine(), pa.array([1])), r"'tests\.mine'.*array\.storage"),
    "lists of an unknown one": (lambda: lists(extension(Mine(), pa.array([1]))), r"'tests\.mine'.*storage"),
    "periods": (lambda: pa.array(pd.Series(pd.period_range("2020", periods=1, freq="M"))), r"'pandas\.period'"),
}

POLARS: dict[str, Callable[[], Any]] = {
    **{str(kind): lambda kind=kind: pl.Series([1, 2], dtype=kind) for kind in (pl.Int8, pl.UInt64, pl.Float32)},
    **{str(kind): lambda kind=kind: pl.Series([1, 2], dtype=kind) for kind in (pl.Int64, pl.Float64, pl.UInt16)},
    "Boolean": lambda: pl.Series([True, False]),
    "Array": lambda: pl.Series([[1, 2], [3, 4]], dtype=pl.Array(pl.Int8, 2)),
    "NaN": lambda: pl.Series([1.0, float("nan")]),
}

POLARS_REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "null": (lambda: pl.Series([1, None]), r"has 1 null, .*fill_null"),
    "Null": (lambda: pl.Series([None]), "only nulls"),
    "Date": (lambda: pl.Series([datetime.date(2020, 1, 1)]), "cast it to integers"),
    "Datetime": (lambda: pl.Series([datetime.datetime(2020, 1, 1)]), "cast it to integers"),
    "Duration": (lambda: pl.Series([datetime.timedelta(1)]), "cast it to integers"),
    "Time": (lambda: pl.Series([datetime.time(1)]), "cast it to integers"),
    "Decimal": (lambda: pl.Series([ONE]), "cast it to floats"),
    "String": (lambda: pl.Series(["a"]), "convert it to numbers"),
    "Binary": (lambda: pl.Series([b"a"]), "convert it to numbers"),
    "Categorical": (lambda: pl.Series(["a"], dtype=pl.Categorical), "import its codes .to_physical"),
    "Enum": (lambda: pl.Series(["a"], dtype=pl.Enum(["a"])), "import its codes .to_physical"),
    "Object": (lambda: pl.Series([object()], dtype=pl.Object), "convert it to numbers"),
    "List": (lambda: pl.Series([[1]]), "fixed-size lists"),
    "Struct": (lambda: pl.Series([{"a": 1}]), "take one column"),
    "Int128": (lambda: pl.Series([1], dtype=pl.Int128), "cast it to integers of 64 bits"),
    "Array of dates": (lambda: pl.Series([[datetime.date(2020, 1, 1)]], dtype=pl.Array(pl.Date, 1)), "integers"),
    "frame": (lambda: pl.DataFrame({"a": [1]}), "take one column"),
}


def to_numpy(source: Any) -> Any:
    """The values according to the library itself."""
    return source.to_numpy(zero_copy_only=False) if isinstance(source, pa.Array) else source.to_numpy()


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(make, id=f"{library}-{name}")
        for library, makes in {"pandas": PANDAS, "arrow": ARROW, "polars": POLARS}.items()
        for name, make in makes.items()
    ],
)
def test_tensor_has_the_values_of_its_producer(make: Callable[[], Any]) -> None:
    source = make()
    tensor = dlbridge.asdlpack(source)
    expected = to_numpy(source)
    found = tensor.numpy()
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    assert np.array_equal(found, expected, equal_nan=found.dtype.kind in "fc")


@pytest.mark.parametrize(
    ("make", "match"),
    [
        pytest.param(make, match, id=f"{library}-{name}")
        for library, makes in {
            "pandas": PANDAS_REFUSED,
            "arrow": ARROW_REFUSED,
            "polars": POLARS_REFUSED,
        }.items()
        for name, (make, match) in makes.items()
    ],
)
def test_values_that_a_tensor_cannot_express_are_refused(make: Callable[[], Any], match: str) -> None:
    source = make()
    for copy in (None, True, False):
        with pytest.raises(BufferError, match=match):
            dlbridge.asdlpack(source, copy=copy)
    if str(getattr(source, "dtype", "")) != "object":
        # For objects that are integers, pandas exports an Arrow array of integers.
        with pytest.raises(BufferError):
            dlbridge.asdlpack(source, protocol="arrow")
    if isinstance(source, pa.Array):
        with pytest.raises(BufferError, match=match):
            dlbridge.asdlpack(pa.chunked_array([source]))


#: Indexes and extension arrays of pandas: functions that make them, and the fixes in the refusal as code for the index or
#: array `a`, with the values that the code returns.
PANDAS_ARRAYS: dict[str, tuple[Any, dict[str, list[Any]]]] = {
    "period": (lambda: pd.period_range("2020", periods=2, freq="M"), {"a.asi8": [600, 601]}),
    "interval": (lambda: pd.interval_range(0, 2), {"a.left.to_numpy()": [0, 1], "a.right.to_numpy()": [1, 2]}),
    "category": (lambda: pd.Categorical([7, 5, 7]), {"a.codes": [1, 0, 1], "numpy.asarray(a)": [7, 5, 7]}),
    "sparse": (lambda: pd.arrays.SparseArray([0, 1]), {"numpy.asarray(a)": [0, 1]}),
    "datetime": (lambda: pd.to_datetime([3], unit="ns"), {"a.asi8": [3]}),
    "datetime with a zone": (lambda: pd.to_datetime([3], unit="ns", utc=True), {"a.asi8": [3]}),
    "timestamp[us][pyarrow]": (lambda: pd.Series([3]).astype("timestamp[us][pyarrow]"), {"a.to_numpy().view('int64')": [3]}),
    "timedelta": (lambda: pd.to_timedelta([3], unit="ns"), {"a.asi8": [3]}),
    "text": (lambda: pd.array(["7"], dtype="string"), {"numpy.asarray(pandas.to_numeric(a))": [7]}),
    "Int64": (lambda: pd.array([1, 2], dtype="Int64"), {"a.to_numpy()": [1, 2]}),
    "boolean": (lambda: pd.array([True], dtype="boolean"), {"a.to_numpy()": [True]}),
    "int64[pyarrow]": (lambda: pd.array([1], dtype="int64[pyarrow]"), {"a.to_numpy()": [1]}),
    "numbers": (lambda: pd.Index([1.5]), {"a.to_numpy()": [1.5]}),
    "range": (lambda: pd.RangeIndex(2), {"a.to_numpy()": [0, 1]}),
}


@pytest.mark.parametrize("name", PANDAS_ARRAYS)
def test_remedy_for_an_index_or_array_of_pandas_works(name: str) -> None:
    make, remedies = PANDAS_ARRAYS[name]
    for source in (pd.Index(make()), pd.Series(make()).array):
        for protocol in (None, "arrow"):
            with pytest.raises(TypeError, match="supports no exchange protocol") as refused:
                dlbridge.asdlpack(source, protocol=protocol)
            for code, values in remedies.items():
                assert code in str(refused.value)
                converted = eval(code, {"a": source, "numpy": np, "pandas": pd})
                assert dlbridge.asdlpack(converted).tolist() == values


@pytest.mark.parametrize(
    ("column", "remedy", "values"),
    [
        (pd.Series(pd.to_datetime([3], unit="ns")), "numpy.asarray(x).view('int64')", [3]),
        (pd.Series(pd.to_timedelta([3], unit="ns")), "numpy.asarray(x).view('int64')", [3]),
        (pd.Series([2**53 + 1, None], dtype="Int64"), "s.fillna(0)", [2**53 + 1, 0]),
        (pd.Series([1, None], dtype="Float64"), "s.fillna(0)", [1, 0]),
        (pd.Series([2**53 + 1, None], dtype="Int64"), "s.dropna()", [2**53 + 1]),
        (pd.Series([True, None], dtype="boolean"), "s.fillna(False)", [True, False]),
        (pd.Series([True, None], dtype="boolean"), "s.dropna()", [True]),
        (pd.Series([1, None], dtype="int64[pyarrow]"), "s.fillna(0)", [1, 0]),
    ],
)
def test_remedy_for_a_column_of_pandas_works(column: Any, remedy: str, values: list[Any]) -> None:
    with pytest.raises(BufferError, match=re.escape(remedy)):
        dlbridge.asdlpack(column)
    assert dlbridge.asdlpack(eval(remedy, {"s": column, "x": column, "numpy": np})).tolist() == values


@pytest.mark.parametrize("make", [pa.array, pl.Series, lambda column: pd.Series(column, dtype=pd.ArrowDtype(column.type))])
@pytest.mark.parametrize("kind", [pa.date32(), pa.date64(), pa.timestamp("us"), pa.duration("ns")], ids=str)
def test_remedy_for_times_of_arrow_works(make: Callable[[Any], Any], kind: Any) -> None:
    count = 3 if kind == pa.date32() else 3 * 86_400_000
    column = make(pa.array([count, None], "int32" if kind == pa.date32() else "int64").cast(kind))
    with pytest.raises(BufferError, match="has the counts") as refused:
        dlbridge.asdlpack(column, protocol="arrow")
    found = re.search(r"first: (numpy.asarray.*) has the counts", str(refused.value))
    assert found is not None
    if isinstance(column, pd.Series):
        assert "for a column of pandas, begin with x = pyarrow.array(x)" in str(refused.value)
        column = pa.array(column)
    unit = 86_400_000 if kind == pa.date64() and "[D]" in found[1] else 1
    counts = dlbridge.asdlpack(eval(found[1], {"x": column, "numpy": np})).tolist()
    assert counts == [count // unit, -(2**63)]


@pytest.mark.parametrize("make", [lambda array: array, lambda array: pa.chunked_array([array])])
def test_remedy_for_run_ends_works(make: Callable[[Any], Any]) -> None:
    column = make(pc.run_end_encode(pa.array([1, 1])))
    with pytest.raises(BufferError, match=r"pyarrow\.compute\.run_end_decode\(x\)"):
        dlbridge.asdlpack(column)
    assert dlbridge.asdlpack(pc.run_end_decode(column)).tolist() == [1, 1]


def test_remedy_for_maps_and_unions_works() -> None:
    keys_and_items = pa.array([[(1, 2)]], pa.map_(pa.int8(), pa.int8()))
    union = pa.UnionArray.from_sparse(pa.array([0], "int8"), [pa.array([1])])
    for column, part, remedy, values in [
        (keys_and_items, keys_and_items.items, "the items of its MapArray", [2]),
        (union, union.field(0), r"field\(0\) of its UnionArray", [1]),
    ]:
        with pytest.raises(BufferError, match=remedy):
            dlbridge.asdlpack(column)
        assert dlbridge.asdlpack(part).tolist() == values


def test_refusal_of_several_levels_names_one_level() -> None:
    with pytest.raises(TypeError, match=r"take one level first, for example a\.get_level_values\(0\)"):
        dlbridge.asdlpack(pd.MultiIndex.from_tuples([(1, 2)]))


def test_dtype_named_like_one_of_pandas_gets_no_advice_for_pandas() -> None:
    class PeriodDtype:
        """A dtype of another library."""

    class Column(pd.Series):  # type: ignore[misc]
        dtype = PeriodDtype()

        def __arrow_c_stream__(self, requested_schema: object = None) -> object:
            raise ValueError("not this one")

    with pytest.raises(BufferError, match="cannot export the data: not this one") as refused:
        dlbridge.asdlpack(Column([1]))
    assert isinstance(refused.value.__cause__, ValueError)


def test_to_numpy_that_fails_raises_buffer_error() -> None:
    class Column(pd.Series):  # type: ignore[misc]
        answer: Any = None

        def to_numpy(self, *arguments: Any, **keywords: Any) -> Any:
            if isinstance(Column.answer, Exception):
                raise Column.answer
            return Column.answer

    column = Column([1.0, 2.0])
    for answer in ([1.0, 2.0], pd.Series([1.0, 2.0]), None):
        Column.answer = answer
        with pytest.raises(BufferError, match=r"to_numpy\(\) of the column.*not an array of NumPy; pass numpy\.asarray"):
            dlbridge.asdlpack(column)
    assert dlbridge.asdlpack(np.asarray(column)).tolist() == [1.0, 2.0]
    Column.answer = RuntimeError("not today")
    with pytest.raises(BufferError, match="cannot export the data: not today") as refused:
        dlbridge.asdlpack(column)
    assert refused.value.__cause__ is Column.answer


@pytest.mark.parametrize(
    "make", [PANDAS[name] for name in ("float with NaN", "bool", "strided", "complex128", "reversed")]
)
def test_column_of_numpy_is_shared(make: Callable[[], Any]) -> None:
    series = make()
    tensor = dlbridge.asdlpack(series, copy=False)
    expected = series.to_numpy()
    assert not tensor.copied
    assert tensor.address == expected.ctypes.data
    assert tensor.strides == tuple(stride // expected.itemsize for stride in expected.strides)
    assert tensor.readonly != expected.flags.writeable


def test_nan_by_arrow_is_refused_with_the_fix() -> None:
    with pytest.raises(BufferError, match=r"pandas made of NaN.*leave out protocol='arrow'"):
        dlbridge.asdlpack(pd.Series([1.0, np.nan]), protocol="arrow")


def test_column_that_pandas_copies_is_a_reported_copy() -> None:
    class Copying(pd.Series):  # type: ignore[misc]
        def to_numpy(self, *arguments: Any, **keywords: Any) -> Any:
            return super().to_numpy(copy=True)

    series = Copying([1.0, 2.0])
    tensor = dlbridge.asdlpack(series)
    assert (tensor.copied, tensor.copy_reason) == (True, "the producer made a copy")
    with pytest.raises(BufferError, match="pandas copies this column"):
        dlbridge.asdlpack(series, copy=False)


def test_bool8_is_shared_if_its_bytes_are_0_and_1() -> None:
    storage = pa.array([1, 0, 1], "int8")
    tensor = dlbridge.asdlpack(extension(pa.bool8(), storage), copy=False)
    assert (tensor.dtype, tensor.address) == ("bool", storage.buffers()[1].address)
    with pytest.raises(BufferError, match="neither 0 nor 1"):
        dlbridge.asdlpack(ARROW["bool8 of other bytes"](), copy=False)
    pairs = lists(extension(pa.bool8(), pa.array([1, 0], "int8")), 2)
    assert dlbridge.asdlpack(pairs).numpy().tolist() == [[True, False]]


def test_storage_of_an_extension_type_is_shared() -> None:
    source = extension(Mine(), pa.array([1, 2]))
    assert dlbridge.asdlpack(source.storage).address == source.storage.buffers()[1].address


@pytest.mark.parametrize(
    ("source", "match"),
    [
        (numbers(1, "a", dtype="O"), r"Python objects.*a\.astype\('float64'\)"),
        (np.zeros(2, [("x", "f4"), ("y", "i2")]), r"records; take one field first, for example a\['y'\]"),
        (np.rec.array([(1, 2.0)]), r"records; take one field first, for example a\['f1'\]"),
        (numbers("2020", dtype="M8[s]"), r"dates or durations.*x\).view\(.int64.\)"),
        (numbers(1, dtype="m8[s]"), r"dates or durations.*x\).view\(.int64.\)"),
        (np.datetime64("2020"), r"dates or durations.*x\).view\(.int64.\)"),
        (numbers("a", dtype="U2"), "text; convert digits with numpy.asarray"),
        (numbers(b"a", dtype="S2"), "text; convert digits with numpy.asarray"),
        (numbers("a", dtype="T"), "text; convert digits with numpy.asarray"),
        (np.zeros(2, "V5"), r"raw bytes.*a\.view\('u1'\)"),
        (np.ones(2, np.longdouble), r"wider than 64 bits.*a\.astype\('float64'\)"),
        (np.ones(2, np.clongdouble), r"wider than 128 bits.*a\.astype\('complex128'\)"),
        (memoryview(numbers(1, "a", dtype="O")), r"Python objects"),
        (memoryview(np.zeros(2, [("x", "f4"), ("y", "i2")])), r"records; take one field"),
        (memoryview(numbers("a", dtype="U2")), "text"),
    ],
    ids=lambda value: str(value.dtype) if hasattr(value, "dtype") else None,
)
def test_array_that_is_not_of_numbers_is_refused_with_the_fix(source: Any, match: str) -> None:
    with pytest.raises(BufferError, match=match):
        dlbridge.asdlpack(source)
