"""Arrow structs with random mistakes: each is imported or refused, and released once.

The seeds are fixed, so a failure repeats. The tests make only mistakes that a consumer can detect. It cannot detect, for
example, a length that is a little too large, or a text without an end.
"""

import ctypes
import gc
import random
from typing import Any

import dlbridge
import pytest
from conftest import require
from crafted_arrow import RELEASE, Array, Schema, new_capsule
from test_arrow_streams import CALL, TEXT, Chunks, OnDevice

np = require("numpy")

#: Bytes of memory, enough for every element that an accepted array can have.
ROOM = 1 << 12

FORMATS = [
    *(b"c", b"C", b"s", b"S", b"i", b"I", b"l", b"L", b"e", b"f", b"g", b"b"),
    *(b"", b"n", b"u", b"vu", b"z", b"w:8", b"d:5,0", b"tdD", b"tsu:UTC", b"+s", b"+l", b"+r", b"+ud:0", b"\xff\xfe"),
    *(b"+w:0", b"+w:1", b"+w:2", b"+w:3", b"+w:-1", b"+w:", b"+w:9223372036854775807", b"+w:9" * 9, b"_pli128"),
]
#: Lengths that no address space has.
LARGE = [2**58, 2**61, 2**62, 2**63 - 1]
NAMES = [
    *(b"arrow.fixed_shape_tensor", b"arrow.bool8", b"arrow.uuid", b"tests.unknown", b"", b"\xff"),
]
METADATA = [b"", b"{", b"[]", b'{"shape": [2]}', b'{"shape": [1, 2], "permutation": [1, 0]}', b'{"shape": [-1]}', b"\xff"]


class Mutated:
    """A tree of structs with some wrong fields. It counts how often each of its two roots was released."""

    def __init__(self, rng: random.Random, depth: int | None = None) -> None:
        self.rng = rng
        self.kept: list[Any] = []
        self.released = {"schema": 0, "array": 0}
        self.data = (ctypes.c_uint8 * (8 * ROOM))(*([1] * 64))
        depth = rng.choice([0, 0, 0, 1, 1, 2, 3, 70]) if depth is None else depth
        self.schema, self.array = self.level(depth, rng.choice([0, 1, 6]))
        self.schema_release = self.counting("schema", Schema)
        self.array_release = self.counting("array", Array)
        if self.schema.release:
            self.schema.release = self.schema_release
        if self.array.release:
            self.array.release = self.array_release
        self.live = {"schema": bool(self.schema.release), "array": bool(self.array.release)}

    def counting(self, name: str, kind: Any) -> Any:
        """A release function that counts."""

        def release(address: int) -> None:
            self.released[name] += 1
            kind.from_address(address).release = RELEASE()

        return RELEASE(release)

    def pick(self, right: Any, *wrong: Any) -> Any:
        """Returns the right value, or with a probability of 7 % a wrong one."""
        return self.rng.choice(wrong) if self.rng.random() < 0.07 else right

    def level(self, depth: int, length: int) -> tuple[Schema, Array]:
        """The structs of one level and of all levels below it."""
        rng, pick = self.rng, self.pick
        items = rng.choice([0, 1, 2])
        number = rng.choice(FORMATS[:12])
        right = b"+w:%d" % items if depth else number
        buffers = (ctypes.c_void_p * 2)()
        buffers[1] = pick(ctypes.addressof(self.data), None)
        buffers[0] = rng.choice([None, ctypes.addressof(self.data)])
        place = ctypes.cast(buffers, ctypes.POINTER(ctypes.c_void_p))
        nothing = ctypes.POINTER(ctypes.c_void_p)()
        odd = ctypes.cast(ctypes.addressof(buffers) + 1, ctypes.POINTER(ctypes.c_void_p))
        schema = Schema(format=pick(right, None, *FORMATS), flags=rng.choice([0, 2, -1]))
        array = Array(
            length=pick(length, -1, -(2**63), *LARGE),
            null_count=rng.choice([0, 0, 0, -1, -1, pick(0, 1, 2**63 - 1, -(2**63))]),
            offset=pick(0, -1, 1, -(2**63), *LARGE),
            n_buffers=pick(1 if depth else 2, -1, 0, 1, 2, 3, 2**62),
            buffers=pick(place, nothing, odd),
        )
        keep = RELEASE(lambda _: None)
        schema.release = pick(keep, RELEASE())
        array.release = pick(keep, RELEASE())
        self.kept += [buffers, keep, schema, array]
        if rng.random() < 0.15:
            raw = self.metadata()
            schema.metadata = ctypes.cast(raw, ctypes.c_char_p)
        if depth:
            inner = self.level(depth - 1, length * items)
            for struct, child in zip((schema, array), inner):
                kind = type(struct)
                children = (ctypes.POINTER(kind) * 1)(pick(ctypes.pointer(child), ctypes.POINTER(kind)()))
                self.kept.append(children)
                struct.n_children = pick(1, 0, 2, -1)
                struct.children = pick(children, None) or ctypes.POINTER(ctypes.POINTER(kind))()
        else:
            schema.n_children, array.n_children = pick(0, 1, -1), pick(0, 1, -1)
        if rng.random() < 0.05:
            schema.dictionary = ctypes.pointer(schema)
        if rng.random() < 0.05:
            array.dictionary = ctypes.pointer(array)
        return schema, array

    def metadata(self) -> Any:
        """Keys and values; their lengths may be negative."""
        pairs = [(b"ARROW:extension:name", self.rng.choice(NAMES))]
        if self.rng.random() < 0.7:
            pairs.append((b"ARROW:extension:metadata", self.rng.choice(METADATA)))
        self.rng.shuffle(pairs)
        raw = self.pick(len(pairs), 0, -1).to_bytes(4, "little", signed=True)
        for text in (text for pair in pairs for text in pair):
            raw += self.pick(len(text), -1, -(2**31)).to_bytes(4, "little", signed=True) + text
        kept = ctypes.create_string_buffer(raw, len(raw))
        self.kept.append(kept)
        return kept

    def __arrow_c_array__(self, requested_schema: Any = None) -> tuple[Any, Any]:
        return new_capsule(self.schema, b"arrow_schema"), new_capsule(self.array, b"arrow_array")


class MutatedDevice:
    """A mutated array as an Arrow device array."""

    def __init__(self, inner: Mutated, rng: random.Random) -> None:
        self.inner = inner
        event = rng.choice([None, None, 8])
        self.there = OnDevice(array=inner.array, device_type=rng.choice([1, 1, 2, 99, -1]), sync_event=event)

    def __arrow_c_device_array__(self, requested_schema: Any = None) -> tuple[Any, Any]:
        capsule = new_capsule(self.there, b"arrow_device_array")
        return new_capsule(self.inner.schema, b"arrow_schema"), capsule


class MutatedStream(Chunks):
    """Mutated arrays as a stream, whose functions may fail or be missing."""

    def __init__(self, chunks: list[Any], rng: random.Random) -> None:
        super().__init__(*chunks, schema=chunks[0])
        self.rng, self.given, self.schema_given = rng, 0, False
        if rng.random() < 0.1:
            self.stream.get_next = CALL()
            if rng.random() < 0.5:
                self.stream.get_schema = CALL()
        if rng.random() < 0.5:
            self.stream.get_last_error = TEXT()

    def get_schema(self, _: int, place: int) -> int:
        """Moves the schema of the first chunk, or fails."""
        if self.rng.random() < 0.1:
            return 5
        self.schema_given = True
        return super().get_schema(_, place)

    def get_next(self, _: int, place: int) -> int:
        """Moves the next chunk, or fails."""
        if self.rng.random() < 0.1:
            return -1
        self.given += bool(self.chunks)
        return super().get_next(_, place)


def imported(source: Any, read: Any = dlbridge.asdlpack) -> bool:
    """Returns true if the source is imported and false if it is refused. Other exceptions are raised."""
    try:
        tensor = read(source)
    except (BufferError, MemoryError, ValueError):
        return False
    assert tensor.nbytes <= 64 * ROOM
    if tensor.dtype != "float16" and tensor.nbytes:
        tensor.numpy().sum()
    del tensor
    return True


@pytest.mark.parametrize("seed", range(4))
def test_mutated_arrays_are_released_once(seed: int) -> None:
    rng = random.Random(seed)
    outcomes = {True: 0, False: 0}
    for number in range(500):
        made = Mutated(rng)
        source = made if number % 3 else MutatedDevice(made, rng)
        outcomes[imported(source)] += 1
        # The capsules have no destructor, so a struct that was not taken out of one stays unreleased.
        for name, taken in (("schema", True), ("array", made.live["schema"])):
            expected = int(made.live[name] and taken)
            assert made.released[name] == expected, (seed, number, name, made.live)
    assert min(outcomes.values()) > 50, outcomes


@pytest.mark.parametrize("seed", range(4))
def test_mutated_streams_are_released_once(seed: int) -> None:
    rng = random.Random(100 + seed)
    outcomes = {True: 0, False: 0}
    for number in range(200):
        chunks = [Mutated(rng) for _ in range(rng.choice([0, 1, 1, 1, 2, 3]) or 1)]
        stream = MutatedStream(chunks, rng)
        outcomes[imported(stream)] += 1
        assert stream.released == 1, (seed, number)
        assert chunks[0].released["schema"] == int(stream.schema_given and chunks[0].live["schema"]), (seed, number)
        for index, chunk in enumerate(chunks):
            expected = int(index < stream.given and chunk.live["array"])
            assert chunk.released["array"] == expected, (seed, number, index)
    assert min(outcomes.values()) > 5, outcomes


@pytest.mark.parametrize("seed", range(4))
def test_mutated_tables_are_released_once(seed: int) -> None:
    rng = random.Random(200 + seed)
    outcomes = {True: 0, False: 0}
    for number in range(500):
        made = Mutated(rng, depth=1)
        if (made.schema.format or b"").startswith(b"+w"):
            made.schema.format = b"+s"
        try:
            outcomes[imported(made, lambda table: dlbridge.matrix(table, nulls=0))] += 1
        except TypeError as error:
            assert "is not a table" in str(error)
        for name, taken in (("schema", True), ("array", made.live["schema"])):
            assert made.released[name] == int(made.live[name] and taken), (seed, number, name, made.live)
    assert min(outcomes.values()) > 20, outcomes


def test_children_that_contain_themselves_are_refused() -> None:
    made = Mutated(random.Random(0))
    made.schema, made.array = Schema(format=b"+w:1"), Array(length=1, n_buffers=1)
    buffers = (ctypes.c_void_p * 1)()
    made.array.buffers = ctypes.cast(buffers, ctypes.POINTER(ctypes.c_void_p))
    for struct, release in ((made.schema, made.schema_release), (made.array, made.array_release)):
        inner = type(struct).from_buffer_copy(struct)
        inner.release = release
        children = (ctypes.POINTER(type(struct)) * 1)(ctypes.pointer(inner))
        for level in (struct, inner):
            level.n_children, level.children, level.release = 1, children, release
        made.kept.append((inner, children))
    with pytest.raises(BufferError, match="more levels of lists than a tensor has dimensions"):
        dlbridge.asdlpack(made)
    gc.collect()
    assert made.released == {"schema": 1, "array": 1}


def test_event_on_the_cpu_is_refused() -> None:
    for event in (None, 8):
        made = Mutated(random.Random(0))
        made.schema = Schema(format=b"C", release=made.schema_release)
        made.array = Array(length=3, n_buffers=2, release=made.array_release)
        buffers = (ctypes.c_void_p * 2)(None, ctypes.addressof(made.data))
        made.array.buffers = ctypes.cast(buffers, ctypes.POINTER(ctypes.c_void_p))
        source = MutatedDevice(made, random.Random(0))
        source.there.device_type, source.there.sync_event = 1, event
        if event is None:
            assert dlbridge.asdlpack(source).numpy().tolist() == [1, 1, 1]
        else:
            with pytest.raises(BufferError, match="names an event to wait for.*synchronise its producer"):
                dlbridge.asdlpack(source)
            assert made.released == {"schema": 1, "array": 1}
