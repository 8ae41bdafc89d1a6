"""The Arrow PyCapsule interface, in and out, with pyarrow, polars and nanoarrow, and crafted structs."""

from __future__ import annotations

import ctypes
import gc
import weakref
from collections.abc import Callable
from typing import Any

import dlbridge
import pytest
from conftest import require

pa = require("pyarrow")
np = require("numpy")

DTYPES = [
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64"),
]


class Only:
    """An object that has nothing but methods of another."""

    def __init__(self, source: Any, *names: str) -> None:
        for name in names:
            setattr(self, name, getattr(source, name))


def arrow(source: Any, **keywords: Any) -> dlbridge.Tensor:
    """The tensor that comes through Arrow."""
    tensor = dlbridge.asdlpack(source, protocol="arrow", **keywords)
    assert tensor.protocol == "arrow"
    return tensor


@pytest.mark.parametrize("dtype", DTYPES)
def test_numbers_in_and_out(dtype: str) -> None:
    source = pa.array(np.arange(10).astype(dtype))
    tensor = arrow(source)
    assert (tensor.dtype, tensor.shape, tensor.readonly, tensor.copied) == (dtype, (10,), True, False)
    assert tensor.address == source.buffers()[1].address
    back = pa.array(tensor)
    assert back.type == source.type
    assert back.equals(source)
    assert back.buffers()[1].address == tensor.address


def test_slices_and_bitmaps_without_nulls() -> None:
    with_bitmap = pa.array([1, 2, None, 4, 5], pa.int32())[3:]
    assert arrow(with_bitmap).numpy().tolist() == [4, 5]
    assert arrow(pa.array(range(10))[2:5]).numpy().tolist() == [2, 3, 4]
    assert arrow(pa.array([], pa.int16())).shape == (0,)


def test_nulls_are_refused_with_the_fix() -> None:
    for source in [pa.array([1, None, 3, None]), pa.array([1, None, 3, None])[1:]]:
        with pytest.raises(BufferError, match=r"has 2 nulls.*fill_null\(0\).*drop_null\(\)"):
            dlbridge.asdlpack(source)
    inner = pa.FixedSizeListArray.from_arrays(pa.array([1, None, 3, 4]), 2)
    with pytest.raises(BufferError, match="has 1 nulls"):
        dlbridge.asdlpack(inner)
    assert arrow(inner[1:]).numpy().tolist() == [[3, 4]]
    outer = pa.array([[1, 2], None], pa.list_(pa.int8(), 2))
    with pytest.raises(BufferError, match="has 1 nulls"):
        dlbridge.asdlpack(outer)


def test_truth_values_are_unpacked_as_a_reported_copy() -> None:
    values = [True, False, True, True, False, False, True, False, True, True]
    source = pa.array(values)
    tensor = dlbridge.asdlpack(source[1:])
    assert (tensor.dtype, tensor.copied) == ("bool", True)
    assert tensor.copy_reason == "the elements were packed, eight to a byte"
    assert tensor.numpy().tolist() == values[1:]
    with pytest.raises(BufferError, match="packs truth values eight to a byte"):
        dlbridge.asdlpack(source, copy=False)
    pairs = pa.FixedSizeListArray.from_arrays(source, 2)
    assert dlbridge.asdlpack(pairs[1:]).numpy().tolist() == [values[i : i + 2] for i in (2, 4, 6, 8)]
    with pytest.raises(BufferError, match="no type with the memory of bool"):
        pa.array(tensor)


def test_lists_of_a_fixed_size_are_axes() -> None:
    numbers = np.arange(24, dtype="float32")
    lists = pa.FixedSizeListArray.from_arrays(pa.array(numbers), 4)
    nested = pa.FixedSizeListArray.from_arrays(lists, 3)
    tensor = arrow(nested)
    assert (tensor.shape, tensor.strides) == ((2, 3, 4), (12, 4, 1))
    assert tensor.address == numbers.ctypes.data
    assert arrow(nested[1:]).numpy().tolist() == numbers.reshape(2, 3, 4)[1:].tolist()
    assert arrow(nested.flatten()[2:5]).numpy().tolist() == numbers.reshape(6, 4)[2:5].tolist()
    sliced_inside = pa.FixedSizeListArray.from_arrays(pa.array(numbers)[4:12], 2)
    assert arrow(sliced_inside[1:3]).numpy().tolist() == [[6, 7], [8, 9]]


def test_tensors_of_a_fixed_shape() -> None:
    numbers = np.arange(24, dtype="int32").reshape(2, 3, 4)
    source = pa.FixedShapeTensorArray.from_numpy_ndarray(numbers)
    tensor = arrow(source)
    assert (tensor.shape, tensor.strides) == ((2, 3, 4), (12, 4, 1))
    assert np.array_equal(tensor.numpy(), numbers)
    back = pa.array(dlbridge.asdlpack(numbers))
    assert back.type == source.type
    assert np.array_equal(back.to_numpy_ndarray(), numbers)
    assert back.storage.flatten().buffers()[1].address == numbers.ctypes.data


@pytest.mark.parametrize("permutation", [[0, 1], [1, 0]])
def test_a_permutation_becomes_strides(permutation: list[int]) -> None:
    kind = pa.fixed_shape_tensor(pa.int32(), [3, 4], permutation=permutation)
    storage = pa.FixedSizeListArray.from_arrays(pa.array(range(24), pa.int32()), 12)
    source = pa.ExtensionArray.from_storage(kind, storage)
    tensor = arrow(source)
    expected = np.arange(24).reshape(2, 3, 4).transpose(0, *(axis + 1 for axis in permutation))
    assert np.array_equal(tensor.numpy(), expected)
    assert np.array_equal(tensor.numpy(), source.to_numpy_ndarray())


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: pa.array(["text"]), "'u' .*convert it to numbers first"),
        (lambda: pa.array([[1], [2, 3]]), r"'\+l' .*cast it to fixed-size lists first"),
        (lambda: pa.array([0], "timestamp[s]"), "'tss:' .*cast it to integers first"),
        (lambda: pa.array(["a"]).dictionary_encode(), r"dictionary_decode\(\) it first"),
        (lambda: pa.array([1], pa.decimal128(5)), "'d:5,0' .*cast it to floats first"),
        (lambda: pa.nulls(3), "nulls"),
        (lambda: pa.record_batch({"a": [1]}), r"'\+s' .*take one column of it first"),
        (lambda: pa.table({"a": [1]}), r"'\+s' .*take one column of it first"),
        (lambda: pa.chunked_array([[1], [2]]), r"several chunks.*combine_chunks\(\) or rechunk\(\)"),
        (lambda: pa.chunked_array([], pa.int8()), r"no chunk.*combine_chunks\(\)"),
    ],
)
def test_what_is_no_tensor(make: Callable[[], Any], match: str) -> None:
    with pytest.raises(BufferError, match=match):
        dlbridge.asdlpack(make())


def test_streams_of_one_chunk() -> None:
    chunk = pa.array([1, 2, 3])
    tensor = dlbridge.asdlpack(pa.chunked_array([chunk]))
    assert (tensor.protocol, tensor.address) == ("arrow", chunk.buffers()[1].address)
    empty = pa.array([], pa.int64())
    assert dlbridge.asdlpack(pa.chunked_array([empty, chunk, empty])).numpy().tolist() == [1, 2, 3]
    assert dlbridge.asdlpack(pa.chunked_array([empty, empty])).shape == (0,)


def test_the_door_for_devices() -> None:
    source = pa.array([1, 2, 3])
    tensor = arrow(Only(source, "__arrow_c_device_array__"))
    assert (tensor.address, tensor.device) == (source.buffers()[1].address, "cpu")
    with pytest.raises(BufferError, match="an Arrow array is on the CPU"):
        dlbridge.asdlpack(Only(source, "__arrow_c_array__"), device="cuda")


def test_polars() -> None:
    polars = require("polars")
    series = polars.Series([1.5, 2.5, 3.5])
    tensor = dlbridge.asdlpack(series)
    assert (tensor.protocol, tensor.readonly) == ("arrow", True)
    assert tensor.address == series.to_numpy(allow_copy=False).ctypes.data
    with pytest.raises(BufferError, match="nulls"):
        dlbridge.asdlpack(polars.Series([1, None]))
    with pytest.raises(BufferError, match="several chunks"):
        dlbridge.asdlpack(polars.concat([series, series], rechunk=False))
    matrix = dlbridge.asdlpack(polars.Series([[1, 2], [3, 4]], dtype=polars.Array(polars.Int32, 2)))
    assert matrix.numpy().tolist() == [[1, 2], [3, 4]]
    back = polars.Series(dlbridge.asdlpack(np.arange(3.0)))
    assert back.to_list() == [0, 1, 2]


def test_nanoarrow() -> None:
    nanoarrow = require("nanoarrow")
    source = np.arange(5)
    made = nanoarrow.c_array(dlbridge.asdlpack(source))
    assert made.buffers[1] == source.ctypes.data
    assert dlbridge.asdlpack(nanoarrow.Array([1, 2], nanoarrow.int32())).numpy().tolist() == [1, 2]


@pytest.mark.parametrize(
    ("tensor", "match"),
    [
        (lambda: dlbridge.empty((3, 2), "bfloat16"), "no type with the memory of bfloat16"),
        (lambda: dlbridge.asdlpack(np.arange(6)[::2]), "not adjacent.*contiguous='C'"),
        (lambda: dlbridge.asdlpack(np.zeros((2, 3)).T), "not adjacent"),
        (lambda: dlbridge.empty(()), "give the tensor a dimension"),
        (lambda: dlbridge.asdlpack(np.broadcast_to(np.int8(0), (1, 2**32))), "not adjacent"),
    ],
)
def test_what_arrow_cannot_express(tensor: Callable[[], dlbridge.Tensor], match: str) -> None:
    for ask in (lambda t: t.__arrow_c_array__(), lambda t: t.__arrow_c_schema__()):
        with pytest.raises(BufferError, match=match):
            ask(tensor())


def test_what_is_out_lives_on() -> None:
    source = np.arange(6, dtype="int32")
    gone = weakref.ref(source)
    made = pa.array(dlbridge.asdlpack(source.reshape(2, 3)))
    part = made.storage.flatten()
    del source, made
    gc.collect()
    assert gone() is not None
    assert part.to_pylist() == [0, 1, 2, 3, 4, 5]
    del part
    gc.collect()
    assert gone() is None


def test_capsules_that_nobody_takes() -> None:
    source = np.arange(6)
    gone = weakref.ref(source)
    tensor = dlbridge.asdlpack(source)
    capsules = [tensor.__arrow_c_array__(), tensor.__arrow_c_schema__()]
    del source, tensor
    assert gone() is not None
    del capsules
    assert gone() is None


def test_exports_are_recorded() -> None:
    dlbridge.record_exports(True)
    made = pa.array(dlbridge.empty(3))
    [export] = dlbridge.live_exports()
    dlbridge.record_exports(False)
    assert (export["door"], export["shape"]) == ("arrow", (3,))
    del made
    gc.collect()
    assert dlbridge.live_exports() == []


# What follows is made by hand, to be wrong.

RELEASE = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Schema(ctypes.Structure):
    """``ArrowSchema``."""


Schema._fields_ = [
    ("format", ctypes.c_char_p),
    ("name", ctypes.c_char_p),
    ("metadata", ctypes.c_char_p),
    ("flags", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("children", ctypes.POINTER(ctypes.POINTER(Schema))),
    ("dictionary", ctypes.POINTER(Schema)),
    ("release", RELEASE),
    ("private_data", ctypes.c_void_p),
]


class Array(ctypes.Structure):
    """``ArrowArray``."""


Array._fields_ = [
    ("length", ctypes.c_int64),
    ("null_count", ctypes.c_int64),
    ("offset", ctypes.c_int64),
    ("n_buffers", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("buffers", ctypes.POINTER(ctypes.c_void_p)),
    ("children", ctypes.POINTER(ctypes.POINTER(Array))),
    ("dictionary", ctypes.POINTER(Array)),
    ("release", RELEASE),
    ("private_data", ctypes.c_void_p),
]


def new_capsule(struct: Any, name: bytes) -> Any:
    """A capsule without a destructor."""
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    return new(ctypes.addressof(struct), name, None)


class Crafted:
    """An array of six int16, or what the fields say instead; how often each struct was released."""

    def __init__(self, format: bytes = b"s", items: int | None = None, **fields: Any) -> None:
        self.released = {"schema": 0, "array": 0}
        self.numbers = (ctypes.c_int16 * 6)(*range(6))
        self.buffers = (ctypes.c_void_p * 2)(None, ctypes.addressof(self.numbers))
        self.schema = self.make_schema(format)
        self.array = self.make_array(length=6, n_buffers=2, buffers=self.buffers)
        if items is not None:
            self.inner = (self.schema, self.array)
            self.children = [
                (ctypes.POINTER(kind) * 1)(ctypes.pointer(child))
                for kind, child in zip((Schema, Array), self.inner)
            ]
            self.schema = self.make_schema(b"+w:%d" % items)
            self.schema.n_children, self.schema.children = 1, self.children[0]
            self.array = self.make_array(length=6 // max(items, 1), n_buffers=1, buffers=self.buffers)
            self.array.n_children, self.array.children = 1, self.children[1]
        for name, value in fields.items():
            setattr(self.array, name, value)
        self.names = (b"arrow_schema", b"arrow_array")

    def make_schema(self, format: bytes) -> Schema:
        """A schema that counts its release."""
        schema = Schema(format=format, name=b"", flags=2)
        schema.release = self.counting("schema", Schema)
        return schema

    def make_array(self, **fields: Any) -> Array:
        """An array that counts its release."""
        array = Array(**fields)
        array.release = self.counting("array", Array)
        return array

    def counting(self, name: str, kind: Any) -> Any:
        """A release function, as the interface wants it."""

        def release(address: int) -> None:
            self.released[name] += 1
            struct = kind.from_address(address)
            struct.release = RELEASE()

        return RELEASE(release)

    def __arrow_c_array__(self, requested_schema: Any = None) -> tuple[Any, Any]:
        return new_capsule(self.schema, self.names[0]), new_capsule(self.array, self.names[1])


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
    assert not crafted.array.release, "what was moved out is left released"


@pytest.mark.parametrize(
    ("fields", "match"),
    [
        ({"length": -1}, "negative length"),
        ({"offset": -1}, "negative length or offset"),
        ({"offset": 2**62}, "offset that is too large"),
        ({"length": 2**62}, "address space"),
        ({"n_buffers": 1}, "another number of buffers"),
        ({"n_buffers": 3}, "another number of buffers"),
        ({"n_buffers": -2}, "another number of buffers"),
        ({"buffers": None}, "another number of buffers"),
        ({"buffers": (ctypes.c_void_p * 2)()}, "no data although it has elements"),
        ({"null_count": 3}, "3 nulls"),
        ({"format": b"z"}, "'z'"),
        ({"format": b""}, "''"),
        ({"format": b"\xff"}, "no tensor"),
        ({"format": b"+w:"}, r"'\+w:'"),
        ({"format": b"+w:-1"}, "fixed-size list without its one child"),
        ({"format": b"+w:99999999999999999999"}, r"'\+w:9"),
        ({"items": 4, "length": 2}, "fewer items than its lists need"),
        ({"items": 2, "length": 4}, "fewer items than its lists need"),
        ({"items": 2, "offset": 1}, "fewer items than its lists need"),
        ({"items": 2, "length": 2**62}, "more items than can be counted"),
        ({"items": 2, "n_children": 0}, "fixed-size list without its one child"),
        ({"items": 2, "n_children": 2}, "fixed-size list without its one child"),
        ({"items": 2, "children": None}, "a child that is NULL"),
    ],
    ids=str,
)
def test_structs_that_are_wrong(fields: dict[str, Any], match: str) -> None:
    crafted = Crafted(**fields)
    with pytest.raises(BufferError, match=match):
        dlbridge.asdlpack(crafted)
    assert crafted.released == {"schema": 1, "array": 1}


def test_lists_without_items() -> None:
    crafted = Crafted(items=0, length=3)
    tensor = dlbridge.asdlpack(crafted)
    assert (tensor.shape, tensor.address) == ((3, 0), 0)
    del tensor
    assert crafted.released == {"schema": 1, "array": 1}


def test_a_schema_without_a_format() -> None:
    crafted = Crafted()
    crafted.schema.format = None
    with pytest.raises(BufferError, match="no format"):
        dlbridge.asdlpack(crafted)
    assert crafted.released == {"schema": 1, "array": 1}


@pytest.mark.parametrize("which", [0, 1])
def test_capsules_that_are_wrong(which: int) -> None:
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
def test_answers_that_are_none(answer: Any) -> None:
    class Broken:
        """A producer with another answer."""

        def __arrow_c_array__(self) -> Any:
            """That."""
            return answer

    with pytest.raises((BufferError, TypeError), match="expected a"):
        dlbridge.asdlpack(Broken())


def test_the_same_answer_twice() -> None:
    capsules = pa.array([1, 2]).__arrow_c_array__()

    class Same:
        """A producer that has one answer."""

        def __arrow_c_array__(self) -> Any:
            """That."""
            return capsules

    assert dlbridge.asdlpack(Same()).shape == (2,)
    with pytest.raises(ValueError, match="was consumed before"):
        dlbridge.asdlpack(Same())


def extension(metadata: bytes | None) -> Any:
    """A fixed-shape tensor of lists of two, with other metadata."""
    pairs = [(b"ARROW:extension:name", b"arrow.fixed_shape_tensor")]
    if metadata is not None:
        pairs.append((b"ARROW:extension:metadata", metadata))
    raw = len(pairs).to_bytes(4, "little")
    for text in (text for pair in pairs for text in pair):
        raw += len(text).to_bytes(4, "little") + text
    crafted = Crafted(items=2)
    crafted.raw = ctypes.create_string_buffer(raw, len(raw))  # type: ignore[attr-defined]
    crafted.schema.metadata = ctypes.cast(crafted.raw, ctypes.c_char_p)  # type: ignore[attr-defined]
    return crafted


def test_metadata_that_is_right() -> None:
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
def test_metadata_that_is_wrong(metadata: bytes | None) -> None:
    crafted = extension(metadata)
    with pytest.raises(BufferError):
        dlbridge.asdlpack(crafted)
    assert crafted.released == {"schema": 1, "array": 1}
