"""Results that Rust makes with the core crate; `?` converts its errors to exceptions."""

import json

import numpy as np
import pytest
import typed_arguments as typed


def file(header: object) -> list[int]:
    text = json.dumps(header).encode()
    return list(len(text).to_bytes(8, "little") + text)


def test_core_result_is_returned() -> None:
    assert np.from_dlpack(typed.matrix([1, 2, 3, 4], 2, 2)).tolist() == [[1, 2], [3, 4]]
    assert np.from_dlpack(typed.zeros(3)).tolist() == [0, 0, 0]


def test_core_error_is_a_buffer_error() -> None:
    with pytest.raises(BufferError, match="^the shape has 6 elements, but there are 4; pass a shape with 4$"):
        typed.matrix([1, 2, 3, 4], 2, 3)


def test_core_error_without_memory_is_a_memory_error() -> None:
    with pytest.raises(MemoryError, match=f"^no memory for a tensor of {1 << 60} bytes; request a smaller one$"):
        typed.zeros(1 << 57)


def test_array_of_ndarray_is_a_result() -> None:
    i, j, k = np.indices((2, 2, 2))
    np.testing.assert_array_equal(np.from_dlpack(typed.cube(2)), i + j + k)


def test_safetensors_errors_have_the_class_of_their_cause() -> None:
    assert typed.names_in_file(file({})) == []
    with pytest.raises(ValueError, match="^the first bytes are not those of a safetensors, "):
        typed.names_in_file(list(b"no file"))


@pytest.mark.parametrize("shared", [False, True])
def test_bytes_with_one_handle_are_writable(shared: bool) -> None:
    array = np.from_dlpack(typed.fetched(3, shared))
    assert array.shape == (3, 4)
    assert array.flags.writeable is not shared
    assert (array == 7).all()
