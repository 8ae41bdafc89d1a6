"""Arrow structs with one wrong field at a time: each field, at each level, with each value that reaches a branch of the parser.

The test compares the refusals with a list of all of them, which proves that every branch of the parser runs. The fuzz
target ``arrow`` tries random combinations, also in streams and device arrays.
"""

import ctypes
import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import dlbridge
import pytest
from crafted_arrow import RELEASE, Array, Crafted, Schema, extension, lists_of_three

FORMATS = [
    *(b"c", b"C", b"s", b"S", b"i", b"I", b"l", b"L", b"e", b"f", b"g", b"b"),
    *(b"", b"n", b"u", b"vu", b"z", b"w:8", b"d:5,0", b"tdD", b"tsu:UTC", b"+s", b"+l", b"+r", b"+ud:0", b"\xff\xfe"),
    *(b"+w:0", b"+w:1", b"+w:2", b"+w:3", b"+w:-1", b"+w:", b"+w:9223372036854775807", b"+w:9" * 9, b"_pli128"),
]
#: Lengths that no address space has.
LARGE = [2**58, 2**61, 2**62, 2**63 - 1]

#: Words that identify each refusal; the first match counts. "imported" is for valid or harmless arrays.
OUTCOMES = (
    "imported",
    "a negative length or offset",
    "a dictionary that its schema lacks",
    "children although its type has none",
    "more elements than the address space has room for",
    "an offset that is too large",
    "booleans, a byte each, of an Arrow array",
    "a fixed-size list without its one child",
    "a number of buffers other than one",
    "a number of buffers other than two",
    "a child that is NULL or not aligned",
    "a child that was released",
    "lists of tensors of a fixed shape",
    "tensors of a fixed shape whose elements are not numbers",
    "metadata that is not that of fixed-shape tensors",
    "metadata with a negative length",
    "too many items to count",
    "fewer items than its lists need",
    "no data although it has elements",
    "N nulls",
    "the Arrow schema lacks a format",
    "gives its storage a meaning",
    "decode the dictionary",
    "of integers, floats or booleans",
    "pass it to dlbridge.matrix",
    "was consumed before",
    "is named twice",
    "is out of range for",
)

#: Bytes of memory, enough for every element that an imported array can have.
ROOM = 1 << 12

POINTERS = ctypes.POINTER(ctypes.c_void_p)

COUNTS = [0, 1, 2, 3, -1, -(2**63), 2**62, 2**63 - 1]


def text(*pairs: tuple[bytes, bytes], count: int | None = None, length: int | None = None) -> Any:
    """The metadata of a schema, whose count of pairs or first length may be wrong."""
    raw = (len(pairs) if count is None else count).to_bytes(4, "little", signed=True)
    for i, part in enumerate(part for pair in pairs for part in pair):
        raw += (len(part) if i or length is None else length).to_bytes(4, "little", signed=True) + part
    return ctypes.create_string_buffer(raw, len(raw))


def named(name: bytes, shape: bytes | None = None) -> Any:
    """The metadata of an extension type."""
    pairs = [(b"ARROW:extension:name", name)]
    return text(*pairs, *[] if shape is None else [(b"ARROW:extension:metadata", shape)])


SHAPES = [
    *(b"", b"{", b"[]", b"{}", b"\xff", b'{"shape": 2}', b'{"shape": [2]}', b'{"shape": [3]}', b'{"shape": [-2, -1]}'),
    b'{"shape": [9223372036854775807, 2]}',
    b'{"shape": [2], "permutation": [0, 1]}',
    *(
        b'{"shape": [1, 2], "permutation": %s}' % order
        for order in (b"[1, 0]", b"[0, 0]", b"[7, 8]", b"[-1, 0]", b"[18446744073709551615, 0]", b"1", b'["a", "b"]')
    ),
]

NAMED: list[Callable[[], Any]] = [
    *(partial(named, name) for name in (b"arrow.fixed_shape_tensor", b"arrow.bool8", b"tests.unknown", b"", b"\xff")),
    *(partial(named, b"arrow.fixed_shape_tensor", shape) for shape in SHAPES),
    lambda: text(count=-1), lambda: text((b"a", b"b"), length=-1), lambda: text((b"a", b"b"), length=-(2**31)),
]  # fmt: skip


def odd(kind: Any) -> Callable[[Any], Any]:
    """A pointer that is not aligned."""
    return lambda struct: ctypes.cast(ctypes.addressof(struct) + 1, kind)


def null_child(struct: Any) -> Any:
    """One child, which is NULL."""
    return (ctypes.POINTER(type(struct)) * 1)()


def odd_child(struct: Any) -> Any:
    """One child, which is not aligned."""
    return (ctypes.POINTER(type(struct)) * 1)(ctypes.cast(ctypes.addressof(struct) + 1, ctypes.POINTER(type(struct))))


#: For each struct and field: wrong values, or functions that make one from the struct.
WRONG: dict[Any, dict[str, list[Any]]] = {
    Schema: {
        "format": [None, *FORMATS],
        "metadata": [lambda _, make=make: ctypes.cast(make(), ctypes.c_char_p) for make in NAMED],
        "flags": [0, -1, 2**62],
        "n_children": COUNTS,
        "children": [None, null_child, odd_child, odd(ctypes.POINTER(ctypes.POINTER(Schema)))],
        "dictionary": [ctypes.pointer],
        "release": [RELEASE()],
        "private_data": [8],
    },
    Array: {
        "length": [0, 1, -1, -(2**63), 2**57, *LARGE],
        "null_count": [-1, 1, 3, 2**63 - 1, -(2**63)],
        "offset": [1, 3, -1, -(2**63), *LARGE],
        "n_buffers": COUNTS,
        "n_children": COUNTS,
        "buffers": [None, lambda _: ctypes.cast((ctypes.c_void_p * 2)(), POINTERS), odd(POINTERS)],
        "children": [None, null_child, odd_child, odd(ctypes.POINTER(ctypes.POINTER(Array)))],
        "dictionary": [ctypes.pointer],
        "release": [RELEASE()],
        "private_data": [8],
    },
}

#: Valid arrays. The test makes one field of one of them wrong.
SOUND: dict[str, Callable[[], Crafted]] = {
    "numbers": lambda: Crafted(b"s"),
    "bits": lambda: Crafted(b"b"),
    "lists": lambda: Crafted(b"s", items=2),
    "lists of bits": lambda: Crafted(b"b", items=2),
    "tensors": lambda: extension(b'{"shape": [1, 2], "permutation": [1, 0]}'),
}


def levels(made: Crafted) -> list[Any]:
    """The structs: of the array, and of its items."""
    return [made.schema, made.array, *getattr(made, "inner", ())]


def with_room(make: Callable[[], Crafted]) -> Crafted:
    """A valid array without nulls, with memory for elements of any type."""
    made = make()
    made.room = (ctypes.c_uint8 * ROOM)(*[1] * ROOM)  # type: ignore[attr-defined]
    made.buffers[1] = ctypes.addressof(made.room)  # type: ignore[attr-defined]
    return made


def table() -> Crafted:
    """A table of one column."""
    made = Crafted(b"s", items=1)
    made.schema.format = b"+s"
    return made


def mutations(bases: dict[str, Callable[[], Crafted]] = SOUND) -> Iterator[tuple[str, Crafted]]:
    """Every array with one wrong field."""
    for base, make in bases.items():
        for level, struct in enumerate(levels(make())):
            for field, values in WRONG[type(struct)].items():
                for nth, value in enumerate(values):
                    made = with_room(make)
                    target = levels(made)[level]
                    wrong = value(target) if callable(value) and not isinstance(value, RELEASE) else value
                    made.wrong = wrong  # type: ignore[attr-defined]
                    setattr(target, field, wrong)
                    yield f"{base}, struct {level}, {field}, value {nth}", made


def outcome(made: Crafted, read: Callable[[Any], dlbridge.Tensor] = dlbridge.asdlpack) -> str:
    """The words of the refusal, or "imported"."""
    live = bool(made.schema.release), bool(made.array.release)
    try:
        tensor = read(made)
        assert tensor.nbytes <= ROOM
        tensor.to("numpy").tobytes() if tensor.dtype != "float16" else None
        del tensor
        said = "imported"
    except (BufferError, MemoryError, TypeError, ValueError) as error:
        said = re.sub(r"\b-?\d+ nulls?\b", "N nulls", str(error))
    expected = {"schema": int(live[0]), "array": int(all(live))}
    assert made.released == expected, (made.released, expected, said)
    return said


def test_each_field_wrong_at_each_level_reaches_every_branch_and_is_released_once() -> None:
    seen: dict[str, int] = {}
    for place, made in mutations():
        said = outcome(made)
        words = next((words for words in OUTCOMES if words in said), None)
        assert words is not None, (place, said)
        seen[words] = seen.get(words, 0) + 1
    assert set(seen) == set(OUTCOMES), set(OUTCOMES) - set(seen)
    assert seen["imported"] > 50, seen


@pytest.mark.parametrize(
    ("make", "read"),
    [
        (table, partial(dlbridge.matrix, nulls=0)),
        *((partial(lists_of_three, format), lambda made: dlbridge.ragged(made).values) for format in (b"+l", b"+L", b"u", b"Z")),
    ],
)
def test_table_or_lists_with_a_wrong_field_at_each_level_are_released_once(make: Any, read: Any) -> None:
    assert outcome(with_room(make), read) == "imported"
    said = [outcome(made, read) for _, made in mutations({"": make})]
    assert 20 < said.count("imported") < len(said) - 20


@pytest.mark.parametrize("base", SOUND)
def test_array_without_a_wrong_field_is_imported(base: str) -> None:
    assert outcome(with_room(SOUND[base])) == "imported"


def test_dictionary_of_bool8_is_refused() -> None:
    made = with_room(lambda: Crafted(b"c"))
    metadata = named(b"arrow.bool8")
    made.schema.metadata = ctypes.cast(metadata, ctypes.c_char_p)
    made.schema.dictionary = ctypes.pointer(made.schema)
    assert "decode the dictionary" in outcome(made)
