"""Tables as matrices, and matrices as tables."""

import gc
import weakref
from collections.abc import Callable
from typing import Any, Literal

import dlbridge
import pytest
from conftest import require

na = require("nanoarrow")
np = require("numpy")
pa = require("pyarrow")
pd = require("pandas")
pl = require("polars")

NAN = float("nan")
MIXED = {"a": [1, 2, 3], "b": [1.5, 2.5, 3.5], "c": [True, False, True]}
ROWS = [[1.0, 1.5, 1.0], [2.0, 2.5, 0.0], [3.0, 3.5, 1.0]]
CHUNKS = "the elements were in several chunks of memory"
#: Makes a table of each kind from a dict of lists.
TABLES: dict[str, Callable[[Any], Any]] = {
    "pandas": pd.DataFrame,
    "pandas nullable": lambda columns: pd.DataFrame(columns).convert_dtypes(),
    "pandas arrow": lambda columns: pd.DataFrame(columns).convert_dtypes(dtype_backend="pyarrow"),
    "polars": pl.DataFrame,
    "pyarrow table": pa.table,
    "pyarrow batch": pa.record_batch,
    "nanoarrow array": lambda columns: na.Array(pa.record_batch(columns)),
    "nanoarrow stream": lambda columns: na.ArrayStream(pa.table(columns)),
    "own class": lambda columns: Stream(pa.table(columns)),
    "dict": lambda columns: {name: np.array(values) for name, values in columns.items()},
}
WITH_NULLS = [name for name in TABLES if name not in {"pandas", "dict", "nanoarrow stream"}]


class Stream:
    """An object that has a stream of a struct, and nothing else."""

    def __init__(self, table: Any) -> None:
        self.table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> Any:
        return self.table.__arrow_c_stream__(requested_schema)


def block(rows: int, columns: int) -> Any:
    """A pandas frame that is one block, whose columns follow each other."""
    return pd.DataFrame(np.arange(float(rows * columns)).reshape(columns, rows).T)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("make", TABLES.values(), ids=TABLES)
def test_columns_of_several_dtypes_are_promoted(make: Any, order: Any) -> None:
    matrix = dlbridge.matrix(make(MIXED), order=order)
    assert (matrix.tolist(), matrix.dtype, matrix.strides) == (ROWS, "float64", (3, 1) if order == "C" else (1, 3))
    assert matrix.copied and not matrix.readonly
    assert dlbridge.matrix(make(MIXED), ["b", "a"]).tolist() == [[row[1], row[0]] for row in ROWS]


@pytest.mark.parametrize("first", ["?", "i1", "u1", "i2", "u4", "i8", "u8", "f2", "f4", "f8", "c8", "c16"])
@pytest.mark.parametrize("second", ["?", "u1", "i2", "i4", "u8", "f2", "f4"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_common_dtype_and_values_are_those_of_numpy(first: str, second: str, order: Any) -> None:
    columns = {"x": np.arange(300).astype(first), "y": np.arange(599, -1, -2).astype(second)}
    expected = np.column_stack(list(columns.values()))
    matrix = dlbridge.matrix(columns, order=order)
    assert matrix.dtype == expected.dtype
    assert np.array_equal(np.asarray(matrix), expected)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("width", [1, 3, 40])
def test_chunks_with_other_boundaries_are_joined(width: int, order: Any) -> None:
    rows = 30_000
    columns = {f"c{nth}": np.arange(rows, dtype=["i4", "f4", "f8"][nth % 3]) + nth for nth in range(width)}
    cuts = {name: [0, 1 + nth, 1 + nth, 7000 + nth, rows] for nth, name in enumerate(columns)}
    chunked = {
        name: pa.chunked_array([array[begin:end] for begin, end in zip(cuts[name], cuts[name][1:], strict=False)])
        for name, array in columns.items()
    }
    expected = np.column_stack(list(columns.values()))
    # Arrow cuts a table where any column ends; the columns of a dict keep their own chunks.
    for table in (pa.table(chunked), chunked, pl.from_arrow(pa.table(chunked), rechunk=False)):
        matrix = dlbridge.matrix(table, order=order)
        assert np.array_equal(np.asarray(matrix), expected)
        assert matrix.copied or isinstance(table, pl.DataFrame), "polars may join chunks"


@pytest.mark.parametrize(
    "make",
    [
        lambda: block(5, 4),
        lambda: block(5, 2),
        lambda: pd.DataFrame(np.arange(20.0).reshape(5, 4)),
        lambda: pa.Table.from_pandas(block(5, 4)),
        lambda: pa.table({"a": [1.0, 2.0]}),
        lambda: pa.table({"a": [1, 2, 3]}).slice(1),
    ],
)
def test_columns_side_by_side_are_shared(make: Any) -> None:
    table = make()
    matrix = dlbridge.matrix(table, copy=False)
    assert (matrix.copied, matrix.copy_reason) == (False, None)
    copy = dlbridge.matrix(table, copy=True, order="F")
    assert (copy.copied, copy.copy_reason) == (True, "a copy was requested")
    assert copy.address != matrix.address and copy.T.numpy().flags["C_CONTIGUOUS"]
    assert np.array_equal(np.asarray(matrix), np.asarray(copy))
    assert dlbridge.matrix(table).address == matrix.address


def test_shared_matrix_keeps_the_memory_and_writes_through() -> None:
    class Array(np.ndarray):  # type: ignore[misc, name-defined]
        pass

    base = np.arange(6.0).reshape(3, 2).view(Array)
    alive = weakref.ref(base)
    matrix = dlbridge.matrix({"x": base[:, 1]})
    matrix.numpy()[0, 0] = 10
    assert base[0, 1] == 10
    base.flags.writeable = False
    assert dlbridge.matrix({"x": base[:, 1]}).readonly
    del base
    gc.collect()
    assert alive() is not None and matrix.tolist()[0] == [10]
    del matrix
    gc.collect()
    assert alive() is None


@pytest.mark.parametrize(
    ("table", "keywords", "reason"),
    [
        (block(5, 4), {"columns": [1, 0]}, CHUNKS),
        (pa.table({"a": pa.chunked_array([[1], [2]])}), {}, CHUNKS),
        (pa.table({"a": [1, None]}), {"nulls": 0}, "some elements were null"),
        (pa.table({"a": [1, 2]}), {"dtype": "float32"}, "the elements had another dtype"),
    ],
)
def test_reason_of_a_copy_is_recorded_and_refused(table: Any, keywords: Any, reason: str) -> None:
    assert dlbridge.matrix(table, **keywords).copy_reason == reason
    with pytest.raises(BufferError, match=f"a copy would be needed, since {reason}, and copy=False forbids it"):
        dlbridge.matrix(table, **keywords, copy=False)


@pytest.mark.parametrize("kind", WITH_NULLS)
def test_nulls_are_refused_or_replaced(kind: str) -> None:
    table = TABLES[kind]({"a": [1, None, 3], "b": [1.5, 2.5, None]})
    with pytest.raises(BufferError, match=r"^column 'a': it has 1 null, which a tensor cannot express; dlbridge\.matrix\(table, nulls="):
        dlbridge.matrix(table)
    matrix = dlbridge.matrix(table, nulls=NAN, order="F").numpy()
    assert np.array_equal(matrix, [[1, 1.5], [NAN, 2.5], [3, NAN]], equal_nan=True)
    whole = dlbridge.matrix(table, ["a"], nulls=7)
    assert (whole.tolist(), whole.dtype) == ([[1], [7], [3]], "int64")
    assert dlbridge.matrix(table, ["a"], nulls=NAN).dtype == "float64"
    assert dlbridge.matrix(table, ["a"], nulls=NAN, dtype="float32").dtype == "float32"
    with pytest.raises(BufferError, match="^column 'a': it has nulls, and int64 lacks the number nan; pass another number"):
        dlbridge.matrix(table, ["a"], nulls=NAN, dtype="int64")


def test_nulls_of_small_integers_and_booleans() -> None:
    table = pa.table({"a": pa.array([1, None], pa.int8()), "b": [None, True]})
    assert dlbridge.matrix(table, nulls=0).tolist() == [[1, 0], [0, 1]]
    assert dlbridge.matrix(table, ["b"], nulls=True).tolist() == [[True], [True]]
    for column, number in (("a", 200), ("b", 2)):
        with pytest.raises(BufferError, match=f"column '{column}': it has nulls, and .* lacks the number {number}"):
            dlbridge.matrix(table, [column], nulls=number)


def test_nan_of_pandas_is_a_value() -> None:
    assert np.isnan(dlbridge.matrix(pd.DataFrame({"a": [1.0, NAN]})).numpy()[1, 0])


def test_times_become_counts_of_the_finest_unit() -> None:
    seconds, micros = np.array([1, "NaT"], "M8[s]"), np.array([3, 4], "M8[us]")
    nat = -(2**63)
    for table in (pd.DataFrame({"s": seconds, "us": micros}), {"s": seconds, "us": micros}):
        assert dlbridge.matrix(table).tolist() == [[1_000_000, 3], [nat, 4]]
    table = pa.table({"day": pa.array([1, None], pa.date32()), "s": pa.array(seconds)})
    assert dlbridge.matrix(table, nulls=NAN).tolist() == [[86_400, 1], [nat, nat]]
    assert dlbridge.matrix(table, ["day"], nulls=NAN, dtype="datetime64[D]").tolist() == [[1], [nat]]
    assert dlbridge.matrix(pl.DataFrame({"us": micros}), dtype="datetime64[us]", copy=False).dtype == "int64"


@pytest.mark.parametrize("make", [pl.DataFrame, pa.table, pd.DataFrame, dict])
def test_table_without_rows_is_empty(make: Any) -> None:
    matrix = dlbridge.matrix(make({"a": np.zeros(0, "i1"), "b": np.zeros(0, "f4")}), copy=False)
    assert (matrix.shape, matrix.dtype, matrix.copied) == ((0, 2), "float32", False)
    no_chunk = pa.table({"a": pa.chunked_array([], pa.int8())})
    assert dlbridge.matrix(no_chunk).shape == (0, 1)


def test_struct_is_a_table_unless_a_row_is_null() -> None:
    structs = pa.array([{"a": 1}, None, {"a": 3}])
    assert dlbridge.matrix(structs[2:]).tolist() == [[3]]
    with pytest.raises(BufferError, match="the table has 1 null row, which a tensor cannot express"):
        dlbridge.matrix(structs)


def test_only_selected_columns_are_read() -> None:
    table = pa.table({"text": ["x"], "a": [1]})
    assert dlbridge.matrix(table, ["a"]).tolist() == [[1]]
    assert dlbridge.matrix(pd.DataFrame({"text": ["x"], "a": [1]}), ["a"]).tolist() == [[1]]
    twice = pa.Table.from_arrays([pa.array([1]), pa.array([2]), pa.array([3])], ["a", "a", "b"])
    assert dlbridge.matrix(twice).tolist() == [[1, 2, 3]]
    assert dlbridge.matrix(twice, ["b", "b"]).tolist() == [[3, 3]]


ONE = {"a": [1]}
REFUSED: dict[str, tuple[Any, dict[str, Any], Any, str]] = {
    "text": (pl.DataFrame({"s": ["x"]}), {}, BufferError, "column 's': the Arrow format 'vu' .* convert it to numbers"),
    "pandas text": (pd.DataFrame({"s": ["x"]}), {}, BufferError, "column 's': .* str, .*pandas.to_numeric"),
    "objects": (pd.DataFrame({"s": [object()]}), {}, BufferError, "column 's': .*Python objects"),
    "category": (pd.DataFrame({"s": pd.Categorical([1])}), {}, BufferError, "column 's': .*s.cat.codes"),
    "dictionary": (pa.table({"s": pa.array(["x"]).dictionary_encode()}), {}, BufferError, "column 's': .*dictionary_decode"),
    "decimal": (pa.table({"s": pa.array([1], pa.decimal128(20))}), {}, BufferError, "column 's': .*cast it to floats"),
    "lists": (pa.table({"s": [[1]]}), {}, BufferError, "column 's': .*flatten it"),
    "fixed lists": (pl.DataFrame({"s": np.ones((2, 3))}), {}, BufferError, "column 's': it has fixed-size lists"),
    "only nulls": (pa.table({"s": [None]}), {}, BufferError, "column 's': .*fill it"),
    "zone": (pa.table({"s": pa.array([1], pa.timestamp("s", "UTC"))}), {}, BufferError, "column 's': .*cast it to integers"),
    "list": ({"s": [1]}, {}, TypeError, "column 's': 'list' object supports no exchange protocol"),
    "two dimensions": ({"s": np.ones((2, 2))}, {}, BufferError, r"column 's': expected one dimension .* \[2, 2\]"),
    "lengths": ({"a": np.ones(2), "b": np.ones(3)}, {}, BufferError, "column 'b': it has 3 rows, and column 'a' has 2"),
    "times and numbers": ({"t": np.array([1], "M8[s]"), "a": np.ones(1)}, {}, BufferError, "column 'a': it has float64, and"),
    "points and spans": (
        {"t": np.array([1], "M8[s]"), "d": np.array([1], "m8[s]")}, {}, BufferError, r"column 'd': expected datetime64\[s\]",
    ),
    "times as numbers": ({"t": np.array([1], "M8[s]")}, {"dtype": "i8"}, BufferError, r"column 't': .*dtype='datetime64\[s\]'"),
    "numbers as times": (pl.DataFrame(ONE), {"dtype": "datetime64[s]"}, BufferError, "column 'a': it has int64, and the matrix"),
    "same_kind": (pl.DataFrame({"a": [1.5]}), {"dtype": "int32"}, BufferError, "column 'a': NumPy's rule 'same_kind'"),
    "boolean without copy": (pl.DataFrame({"a": [True]}), {"copy": False}, BufferError, "column 'a': Arrow packs booleans"),
    "unknown": (pl.DataFrame(ONE), {"columns": ["aa"]}, ValueError, r"no column has the name 'aa'; the names are 'a'"),
    "ambiguous": (pd.DataFrame([[1, 2]], columns=["a", "a"]), {"columns": ["a"]}, ValueError, "2 columns have the name 'a'"),
    "no column": (pl.DataFrame(), {}, ValueError, "a matrix has one or more columns, and none is selected"),
    "none selected": (pl.DataFrame(ONE), {"columns": []}, ValueError, "none is selected"),
    "array": (np.ones((2, 2)), {}, TypeError, "numpy.ndarray is not a table: .*dlbridge.asdlpack imports arrays"),
    "series": (pl.Series([1]), {}, TypeError, "is not a table"),
    "tensor": (dlbridge.empty((2, 2)), {}, TypeError, "dlbridge.Tensor is not a table"),
    "text as columns": (pl.DataFrame(ONE), {"columns": "a"}, TypeError, "columns must be a list of names, not 'a'"),
    "order": (pl.DataFrame(ONE), {"order": "K"}, ValueError, "order must be 'C' or 'F', not 'K'"),
    "nulls": (pl.DataFrame(ONE), {"nulls": "drop"}, TypeError, "nulls must be 'raise' or a number, not 'drop'"),
    "copy": (pl.DataFrame(ONE), {"copy": 1}, TypeError, "copy must be None, True or False"),
    "dtype": (pl.DataFrame(ONE), {"dtype": "int33"}, ValueError, "dtype is 'int33'"),
}


@pytest.mark.parametrize(("table", "keywords", "error", "message"), REFUSED.values(), ids=REFUSED)
def test_unfit_table_or_argument_is_refused(table: Any, keywords: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        dlbridge.matrix(table, **keywords)


@pytest.mark.parametrize("table", [pd.DataFrame(ONE), pl.DataFrame(ONE), pa.table(ONE)])
def test_import_of_a_table_names_matrix(table: Any) -> None:
    with pytest.raises(BufferError, match="pass it to dlbridge.matrix, or take one column of it first"):
        dlbridge.asdlpack(table)


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
@pytest.mark.parametrize("fortran", [True, False])
def test_matrix_becomes_a_table(library: str, fortran: bool) -> None:
    array = np.arange(6.0).reshape(3, 2)
    matrix = dlbridge.asdlpack(np.asfortranarray(array) if fortran else array)
    table = matrix.to(library, columns=["x", "y"])
    assert type(table).__module__.split(".")[0] == library
    back = dlbridge.matrix(table)
    assert np.array_equal(back.numpy(), array)
    assert (back.address == matrix.address) is (fortran or library == "pandas")
    assert dlbridge.matrix(table, ["y"]).tolist() == [[1.0], [3.0], [5.0]]
    assert dlbridge.matrix(matrix.to(library, columns=["x", "y"], copy=True)).address != matrix.address


@pytest.mark.parametrize(
    ("tensor", "library", "keywords", "error", "message"),
    [
        ((2, 2), "numpy", {}, ValueError, "columns names the columns of a table, which numpy lacks"),
        ((2,), "pandas", {}, BufferError, r"a table is made of a tensor of \(rows, columns\), not of one of the shape \[2\]"),
        ((2, 3), "polars", {}, ValueError, "columns has 2 names, and the tensor has 3 columns; pass a name for each"),
        ((2, 2), "pyarrow", {"columns": "xy"}, TypeError, "columns must be a list of names, not 'xy'"),
        ((2, 2), "pyarrow", {"copy": False}, BufferError, "a copy would be needed, since .* Fortran order"),
    ],
)
def test_unfit_tensor_does_not_become_a_table(tensor: Any, library: str, keywords: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        dlbridge.empty(tensor).to(library, **{"columns": ["x", "y"], **keywords})


@pytest.mark.parametrize("order", ["C", "F"])
def test_nulls_beside_complex_numbers_are_replaced(order: Literal["C", "F"]) -> None:
    table = {"c": np.array([1j, 2.0]), "a": pa.array([1, None])}
    assert dlbridge.matrix(table, nulls=7, order=order).tolist() == [[1j, 1], [2, 7]]


@pytest.mark.parametrize("order", ["C", "F"])
def test_boolean_of_any_byte_is_one_among_numbers(order: Literal["C", "F"]) -> None:
    flags = np.array([0, 1, 2, 255], np.uint8).view(bool)
    table = {"flag": flags, "x": np.zeros(4)}
    assert dlbridge.matrix(table, order=order).numpy()[:, 0].tolist() == [0.0, 1.0, 1.0, 1.0]


@pytest.mark.parametrize("dtypes", [("i2", "u2", "f4"), ("i1", "u1", "f2"), ("i1", "u2", "c8"), ("i8", "u8", "f2"), ("?", "u1", "i1")])
def test_dtype_of_three_columns_is_that_of_numpy(dtypes: tuple[str, ...]) -> None:
    table = {name: np.ones(2, name) for name in dtypes}
    assert dlbridge.matrix(table).numpy().dtype == np.column_stack(list(table.values())).dtype


def test_names_may_be_an_index() -> None:
    frame = pd.DataFrame({"a": [1.0], 0: [2.0]})
    assert dlbridge.matrix(frame, frame.columns).tolist() == [[1.0, 2.0]]
    assert list(dlbridge.matrix(frame).to("pandas", columns=frame.columns).columns) == ["a", 0]
    for names in ("a", 3):
        with pytest.raises(TypeError, match="columns must be a list of names, not"):
            dlbridge.matrix(frame, names)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"no column has the name '0'; the names are 'a', 0"):
        dlbridge.matrix(frame, ["0"])
    with pytest.raises(TypeError, match="columns has the name 0, and the columns of polars have strings"):
        dlbridge.matrix(frame).to("polars", columns=["a", 0])


def test_columns_of_a_mapping_are_never_joined() -> None:
    block = np.arange(6.0).reshape(2, 3)
    matrix = dlbridge.matrix({"a": block[0], "b": block[1]})
    assert (matrix.copied, matrix.numpy().T.tolist()) == (True, block.tolist())


def test_times_under_nulls_are_not_converted() -> None:
    seconds = pa.array(np.array([1, 2**62], "M8[s]"), mask=np.array([False, True]))
    table = pa.table({"a": seconds, "b": pa.array(np.array([1, 2], "M8[ns]"))})
    assert dlbridge.matrix(table, nulls=NAN).tolist() == [[10**9, 1], [-(2**63), 2]]


def test_matrix_that_is_larger_than_all_memory_is_refused() -> None:
    table = {name: np.broadcast_to(np.True_, 2**62) for name in "abcd"}
    with pytest.raises(BufferError, match="the tensor spans more than the address space"):
        dlbridge.matrix(table, dtype="float64", order="F")


def test_columns_of_a_dict_may_be_of_any_libraries() -> None:
    torch = require("torch")
    table = {"a": pl.Series([1, 2]), "b": pa.chunked_array([[1], [2]]), "c": torch.ones(2), "d": pd.Series([True, False])}
    assert dlbridge.matrix(table, ["d", "c", "b", "a"]).tolist() == [[1, 1, 1, 1], [0, 1, 2, 2]]


def test_blocks_of_pandas_keep_the_order_of_the_columns() -> None:
    frame = pd.DataFrame({"a": [1, 2], "b": [0.5, 1.5], "c": [3, 4], "d": pd.array([5, 6], "Int64"), "e": [7, 8]})
    assert dlbridge.matrix(frame).tolist() == [[1, 0.5, 3, 5, 7], [2, 1.5, 4, 6, 8]]
    assert dlbridge.matrix(frame, ["e", "d", "c"]).tolist() == [[7, 5, 3], [8, 6, 4]]
    swapped = pd.DataFrame(np.arange(6, dtype=">f8").reshape(2, 3))
    assert dlbridge.matrix(swapped).tolist() == [[0, 1, 2], [3, 4, 5]]
    with pytest.raises(BufferError, match="^column 0: .*not in this machine's byte order"):
        dlbridge.matrix(swapped, copy=False)


@pytest.mark.parametrize(("name", "shown"), [(NAN, "nan"), (1.5, "1.5"), (("a", 1), r"\('a', 1\)"), (None, "None"), (b"x", "b'x'")])
def test_refusal_shows_a_name_that_is_not_text(name: Any, shown: str) -> None:
    frame = pd.DataFrame([["x"]])
    frame.columns = pd.Index([name], dtype=object)
    with pytest.raises(BufferError, match=f"^column {shown}: the column's dtype is str"):
        dlbridge.matrix(frame)
    with pytest.raises(ValueError, match=rf"^no column has the name 'other'; the names are {shown}$"):
        dlbridge.matrix(frame, ["other"])
    with pytest.raises(TypeError, match=f"^columns has the name {shown}, and the columns of polars have strings as names"):
        dlbridge.empty((1, 1)).to("polars", columns=[name])


def test_nan_is_not_found_as_a_name() -> None:
    frame = pd.DataFrame([[1.0]], columns=[NAN])
    with pytest.raises(ValueError, match="^no column has this name nan, which differs from each other NaN; rename"):
        dlbridge.matrix(frame, [float("nan")])


def test_large_copy_is_made_by_threads() -> None:
    rows = 1_300_001
    columns = {"a": np.arange(rows), "b": np.arange(rows, dtype="f4"), "c": np.arange(rows) % 3 == 0}
    expected = np.column_stack(list(columns.values()))
    before = dlbridge.get_num_threads()
    try:
        for threads in (1, 3):
            dlbridge.set_num_threads(threads)
            for order in ("C", "F"):
                assert np.array_equal(dlbridge.matrix(columns, order=order).numpy(), expected)
    finally:
        dlbridge.set_num_threads(before)


def test_default_collate_refuses_tensors_and_collates_those_of_torch() -> None:
    collate = require("torch").utils.data.default_collate
    tensors = [dlbridge.matrix({"a": np.ones(2)}), dlbridge.matrix({"a": np.zeros(2)})]
    with pytest.raises(TypeError, match="dlbridge.Tensor"):
        collate(tensors)
    assert collate([t.torch() for t in tensors]).tolist() == [[[1], [1]], [[0], [0]]]


def test_frame_with_fewer_names_than_columns_is_refused() -> None:
    class Frame(pd.DataFrame):
        @property
        def columns(self) -> Any:
            return pd.Index(["a"])

    with pytest.raises(BufferError, match="^the DataFrame changed while its columns were read$"):
        dlbridge.matrix(Frame(np.arange(6.0).reshape(3, 2)), ["a"])
