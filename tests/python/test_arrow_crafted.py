"""Arrow structs that are right, wrong or hostile; each is released once."""

import ctypes
import gc
from typing import Any

import dlbridge
import pytest
from concurrently import concurrently
from conftest import require
from crafted_arrow import RELEASE, Array, Crafted, Pair, extension

pa = require("pyarrow")
np = require("numpy")


def test_each_struct_is_released_once() -> None:
    crafted = Crafted()
    tensor = dlbridge.asdlpack(crafted)
    assert tensor.numpy().tolist() == [0, 1, 2, 3, 4, 5]
    assert tensor.address == ctypes.addressof(crafted.numbers)
    assert crafted.released == {"schema": 1, "array": 0}
    part = tensor.numpy()[2:]
    del tensor
    gc.collect()
    assert crafted.released == {"schema": 1, "array": 0}
    del part
    assert crafted.released == {"schema": 1, "array": 1}
    assert not crafted.array.release, "a struct that was moved is marked as released"


@pytest.mark.parametrize(
    ("fields", "match"),
    [
        ({"length": -1}, "negative length"),
        ({"offset": -1}, "negative length or offset"),
        ({"offset": 2**62}, "offset that is too large"),
        ({"length": 2**62}, "address space"),
        ({"n_buffers": 1}, "a number of buffers other than two"),
        ({"n_buffers": 3}, "a number of buffers other than two"),
        ({"n_buffers": -2}, "a number of buffers other than two"),
        ({"buffers": None}, "a number of buffers other than two"),
        ({"buffers": (ctypes.c_void_p * 2)()}, "no data although it has elements"),
        ({"null_count": 3}, "3 nulls"),
        ({"format": b"z"}, "'z'"),
        ({"format": b""}, "''"),
        ({"format": b"\xff"}, "is not one of integers"),
        ({"format": b"+w:"}, r"'\+w:'"),
        ({"format": b"+w:-1"}, "fixed-size list without its one child"),
        ({"format": b"+w:99999999999999999999"}, r"'\+w:9"),
        ({"items": 4, "length": 2}, "fewer items than its lists need"),
        ({"items": 2, "length": 4}, "fewer items than its lists need"),
        ({"items": 2, "offset": 1}, "fewer items than its lists need"),
        ({"items": 2, "length": 2**62}, "more elements than the address space has room for"),
        ({"items": 2, "n_children": 0}, "fixed-size list without its one child"),
        ({"items": 2, "n_children": 2}, "fixed-size list without its one child"),
        ({"items": 2, "children": None}, "a child that is NULL or not aligned"),
        ({"items": 2, "n_buffers": 0}, "a number of buffers other than one"),
        ({"items": 2, "n_buffers": -1}, "a number of buffers other than one"),
        ({"items": 2, "n_buffers": 2}, "a number of buffers other than one"),
        ({"format": b"b", "length": 2**62}, "more elements than the address space has room for"),
    ],
)
def test_wrong_struct_is_refused_and_released_once(fields: dict[str, Any], match: str) -> None:
    crafted = Crafted(**fields)
    with pytest.raises(BufferError, match=match):
        dlbridge.asdlpack(crafted)
    assert crafted.released == {"schema": 1, "array": 1}


def test_booleans_without_memory_to_unpack_raise_memory_error() -> None:
    crafted = Crafted(format=b"b", length=2**56)
    with pytest.raises(MemoryError, match=f"no memory for the {2**56} booleans, a byte each"):
        dlbridge.asdlpack(crafted)
    assert crafted.released == {"schema": 1, "array": 1}


@pytest.mark.parametrize("which", [0, 1])
def test_children_that_were_released(which: int) -> None:
    crafted = Crafted(items=2)
    crafted.inner[which].release = RELEASE()
    with pytest.raises(BufferError, match="a child that was released"):
        dlbridge.asdlpack(crafted)
    assert crafted.released == {"schema": 1, "array": 1}


def test_children_that_contain_themselves_are_refused() -> None:
    crafted = Crafted(items=1)
    for struct in crafted.inner:
        children = (ctypes.POINTER(type(struct)) * 1)(ctypes.pointer(struct))
        struct.n_children, struct.children = 1, children
        crafted.children.append(children)
    crafted.inner[0].format, crafted.inner[1].n_buffers = b"+w:1", 1
    with pytest.raises(BufferError, match="more levels of lists than a tensor has dimensions"):
        dlbridge.asdlpack(crafted)
    assert crafted.released == {"schema": 1, "array": 1}


def test_nulls_without_a_count_are_counted() -> None:
    validity = (ctypes.c_uint8 * 1)(0b101011)
    for bits, nulls in [(0b101011, 2), (0b111111, 0)]:
        validity[0] = bits
        crafted = Crafted(null_count=-1)
        crafted.buffers[0] = ctypes.addressof(validity)
        if nulls:
            with pytest.raises(BufferError, match=f"has {nulls} nulls"):
                dlbridge.asdlpack(crafted)
        else:
            assert dlbridge.asdlpack(crafted).shape == (6,)
        gc.collect()
        assert crafted.released == {"schema": 1, "array": 1}


def test_arrow_array_is_released_on_another_thread() -> None:
    crafted = Crafted()
    tensors = [dlbridge.asdlpack(crafted)]
    concurrently([tensors.clear])
    assert crafted.released == {"schema": 1, "array": 1}


def test_lists_without_items() -> None:
    crafted = Crafted(items=0, length=3)
    tensor = dlbridge.asdlpack(crafted)
    assert (tensor.shape, tensor.address) == ((3, 0), 0)
    del tensor
    assert crafted.released == {"schema": 1, "array": 1}


def test_schema_without_a_format_is_refused() -> None:
    crafted = Crafted()
    crafted.schema.format = None
    with pytest.raises(BufferError, match="lacks a format"):
        dlbridge.asdlpack(crafted)
    assert crafted.released == {"schema": 1, "array": 1}


@pytest.mark.parametrize("which", [0, 1])
def test_wrong_capsule_is_refused(which: int) -> None:
    crafted = Crafted()
    names = list(crafted.names)
    names[which] = b"other"
    crafted.names = (names[0], names[1])
    with pytest.raises(ValueError, match="is not named 'arrow_"):
        dlbridge.asdlpack(crafted)
    crafted = Crafted()
    [crafted.schema, crafted.array][which].release = RELEASE()
    with pytest.raises(ValueError, match="was consumed before"):
        dlbridge.asdlpack(crafted)


@pytest.mark.parametrize("answer", [None, (), (1, 2), (1, 2, 3), "ab"])
def test_wrong_answer_is_refused(answer: Any) -> None:
    with pytest.raises((BufferError, TypeError), match="expected a"):
        dlbridge.asdlpack(Pair(answer))


def test_capsules_that_were_consumed_are_refused() -> None:
    same = Pair(pa.array([1, 2]).__arrow_c_array__())
    assert dlbridge.asdlpack(same).shape == (2,)
    with pytest.raises(ValueError, match="was consumed before"):
        dlbridge.asdlpack(same)


def test_valid_metadata_sets_shape_and_strides() -> None:
    assert dlbridge.asdlpack(extension(b'{"shape": [1, 2]}')).shape == (3, 1, 2)
    swapped = dlbridge.asdlpack(extension(b'{"shape": [1, 2], "permutation": [1, 0]}'))
    assert (swapped.shape, swapped.strides[0]) == ((3, 2, 1), 2)


@pytest.mark.parametrize(
    "metadata",
    [
        *(None, b"", b"{", b"[]", b"3", b"{}", b'{"shape": 2}', b'{"shape": [3]}', b'{"shape": [-2, -1]}'),
        *(b'{"shape": ["2"]}', b'{"shape": [2], "permutation": [0, 1]}', b"\xff\xfe"),
        *(b'{"shape": [1, 2], "permutation": [0, 0]}', b'{"shape": [2], "permutation": [5]}'),
        *(b'{"shape": [2], "permutation": "a"}', b'{"shape": [4611686018427387904, 4]}'),
    ],
)
def test_wrong_metadata_is_refused(metadata: bytes | None) -> None:
    crafted = extension(metadata)
    with pytest.raises(BufferError):
        dlbridge.asdlpack(crafted)
    assert crafted.released == {"schema": 1, "array": 1}


@pytest.mark.parametrize("shift", [None, -2, 2])
def test_own_array_with_a_changed_address_has_the_elements_there(shift: int | None) -> None:
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    elsewhere = (ctypes.c_int16 * 6)(*range(6))
    tensor = dlbridge.asdlpack(memoryview(elsewhere)[1:5])
    known = dlbridge.asdlpack(Pair(tensor.__arrow_c_array__()), protocol="arrow")
    changed = tensor.__arrow_c_array__()
    array = Array.from_address(pointer(changed[1], b"arrow_array"))
    other = (ctypes.c_int16 * 4)(9, 8, 7, 6)
    array.buffers[1] = ctypes.addressof(other) if shift is None else tensor.address + shift
    imported = dlbridge.asdlpack(Pair(changed), protocol="arrow")
    expected = [9, 8, 7, 6] if shift is None else [number + shift // 2 for number in known.tolist()]
    assert imported.tolist() == expected
