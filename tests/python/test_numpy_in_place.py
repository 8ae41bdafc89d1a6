"""Import of NumPy's arrays without a call of `__dlpack__`: the result is the same as with the call."""

import sys
from typing import Any

import dlbridge
import pytest
from conftest import require

np = require("numpy")

DTYPES = ["?", "b", "h", "i", "l", "q", "B", "H", "I", "L", "Q", "e", "f", "d", "F", "D"]


def strided(array: Any, shape: tuple[int, ...], strides: tuple[int, ...]) -> Any:
    return np.lib.stride_tricks.as_strided(array, shape, strides, writeable=array.flags.writeable)


LAYOUTS: dict[str, Any] = {
    "C order": lambda a: a,
    "Fortran order": lambda a: a.T,
    "axes swapped": lambda a: a.transpose(1, 0, 2),
    "negative strides": lambda a: a[::-1, ::-1, ::-1],
    "steps": lambda a: a[::2, ::3, 1::2],
    "the same row again and again": lambda a: strided(a, (3, 4), (0, a.strides[2])),
    "windows": lambda a: strided(a, (3, 4), (a.itemsize,) * 2),
    "an odd stride where no step is taken": lambda a: strided(a, (1, 4), (a.itemsize * 3 - 1, a.itemsize)),
    "an odd stride of nothing": lambda a: strided(a, (0, 4), (1, 3)),
    "extents of 1": lambda a: a[1:2, 2:3, 3:4],
    "no dimension": lambda a: a[1, 2, 3, ...],
    "nothing": lambda a: a[:, 2:2],
    "nothing, backwards": lambda a: a[:0:-1, ::-1][:0],
    "five dimensions": lambda a: a[:, None, :, None],
    "nine dimensions": lambda a: a.reshape(2, 1, 2, 1, 2, 1, 3, 1, 5),
    "64 dimensions": lambda a: a.reshape((1,) * 61 + a.shape),
    "read-only": lambda a: frozen(a),
    "broadcast": lambda a: np.broadcast_to(a, (2, *a.shape)),
    "broadcast arrays, on whose first write NumPy warns": lambda a: np.broadcast_arrays(a, a[:1])[1],
}


def frozen(array: Any) -> Any:
    array = array.view()
    array.flags.writeable = False
    return array


def said(tensor: Any) -> dict[str, Any]:
    """All attributes that describe a tensor."""
    names = ("shape", "strides", "dtype", "device", "readonly", "protocol", "copied", "nbytes", "address")
    found = {name: getattr(tensor, name) for name in names}
    return found | {"origin": dlbridge._core._origin(tensor)}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_array_is_imported_as_by_dlpack(dtype: str, layout: str) -> None:
    array = LAYOUTS[layout](np.zeros((4, 5, 6), dtype)[:, :, :])
    assert said(dlbridge.asdlpack(array)) == said(dlbridge.asdlpack(array, protocol="dlpack"))


@pytest.mark.parametrize(
    "array",
    [
        np.zeros(3, "M8[s]"),
        np.zeros(3, "S4"),
        np.zeros(3, object),
        np.zeros(3, [("x", "f4"), ("y", "u1")]),
        np.zeros((3, 2), "f4").view([("x", "f4"), ("y", "f4")])["x"],
        np.zeros(3, [("x", "u1"), ("y", "f4")])["y"],
        np.zeros(3, "longdouble"),
        np.ma.masked_array([1.0, 2.0], [False, True]),
        np.zeros((2, 2), "f4").view(np.recarray),
    ],
    ids=lambda array: f"{type(array).__name__} of {array.dtype}",
)
def test_other_elements_or_classes_are_imported_or_refused_as_by_a_protocol(array: Any) -> None:
    def answer(**keywords: Any) -> Any:
        try:
            return said(dlbridge.asdlpack(array, **keywords)) | {"address": None}
        except Exception as error:
            return type(error)

    assert answer() in (answer(protocol="dlpack"), answer(protocol="array-interface"))


OTHER = ">" if sys.byteorder == "little" else "<"


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", ["h", "I", "q", "e", "f", "d", "F", "D"])
def test_other_byte_order_is_imported_as_by_the_array_interface(dtype: str, layout: str) -> None:
    numbers = np.arange(120).astype(OTHER + dtype).reshape(4, 5, 6)
    array = LAYOUTS[layout](numbers)

    def answer(**keywords: Any) -> Any:
        try:
            tensor = dlbridge.asdlpack(array, **keywords)
        except Exception as error:
            return type(error)
        found = said(tensor) | {"address": None, "protocol": None, "reason": tensor.copy_reason}
        return found | {"elements": tensor.numpy().tolist()}

    assert answer() == answer(protocol="array-interface")
    assert answer(copy=False) == answer(protocol="array-interface", copy=False) == BufferError
    assert dlbridge.asdlpack(array).numpy().tolist() == array.tolist()


@pytest.mark.parametrize("dtype", ["longdouble", "clongdouble", "M8[s]", "U3"])
def test_other_byte_order_of_a_dtype_without_dlpack_is_refused(dtype: str) -> None:
    array = np.zeros(3, np.dtype(dtype).newbyteorder(OTHER))
    with pytest.raises(BufferError):
        dlbridge.asdlpack(array)


def test_equal_dtype_object_is_imported() -> None:
    dtype = np.dtype("f4").newbyteorder("<" if sys.byteorder == "little" else ">")
    array = np.array([1.0, 2.0], dtype)
    assert dlbridge.asdlpack(array).dtype == "float32"


# NumPy warns since 2.5.
@pytest.mark.filterwarnings("ignore:Setting the shape:DeprecationWarning")
def test_tensor_keeps_its_shape_when_the_array_changes_its_own() -> None:
    array = np.arange(6.0)
    tensor = dlbridge.asdlpack(array)
    array.shape = (2, 3)
    assert tensor.shape == (6,)
    assert dlbridge.asdlpack(array).shape == (2, 3)


def test_extents_that_overflow_are_refused() -> None:
    array = strided(np.zeros(1, "u1"), (2**31, 2**31), (0, 0))
    wide = strided(np.zeros(1, "f8"), (3, 3), (2**62, 2**62))
    for keywords in ({}, {"protocol": "dlpack"}):
        assert dlbridge.asdlpack(array, **keywords).shape == (2**31, 2**31)
        with pytest.raises(BufferError, match="address space"):
            dlbridge.asdlpack(wide, **keywords)


def test_options_are_applied_to_plain_arrays() -> None:
    array = np.arange(6.0).reshape(2, 3)
    assert dlbridge.asdlpack(array, copy=True).address != array.ctypes.data
    assert dlbridge.asdlpack(array.T, contiguous="C").strides == (2, 1)
    assert dlbridge.asdlpack(array, device="cpu").address == array.ctypes.data
    assert dlbridge.asdlpack(array, writable=False).readonly
    with pytest.raises(BufferError, match="copy=False"):
        dlbridge.asdlpack(array.T, contiguous="C", copy=False)
    # NumPy itself refuses; its exception was another one before 2.4.
    with pytest.raises((BufferError, ValueError)):
        dlbridge.asdlpack(array, device="cuda:0")
