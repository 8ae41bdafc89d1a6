"""Arguments of another dtype or byte order, with any strides: values, order in memory, refusals."""

import itertools
from collections.abc import Callable
from typing import Any

import dlbridge
import numpy as np
import pytest
import typed_arguments as typed

NAMES = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
NAMES += ["float16", "float32", "float64", "complex64", "complex128"]

#: Functions that give an array of three dimensions another layout.
LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "contiguous": lambda x: x,
    "transposed": lambda x: x.T,
    "axes 1, 0, 2": lambda x: x.transpose(1, 0, 2),
    "axes 2, 0, 1": lambda x: x.transpose(2, 0, 1),
    "rows backwards": lambda x: x[:, ::-1],
    "elements backwards": lambda x: x[..., ::-1],
    "all backwards and transposed": lambda x: x[::-1, ::-1, ::-1].T,
    "every other element": lambda x: x[..., ::2],
    "every other row": lambda x: x[:, ::2],
    "every other of a transposed one": lambda x: x.T[::2],
    "short rows": lambda x: x[..., 1:4],
    "short rows of a transposed one": lambda x: x.transpose(1, 2, 0)[..., :3],
    "repeated rows": lambda x: np.broadcast_to(x[:1, :1], (3, 40, x.shape[2])),
    "repeated elements": lambda x: np.broadcast_to(x[..., :1], x.shape),
    "one element along an axis": lambda x: x[:, 2:3].T,
    "few": lambda x: x[0, :3, :4].T,
    "one element": lambda x: x[1, 2, 3:4],
    "no dimensions": lambda x: x[1, 2, 3, ...],
    "empty": lambda x: x[:, :0].T,
}


def unaligned(array: Any) -> Any:
    memory = np.zeros(array.nbytes + 1, np.uint8)
    copy = memory[1:].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def array_of(name: str) -> Any:
    """An array of three dimensions. No extent is a multiple of the number of elements in a register."""
    numbers = np.arange(7 * 11 * 13).reshape(7, 11, 13)
    return (numbers % 3 == 0) if name == "bool" else (numbers % 101).astype(name)


def outcomes_are_those_of_numpy(x: Any) -> None:
    for to in NAMES:
        if np.can_cast(x.dtype, to, "same_kind"):
            got, expected = getattr(typed, f"cast_to_{to}")(x).numpy(), x.astype(to)
            np.testing.assert_array_equal(got, expected, strict=True, err_msg=to)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", NAMES)
def test_cast_of_every_layout_has_the_values_of_numpy(name: str, layout: str) -> None:
    array = array_of(name)
    for base in [array, array.astype(array.dtype.newbyteorder()), unaligned(array)]:
        outcomes_are_those_of_numpy(LAYOUTS[layout](base))


@pytest.mark.parametrize("name", ["bool", "uint8", "int16", "int64", "float32"])
def test_cast_of_more_than_a_block_has_the_values_of_numpy(name: str) -> None:
    array = np.arange(2100 * 2110).reshape(2100, 2110) % 251
    array = array.astype(name)
    for x in [array, array.T, array[:, ::2], array[::-1, ::-1].T, array.astype(array.dtype.newbyteorder())]:
        np.testing.assert_array_equal(typed.cast_to_float64(x).numpy(), x.astype("f8"), strict=True)
    np.testing.assert_array_equal(typed.cast_to_float32(array.T).numpy(), array.T.astype("f4"), strict=True)


@pytest.mark.parametrize("name", ["uint8", "int64", ">f8", ">i4"])
def test_cast_has_the_order_in_memory_that_is_demanded_or_that_of_numpy(name: str) -> None:
    array = np.arange(4 * 5 * 6).reshape(4, 5, 6).astype(name)
    for axes, cut in itertools.product(itertools.permutations(range(3)), [np.s_[:], np.s_[::-1], np.s_[:, ::2]]):
        x = array.transpose(axes)[cut]
        c_order, fortran, kept = (np.array(x, "f8", order=order) for order in "CFK")
        strides = {order: [stride // 8 for stride in made.strides] for order, made in zip("CFK", (c_order, fortran, kept), strict=True)}
        assert typed.cast_strides(x) == strides["K"], (axes, cut)
        assert typed.cast_strides_c(x) == strides["C"], (axes, cut)
        assert typed.cast_strides_fortran(x) == strides["F"], (axes, cut)
        either = "F" if strides["K"] == strides["F"] else "C"
        assert typed.cast_strides_contiguous(x) == strides[either], (axes, cut)


def test_cast_of_invalid_booleans_of_every_layout_is_a_borrow_error() -> None:
    for layout in LAYOUTS.values():
        flags = np.ones((7, 11, 13), "u1").view("?")
        view = layout(flags)
        if view.size == 0:
            continue
        # The last element of the view.
        places = np.arange(flags.size).reshape(flags.shape)
        flags.view("u1").reshape(-1)[layout(places).reshape(-1)[-1]] = 2
        for function in [typed.cast_to_float64, typed.cast_to_uint8]:
            with pytest.raises(dlbridge.TensorBorrowError, match="^argument 'x': an element is not a valid bool"):
                function(view)


def test_cast_of_a_transposed_array_names_the_first_element_in_c_order() -> None:
    array = np.zeros((20, 30), "i8")
    array[3, 20] = array[15, 2] = 300
    for x in [array, array.T, array[::-1].T, array.astype(">i8"), array.T.astype(">i8", order="F")]:
        first = tuple(int(index) for index in np.argwhere(x == 300)[0])
        with pytest.raises(dlbridge.TensorMismatchError, match=rf"element \[{first[0]}\]\[{first[1]}\] is 300, which"):
            typed.cast_to_uint8(x)
        np.testing.assert_array_equal(typed.cast_to_int16(x).numpy(), x.astype("i2"), strict=True)


def test_array_of_the_other_byte_order_is_a_copy() -> None:
    swapped = np.arange(3.0).astype(">f8")
    assert typed.cast_list(swapped) == ([0.0, 1.0, 2.0], False)
    assert typed.cast_list(swapped[::-1]) == ([2.0, 1.0, 0.0], False)


def test_cast_reads_under_a_borrow() -> None:
    x = np.zeros(3)
    casts: list[Callable[[], Any]] = [
        lambda: typed.cast_list(x.view(">f8")),
        lambda: typed.cast_to_float32(x),
        lambda: typed.cast_to_float32(x.view(">f8")),
        lambda: typed.cast_to_uint8(x.view("i8")),
    ]
    for cast in casts:
        with pytest.raises(dlbridge.TensorBorrowError, match="overlaps"):
            typed.while_writing(x, cast)
    assert typed.while_writing(x, lambda: None) is None


def test_array_of_the_other_byte_order_that_does_not_fit_is_refused() -> None:
    with pytest.raises(dlbridge.TensorMismatchError, match=r"expected float64\[_\] on cpu; got float64\[2, 3\]"):
        typed.cast_list(np.ones((2, 3), ">f8"))
    with pytest.raises(dlbridge.TensorMismatchError, match=r"got complex128\[3\] on cpu"):
        typed.cast_list(np.ones(3, ">c16"))
    with pytest.raises(dlbridge.TensorMismatchError, match="without a copy; .* since the elements were not in this machine's byte order"):
        typed.vector_of_list(np.ones(3, ">f8"))
