"""Import by the buffer protocol: every kind of exporter, and buffers that a tensor cannot express."""

import array
import ctypes
import itertools
import mmap
import threading
import weakref
from pathlib import Path
from typing import Any

import dlbridge
import native as n
import pytest
from native import Native, Way, floats

LONG = 8 * ctypes.sizeof(ctypes.c_long)
SIZE = 8 * ctypes.sizeof(ctypes.c_size_t)


def contents(tensor: dlbridge.Tensor, exporter: Native) -> list[float]:
    """The first elements of a float32 tensor, in C order."""
    held = exporter.export(tensor, copy=True)
    shape = held.fields.shape or ()
    elements = floats(held.fields.data, min(64, tensor.nbytes // 4)) if 0 not in shape else []
    held.delete()
    return elements


@pytest.mark.parametrize(
    ("memory", "readonly"),
    [
        (b"abc", True),
        (bytearray(b"abc"), False),
        (memoryview(b"abc"), True),
        (memoryview(bytearray(b"abc")), False),
        (memoryview(bytearray(b"abc")).toreadonly(), True),
        (array.array("B", b"abc"), False),
        ((ctypes.c_uint8 * 3)(*b"abc"), False),
    ],
    ids=lambda value: type(value).__name__,
)
def test_bytes_of_any_kind(memory: Any, readonly: bool) -> None:
    tensor = dlbridge.asdlpack(memory)
    assert (tensor.shape, tensor.strides, tensor.dtype) == ((3,), (1,), "uint8")
    assert (tensor.readonly, tensor.protocol) == (readonly, "buffer")
    assert (tensor.device, tensor.copied, tensor.nbytes) == ("cpu", False, 3)
    assert ctypes.string_at(tensor.address, 3) == b"abc"
    assert dlbridge.asdlpack(memory).address == tensor.address
    copy = dlbridge.asdlpack(memory, copy=True)
    assert (copy.copied, copy.readonly, copy.protocol) == (True, False, "buffer")
    assert copy.address != tensor.address
    assert copy.address % 256 == 0
    assert ctypes.string_at(copy.address, 3) == b"abc"
    assert dlbridge.asdlpack(memory, copy=False).address == tensor.address


@pytest.mark.parametrize("memory", [b"", bytearray(), array.array("d"), memoryview(b"")])
def test_empty_buffers_are_imported(memory: Any) -> None:
    tensor = dlbridge.asdlpack(memory)
    assert (tensor.shape, tensor.address, tensor.nbytes) == ((0,), 0, 0)


def test_memory_is_locked_while_an_export_lives(native: Native) -> None:
    memory = bytearray(b"abc")
    tensor = dlbridge.asdlpack(memory)
    held = native.export(tensor)
    (ctypes.c_char * 3).from_address(tensor.address)[0] = b"x"
    assert memory == b"xbc"
    with pytest.raises(BufferError):
        memory.append(1)
    del tensor
    with pytest.raises(BufferError):
        memory.clear()
    held.delete()
    memory.append(1)
    assert memory == b"xbc\x01"


def test_memory_is_not_locked_by_a_copy_or_a_refusal() -> None:
    memory = bytearray(SIZE // 8)
    copy = dlbridge.asdlpack(memory, copy=True)
    with memoryview(memory).cast("P") as pointers, pytest.raises(BufferError, match="'P'"):
        dlbridge.asdlpack(pointers)
    memory.append(1)
    assert copy.shape == (SIZE // 8,)


def test_mmap_is_imported_and_locked(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"abcd")
    with path.open("r+b") as file:
        writable = mmap.mmap(file.fileno(), 0)
        readable = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    for mapped, readonly in ((writable, False), (readable, True)):
        tensor = dlbridge.asdlpack(mapped)
        assert (tensor.shape, tensor.readonly) == ((4,), readonly)
        assert ctypes.string_at(tensor.address, 4) == b"abcd"
        with pytest.raises(BufferError):
            mapped.close()
        del tensor
        mapped.close()


@pytest.mark.parametrize(
    ("typecode", "dtype"),
    [
        *(("b", "int8"), ("B", "uint8"), ("h", "int16"), ("H", "uint16")),
        *(("i", "int32"), ("I", "uint32"), ("l", f"int{LONG}"), ("L", f"uint{LONG}")),
        *(("q", "int64"), ("Q", "uint64"), ("f", "float32"), ("d", "float64")),
    ],
)
def test_arrays_of_every_typecode(typecode: str, dtype: str) -> None:
    memory = array.array(typecode, [1, 2, 3])
    tensor = dlbridge.asdlpack(memory)
    assert (tensor.dtype, tensor.shape, tensor.readonly) == (dtype, (3,), False)
    assert tensor.address == memory.buffer_info()[0]


@pytest.mark.parametrize(
    ("memory", "dtype", "shape"),
    [
        ((ctypes.c_int16 * 3)(), "int16", (3,)),
        ((ctypes.c_int32 * 3 * 2)(), "int32", (2, 3)),
        ((ctypes.c_double * 4 * 3 * 2)(), "float64", (2, 3, 4)),
        ((ctypes.c_long * 2)(), f"int{LONG}", (2,)),
        ((ctypes.c_ulonglong * 2)(), "uint64", (2,)),
        ((ctypes.c_size_t * 2)(), f"uint{SIZE}", (2,)),
        ((ctypes.c_float * 0)(), "float32", (0,)),
        ((ctypes.c_bool * 2)(), "bool", (2,)),
        ((ctypes.c_char * 2)(), "uint8", (2,)),
        (ctypes.c_int8(5), "int8", ()),
        (ctypes.c_float(5), "float32", ()),
        ((ctypes.c_int32.__ctype_le__ * 3)(), "int32", (3,)),
    ],
)
def test_ctypes(memory: Any, dtype: str, shape: n.Ints) -> None:
    tensor = dlbridge.asdlpack(memory)
    assert (tensor.dtype, tensor.shape) == (dtype, shape)
    assert tensor.strides == n.c_strides(shape)
    if 0 not in shape:
        assert tensor.address == ctypes.addressof(memory)


@pytest.mark.parametrize("ndim", range(1, 9))
def test_memoryviews_of_any_rank(native: Native, ndim: int) -> None:
    shape = (2,) * ndim
    memory = bytearray(n.numbers(2**ndim))
    tensor = dlbridge.asdlpack(memoryview(memory).cast("B").cast("f", shape))
    assert (tensor.shape, tensor.strides) == (shape, n.c_strides(shape))
    assert contents(tensor, native) == list(range(min(64, 2**ndim)))


def test_slices_with_steps_of_any_sign(native: Native) -> None:
    memory = bytearray(n.numbers(10))
    view = memoryview(memory).cast("f")
    whole = dlbridge.asdlpack(view).address
    for part in (slice(3, 8), slice(None, None, 2), slice(None, None, -1), slice(8, 2, -3)):
        tensor = dlbridge.asdlpack(view[part])
        start, stop, step = part.indices(10)
        expected = list(range(start, stop, step))
        assert (tensor.shape, tensor.strides) == ((len(expected),), (step,))
        assert tensor.address == whole + 4 * start
        assert contents(tensor, native) == expected


def test_released_memoryview_is_refused() -> None:
    view = memoryview(b"abc")
    view.release()
    with pytest.raises(ValueError, match="released"):
        dlbridge.asdlpack(view)


#: Letters with native sizes: letter, size in bytes, dtype.
LETTERS = [
    *(("?", 1, "bool"), ("b", 1, "int8"), ("B", 1, "uint8"), ("c", 1, "uint8")),
    *(("h", 2, "int16"), ("H", 2, "uint16"), ("i", 4, "int32"), ("I", 4, "uint32")),
    *(("l", LONG // 8, f"int{LONG}"), ("L", LONG // 8, f"uint{LONG}")),
    *(("q", 8, "int64"), ("Q", 8, "uint64"), ("n", SIZE // 8, f"int{SIZE}")),
    *(("N", SIZE // 8, f"uint{SIZE}"), ("e", 2, "float16"), ("f", 4, "float32")),
    *(("d", 8, "float64"), ("Zf", 8, "complex64"), ("Zd", 16, "complex128")),
]
#: Letters whose standard size differs.
STANDARD = {"l": (4, "int32"), "L": (4, "uint32")}
OURS, OTHERS = ("<", (">", "!")) if n.LITTLE_ENDIAN else (">!", ("<",))


@pytest.mark.parametrize(("letter", "itemsize", "dtype"), LETTERS)
def test_format_letter_in_every_byte_order_is_imported(
    native: Native, letter: str, itemsize: int, dtype: str
) -> None:
    def imported(order: str, itemsize: int) -> str:
        exporter = native.exporter(bytes(256), format=order + letter, itemsize=itemsize)
        return dlbridge.asdlpack(exporter, copy=False).dtype

    assert imported("", itemsize) == dtype
    assert imported("@", itemsize) == dtype
    if letter in ("n", "N"):
        # The struct module knows them in native order only.
        with pytest.raises(BufferError, match="is not supported"):
            imported("=", itemsize)
        return
    itemsize, dtype = STANDARD.get(letter, (itemsize, dtype))
    for order in ("=", *OURS):
        assert imported(order, itemsize) == dtype
    for order in OTHERS:
        if itemsize == 1:
            assert imported(order, itemsize) == dtype
        else:
            with pytest.raises(BufferError, match="not in this machine's byte order"):
                imported(order, itemsize)
            exporter = native.exporter(bytes(256), format=order + letter, itemsize=itemsize)
            swapped = dlbridge.asdlpack(exporter)
            assert (swapped.dtype, swapped.copied) == (dtype, True)
            assert native.released(exporter).calls == 1, "a copy does not lock its source"


def test_buffer_without_a_format_is_bytes(native: Native) -> None:
    tensor = dlbridge.asdlpack(native.exporter(b"abc", format=None, itemsize=1, shape=(3,)))
    assert (tensor.dtype, tensor.shape) == ("uint8", (3,))


@pytest.mark.parametrize(
    ("format", "itemsize"),
    [
        *((letter, 4) for letter in ("O", "P", "s", "4s", "4p", "w", "u", "x", "t", "X{}")),
        *(("T{i:a:}", 4), ("2h", 4), ("hh", 4), ("(2)h", 4), ("&i", 8), ("g", 16), ("Zg", 32)),
        *(("", 1), ("@", 1), ("<", 1), ("<@i", 4), ("<<i", 4), (" i", 4)),
        *(("i ", 4), ("Z", 8), ("Zi", 8), ("ff", 8), ("\u00e9", 2), ("f\u00e9", 4)),
    ],
)
def test_format_that_is_not_a_number_is_refused(native: Native, format: str, itemsize: int) -> None:
    exporter = native.exporter(bytes(256), format=format, itemsize=itemsize)
    with pytest.raises(BufferError, match="is not supported"):
        dlbridge.asdlpack(exporter)
    assert native.released(exporter).calls == exporter.exports == 1


@pytest.mark.parametrize(
    ("fields", "match"),
    [
        ({"itemsize": 8}, "says 4 bytes, but its itemsize is 8"),
        ({"itemsize": 2}, "says 4 bytes, but its itemsize is 2"),
        ({"itemsize": 0}, "says 4 bytes, but its itemsize is 0"),
        ({"itemsize": -4}, "says 4 bytes, but its itemsize is -4"),
        ({"suboffsets": (0, -1)}, "suboffsets"),
        ({"suboffsets": (-1, 0)}, "suboffsets"),
        ({"suboffsets": (-1, 8), "strides": (12, 4)}, "suboffsets"),
        ({"ndim": 2, "shape": None}, "no shape"),
        ({"ndim": 65, "shape": (1,) * 65}, "65 dimensions; 0 to 64"),
        ({"ndim": -1}, "-1 dimensions"),
        ({"ndim": 1, "shape": None, "length": -8}, "extent of axis 0 is -"),
        ({"shape": (-1, 3)}, "extent of axis 0 is -"),
        ({"shape": (2**62, 4), "length": 24}, "disagrees with its length of 24 bytes"),
        ({"shape": (100, 100), "length": 24}, "disagrees with its length of 24 bytes"),
        ({"shape": (3, 3), "strides": (2**62, 4)}, "spans more than the address space"),
        ({"origin": -1}, "data .* is NULL"),
        ({"shape": (), "origin": -1}, "data .* is NULL"),
    ],
    ids=str,
)
def test_buffers_that_break_the_protocol_or_fit_no_tensor(
    native: Native, fields: dict[str, Any], match: str
) -> None:
    for copy in (None, True, False):
        exporter = native.exporter(**fields)
        with pytest.raises(BufferError, match=match):
            dlbridge.asdlpack(exporter, copy=copy)
        assert native.released(exporter).calls == exporter.exports == 1


@pytest.mark.parametrize(
    ("strides", "stride", "values"),
    [((12, 2), 2, [0, 2**16, 3, 2**18]), ((-6, 4), -6, [3, 4, 2**17, 2**17 + 2**16])],
)
def test_strides_that_are_not_multiples_of_the_itemsize_are_copied(
    native: Native, strides: tuple[int, int], stride: int, values: list[int]
) -> None:
    integers = array.array("i", range(6))
    fields: dict[str, Any] = {"format": "i", "shape": (2, 2), "strides": strides}
    fields["origin"] = 12 if stride < 0 else 0
    with pytest.raises(BufferError, match=f"stride of {stride} bytes on axis . is not a multiple of its 4"):
        dlbridge.asdlpack(native.exporter(bytes(integers), **fields), copy=False)
    exporter = native.exporter(bytes(integers), **fields)
    tensor = dlbridge.asdlpack(exporter)
    assert tensor.copy_reason == "the strides were not multiples of the element size"
    assert memoryview(tensor).tolist() == [values[:2], values[2:]]
    assert native.released(exporter).calls == 1


@pytest.mark.parametrize(
    ("fields", "shape", "strides", "values"),
    [
        ({}, (2, 3), (3, 1), [0, 1, 2, 3, 4, 5]),
        ({"strides": (4, 8)}, (2, 3), (1, 2), [0, 2, 4, 1, 3, 5]),
        ({"strides": (-12, -4), "origin": 20}, (2, 3), (-3, -1), [5, 4, 3, 2, 1, 0]),
        ({"strides": (0, 4)}, (2, 3), (0, 1), [0, 1, 2, 0, 1, 2]),
        ({"shape": (1, 2), "strides": (3, 4)}, (1, 2), (0, 1), [0, 1]),
        ({"suboffsets": (-1, -1)}, (2, 3), (3, 1), [0, 1, 2, 3, 4, 5]),
        ({"shape": (2, 0, 3)}, (2, 0, 3), (3, 3, 1), []),
        ({"shape": (2, 0), "origin": -1}, (2, 0), (1, 1), []),
        ({"shape": None, "ndim": 1, "length": 12}, (3,), (1,), [0, 1, 2]),
        ({"shape": None, "ndim": 0, "length": 4, "origin": 8}, (), (), [2]),
        ({"shape": (1,) * 64}, (1,) * 64, (1,) * 64, [0]),
        ({"readonly": True}, (2, 3), (3, 1), [0, 1, 2, 3, 4, 5]),
    ],
    ids=str,
)
def test_layouts(
    native: Native, fields: dict[str, Any], shape: n.Ints, strides: n.Ints, values: list[float]
) -> None:
    exporter = native.exporter(**fields)
    tensor = dlbridge.asdlpack(exporter)
    assert (tensor.shape, tensor.strides) == (shape, strides)
    assert tensor.readonly == fields.get("readonly", False)
    assert contents(tensor, native) == values
    assert native.released(exporter).calls == 0
    del tensor
    assert native.released(exporter).calls == exporter.exports == 1


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_buffer_is_released_once_by_the_last_holder(
    native: Native, order: tuple[int, ...]
) -> None:
    exporter = native.exporter()
    gone = weakref.ref(dlbridge.asdlpack(exporter))
    assert gone() is None
    tensor = dlbridge.asdlpack(exporter)
    held = native.export(tensor)
    drops: list[Any] = [held.delete, [tensor].clear, [tensor.__dlpack__()].clear]
    del tensor
    for which in order:
        assert native.released(exporter).calls == 1
        drops[which]()
    assert native.released(exporter).calls == exporter.exports == 2


def test_release_on_another_thread_and_with_a_pending_exception(native: Native) -> None:
    ran = []
    exporter = native.exporter(on_release=lambda: ran.append(threading.get_ident()))
    native.export(dlbridge.asdlpack(exporter)).delete(Way.NATIVE_THREAD)
    assert len(ran) == 1
    assert ran[0] != threading.get_ident()
    held = native.export(dlbridge.asdlpack(exporter))
    assert held.delete_keeps(ValueError("kept"))
    assert len(ran) == 2
    assert not native.released(exporter).pending, "Python code ran without a pending exception"
    assert native.clear_keeps([dlbridge.asdlpack(exporter)], ValueError("kept"))
    assert native.released(exporter).calls == exporter.exports == 3
