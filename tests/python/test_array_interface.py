"""Import and export by NumPy's array interfaces: dictionaries and structs, right and wrong."""

import array
import gc
import weakref
from typing import Any

import dlbridge
import pytest
from processes import output
from producers import ORDER, Memory, producer, raises, values

OTHER = ">" if ORDER == "<" else "<"


def test_interface_shares_the_memory_and_keeps_its_owner() -> None:
    memory = Memory()
    tensor = dlbridge.asdlpack(memory)
    assert (tensor.shape, tensor.dtype, tensor.device) == ((24,), "uint8", "cpu")
    assert (tensor.protocol, tensor.readonly, tensor.copied) == ("array-interface", False, False)
    assert tensor.address == memory.address
    memory.buffer[3] = 99
    assert values(tensor)[3] == 99
    gone = weakref.ref(memory)
    del memory
    gc.collect()
    assert gone() is not None
    del tensor
    assert gone() is None


def test_import_of_read_only_interface_is_read_only() -> None:
    memory = Memory()
    memory.fields["data"] = (memory.address, True)
    tensor = dlbridge.asdlpack(memory)
    assert tensor.readonly
    assert tensor.__array_interface__["data"] == (memory.address, True)
    assert memoryview(tensor).readonly
    with pytest.raises(TypeError, match="read-only|not writable"):
        memoryview(tensor)[0] = 1


@pytest.mark.parametrize(
    ("typestr", "itemsize", "dtype"),
    [
        *(("|b1", 1, "bool"), ("|i1", 1, "int8"), ("|u1", 1, "uint8"), ("=i4", 4, "int32")),
        *((f"{ORDER}i{n}", n, f"int{8 * n}") for n in (2, 4, 8)),
        *((f"{ORDER}u{n}", n, f"uint{8 * n}") for n in (2, 4, 8)),
        *((f"{ORDER}f{n}", n, f"float{8 * n}") for n in (2, 4, 8)),
        *((f"{ORDER}c{n}", n, f"complex{8 * n}") for n in (8, 16)),
    ],
)
def test_every_typestr_makes_a_round_trip(typestr: str, itemsize: int, dtype: str) -> None:
    tensor = dlbridge.asdlpack(Memory(bytes(48), typestr=typestr, shape=(3,)))
    assert (tensor.dtype, tensor.nbytes) == (dtype, 3 * itemsize)
    out = tensor.__array_interface__
    order = "|" if itemsize == 1 else ORDER
    assert out["typestr"] == order + typestr[1:]
    assert (out["version"], out["shape"], out["strides"]) == (3, (3,), None)


@pytest.mark.parametrize(
    "typestr",
    [f"{ORDER}f16", f"{ORDER}c32", "|O8", "|S4", f"{ORDER}U2", f"{ORDER}M8[ns]", "|V4", "|t1", "|b2"],
)
def test_typestr_that_is_not_a_number_is_refused(typestr: str) -> None:
    memory = Memory(bytes(64), typestr=typestr, shape=(2,))
    with pytest.raises(BufferError, match="is not supported|typestr is"):
        dlbridge.asdlpack(memory)


@pytest.mark.parametrize(
    ("fields", "match"),
    [
        ({"typestr": "f4"}, "typestr is 'f4'"),
        ({"typestr": "<fx"}, "typestr is '<fx'"),
        ({"typestr": ""}, "typestr is ''"),
        ({"typestr": b"<f4"}, "typestr must be a string"),
        ({"typestr": None}, "typestr must be a string"),
        ({"shape": [24]}, "shape must be a tuple"),
        ({"shape": (2.5,)}, "shape must be a tuple"),
        ({"shape": (-1,)}, "non-negative"),
        ({"shape": (1,) * 65}, "at most 64"),
        ({"shape": None}, "shape must be a tuple"),
        ({"shape": (2**40, 2**40)}, "address space"),
        ({"strides": (1, 1)}, "one number for each of 1 axes"),
        ({"strides": [1]}, "None or a tuple of integers"),
        ({"strides": (2**62,)}, "address space"),
        ({"mask": (1, 0)}, "mask"),
        ({"data": (0, False)}, "NULL"),
        ({"data": (-1, False)}, "data must be an address and a bool"),
        ({"data": (1,)}, "data must be an address and a bool"),
        ({"data": ("a", False)}, "data must be an address and a bool"),
        ({"typestr": "<f+8"}, "typestr is '<f\\+8'"),
    ],
    ids=str,
)
def test_wrong_field_is_named_in_the_refusal(fields: dict[str, Any], match: str) -> None:
    for copy in (None, True, False):
        memory = Memory(**fields)
        with pytest.raises(BufferError, match=match):
            dlbridge.asdlpack(memory, copy=copy)
        gone = weakref.ref(memory)
        del memory
        gc.collect()
        assert gone() is None, "a refusal keeps nothing"


def test_interface_that_is_not_a_dictionary_is_refused() -> None:
    memory = Memory()
    memory.fields = [1]  # type: ignore[assignment]
    with pytest.raises(BufferError, match="must be a dictionary"):
        dlbridge.asdlpack(memory)


def test_exception_of_the_property_is_raised() -> None:
    broken = producer(__array_interface__=property(raises(ZeroDivisionError("on purpose"))))
    with pytest.raises(ZeroDivisionError, match="on purpose"):
        dlbridge.asdlpack(broken)


@pytest.mark.parametrize("answer", [None, property(raises(AttributeError("not now")))], ids=["none", "missing"])
def test_none_and_a_missing_property_decline(answer: Any) -> None:
    with pytest.raises(TypeError, match="supports no exchange protocol"):
        dlbridge.asdlpack(producer(__array_interface__=answer))
    with pytest.raises(TypeError, match="supports no exchange protocol"):
        dlbridge.asdlpack(Memory)


def test_strides_and_an_origin_in_the_middle() -> None:
    memory = Memory(bytes(range(12)), shape=(3, 2), strides=(-4, 2))
    memory.fields["data"] = (memory.address + 8, False)
    tensor = dlbridge.asdlpack(memory)
    assert tensor.strides == (-4, 2)
    assert values(tensor) == [[8, 10], [4, 6], [0, 2]]
    out = tensor.__array_interface__
    assert (out["strides"], out["data"]) == ((-4, 2), (memory.address + 8, False))


def test_zero_size_and_no_dimension() -> None:
    assert dlbridge.asdlpack(Memory(shape=(0, 3), data=(0, False))).shape == (0, 3)
    one = dlbridge.asdlpack(Memory(b"\x07", shape=()))
    assert (one.shape, values(one)) == ((), 7)


@pytest.mark.parametrize(("typestr", "letter"), [("f4", "f"), ("i2", "h"), ("u8", "Q")])
def test_other_byte_order_is_repaired_or_refused(typestr: str, letter: str) -> None:
    numbers = array.array(letter, [1, 2, 3])
    numbers.byteswap()
    memory = Memory(numbers.tobytes(), typestr=OTHER + typestr, shape=(3,))
    with pytest.raises(BufferError, match="not in this machine's byte order"):
        dlbridge.asdlpack(memory, copy=False)
    tensor = dlbridge.asdlpack(memory)
    assert (tensor.copied, tensor.readonly) == (True, False)
    assert tensor.copy_reason == "the elements were not in this machine's byte order"
    assert values(tensor) == [1, 2, 3]


@pytest.mark.parametrize(
    ("shape", "strides", "offset", "expected"),
    [
        ((3,), None, 2, [2, 3, 4]),
        ((3,), (-2,), 8, [8, 6, 4]),
        ((2, 2), (4, 1), 0, [[0, 1], [4, 5]]),
        ((0, 9), None, 24, []),
    ],
)
def test_interface_with_a_buffer_as_data_is_imported(
    shape: tuple[int, ...], strides: Any, offset: int, expected: Any
) -> None:
    lent = bytearray(range(24))
    tensor = dlbridge.asdlpack(Memory(data=lent, shape=shape, strides=strides, offset=offset))
    assert values(tensor) == expected
    with pytest.raises(BufferError, match="export"):
        lent.append(1)
    del tensor
    lent.append(1)


@pytest.mark.parametrize(
    ("shape", "strides", "offset"),
    [
        ((25,), None, 0),
        ((3,), None, 22),
        ((3,), (-1,), 1),
        ((2, 13), None, 0),
        ((2,), (24,), 0),
        ((2**62, 2**62), None, 0),
        ((2,), (2**62,), 0),
        ((1,), None, 24),
    ],
)
def test_elements_outside_of_the_buffer_are_refused(
    shape: tuple[int, ...], strides: Any, offset: int
) -> None:
    lent = bytearray(range(24))
    memory = Memory(data=lent, shape=shape, strides=strides, offset=offset)
    with pytest.raises(BufferError, match="of a buffer that has 24"):
        dlbridge.asdlpack(memory)
    lent.append(1)


def test_interface_without_data_uses_the_buffer_of_the_object() -> None:
    class Bytes(bytearray):
        __array_interface__ = {"version": 3, "shape": (2, 2), "typestr": "|u1", "data": None}

    assert values(dlbridge.asdlpack(Bytes(b"\1\2\3\4"))) == [[1, 2], [3, 4]]


@pytest.mark.parametrize("name", ["__array_interface__", "__array_struct__"])
def test_dtype_without_a_typestr_has_no_interface(name: str) -> None:
    tensor = dlbridge.empty(4, "bfloat16")
    assert not hasattr(tensor, name)
    assert not hasattr(tensor, "__cuda_array_interface__")
    assert hasattr(dlbridge.empty(4, "float16"), name)


def test_read_only_mark_may_be_an_integer_and_version_may_be_older() -> None:
    for mark in (0, 1, False, True):
        memory = Memory(version=2)
        memory.fields["data"] = (memory.address, mark)
        assert dlbridge.asdlpack(memory).readonly == bool(mark)


def test_interface_that_changes_while_it_is_read_is_safe() -> None:
    memory = Memory(bytes(64), shape=(4, 4), typestr=f"{ORDER}f4")

    def replace_strides(_: object) -> int:
        memory.fields["strides"] = (4,)
        return 16

    memory.fields["strides"] = (producer(__index__=replace_strides), 4)
    assert dlbridge.asdlpack(memory).strides == (4, 1)
    memory.fields["strides"] = (producer(__index__=replace_strides), 4)
    memory.fields["data"] = bytearray(64)
    assert dlbridge.asdlpack(memory).strides == (4, 1)


def test_exception_of_a_conversion_is_raised() -> None:
    number = producer(__index__=raises(KeyboardInterrupt))
    for fields in ({"shape": (number,)}, {"strides": (number,)}):
        with pytest.raises(KeyboardInterrupt):
            dlbridge.asdlpack(Memory(**fields))

    class Typed(Memory):
        dtype = property(raises(KeyboardInterrupt))

    with pytest.raises(KeyboardInterrupt):
        dlbridge.asdlpack(Typed(typestr="|V1"))


def test_producer_that_imports_itself_does_not_use_up_the_stack() -> None:
    code = """

import dlbridge, threading
class Endless:
    def __dlpack__(self, **keywords):
        return dlbridge.asdlpack(self).__dlpack__(**keywords)
def endless():
    try:
        dlbridge.asdlpack(Endless())
    except RecursionError as error:
        assert "must not import the producer" in str(error)
        stopped.append(error)
stopped = []
endless()
threading.stack_size(1 << 20)
thread = threading.Thread(target=endless)
thread.start()
thread.join()
assert len(stopped) == 2
assert dlbridge.asdlpack(b"abc").shape == (3,)
"""
    output(code)


def test_data_copied_at_each_access_is_reported_as_a_copy() -> None:
    def interface(data: bytes) -> dict[str, Any]:
        return {"version": 3, "shape": (6,), "typestr": "|u1", "data": data}

    picture = producer(__array_interface__=property(lambda _: interface(bytes(bytearray(b"abcdef")))))
    tensor = dlbridge.asdlpack(picture)
    assert (tensor.copied, tensor.copy_reason) == (True, "the producer made a copy")
    with pytest.raises(BufferError, match="copies its data in each export of its array interface.*copy=False forbids"):
        dlbridge.asdlpack(picture, copy=False)
    kept = b"abcdef"
    assert not dlbridge.asdlpack(producer(__array_interface__=property(lambda _: interface(kept))), copy=False).copied


@pytest.mark.parametrize("typestr", ["|u1", f"{OTHER}u2"])
def test_bytes_that_a_producer_keeps_as_its_dictionary_is_freed_are_not_written(typestr: str) -> None:
    kept: list[bytes] = []

    class Keeping(dict[str, Any]):
        def __del__(self) -> None:
            kept.append(self["data"])

    def interface(_: object) -> Any:
        return Keeping(version=3, shape=(6 // int(typestr[-1]),), typestr=typestr, data=bytes(bytearray(b"abcdef")))

    tensor = dlbridge.asdlpack(producer(__array_interface__=property(interface)))
    assert kept == [b"abcdef"]
    assert tensor.readonly or tensor.copied
    if not tensor.readonly:
        tensor.numpy()[...] = 0
    assert kept == [b"abcdef"]


def test_bytes_under_a_second_key_that_equals_the_first_are_not_written() -> None:
    kept = bytes(bytearray(b"abcdef"))

    class Key(str):
        """Equals "data" at its first comparisons only."""

        equal: int

        def __eq__(self, other: object) -> bool:
            self.equal -= 1
            return self.equal >= 0

        def __hash__(self) -> int:
            return hash("data")

    for comparisons in range(8):
        key = Key("other")
        key.equal = 0
        interface: dict[str, Any] = {"version": 3, "shape": (6,), "typestr": "|u1"}
        interface[key] = kept
        interface["data"] = bytes(bytearray(b"ghijkl"))
        key.equal = comparisons
        tensor = dlbridge.asdlpack(producer(__array_interface__=interface))
        if not tensor.readonly:
            tensor.numpy()[...] = 0
        del tensor
        assert kept == b"abcdef"


def test_interface_without_data_or_buffer_is_refused() -> None:
    nowhere = producer(__array_interface__={"version": 3, "shape": (3,), "typestr": "<f4"})
    with pytest.raises(BufferError, match="data must be an address and a bool, or an object"):
        dlbridge.asdlpack(nowhere)
