"""Export of our tensors by the buffer protocol."""

import array
import base64
import ctypes
import gc
import hashlib
import io
import socket
import struct
import weakref
import zlib
from pathlib import Path
from typing import Any

import dlbridge
import pytest

SIMPLE, WRITABLE, FORMAT, ND, STRIDES = 0, 0x1, 0x4, 0x8, 0x18
C, F, ANY, INDIRECT = 0x38, 0x58, 0x98, 0x118
FULL = INDIRECT | WRITABLE | FORMAT


class Buffer(ctypes.Structure):
    """``Py_buffer``."""

    _fields_ = [
        ("buf", ctypes.c_void_p),
        ("obj", ctypes.c_void_p),
        ("len", ctypes.c_ssize_t),
        ("itemsize", ctypes.c_ssize_t),
        ("readonly", ctypes.c_int),
        ("ndim", ctypes.c_int),
        ("format", ctypes.c_char_p),
        ("shape", ctypes.POINTER(ctypes.c_ssize_t)),
        ("strides", ctypes.POINTER(ctypes.c_ssize_t)),
        ("suboffsets", ctypes.POINTER(ctypes.c_ssize_t)),
        ("internal", ctypes.c_void_p),
    ]


GET = ctypes.pythonapi.PyObject_GetBuffer
GET.argtypes = [ctypes.py_object, ctypes.POINTER(Buffer), ctypes.c_int]
RELEASE = ctypes.pythonapi.PyBuffer_Release
RELEASE.argtypes = [ctypes.POINTER(Buffer)]
RELEASE.restype = None


def asked(tensor: dlbridge.Tensor, flags: int) -> dict[str, Any]:
    """The buffer that a consumer with these flags gets. It is released before the return."""
    buffer = Buffer()
    GET(tensor, buffer, flags)
    seen = {
        "len": buffer.len,
        "itemsize": buffer.itemsize,
        "readonly": bool(buffer.readonly),
        "ndim": buffer.ndim,
        "format": buffer.format,
        "shape": tuple(buffer.shape[: buffer.ndim]) if buffer.shape else None,
        "strides": tuple(buffer.strides[: buffer.ndim]) if buffer.strides else None,
        "same": buffer.buf == tensor.address and not buffer.suboffsets,
    }
    RELEASE(buffer)
    return seen


def tensor(contiguous: Any = None) -> dlbridge.Tensor:
    """Six numbers in two rows."""
    rows = memoryview(array.array("h", range(6))).cast("B").cast("h", (2, 3))
    return dlbridge.asdlpack(rows, contiguous=contiguous)


WHOLE = {"len": 12, "itemsize": 2, "readonly": False, "ndim": 2, "same": True}


@pytest.mark.parametrize("flags", [SIMPLE, FORMAT, ND, STRIDES, C, ANY, INDIRECT, FULL, WRITABLE])
def test_c_order(flags: int) -> None:
    seen = asked(tensor(), flags)
    assert seen == {
        **WHOLE,
        "ndim": 2 if flags & ND else 1,
        "format": b"h" if flags & FORMAT else None,
        "shape": (2, 3) if flags & ND else None,
        "strides": (6, 2) if flags & STRIDES == STRIDES else None,
    }


@pytest.mark.parametrize("flags", [STRIDES, F, ANY, INDIRECT, FULL])
def test_fortran_order(flags: int) -> None:
    seen = asked(tensor("F"), flags)
    expected = {**WHOLE, "shape": (2, 3), "strides": (2, 4)}
    assert seen == {**expected, "format": b"h" if flags & FORMAT else None}


@pytest.mark.parametrize(
    ("contiguous", "flags"), [("F", SIMPLE), ("F", FORMAT), ("F", ND), ("F", C), ("C", F)]
)
def test_order_that_the_consumer_cannot_use_is_refused(contiguous: str, flags: int) -> None:
    with pytest.raises(BufferError, match="not contiguous in the order that the consumer needs"):
        asked(tensor(contiguous), flags)


@pytest.mark.parametrize("flags", [SIMPLE, ND, C, F, ANY])
def test_strided_tensor_needs_a_consumer_with_strides(flags: int) -> None:
    part = dlbridge.asdlpack(memoryview(array.array("h", range(6)))[::2])
    assert asked(part, STRIDES)["strides"] == (4,)
    with pytest.raises(BufferError, match="not contiguous"):
        asked(part, flags)


def test_read_only_data() -> None:
    read_only = dlbridge.asdlpack(b"abc")
    assert asked(read_only, FORMAT | ND)["readonly"]
    for flags in (WRITABLE, FULL):
        with pytest.raises(BufferError, match="read-only and a writable buffer"):
            asked(read_only, flags)
    with pytest.raises(BufferError, match="without a Py_buffer to fill"):
        GET(read_only, None, SIMPLE)


@pytest.mark.parametrize(
    ("dtype", "format"),
    [
        *(("bool", "?"), ("int8", "b"), ("uint8", "B"), ("int16", "h"), ("uint16", "H")),
        *(("int32", "i"), ("uint32", "I"), ("int64", "q"), ("uint64", "Q")),
        *(("float16", "e"), ("float32", "f"), ("float64", "d")),
        *(("complex64", "Zf"), ("complex128", "Zd")),
    ],
)
def test_buffer_has_the_format_of_every_dtype(dtype: str, format: str) -> None:
    view = memoryview(dlbridge.empty(3, dtype))
    assert (view.format, view.shape) == (format, (3,))
    again = dlbridge.asdlpack(view)
    assert again.dtype == dtype
    if format[0] != "Z":
        assert view.itemsize == struct.calcsize(format)


@pytest.mark.parametrize(
    "dtype", ["bfloat16", "float8_e4m3fn", "int4", "float32x2", "complex32"]
)
def test_dtypes_without_a_letter(dtype: str) -> None:
    with pytest.raises(BufferError, match=f"a buffer cannot express the dtype {dtype}"):
        memoryview(dlbridge.empty(4, dtype))


@pytest.mark.parametrize("flags", [SIMPLE, ND, STRIDES, ND | WRITABLE, F])
def test_packed_elements_are_one_dimension_of_bytes(flags: int) -> None:
    found = asked(dlbridge.empty((8,), "int4"), flags)
    assert (found["len"], found["itemsize"], found["ndim"]) == (4, 1, 1)
    if flags != SIMPLE:
        assert found["shape"] == (4,)
    with pytest.raises(BufferError, match="not contiguous in the order"):
        asked(dlbridge.empty((8, 4), "int4")[:, :2], flags)


def sent(data: Any) -> bytes:
    """What a socket receives of an object that it sends."""
    one, other = socket.socketpair()
    with one, other:
        one.sendall(data)
        return other.recv(1 << 16)


@pytest.mark.parametrize("shape", [(6,), (2, 3), (1, 2, 3), (), (1,) * 1000])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float8_e4m3fn", "int4", "bool", "complex32", "float32x2", "uint128"])
def test_consumers_of_bytes_take_every_dtype(dtype: str, shape: tuple[int, ...], tmp_path: Path) -> None:
    t = dlbridge.empty(shape, dtype)
    fill = bytes(n % 2 for n in range(t.nbytes))
    io.BytesIO(fill).readinto(t)
    assert bytes(t) == fill
    assert hashlib.sha256(t).digest() == hashlib.sha256(fill).digest()
    assert zlib.decompress(zlib.compress(t)) == fill
    assert zlib.crc32(t) == zlib.crc32(fill)
    assert base64.b64encode(t) == base64.b64encode(fill)
    assert sent(t) == fill
    assert io.BytesIO().write(t) == len(fill)
    with open(tmp_path / "x", "w+b") as file:
        file.write(t)
        file.seek(0)
        again = dlbridge.empty(shape, dtype)
        assert file.readinto(again) == len(fill)
        assert bytes(again) == fill
    one, other = socket.socketpair()
    with one, other:
        one.sendall(fill[::-1])
        assert other.recv_into(again) == len(fill)
        assert bytes(again) == fill[::-1]
    if dtype in ("float32", "bool") and len(shape) <= 64:
        assert bytes(memoryview(t).cast("B")) == fill


def test_tensors_without_elements_or_dimensions_are_exported() -> None:
    nothing = memoryview(dlbridge.empty((0, 3), "int32"))
    assert (nothing.shape, nothing.nbytes, nothing.tolist()) == ((0, 3), 0, [])
    one = memoryview(dlbridge.empty((), "int32"))
    assert (one.shape, one.tolist()) == ((), 0)
    assert bytes(dlbridge.empty(0)) == b""


def test_tensor_lives_as_long_as_its_buffers() -> None:
    source = dlbridge.empty(3)
    gone = weakref.ref(source)
    view = memoryview(source)
    second = view[1:]
    del source
    gc.collect()
    assert gone() is not None
    view.release()
    assert gone() is not None
    second.release()
    assert gone() is None


def test_writes_go_through() -> None:
    numbers = array.array("h", range(6))
    view = memoryview(dlbridge.asdlpack(numbers))
    view[2] = -5
    assert numbers[2] == -5
    with pytest.raises(BufferError):
        numbers.append(1)
    view.release()
    gc.collect()
    numbers.append(1)
