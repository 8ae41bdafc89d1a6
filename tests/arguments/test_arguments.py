"""Each kind of argument: the values it accepts, and the messages of its refusals."""

import array
import ctypes
import mmap
import pickle
from collections.abc import Callable
from typing import Any

import dlbridge
import numpy as np
import pytest
import typed_arguments as typed
from native import Producer
from producers import Memory
from sequence_checks import refused

torch = pytest.importorskip("torch")
jax = pytest.importorskip("jax")


def test_mean_reads_a_matrix_of_any_framework_with_any_strides() -> None:
    array = np.arange(24, dtype="f4").reshape(4, 6)
    copies = torch.from_numpy(array.copy()), jax.numpy.asarray(array)
    for x in (array, *copies, dlbridge.asdlpack(array), memoryview(array)):
        assert typed.mean(x) == 11.5, type(x)
    for view in (array.T, array[::-1], array[::2, ::3], array[:1, :2], array[:, ::-2]):
        assert typed.mean(view) == view.mean()
    assert np.isnan(typed.mean(np.zeros((0, 3), "f4")))


def test_mismatch_names_all_differences_in_one_sentence() -> None:
    new = jax.__version_info__ >= (0, 12)
    picture = np.zeros((480, 640, 4), "f4")
    refused(
        typed.brightest,
        picture,
        "expected uint8[_, _, 3] on cpu, C order; got float32[480, 640, 4] on cpu",
        argument="image",
    )
    refused(
        typed.brightest,
        picture[:, ::2],
        "expected uint8[_, _, 3] on cpu, C order; got float32[480, 320, 4] on cpu, strides [2560, 8, 1]",
        argument="image",
    )
    refused(
        typed.total,
        np.ones((2, 3), "f4").T,
        "expected float32[_, _] on cpu, C order; got float32[3, 2] on cpu, strides [1, 3]; "
        "copy it first, with numpy.ascontiguousarray(x)",
    )
    refused(
        typed.first_column,
        np.ones((2, 3)),
        "expected float64[_, _] on cpu, Fortran order; got float64[2, 3] on cpu, strides [3, 1]; "
        "copy it first, with numpy.asfortranarray(x)",
    )
    refused(
        typed.invert,
        bytes(3),
        "expected uint8[_, _, _] on cpu, writable; got uint8[3] on cpu, read-only",
        argument="image",
    )
    refused(typed.norm, np.zeros((2, 2), "i4"), "expected float32 or float64[_] on cpu; got int32[2, 2] on cpu")
    refused(
        typed.negate,
        jax.numpy.ones(3),
        "expected float32, float64 or int32[...] on cpu, writable; got float32[3] on cpu, "
        # JAX 0.12 marks its arrays as read-only.
        + ("read-only" if new else "from a producer that cannot say whether it may be written"),
    )
    refused(typed.dtype, np.zeros((2, 2), "c8"), "expected any dtype[_] on cpu; got complex64[2, 2] on cpu")
    refused(
        typed.mean,
        np.zeros((2, 2), np.dtype("f4").newbyteorder()),
        "expected float32[_, _] on cpu, without a copy; got float32[2, 2] on cpu, "
        "which needs a copy, since the elements were not in this machine's byte order; "
        "convert it first, with x.astype(x.dtype.newbyteorder('='))",
    )


def test_orders_and_alignments() -> None:
    array = np.arange(6, dtype="f8").reshape(2, 3)
    assert typed.total(array.astype("f4")) == 15
    assert typed.first_column(np.asfortranarray(array)) == [0, 3]
    assert typed.first_column(np.empty((1, 0), order="F")) == []
    with pytest.raises(TypeError, match=r"Fortran order; got float64\[2, 3\] on cpu, strides \[3, 1\]"):
        typed.first_column(array)
    with pytest.raises(TypeError, match=r"C order; got float32\[3, 2\] on cpu, strides \[1, 3\]"):
        typed.total(array.astype("f4").T)
    room = dlbridge.empty(100, "uint8").numpy()
    assert typed.aligned(room) == 100
    for offset, found in ((1, 1), (8, 8), (32, 32)):
        with pytest.raises(TypeError, match=f"aligned to 64 bytes; got .*, aligned to {found} bytes?$"):
            typed.aligned(room[offset:])
    odd = np.frombuffer(bytes(17), "u1")[1:].view("f4").reshape(2, 2)
    with pytest.raises(TypeError, match=r"on cpu, aligned to 4 bytes; got .*, aligned to 1 byte$"):
        typed.mean(odd)
    # Dimensions of extent 1 do not matter for the order.
    assert typed.total(np.ones((1, 5), "f4")[::-1]) == 5


def test_optional_argument_and_any_dtype_are_accepted() -> None:
    assert typed.shape() is None
    assert typed.shape(None) is None
    assert typed.shape(np.ones((2, 0, 3), "f4")) == [2, 0, 3]
    assert typed.shape(np.float32(1)) == []
    assert typed.dtype(np.ones(3, "c16")) == "complex128"
    assert typed.dtype(torch.ones(3, dtype=torch.bfloat16)) == "bfloat16"
    assert typed.norm(np.array([3, 4.0])) == typed.norm(np.array([3, 4], "f4")) == 5


def test_booleans_are_counted_and_invalid_ones_refused() -> None:
    assert typed.count(np.array([[True, False], [True, True]])) == 3
    with pytest.raises(dlbridge.TensorBorrowError, match="^argument 'x': an element is not a valid bool"):
        typed.count(np.array([1, 2], "u1").view(bool))
    with pytest.raises(dlbridge.TensorBorrowError, match="^argument 'x': an element is not a valid bool"):
        typed.total_of_anything(np.array([1, 2], "u1").view(bool))


@pytest.mark.parametrize(
    ("x", "total", "converted"),
    [
        (np.ones(3), 3, False),
        (np.ones((2, 3)).T, 6, True),
        (np.ones(3, ">f8"), 3, True),
        (np.ones(3, "f4"), 3, True),
        (np.arange(4, dtype="i4")[::-1], 6, True),
        (np.arange(4, dtype="u1"), 6, True),
        (np.array([True, False, True]), 2, True),
        (torch.ones(2, 2, dtype=torch.int16), 4, True),
        (jax.numpy.ones(3), 3, True),
        (np.frombuffer(b"\0" + np.ones(3).tobytes(), "u1")[1:].view("f8"), 3, True),
        (np.frombuffer(b"\0" + np.ones(3, "f4").tobytes(), "u1")[1:].view("f4"), 3, True),
    ],
)
def test_argument_is_converted_if_a_copy_is_allowed(x: Any, total: float, converted: bool) -> None:
    assert typed.total_of_anything(x) == (total, converted)


@pytest.mark.parametrize("dtype", ["i8", "u8", "f2", "c16"])
def test_conversion_that_would_lose_values_is_refused(dtype: str) -> None:
    with pytest.raises(TypeError, match=r"expected float64\[\.\.\.\] on cpu, C order; got"):
        typed.total_of_anything(np.ones(3, dtype))


def test_result_has_the_library_of_the_argument() -> None:
    for x in (np.ones(3, "f4"), torch.ones(3), jax.numpy.ones(3, "float32"), dlbridge.empty(3)):
        answer = typed.twice(x)
        assert type(answer).__module__.split(".")[0] == type(x).__module__.split(".")[0]
        assert np.array_equal(np.asarray(answer), 2 * np.asarray(x))

    class Bare:
        """An object of a library that dlbridge does not know."""

        array = np.ones(3, "f4")
        __array_interface__ = array.__array_interface__

    answer = typed.twice(Bare())
    assert type(answer).__name__ == "Tensor"
    assert np.from_dlpack(answer).tolist() == [2, 2, 2]
    assert typed.ramp(3, "numpy").tolist() == [0, 1, 2]
    assert type(typed.ramp(3, "torch")) is torch.Tensor
    with pytest.raises(ValueError, match="unknown library 'nope'"):
        typed.ramp(3, "nope")


def test_views_of_ndarray() -> None:
    x = np.arange(12.0).reshape(3, 4)
    for view in (x, x.T, x[::-1, ::-1], x[:, 1:2], x[:0]):
        assert typed.trace(view) == np.trace(view)
    typed.scale(x[::-2, ::2], -1)
    assert x.tolist() == [[0, 1, -2, 3], [4, 5, 6, 7], [-8, 9, -10, 11]]
    mask = np.array([[True, False], [False, False]])
    typed.invert_mask(mask.T)
    assert mask.tolist() == [[False, True], [True, True]]


@pytest.mark.parametrize("ndim", [0, 1, 3, 8])
def test_views_of_ndarray_have_the_dimensions_of_a_dynamic_argument(ndim: int) -> None:
    source = np.arange(2.0**ndim).reshape((2,) * ndim)
    target = np.ones_like(source)
    typed.accumulate(target.T, source.T)
    np.testing.assert_array_equal(target, source + 1)
    with pytest.raises(ValueError, match="differ in their shapes"):
        typed.accumulate(target, np.zeros((2,) * (ndim + 1)))


def test_exceptions_have_a_name_and_can_be_sent() -> None:
    with pytest.raises(dlbridge.TensorMismatchError) as mismatch:
        typed.mean(np.zeros(3))
    again = pickle.loads(pickle.dumps(mismatch.value))
    assert (type(again), str(again)) == (dlbridge.TensorMismatchError, str(mismatch.value))
    x = np.zeros(3)
    with pytest.raises(dlbridge.TensorBorrowError) as conflict:
        typed.swap(x, x)
    conflict.value.add_note("while processing batch 7")
    assert str(conflict.value).startswith("argument 'b': ")
    assert conflict.value.__notes__ == ["while processing batch 7"]
    sound = typed.Sound(2, 2)
    with pytest.raises(dlbridge.TensorBorrowError) as inside:
        typed.while_reading(np.asarray(sound).view("f8"), lambda: sound.amplify(2))
    assert str(inside.value).startswith("the memory of this")


def test_mismatch_that_a_copy_cannot_fix_is_found_before_the_copy() -> None:
    huge = np.lib.stride_tricks.as_strided(np.zeros(1, "u1"), (1 << 20, 1 << 20), (0, 0))
    with pytest.raises(TypeError, match=r"expected float64\[_\] on cpu, C order; got uint8\[1048576, 1048576\]"):
        typed.total_of_vector(huge)


def test_copy_by_the_producer_is_read_and_not_written() -> None:
    copies = Producer(lambda keywords: np.ones((2, 2), "f4").__dlpack__(**{**keywords, "copy": True}))
    assert typed.mean(copies) == 1
    with pytest.raises(TypeError, match="writable, without a copy; got .*, which needs a copy, since"):
        typed.negate(copies)


def test_fixed_extents_set_the_number_of_dimensions() -> None:
    assert typed.pixels(np.zeros((4, 5, 3), "u1")) == 20
    for shape in [(5, 3), (1, 4, 5, 3), (3,), ()]:
        with pytest.raises(TypeError, match=r"expected uint8\[_, _, 3\] on cpu; got"):
            typed.pixels(np.zeros(shape, "u1"))


@pytest.mark.parametrize(
    ("x", "kind"), [([[1.0]], "a list"), (None, "a NoneType"), (5, "an int"), (object(), "an object")]
)
def test_object_that_is_not_a_tensor_is_refused_with_its_type(x: Any, kind: str) -> None:
    found = f"got {kind}, which supports no exchange protocol"
    fix = "; pass an array of its elements" if kind == "a list" else ""
    refused(typed.mean, x, f"expected float32[_, _] on cpu; {found}{fix}")
    refused(typed.negate, x, f"expected float32, float64 or int32[...] on cpu, writable; {found}{fix}")


def test_argument_names_what_to_pass_instead_of_an_object_of_a_framework() -> None:
    with pytest.raises(TypeError, match=r"no exchange protocol; pass the integers of the keys: jax\.random\.key_data"):
        typed.mean(jax.random.key(0))


def test_empty_tensor_of_another_dtype_is_converted() -> None:
    assert typed.total_of_anything(np.zeros(0)) == (0, False)
    assert typed.total_of_anything(np.zeros(0, "u1")) == (0, True)


NUMBERS = array.array("d", [1, 2, 3, 4])


def in_mmap() -> memoryview:
    memory = mmap.mmap(-1, 32)
    memory[:] = NUMBERS.tobytes()
    return memoryview(memory).cast("d")


@pytest.mark.parametrize(
    "make",
    [
        lambda: np.array(NUMBERS),
        lambda: np.arange(8.0)[1:8:2] - np.array([0, 1, 2, 3]),
        lambda: memoryview(np.array(NUMBERS)),
        lambda: NUMBERS,
        lambda: (ctypes.c_double * 4)(*NUMBERS),
        lambda: memoryview(bytearray(NUMBERS)).cast("d"),
        in_mmap,
        lambda: Memory(data=bytearray(NUMBERS), shape=(4,), typestr="<f8"),
        lambda: Memory(data=memoryview(np.array(NUMBERS)), shape=(4,), typestr="<f8"),
        lambda: typed.ramp(5, "numpy")[1:],
    ],
)
def test_argument_of_each_protocol_is_read_in_place(make: Callable[[], Any]) -> None:
    assert typed.total_of_vector(make()) == 10


def test_buffer_is_released_after_the_call() -> None:
    numbers = NUMBERS[:]
    typed.while_writing(numbers, lambda: pytest.raises(BufferError, numbers.append, 5.0))
    typed.total_of_anything(numbers)
    numbers.append(5.0)
    assert typed.total_of_vector(numbers) == 15


def test_error_of_an_exporter_is_raised() -> None:
    released = memoryview(NUMBERS)
    released.release()
    with pytest.raises(ValueError, match="released"):
        typed.total_of_vector(released)


@pytest.mark.parametrize("dtype", ["u1", "u2", "u4", "i4", "f4", "f8", ">i4", ">f8"])
def test_strided_elements_are_converted(dtype: str) -> None:
    numbers = np.arange(1600).reshape(40, 40).astype(dtype)
    for part in (numbers, numbers.T, numbers[:, ::-1], numbers[::3, 1:].T, numbers[5:6, ::7], numbers[::-2, ::-2]):
        assert typed.by_columns(part) == part.T.ravel().tolist()
