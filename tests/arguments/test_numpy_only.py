"""Arguments and results with no library except NumPy."""

import array
import ctypes
import mmap
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import typed_arguments as typed
from processes import output

NUMBERS = [1.0, 2.0, 3.0, 4.0]


def in_mmap() -> memoryview:
    memory = mmap.mmap(-1, 32)
    memory[:] = array.array("d", NUMBERS).tobytes()
    return memoryview(memory).cast("d")


class OnlyInterface:
    def __init__(self, data: Any) -> None:
        self.kept = data
        self.__array_interface__ = {"version": 3, "typestr": "<f8", "shape": (4,), "data": data}


@pytest.mark.parametrize(
    "make",
    [
        lambda: np.array(NUMBERS),
        lambda: np.arange(8.0)[1:8:2] - np.array([0, 1, 2, 3]),
        lambda: memoryview(np.array(NUMBERS)),
        lambda: array.array("d", NUMBERS),
        lambda: (ctypes.c_double * 4)(*NUMBERS),
        lambda: memoryview(bytearray(array.array("d", NUMBERS))).cast("d"),
        in_mmap,
        lambda: OnlyInterface(bytearray(array.array("d", NUMBERS))),
        lambda: OnlyInterface(memoryview(np.array(NUMBERS))),
        lambda: typed.ramp(5, "numpy")[1:],
    ],
)
def test_argument_of_each_protocol_is_read_in_place(make: Callable[[], Any]) -> None:
    assert typed.total_of_vector(make()) == 10


def test_numpy_array_is_written_unless_it_is_read_only() -> None:
    numbers = np.array(NUMBERS)
    typed.negate(numbers)
    assert numbers.tolist() == [-1, -2, -3, -4]
    numbers.flags.writeable = False
    assert typed.total_of_vector(numbers) == -10
    with pytest.raises(TypeError, match="read-only"):
        typed.negate(numbers)


def test_buffer_is_written_in_place() -> None:
    numbers = array.array("d", NUMBERS)
    typed.negate(numbers)
    assert numbers.tolist() == [-1, -2, -3, -4]
    typed.negate(memoryview(numbers)[1:])
    assert numbers.tolist() == [-1, 2, 3, 4]


def test_buffer_is_released_after_the_call() -> None:
    numbers = array.array("d", NUMBERS)
    typed.while_writing(numbers, lambda: pytest.raises(BufferError, numbers.append, 5.0))
    typed.total_of_anything(numbers)
    numbers.append(5.0)
    assert typed.total_of_vector(numbers) == 15


def test_read_only_buffer_is_not_written() -> None:
    numbers = memoryview(array.array("d", NUMBERS)).toreadonly()
    with pytest.raises(TypeError, match="writable|read-only"):
        typed.negate(numbers)


def test_overlapping_buffers_are_refused() -> None:
    numbers = array.array("d", NUMBERS)
    with pytest.raises(BufferError, match="overlaps"):
        typed.swap(numbers, memoryview(numbers)[::-1])


def test_error_of_an_exporter_is_raised() -> None:
    released = memoryview(array.array("d", NUMBERS))
    released.release()
    with pytest.raises(ValueError, match="released"):
        typed.total_of_vector(released)


def test_wrong_argument_is_a_type_error() -> None:
    with pytest.raises(TypeError, match=r"expected float64\[_, _\]"):
        typed.trace(array.array("d", NUMBERS))
    with pytest.raises(TypeError, match="NoneType"):
        typed.trace(None)


def test_result_is_exported_to_numpy() -> None:
    result = typed.matrix(NUMBERS, 2, 2)
    for convert in (np.from_dlpack, np.asarray):
        assert convert(result).tolist() == [[1, 2], [3, 4]]
    assert np.from_dlpack(result).ctypes.data == np.asarray(result).ctypes.data
    assert typed.ramp(3, "numpy").tolist() == [0, 1, 2]
    assert typed.twice(np.ones(2, "f4")).tolist() == [2, 2]
    assert np.asarray(typed.Squares(3)).tolist() == [0, 1, 4]
    assert np.from_dlpack(typed.Sound(2, 1)).tolist() == [[0], [0]]


def test_dlpack_method_accepts_the_keywords_of_the_standard() -> None:
    tensor = typed.matrix(NUMBERS, 2, 2)
    assert "dltensor_versioned" in repr(tensor.__dlpack__(max_version=(1, 1), copy=None))
    assert '"dltensor"' in repr(tensor.__dlpack__())
    assert "dltensor" in repr(tensor.__dlpack__(stream=None, dl_device=(1, 0)))
    name = "".join(["max_", "version"])
    assert "dltensor_versioned" in repr(tensor.__dlpack__(**{name: (1, 0)}))
    with pytest.raises(TypeError, match="unexpected keyword argument 'colour'"):
        tensor.__dlpack__(colour=1)
    with pytest.raises(TypeError, match="positional"):
        tensor.__dlpack__(None)


def test_bytes_of_a_tensor_are_in_c_order() -> None:
    assert bytes(typed.matrix(NUMBERS, 2, 2)) == np.array(NUMBERS, "f4").tobytes()
    assert bytes(typed.cube(2)) == np.asarray(typed.cube(2)).tobytes()


@pytest.mark.parametrize("make", [lambda: typed.matrix(NUMBERS, 2, 2), lambda: typed.Squares(2)])
def test_buffer_of_a_result_has_its_elements(make: Callable[[], Any]) -> None:
    assert memoryview(make()).tolist() == np.asarray(make()).tolist()


def test_result_like_a_memoryview_is_a_memoryview() -> None:
    assert typed.twice(memoryview(np.ones(2, "f4"))).tolist() == [2, 2]


def test_device_without_a_driver_is_an_error_that_names_the_cause() -> None:
    # A separate process, because other tests load a stand-in for the driver.
    program = """
import typed_arguments as typed
try:
    typed.matrix([1.0, 2.0], 1, 2).__dlpack__(max_version=(1, 1), dl_device=(2, 0))
except BufferError as refusal:
    print("driver" in str(refusal))
"""
    assert output(program, options=(), quiet=False).strip() == "True"



@pytest.mark.parametrize("dtype", ["u1", "u2", "u4", "i4", "f4", "f8", ">i4", ">f8"])
def test_strided_elements_are_converted(dtype: str) -> None:
    numbers = np.arange(1600).reshape(40, 40).astype(dtype)
    for part in (numbers, numbers.T, numbers[:, ::-1], numbers[::3, 1:].T, numbers[5:6, ::7], numbers[::-2, ::-2]):
        assert typed.by_columns(part) == part.T.ravel().tolist()
