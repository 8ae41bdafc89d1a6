"""Arguments of another dtype: dlbridge converts the same dtypes as NumPy, to the same values."""

from typing import Any

import dlbridge
import numpy as np
import pytest
import typed_arguments as typed

ml_dtypes = pytest.importorskip("ml_dtypes")
torch = pytest.importorskip("torch")
jax = pytest.importorskip("jax")
pa = pytest.importorskip("pyarrow")
pl = pytest.importorskip("polars")

NAMES = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
NAMES += ["float16", "bfloat16", "float32", "float64", "complex64", "complex128"]


INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]


def limits_of(name: str) -> tuple[int, int]:
    return int(np.iinfo(name).min), int(np.iinfo(name).max)


def dtype_of(name: str) -> Any:
    return np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)


def values_of(name: str) -> Any:
    """An array with the extreme and the unusual values of a dtype."""
    dtype = dtype_of(name)
    if name == "bool":
        return np.array([True, False, True])
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        numbers = [0, 1, 2, 127, info.max, info.min, info.max // 3, info.max - 1, info.min + 1]
        if info.bits >= 32:
            numbers += [65504, 65519, 65520, 2**24 + 1, 2**24 + 3]
        if info.bits == 64:
            numbers += [2**53 + 1, 2**53 + 3, 2**62 + 2**38 + 1, 2**33 + 2**25 + 1]
        return np.array(numbers, dtype)
    floats = [0.0, -0.0, 1.0, -2.5, 0.1, 1 / 3, np.inf, -np.inf, np.nan, 65504, 65519.99, 65520, 1e39, -1e300]
    floats += [1e-8, 2.98e-8, 5.96e-8, 6e-8, 1e-40, 1e-46, 5e-324, 1.00390625, 1.01171875, 2049.0, 2051.0]
    # Halfway between two float16, plus less than a float32 can represent.
    floats += [1 + 2**-11 + 2**-40, 1 + 2**-11, 1 + 3 * 2**-11]
    with np.errstate(all="ignore"):
        array = np.array(floats)
        if dtype.kind == "c":
            return (array + 1j * array[::-1]).astype(dtype)
        return array.astype(dtype)


def expected_of(array: Any, name: str) -> Any:
    with np.errstate(all="ignore"):
        return np.asarray(array).astype(dtype_of(name))


def array_of(made: Any) -> Any:
    """The elements as an array, also of bfloat16, which NumPy lacks."""
    if made.dtype == "bfloat16":
        return torch.from_dlpack(made).view(torch.uint16).numpy().view(ml_dtypes.bfloat16)
    return made.numpy()


def assert_same(made: Any, expected: Any) -> None:
    array = array_of(made)
    assert (array.dtype, array.shape) == (expected.dtype, expected.shape)
    wide = "c16" if array.dtype.kind == "c" else "f8" if array.dtype.kind in "fV" else array.dtype
    with np.errstate(all="ignore"):
        got, wanted = array.astype(wide), expected.astype(wide)
    np.testing.assert_array_equal(got, wanted)
    if wide == "f8":
        numbers = ~np.isnan(wanted)
        np.testing.assert_array_equal(np.signbit(got)[numbers], np.signbit(wanted)[numbers])


@pytest.mark.parametrize("to", NAMES)
@pytest.mark.parametrize("from_", NAMES)
@np.errstate(all="ignore")
def test_cast_is_allowed_and_has_the_values_as_in_numpy(from_: str, to: str) -> None:
    array, convert = values_of(from_), getattr(typed, f"cast_to_{to}")
    if to in INTEGERS and from_ in INTEGERS:
        (low, high) = limits_of(to)
        array = np.array([n for n in array.tolist() if low <= n <= high], from_)
        allowed = True
    else:
        allowed = np.can_cast(dtype_of(from_), dtype_of(to), "same_kind")
        allowed |= to == "bfloat16" and np.dtype(dtype_of(from_)).kind in "biuf"
        # ml_dtypes would drop the imaginary part.
        allowed &= not (to == "bfloat16" and array.dtype.kind == "c")
    x: Any = array
    if from_ == "bfloat16":
        x = torch.from_numpy(array.view("u2")).view(torch.bfloat16)
    if not allowed:
        with pytest.raises(TypeError, match=rf"expected {to}\[\.\.\.\] on cpu.*; got {from_}\[") as refusal:
            convert(x)
        assert type(refusal.value).__name__ == "TensorMismatchError"
        return
    expected = expected_of(array, to)
    assert_same(convert(x), expected)
    if from_ != "bfloat16":
        assert_same(convert(array[::-2]), expected[::-2])
        assert_same(convert(array.astype(array.dtype.newbyteorder())), expected)
        wide = np.stack([array, array])
        assert_same(convert(wide.T), expected_of(wide.T, to))
        assert_same(convert(array[:0]), expected[:0])
        assert_same(convert(array[1]), expected[1:2].reshape(()))


@pytest.mark.parametrize(
    ("make", "names"),
    [
        (torch.from_numpy, NAMES),
        (dlbridge.asdlpack, NAMES),
        (jax.numpy.asarray, ["bool", "int8", "int32", "uint8", "uint32", "float16", "float32", "complex64"]),
        (pa.array, ["int8", "int16", "int32", "int64", "uint8", "uint64", "float16", "float32"]),
        (pl.Series, ["int8", "int32", "int64", "uint8", "uint64", "float32", "float64"]),
        (memoryview, ["bool", "int8", "int64", "uint64", "float32"]),
    ],
    ids=["torch", "dlbridge", "jax", "pyarrow", "polars", "memoryview"],
)
@np.errstate(all="ignore")
def test_cast_of_every_producer_is_that_of_numpy(make: Any, names: list[str]) -> None:
    for name in names:
        if name == "bfloat16":
            continue
        array = values_of(name)
        x = make(array)
        for to in ("complex128",) if name.startswith("complex") else ("float32", "float64", "complex64"):
            assert_same(getattr(typed, f"cast_to_{to}")(x), expected_of(array, to))


def test_cast_that_overflows_warns_as_in_numpy() -> None:
    large = np.array([1.0, 1e300])
    for convert, x in [(typed.cast_to_float32, large), (typed.cast_to_complex64, large), (typed.cast_to_float16, np.array([0, 10**6]))]:
        with pytest.warns(RuntimeWarning, match="overflow encountered in cast"):
            assert np.isinf(convert(x).numpy()).tolist() == [False, True]
        with np.errstate(over="raise"), pytest.raises(FloatingPointError, match="overflow"):
            convert(x)


def test_cast_of_jax_bfloat16_and_torch_views() -> None:
    array = values_of("bfloat16")
    x = jax.numpy.asarray(array)
    assert_same(typed.cast_to_float64(x), expected_of(array, "float64"))
    matrix = torch.arange(12, dtype=torch.int64).reshape(3, 4)
    assert_same(typed.cast_to_float64(matrix.T), matrix.T.numpy().astype("f8"))
    assert_same(typed.cast_to_float32(matrix[:, ::2]), matrix[:, ::2].numpy().astype("f4"))
    conjugate = torch.tensor([1 + 2j]).conj()
    with pytest.raises(BufferError, match="resolve_conj"):
        typed.cast_to_complex128(conjugate)


def test_cast_to_several_dtypes_prefers_a_safe_one() -> None:
    for dtype, expected in [
        ("f4", "float32"), ("f8", "float64"), ("i2", "int16"), ("f2", "float32"), ("i4", "float64"), ("i8", "float64"),
        ("u1", "float32"), ("?", "float32"), ("u8", "float64"),
    ]:
        assert typed.cast_to_several(np.ones(2, dtype)) == expected, dtype
    with pytest.raises(TypeError, match="expected float32, float64 or int16"):
        typed.cast_to_several(np.ones(2, "c8"))


def test_cast_to_columns_has_fortran_order() -> None:
    array = np.arange(6, dtype="i8").reshape(2, 3)
    assert typed.cast_columns(array) == [0, 3, 1, 4, 2, 5]
    assert typed.cast_columns(torch.from_numpy(array)) == [0, 3, 1, 4, 2, 5]


def test_cast_beside_lists() -> None:
    assert typed.cast_list([1, 2.5]) == ([1, 2.5], False)
    assert typed.cast_list(np.array([1, 2], "i8")) == ([1, 2], False)
    assert typed.cast_list(np.array([1.0, 2.0])) == ([1, 2], True)
    assert typed.cast_list(np.array([1.0, 2.0])[::-1]) == ([2, 1], True)


@pytest.mark.parametrize("to", INTEGERS)
@pytest.mark.parametrize("from_", INTEGERS)
def test_cast_accepts_all_integers_that_fit_and_no_others(from_: str, to: str) -> None:
    convert = getattr(typed, f"cast_to_{to}")
    (low, high), (least, most) = limits_of(to), limits_of(from_)
    numbers = [n for n in sorted({0, 1, low, high, low - 1, high + 1, least, most}) if least <= n <= most]
    array = np.array([n for n in numbers if low <= n <= high], from_)
    expected = array.astype(to)
    assert_same(convert(array), expected)
    assert_same(convert(array[::-1]), expected[::-1])
    assert_same(convert(array.astype(array.dtype.newbyteorder())), expected)
    assert_same(convert(torch.from_numpy(array)), expected)
    assert_same(convert(pl.Series(array)), expected)
    assert_same(convert(pa.array(array)), expected)
    assert_same(convert(dlbridge.asdlpack(array)), expected)
    assert_same(convert(np.stack([array, array]).T), np.stack([expected, expected]).T)
    assert_same(convert(array[:0]), expected[:0])
    assert_same(convert(array[0]), expected[:1].reshape(()))
    if "64" not in from_:
        assert_same(convert(jax.numpy.asarray(array)), expected)
    for number in numbers:
        if low <= number <= high:
            continue
        wrong = np.array([0, 1, number, number], from_)
        refusal = rf"got {from_}\[4\] on cpu, but element \[2\] is {number}, which is out of range for {to}$"
        for x in [wrong, torch.from_numpy(wrong), pl.Series(wrong), np.repeat(wrong, 2)[::2]]:
            with pytest.raises(TypeError, match=refusal) as error:
                convert(x)
            assert type(error.value).__name__ == "TensorMismatchError"
        with pytest.raises(TypeError, match=rf"but element is {number}, which"):
            convert(np.array(number, from_))


def test_copy_converts_only_to_dtypes_that_have_all_values() -> None:
    assert_same(typed.copy_to_int64(np.array([True, False])), np.array([1, 0]))
    assert_same(typed.copy_to_float64(np.array([1, 2], "i4")), np.array([1.0, 2.0]))
    for convert, dtype in [
        (typed.copy_to_int64, "f8"), (typed.copy_to_int64, "u8"), (typed.copy_to_float64, "i8"), (typed.copy_to_float64, "f2"),
        (typed.copy_to_float32, "f8"), (typed.copy_to_int64, "c8"),
    ]:
        with pytest.raises(TypeError, match=r"got \w+\[1\] on cpu$"):
            convert(np.ones(1, dtype))


def test_cast_of_integers_to_several_dtypes_prefers_a_safe_one() -> None:
    for dtype, expected in [("u1", "uint8"), ("i1", "float64"), ("i4", "float64"), ("f4", "float64"), ("i2", "int16"), ("i8", "float64")]:
        assert typed.cast_integers_to_several(np.ones(2, dtype)).dtype == expected, dtype


def test_cast_of_indices_beside_lists_and_other_dtypes() -> None:
    assert typed.cast_indices([1, 2]) == ([1, 2], False)
    assert typed.cast_indices(torch.tensor([1, 2])) == ([1, 2], False)
    assert typed.cast_indices(np.array([1, 2], "u8")) == ([1, 2], True)
    with pytest.raises(TypeError, match=r"element \[1\] is -2, which is out of range for uint64"):
        typed.cast_indices(torch.tensor([1, -2]))
    matrix = np.arange(6).reshape(2, 3)
    assert_same(typed.cast_columns_to_several(matrix), matrix.astype("i1"))
    assert_same(typed.cast_columns_to_several(matrix.astype("f8")), matrix.astype("f4"))
    with pytest.raises(TypeError, match=r"element \[0\]\[2\] is 1000, which is out of range for int8|element \[1\]\[0\] is -1000"):
        typed.cast_columns_to_several(np.array([[1, 2, 1000], [-1000, 1, 1]]))


def test_cast_of_many_elements_names_the_position() -> None:
    array = np.arange(4_410_000) % 100
    assert_same(typed.cast_to_uint8(array), array.astype("u1"))
    assert_same(typed.cast_to_uint8(array.reshape(3, -1)[:, ::2]), array.reshape(3, -1)[:, ::2].astype("u1"))
    array[4_000_001] = -1
    with pytest.raises(TypeError, match=r"element \[4000001\] is -1, which"):
        typed.cast_to_uint8(array)
    with pytest.raises(TypeError, match=r"element \[1\]\[897500\] is -1, which"):
        typed.cast_to_uint32(array.reshape(2, -1)[:, 1::2])


@pytest.mark.parametrize("from_", INTEGERS)
def test_cast_of_a_misaligned_array_copies_it(from_: str) -> None:
    array = np.arange(100_000 if "8" not in from_ else 100).astype(from_) % 100
    misaligned = np.frombuffer(b"." + array.tobytes(), from_, offset=1)
    for to in ["uint8", "int16", "int64", "uint64"]:
        assert_same(getattr(typed, f"cast_to_{to}")(misaligned), array.astype(to))
    assert_same(typed.cast_to_uint8(misaligned.reshape(2, -1)[:, ::2]), array.reshape(2, -1)[:, ::2].astype("u1"))
    wrong = np.frombuffer(b"." + np.array([1, -2, 300]).tobytes(), "i8", offset=1)
    with pytest.raises(TypeError, match=r"element \[1\] is -2, which is out of range for uint8"):
        typed.cast_to_uint8(wrong)


def test_copy_of_bytes_that_are_not_booleans_is_refused() -> None:
    invalid = np.array([1, 2, 0], "u1").view(bool)
    for function, x in ((typed.cast_to_bool, invalid), (typed.cast_to_bool, invalid[::-1]), (typed.as_bool, [invalid])):
        with pytest.raises(dlbridge.TensorBorrowError, match="^argument 'x': an element is not a valid bool"):
            function(x)
