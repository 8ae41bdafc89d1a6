"""Operators called with NumPy arrays, and with everything else that typed arguments accept."""

import array
import copy
import inspect
import pickle
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import operators
import pytest
from cases import CASES, Case, X, check, several, softclip
from daemon_threads import check_exits


@pytest.mark.parametrize("case", CASES, ids=str)
def test_operator_on_arrays_returns_arrays(case: Case) -> None:
    arguments = case.copied()
    results = several(getattr(operators, case.operator)(*arguments))
    assert {type(result) for result in results} == {np.ndarray}
    check(case, results)
    for argument, result in zip(arguments, results[: case.changed]):
        assert argument is result


def test_operator_reads_the_array_in_place() -> None:
    assert operators.address(X).tolist() == [X.ctypes.data]
    assert operators.address(X[2:]).tolist() == [X[2:].ctypes.data]


def test_function_has_the_documentation_and_the_signature_of_the_operator() -> None:
    assert operators.softclip.__doc__ == "x / (1 + |x|), elementwise."
    assert operators.affine.__name__ == "affine"
    assert str(inspect.signature(operators.affine)) == "(x, bias=None, scale=2.0, *, out=None)"
    assert str(inspect.signature(operators.relu_)) == "(x)"
    # Python accepts default values only behind required parameters.
    assert str(inspect.signature(operators.biased_vjp)) == "(bias, x, grad_out, *, out=None)"
    assert str(inspect.signature(operators.late)) == "(by, x, shift=1, *, out=None)"
    # An input has the name `out`.
    assert str(inspect.signature(operators.exponential_vjp)) == "(out, grad_out)"
    assert repr(operators.min_max) == "<operator operators::min_max(Tensor x) -> (Tensor, Tensor)>"


def test_column_of_pandas_keeps_its_index_and_name() -> None:
    pandas = pytest.importorskip("pandas")
    column = pandas.Series(X, index=range(10, 18), name="a")
    found = operators.softclip(column)
    pandas.testing.assert_series_equal(found, pandas.Series(softclip(X), index=range(10, 18), name="a"))
    assert not (column - found).isna().any()
    # Another length has another index, which only the caller knows.
    shorter = operators.halves(column)
    assert type(shorter) is np.ndarray
    assert shorter.tolist() == X[::2].tolist()


def test_strided_array_is_copied_for_a_slice_and_counted() -> None:
    before = operators.softclip.copies
    np.testing.assert_allclose(operators.softclip(X[::-2]), softclip(X[::-2]), rtol=1e-6)
    assert operators.softclip.copies == before + 1
    operators.softclip(X)
    assert operators.softclip.copies == before + 1


def test_strided_array_is_not_copied_for_a_view() -> None:
    x = np.arange(12, dtype="float64").reshape(3, 4)
    assert operators.strided_sum(x.T, x.T) == float((x * x).sum())
    assert operators.strided_sum(x[::-1, ::2], x[::-1, ::2]) == float((x[:, ::2] ** 2).sum())
    assert operators.strided_sum.copies == 0


def test_arguments_may_be_named() -> None:
    bias = np.array([1, 10], dtype="float32")
    np.testing.assert_allclose(operators.affine(X, scale=0.5), 0.5 * X)
    np.testing.assert_allclose(operators.affine(bias=bias, x=X), 2 * X + np.tile(bias, 4), rtol=1e-6)
    np.testing.assert_allclose(operators.scaled(X, 2, [2, 0.5], shift=(1, 2)), 2 * X + 3, rtol=1e-6)
    assert operators.described(X, n=2).tolist() == [[14, 14], [14, 14]]


def test_argument_before_a_required_one_is_omitted_by_name() -> None:
    np.testing.assert_allclose(operators.late(x=X), 2 * X + 1)
    np.testing.assert_allclose(operators.biased(x=X.astype("float64")), X)


def test_input_named_out_is_an_input() -> None:
    np.testing.assert_allclose(operators.exponential_vjp(out=X, grad_out=X), X * X)


def test_output_that_the_function_never_allocates_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="^unallocated: the function did not allocate out; call its method `allocate`$"):
        operators.unallocated(X)


def test_argument_in_place_with_gaps_leaves_the_gaps() -> None:
    y = np.zeros((4, 4), dtype="float32")
    same, total = operators.add_(y[::2], np.ones((2, 4), dtype="float32"))
    assert total == 8
    assert y.sum() == 8
    assert same.base is y


def test_argument_in_place_must_be_writable() -> None:
    x = X.copy()
    x.flags.writeable = False
    with pytest.raises(TypeError, match="^relu_: x: .*writable"):
        operators.relu_(x)


def test_argument_in_place_must_not_overlap_another() -> None:
    x = X.copy()
    with pytest.raises(BufferError, match="^add_: y: .* overlaps "):
        operators.add_(x[:4], x[2:6])


def test_out_is_filled() -> None:
    out = np.empty_like(X)
    assert operators.softclip(X, out=out) is out
    np.testing.assert_allclose(out, softclip(X), rtol=1e-6)
    low, high = np.empty(2, "float32"), np.empty(2, "float32")
    results = operators.min_max(X.reshape(2, 4), out=(low, high))
    assert results[0] is low
    assert results[1] is high
    assert high.tolist() == [X[3], X[7]]


def test_out_begins_as_zeros() -> None:
    for step in (1, 2):
        outs = [np.full(16, 7, "float32")[: 8 * step : step] for _ in range(2)]
        operators.accumulated(X, out=outs)
        assert [out.tolist() for out in outs] == [X.tolist()] * 2


def test_out_that_is_only_written_keeps_what_is_not_written() -> None:
    out, valid = np.full(8, 7, "float32"), np.full(8, 7, "uint8").view("bool")
    operators.unwritten(X, out=(out, valid))
    assert out.tolist() == [7] * 8
    assert valid.view("uint8").tolist() == [0] * 8


@pytest.mark.parametrize(
    ("out", "error", "message"),
    [
        (np.empty(3, "float32"), ValueError, r"out must have the shape \[8\], but has \[3\]"),
        (np.empty(8, "float64"), TypeError, "out must be float32, but is float64"),
        ([X.copy(), X.copy()], TypeError, "out must have 1 tensors, but has 2"),
        (X, BufferError, "out: the memory .* overlaps"),
        (3, TypeError, "out: .* got an int"),
    ],
)
def test_wrong_out_is_refused(out: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=f"^softclip: {message}"):
        operators.softclip(X, out=out)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: operators.softclip(), TypeError, "softclip: the argument x is missing"),
        (lambda: operators.softclip(X, X), TypeError, "softclip: 1 arguments are expected, but there are 2"),
        (lambda: operators.softclip(X, x=X), TypeError, "softclip: x is passed two times"),
        (lambda: operators.softclip(y=X), TypeError, "softclip: there is no parameter y"),
        (lambda: operators.softclip(None), TypeError, "softclip: the argument x is missing"),
        (lambda: operators.softclip(1.0), TypeError, "softclip: x: .* got a float"),
        (lambda: operators.softclip(X.astype("int8")), TypeError, "softclip: x must be float32, but is int8; convert"),
        (
            lambda: operators.negative(X.astype("int8")),
            TypeError,
            "negative: x must be float32 or float64, but is int8; convert it before the call",
        ),
        (lambda: operators.min_max(X), ValueError, "min_max: x must have 2 dimensions, but has 1"),
        (lambda: operators.planar(X), ValueError, r"planar: out must have 2 dimensions, but its shape is \[8\]"),
        (lambda: operators.planar(X, out=X.copy()), ValueError, "planar: out must have 2 dimensions"),
        (
            lambda: operators.strided_sum(X, X.astype("float64")),
            TypeError,
            "strided_sum: the dtypes must agree, but x is float32, y is float64; convert them before the call",
        ),
        (
            lambda: operators.softclip_vjp(X, X[:3]),
            ValueError,
            r"softclip_vjp: x\[..\] == grad_out\[..\] is required, but the extents are \[8\] and \[3\]",
        ),
        (lambda: operators.affine(X, None, "a"), TypeError, "affine: scale must be a float, but is of type str"),
        (lambda: operators.described(X, n=2**58), MemoryError, "described: .*memory"),
        (lambda: operators.described(X, n=-1), ValueError, "described: an extent of the result would be -1"),
        (
            lambda: operators.described(X, n=1 << 62),
            ValueError,
            r"described: an output of int64 and shape \[.*\] is larger than the address space",
        ),
        (lambda: operators.fails(X), RuntimeError, "fails: x has the element -3; it must not be negative"),
        (lambda: operators.panics(X), RuntimeError, "panics: panicked: element 0 is negative"),
        (lambda: operators.divmod(np.arange(3), 0), RuntimeError, "divmod: by is 0; pass another number"),
        (lambda: operators.parted(X, 0), ValueError, "parted: an extent is divided by 0; divide by a positive number"),
    ],
)
def test_wrong_call_is_refused(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=f"^{message}"):
        call()


def test_error_of_the_function_has_its_class_and_drops_its_values() -> None:
    with pytest.raises(ValueError, match="^alive: x begins with -3$"):
        operators.alive(X)
    with pytest.raises(RuntimeError, match="^alive: panicked: x begins with NaN$"):
        operators.alive(X * np.float32("nan"))
    assert operators.alive(-X) == 1


def test_copies_and_pickles_are_the_operator_itself() -> None:
    operator = operators.softclip
    assert copy.copy(operator) is operator
    assert copy.deepcopy([operator])[0] is operator
    assert pickle.loads(pickle.dumps(operator)) is operator


def test_name_that_is_not_text_is_that_of_no_parameter() -> None:
    with pytest.raises(TypeError, match="^softclip: there is no parameter"):
        operators.softclip(**{"\ud800": X})
    with pytest.raises(ValueError, match="^described: text: "):
        operators.described(X, text="\ud800")


class OwnError(Exception):
    """An exception that needs two arguments."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__(one, two)


@pytest.mark.parametrize("error", [OwnError(1, 2), KeyboardInterrupt()])
def test_exception_of_an_argument_passes_unchanged(error: BaseException) -> None:
    class Number:
        def __float__(self) -> float:
            raise error

    with pytest.raises(type(error)) as raised:
        operators.affine(X, None, Number())
    assert raised.value is error


def test_operator_without_a_tensor_returns_a_numpy_array() -> None:
    assert operators.takes_none().tolist() == 0
    assert operators.takes_none(None).tolist() == 0
    assert operators.takes_none(X).tolist() == 1


def test_other_objects_are_accepted_and_the_result_is_of_their_kind() -> None:
    assert memoryview(operators.softclip(array.array("f", X))).tolist() == operators.softclip(X).tolist()
    assert type(operators.softclip(memoryview(X))) is memoryview


def test_operator_runs_without_the_gil() -> None:
    with ThreadPoolExecutor(2) as pool:
        # Each waits for the other.
        assert [bool(met) for met in pool.map(operators.meets, [X, X])] == [True, True]


def test_daemon_thread_in_an_operator_at_exit() -> None:
    check_exits("operators.softclip(Slow())", "import operators")
