"""Results whose library, dtype and dimensions are in the type of the function."""

import gc
import warnings

import numpy as np
import pytest
import typed_arguments as typed

import dlbridge
from concurrently import concurrently
from processes import output

returned = typed.returned

MOST = 32 if np.__version__.startswith("1.") else 64
"""The maximum number of dimensions of an array."""


def test_vector_is_a_writable_array_that_owns_it() -> None:
    array = returned.ramp(4)
    assert type(array) is np.ndarray
    assert (array.dtype, array.tolist()) == (np.float64, [0, 1, 2, 3])
    flags = array.flags
    assert (flags.writeable, flags.c_contiguous, flags.f_contiguous) == (True, True, True)
    assert (flags.aligned, flags.owndata) == (True, False)
    array[0] = 7
    assert array.tolist() == [7, 1, 2, 3]


def test_empty_vector_is_an_empty_array() -> None:
    array = returned.ramp(0)
    assert (array.shape, array.dtype) == ((0,), np.float64)
    assert array.flags.writeable
    assert (array + 1).tolist() == []


def test_tuple_option_and_list_hold_arrays() -> None:
    quotients, remainders = returned.divided(5, 2)
    assert quotients.dtype == remainders.dtype == np.uint32
    assert (quotients.tolist(), remainders.tolist()) == ([0, 0, 1, 1, 2], [0, 1, 0, 1, 0])
    assert returned.divided(5, 0) is None
    assert [step.tolist() for step in returned.staircase(3)] == [[1], [2, 2], [3, 3, 3]]


def test_struct_and_getter_hold_arrays() -> None:
    assert {name: array is not None and len(array) for name, array in returned.moments(1).items()} == {
        "means": 1,
        "spread": False,
    }
    histogram = returned.Histogram([1, 2, 3])
    histogram.counts[0] = 9
    assert histogram.counts.tolist() == [1, 2, 3]
    histogram.kept[0] = 9
    assert histogram.kept.tolist() == [9, 2, 3]


def test_into_numpy_makes_arrays_at_once() -> None:
    arrays = returned.in_dict()
    assert [array.dtype.name for array in arrays.values()] == ["uint32", "float32", "uint8"]
    assert [array.tolist() for array in arrays.values()] == [[1, 2, 3], [[1, 1], [1, 1]], [[1, 2], [3, 4]]]


@pytest.mark.parametrize("layout", ["c", "fortran", "strided"])
@pytest.mark.parametrize("shape", [(3, 4), (1, 4), (3, 1), (1, 1), (0, 4), (3, 0)])
def test_array_of_ndarray_keeps_its_strides(layout: str, shape: tuple[int, int]) -> None:
    expected = np.arange(shape[0] * shape[1], dtype=float).reshape(shape, order="C")
    expected = {"c": expected, "fortran": np.asfortranarray(expected), "strided": expected[:, ::-2]}[layout]
    array = returned.matrix(*shape, layout)
    assert array.shape == expected.shape
    np.testing.assert_array_equal(array, expected)
    steps = [stride for stride, extent in zip(array.strides, array.shape) if extent > 1]
    if array.size:
        assert steps == [stride for stride, extent in zip(expected.strides, expected.shape) if extent > 1]
    assert array.flags.c_contiguous == expected.flags.c_contiguous
    assert array.flags.f_contiguous == expected.flags.f_contiguous
    assert array.flags.writeable
    array[...] = 5
    assert (array == 5).all()


def test_array_of_ndarray_within_a_longer_one_is_returned() -> None:
    assert returned.middle().tolist() == [3, 4, 5]


@pytest.mark.parametrize("ndim", [0, 1, 4, 5, 32, MOST])
def test_any_number_of_dimensions_is_returned(ndim: int) -> None:
    array = returned.point(ndim)
    assert (array.shape, array.sum()) == ((1,) * ndim, 5)
    array[...] = 6
    assert array.item() == 6


def test_too_many_dimensions_are_refused() -> None:
    message = f"^numpy takes at most {MOST} dimensions, not {MOST + 1}; reshape the tensor first$"
    with pytest.raises(BufferError, match=message):
        returned.counted(MOST)
    assert returned.alive() == 0


@pytest.mark.parametrize(
    "dtype",
    "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 complex128".split(),
)
def test_dtypes_of_numpy_are_returned(dtype: str) -> None:
    array = returned.of_dtype(dtype)
    # The same dtype, not only an equal one: `long` and not `longlong`.
    assert array.dtype.char == np.dtype(dtype).char
    assert array.flags.writeable
    assert len(array.tolist()) == 3
    assert array.tolist() != [0, 0, 0]


def test_dtype_of_ml_dtypes_is_returned() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    array = returned.of_dtype("bfloat16")
    assert array.dtype == ml_dtypes.bfloat16
    assert array.astype("float32").tolist() == [0, 1, 2]
    array[0] = 5
    assert float(array[0]) == 5


def test_tensor_of_another_kind_is_refused() -> None:
    assert returned.only_matrix(np.ones((2, 2))).shape == (2, 2)
    with pytest.raises(BufferError, match=r"float64.*float32|float32.*float64"):
        returned.only_matrix(np.ones((2, 2), "float32"))
    with pytest.raises(BufferError, match="dimensions"):
        returned.only_matrix(np.ones(4))


def test_imported_tensor_is_returned_without_a_copy() -> None:
    source = np.arange(6.0).reshape(2, 3)[::-1, ::2]
    array = returned.any(source)
    assert np.shares_memory(array, source)
    assert (array.strides, array.tolist()) == (source.strides, source.tolist())
    array[0, 0] = 50
    assert source[0, 0] == 50


def test_read_only_tensor_is_a_read_only_array() -> None:
    source = np.arange(3.0)
    source.flags.writeable = False
    for array in (returned.any(source), returned.constants()):
        assert not array.flags.writeable
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
        with pytest.raises(ValueError, match="WRITEABLE"):
            array.flags.writeable = True
    assert returned.constants().tolist() == [1, 2, 3]


def test_read_only_memory_of_rust_is_borrowed_while_an_array_has_it() -> None:
    torch = pytest.importorskip("torch")
    array = returned.constants()
    with warnings.catch_warnings():
        # PyTorch warns once per process.
        warnings.simplefilter("ignore")
        forgetful = torch.from_numpy(array)
    with pytest.raises(BufferError, match="overlaps"):
        typed.negate(forgetful)


def test_memory_is_freed_once_with_the_last_view() -> None:
    array = returned.counted(1)
    view = array[:, ::-1]
    tensor = dlbridge.asdlpack(view)
    del array, view
    gc.collect()
    assert returned.alive() == 1
    del tensor
    assert returned.alive() == 0


def test_memory_is_freed_on_errors() -> None:
    with pytest.raises(BufferError, match="dimensions"):
        returned.counted_refused()
    assert returned.alive() == 0


def test_memory_is_freed_on_another_thread() -> None:
    kept = [returned.counted(0)]
    concurrently([kept.clear])
    assert returned.alive() == 0


def test_memory_does_not_grow() -> None:
    import resource

    def peak() -> int:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    for _ in range(20):
        returned.ramp(1_000_000), returned.matrix(1000, 1000, "fortran"), returned.counted(3)
    before = peak()
    for _ in range(200):
        returned.ramp(1_000_000), returned.matrix(1000, 1000, "fortran"), returned.counted(3)
    # If each turn leaked one array, the process would grow by 1.6 GB.
    assert peak() - before < 100_000


def test_array_is_an_argument() -> None:
    array = returned.ramp(4)
    typed.negate(array)
    assert array.tolist() == [0, -1, -2, -3]
    with pytest.raises(BufferError, match="overlaps"):
        typed.while_reading(array, lambda: typed.negate(array))


def test_round_trips_keep_one_owner() -> None:
    for array in (returned.ramp(4), returned.matrix(2, 2, "fortran"), returned.counted(0)):
        start = array.tolist()
        for _ in range(3):
            array = np.from_dlpack(dlbridge.asdlpack(array))
        owners = len(gc.get_objects())
        for _ in range(300):
            array = np.from_dlpack(dlbridge.asdlpack(array))
        assert len(gc.get_objects()) < owners + 100
        assert array.tolist() == start
    del array
    assert returned.alive() == 0


def test_many_threads_get_arrays() -> None:
    def is_right() -> bool:
        return all(returned.ramp(n).sum() == n * (n - 1) / 2 for n in range(300))

    assert concurrently([is_right] * 4) == [True] * 4


def test_first_array_imports_numpy() -> None:
    code = "import typed_arguments, sys; assert 'numpy' not in sys.modules; print(typed_arguments.returned.ramp(2))"
    assert output(code, options=(), quiet=False) == "[0. 1.]\n"


def test_array_outlives_the_interpreter() -> None:
    code = """
import sys, typed_arguments
kept = typed_arguments.returned.ramp(4)
sys.kept = [typed_arguments.returned.counted(0), typed_arguments.returned.matrix(3, 3, 'strided')]
sys.kept.append(sys.kept)
"""
    output(code, options=())


def test_missing_numpy_is_named() -> None:
    code = """
import sys
sys.modules['numpy'] = None
import typed_arguments
try:
    typed_arguments.returned.ramp(4)
except ImportError as error:
    print(error)
"""
    assert "numpy" in output(code, options=(), quiet=False)


def test_vector_is_a_tensor_of_torch() -> None:
    torch = pytest.importorskip("torch")
    tensor = returned.torch_ramp(3)
    assert type(tensor) is torch.Tensor
    assert (tensor.dtype, tensor.tolist()) == (torch.float32, [0, 1, 2])
    tensor[0] = 5
    assert tensor.tolist() == [5, 1, 2]
    matrix = returned.torch_matrix(2, 3)
    assert (matrix.stride(), matrix.tolist()) == ((1, 2), [[0, 1, 2], [3, 4, 5]])
    assert returned.torch_ramp(0).shape == (0,)


def test_read_only_tensor_is_copied_for_torch() -> None:
    torch = pytest.importorskip("torch")
    source = np.arange(3.0)
    source.flags.writeable = False
    tensor = returned.torch_any(source)
    assert type(tensor) is torch.Tensor
    tensor += 1
    assert (tensor.tolist(), source.tolist()) == ([1, 2, 3], [0, 1, 2])


def test_result_is_of_the_library_of_the_argument() -> None:
    torch = pytest.importorskip("torch")
    for argument, kind in (
        (np.ones(2, "float32"), np.ndarray),
        (torch.ones(2), torch.Tensor),
        (dlbridge.asdlpack(np.ones(2, "float32")), dlbridge.Tensor),
    ):
        doubled = returned.doubled(argument)
        if kind is not dlbridge.Tensor:
            assert type(doubled) is kind
        assert np.asarray(doubled).tolist() == [2, 2]
    assert type(returned.zeros_like(torch.ones(3))) is torch.Tensor
    assert type(returned.shape_like(torch.ones(3, 4))) is torch.Tensor
    assert returned.shape_like(np.ones((3, 4), "float32")).tolist() == [3, 4]
    assert type(returned.zeros_like(bytearray(3))) is memoryview
