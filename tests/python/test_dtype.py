"""The dtype of a tensor: the names that dlbridge accepts, and the objects that it equals."""

import copy
import json
import pickle
from typing import Any

import dlbridge
import pytest

np = pytest.importorskip("numpy")


@pytest.mark.parametrize("dtype", ["float33", "int31", "complex63", "uint3", "float128", "code99_16", ">f4", "f16", "u16", "i16", "c4", "flaot32", "float", "d", "intp", "object"])
def test_dtype_that_the_specification_does_not_know_is_refused(dtype: str) -> None:
    with pytest.raises(ValueError, match=f"dtype is '{dtype}'"):
        dlbridge.empty(3, dtype)


@pytest.mark.parametrize("dtype", ["f4", "<f4", "=i2", "|u1", "b1", "c8", "i8", "float64", "bool", np.float16, np.dtype("uint8"), bool])
def test_dtype_by_a_name_or_code_of_numpy_is_that_of_numpy(dtype: Any) -> None:
    assert dlbridge.empty(3, dtype).dtype == np.dtype(dtype).name


def test_dtype_beside_hostile_objects_is_unequal_or_interrupted() -> None:
    class DType:
        name = property(lambda self: (_ for _ in ()).throw(KeyboardInterrupt))

    dtype = dlbridge.empty(1).dtype
    assert dtype != "\ud800"
    with pytest.raises(KeyboardInterrupt):
        dtype == DType()


@pytest.mark.parametrize("name", ["float64", "float32", "int64", "bool", "complex128", "uint8", "float16"])
def test_dtype_equals_the_dtypes_of_numpy_and_python(name: str) -> None:
    dtype = dlbridge.empty(1, name).dtype
    same, code = np.dtype(name), np.dtype(name).str
    for other in (same, same.type, name, code, str(dtype)):
        assert dtype == other
        assert other == dtype
        assert not dtype != other
        assert not other != dtype
    for other in (np.int16, np.dtype(">f8"), np.floating, "int16", "", None, 8, object(), np.arange(1).dtype.newbyteorder()):
        assert dtype != other
        assert not dtype == other
    meant = {float: "float64", int: "int64", bool: "bool", complex: "complex128", str: "", object: ""}
    assert [dtype == python for python in meant] == [name == means for means in meant.values()]


@pytest.mark.parametrize("library", ["torch", "jax.numpy", "ml_dtypes", "mlx.core"])
def test_dtype_equals_the_dtypes_of_another_library(library: str) -> None:
    module = pytest.importorskip(library)
    for name, other in [("bfloat16", "float8_e5m2"), ("float32", "float64"), ("float8_e4m3fn", "bfloat16")]:
        dtype = dlbridge.empty(1, name).dtype
        if same := getattr(module, name, None):
            assert dtype == same
            # MLX's dtypes do not compare with strings.
            assert same == dtype or library == "mlx.core"
            assert dtype not in [getattr(module, other, None)]
            assert getattr(module, other, None) != dtype


def test_dtype_is_not_equal_to_objects_that_only_have_its_name() -> None:
    class Named:
        name = "float32"

    pandas = pytest.importorskip("pandas")
    for other in (Named(), pandas.Series([1], name="float32"), pandas.Float32Dtype(), [], "f8"):
        assert (dlbridge.empty(1).dtype == other) is False


def test_dtype_is_a_string_in_every_other_way() -> None:
    dtype = dlbridge.empty(1).dtype
    assert isinstance(dtype, str)
    assert (repr(dtype), str(dtype), f"{dtype:>8}", json.dumps([dtype])) == ("'float32'", "float32", " float32", '["float32"]')
    assert type(str(dtype)) is str
    assert {dtype: 1}["float32"] == {"float32": 1}[dtype] == 1
    assert np.dtype(dtype) == np.float32
    assert np.zeros(1, dtype).dtype == dtype
    for other in (copy.copy(dtype), copy.deepcopy(dtype), *(pickle.loads(pickle.dumps(dtype, p)) for p in range(6))):
        assert (type(other), other, other == np.float32) == (type(dtype), "float32", True)


def test_dtype_without_one_lane_or_a_usual_width_is_its_name() -> None:
    assert dlbridge.empty(1, "float32x4").dtype == "float32x4"
    assert dlbridge.empty(1, "float32x4").dtype != np.float32
    assert dlbridge.empty(1, "float6_e2m3fn").dtype == "float6_e2m3fn"


def test_empty_takes_every_scalar_type_of_numpy() -> None:
    for scalar in (np.longlong, np.intc, np.bool_, np.double, np.ubyte):
        assert dlbridge.empty(1, scalar).dtype == scalar
    for other, match in ((np.floating, "dtype is 'floating'"), (np.dtype(">f4"), "newbyteorder")):
        with pytest.raises(ValueError, match=match):
            dlbridge.empty(1, other)
    with pytest.raises(TypeError, match="dtype must be a name like 'float32', or a dtype, not 5"):
        dlbridge.empty(1, 5)  # type: ignore[arg-type]
