"""Hand-made Arrow streams and device arrays; each struct is released once."""

import ctypes
import sys
from typing import Any

import dlbridge
import pytest
from conftest import require
from processes import run
from producers import producer
from crafted_arrow import RELEASE, Array, Crafted, Schema, extension, new_capsule

require("numpy")

CALL = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
TEXT = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)


class Stream(ctypes.Structure):
    """``ArrowArrayStream``."""

    _fields_ = [
        ("get_schema", CALL),
        ("get_next", CALL),
        ("get_last_error", TEXT),
        ("release", RELEASE),
        ("private_data", ctypes.c_void_p),
    ]


class Chunks:
    """A stream of crafted arrays, which counts its calls."""

    def __init__(self, *chunks: Any, schema: Any = None, fails: int = 0) -> None:
        self.chunks = list(chunks)
        self.kind = schema or Crafted()
        self.status = fails
        self.asked = self.released = 0
        self.text: ctypes.Array[ctypes.c_char] | None = ctypes.create_string_buffer(b"the disk is gone")
        self.stream = Stream(
            get_schema=CALL(self.get_schema),
            get_next=CALL(self.get_next),
            get_last_error=TEXT(lambda _: ctypes.addressof(self.text) if self.text else None),
            release=RELEASE(self.release),
        )

    def get_schema(self, _: int, place: int) -> int:
        """Moves the schema to the place."""
        ctypes.memmove(place, ctypes.byref(self.kind.schema), ctypes.sizeof(Schema))
        return 0

    def get_next(self, _: int, place: int) -> int:
        """Moves a chunk to the place, or a released array at the end."""
        self.asked += 1
        if self.status:
            return self.status
        last = Array() if not self.chunks else self.chunks.pop(0).array
        ctypes.memmove(place, ctypes.byref(last), ctypes.sizeof(Array))
        return 0

    def release(self, address: int) -> None:
        self.released += 1
        Stream.from_address(address).release = RELEASE()

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return new_capsule(self.stream, b"arrow_array_stream")


def test_stream_of_one_chunk_is_shared() -> None:
    chunk = Crafted()
    chunks = Chunks(chunk)
    tensor = dlbridge.asdlpack(chunks)
    assert tensor.address == ctypes.addressof(chunk.numbers)
    assert (chunks.released, chunks.kind.released["schema"], chunk.released["array"]) == (1, 1, 0)
    del tensor
    assert chunk.released["array"] == 1


def test_stream_of_several_chunks_is_refused() -> None:
    several = [Crafted(), Crafted(), Crafted()]
    chunks = Chunks(*several)
    with pytest.raises(BufferError, match="several chunks"):
        dlbridge.asdlpack(chunks)
    assert (chunks.released, chunks.kind.released["schema"]) == (1, 1)
    assert [chunk.released["array"] for chunk in several] == [1, 1, 0], "the import does not take the last chunk"


def test_stream_of_structs_is_refused_before_a_chunk_is_taken() -> None:
    chunks = Chunks(Crafted(), schema=Crafted(format=b"+s"))
    with pytest.raises(BufferError, match="take one column of it first"):
        dlbridge.asdlpack(chunks)
    assert (chunks.asked, chunks.released, chunks.kind.released["schema"]) == (0, 1, 1)


def test_empty_stream_of_a_wrong_schema_is_refused() -> None:
    number, shaped = Crafted(), extension(b'{"shape": []}')
    shaped.schema.format, shaped.schema.n_children = b"s", 0
    for schema, n_children, text in [
        (number, 1, "children although its type has none"),
        (shaped, 0, "elements are not numbers"),
    ]:
        schema.schema.n_children = n_children
        chunks = Chunks(schema=schema)
        with pytest.raises(BufferError, match=text):
            dlbridge.asdlpack(chunks)
        assert (chunks.asked, chunks.released, schema.released["schema"]) == (1, 1, 1)


@pytest.mark.parametrize("text", ["a text", "no text", "no function", "no schema"])
def test_error_of_a_stream_is_raised_with_its_text(text: str) -> None:
    chunks = Chunks(fails=5)
    if text == "no text":
        chunks.text = None
    if text == "no function":
        chunks.stream.get_last_error = TEXT()
    if text == "no schema":
        chunks.stream.get_schema = CALL(lambda *_: 5)
    match = "failed with code 5: the disk is gone" if text == "a text" else "failed with code 5"
    with pytest.raises(BufferError, match=match):
        dlbridge.asdlpack(chunks)
    assert (chunks.released, chunks.kind.released["schema"]) == (1, text != "no schema")


@pytest.mark.parametrize("function", ["get_schema", "get_next"])
def test_stream_without_a_function_is_refused(function: str) -> None:
    chunks = Chunks(Crafted())
    setattr(chunks.stream, function, CALL())
    with pytest.raises(BufferError, match=f"has no {function}"):
        dlbridge.asdlpack(chunks)
    assert chunks.released == 1


def test_stream_with_a_released_schema_is_refused() -> None:
    chunks = Chunks(Crafted())
    chunks.kind.schema.release = RELEASE()
    with pytest.raises(BufferError, match="schema that was released"):
        dlbridge.asdlpack(chunks)
    assert (chunks.asked, chunks.released) == (0, 1)


def test_consumed_stream_is_refused() -> None:
    chunks = Chunks(Crafted())
    chunks.stream.release = RELEASE()
    with pytest.raises(ValueError, match="was consumed before"):
        dlbridge.asdlpack(chunks)


WAITS_IN_C = """
import ctypes, faulthandler, signal, threading
import dlbridge
from test_arrow_streams import CALL, Chunks

faulthandler.dump_traceback_later(60, exit=True)
signal.signal(signal.SIGUSR1, lambda *_: None)
chunks = Chunks()
# pause() waits for a signal, which the other thread sends only if it can run meanwhile.
chunks.stream.get_next = ctypes.cast(ctypes.CDLL(None).pause, CALL)
done = threading.Event()


def wake():
    while not done.wait(0.01):
        signal.pthread_kill(threading.main_thread().ident, signal.SIGUSR1)


waker = threading.Thread(target=wake)
waker.start()
try:
    dlbridge.asdlpack(chunks)
except BufferError as error:
    print(error)
done.set()
waker.join()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="pause() is POSIX")
def test_other_threads_run_while_an_import_waits_for_a_stream() -> None:
    assert "failed with code -1" in run(WAITS_IN_C).stdout


class OnDevice(ctypes.Structure):
    """``ArrowDeviceArray``."""

    _fields_ = [
        ("array", Array),
        ("device_id", ctypes.c_int64),
        ("device_type", ctypes.c_int32),
        ("sync_event", ctypes.c_void_p),
        ("reserved", ctypes.c_int64 * 3),
    ]


@pytest.mark.parametrize(
    ("fields", "match"),
    [
        ({"device_type": 2}, r"on a device of type .*cuda.*copy it to the CPU first"),
        ({"device_type": 99}, r"on a device of type .*99.*copy it to the CPU first"),
        ({"device_type": 1, "sync_event": 8}, "names an event to wait for.*synchronise its producer"),
    ],
)
def test_arrow_array_on_another_device_or_with_an_event_is_refused(fields: dict[str, int], match: str) -> None:
    crafted = Crafted()
    there = OnDevice(array=crafted.array, **fields)

    capsules = new_capsule(crafted.schema, b"arrow_schema"), new_capsule(there, b"arrow_device_array")
    with pytest.raises(BufferError, match=match):
        dlbridge.asdlpack(producer(__arrow_c_device_array__=lambda _, requested_schema=None: capsules))
    assert crafted.released == {"schema": 1, "array": 1}
