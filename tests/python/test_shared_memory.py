"""Shared memory: names, one map for each segment and process, segments that another process wrote."""

import copy
import copyreg
import errno
import gc
import json
import os
import pickle
import random
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dlbridge
import pytest
from dlbridge import _shm
from dlbridge._segment_format import DATA, MAGIC
from dlbridge._shm import LONGEST
from processes import output
from shared_segments import SHM, on_linux

#: Invalid names, and text of their refusals.
WRONG_NAMES = {
    "": "reserved",
    ".": "reserved",
    "..": "reserved",
    "a/b": "there is '/' at index 1",
    "/a": "there is '/' at index 0",
    "a:b": "there is ':' at index 1",
    "a\nb": r"there is '\\n' at index 1",
    "a\0": r"there is '\\x00' at index 1",
    "a\x7f": r"there is '\\x7f' at index 1",
    "\u00e9": "there is '\u00e9' at index 0",
    "\ud800": r"there is '\\ud800' at index 0",
    "a" * (LONGEST + 1): f"it has {LONGEST + 1} characters",
}


@pytest.mark.parametrize("name", WRONG_NAMES)
def test_name_that_the_system_or_the_tracker_cannot_carry_is_refused(name: str) -> None:
    match = f"is not a name for shared memory: .*{WRONG_NAMES[name]}"
    with pytest.raises(ValueError, match=match):
        dlbridge.share_memory(b"abc", name=name)
    with pytest.raises(ValueError, match=match):
        dlbridge.attach(name)


@pytest.mark.parametrize("name", [5, b"abc", None])
def test_name_that_is_not_a_string_is_refused(name: Any) -> None:
    with pytest.raises(TypeError, match="name must be a string, not (int|bytes|NoneType)"):
        dlbridge.attach(name)


def test_longest_name_and_every_allowed_character_work_without_a_warning() -> None:
    characters = "".join(map(chr, range(0x20, 0x7F))).replace("/", "").replace(":", "")
    name = f"dlbridge_{os.getpid()}_"
    code = f"""
import dlbridge
for name in {[name + "a" * (LONGEST - len(name)), characters]!r}:
    with dlbridge.share_memory(b"abc", name=name), dlbridge.attach(name) as other:
        assert bytes(other.tensor) == b"abc"
"""
    output(code, options=())


def address(shared: dlbridge.SharedTensor) -> int:
    return shared.tensor.address


def test_attach_by_another_name_of_the_segment_returns_the_same_memory() -> None:
    if not SHM.is_dir():
        pytest.skip("shared memory is not a file here")
    with dlbridge.share_memory(b"abc") as shared:
        other = f"{shared.name}_other"
        os.link(SHM / shared.name, SHM / other)
        try:
            assert address(dlbridge.attach(other)) == address(shared)
        finally:
            (SHM / other).unlink()


def test_attach_after_close_returns_the_memory_that_tensors_still_hold() -> None:
    with dlbridge.share_memory(b"abc") as shared:
        first = dlbridge.attach(shared.name)
        kept = memoryview(first.tensor)
        first.close()
        shared.close()
        again = dlbridge.attach(shared.name)
        memoryview(again.tensor)[0] = ord("x")
        assert bytes(kept) == b"xbc"


def test_unpickled_tensor_whose_name_is_gone_raises_when_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    def with_traceback(error: OSError) -> tuple[Any, ...]:
        make, arguments = error.__reduce__()[:2]
        return lambda: make(*arguments).with_traceback(error.__traceback__), ()

    # As tblib does, with which distributed and joblib send exceptions.
    monkeypatch.setitem(copyreg.dispatch_table, FileNotFoundError, with_traceback)
    with dlbridge.share_memory(b"abc") as shared:
        message = pickle.dumps(shared)
    for received in (pickle.loads(message), pickle.loads(pickle.dumps(pickle.loads(message)))):
        assert received.name == shared.name
        assert "error=FileNotFoundError(" in repr(received)
        for _ in range(2):
            with pytest.raises(FileNotFoundError, match="no shared memory has that name; .*: 'dlbridge_") as caught:
                _ = received.tensor
            assert (caught.value.errno, caught.value.filename) == (errno.ENOENT, shared.name)
            assert len(caught.traceback) == 2, "the exception does not keep the frames of earlier calls"
        received.unlink()
        with received as entered:
            assert entered is received
        with pytest.raises(FileNotFoundError):
            _ = received.tensor


@on_linux
def test_unpickled_tensor_of_another_file_raises_when_it_is_used() -> None:
    with dlbridge.share_memory(b"abc") as shared:
        message, path = pickle.dumps(shared), SHM / shared.name
    path.write_bytes(b"")
    try:
        with pytest.raises(ValueError, match="is not a tensor: it has 0 bytes"):
            _ = pickle.loads(message).tensor
        path.unlink()
        path.symlink_to("/dev/null")
        with pytest.raises(OSError, match=shared.name) as caught:
            dlbridge.attach(shared.name)
        received = pickle.loads(message)
        with pytest.raises(type(caught.value)) as again:
            _ = received.tensor
        assert str(again.value) == str(caught.value)
    finally:
        path.unlink()


def test_exception_of_a_signal_handler_is_raised_by_unpickling(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(name: str) -> Any:
        raise TimeoutError("of a signal handler")

    with dlbridge.share_memory(b"abc") as shared:
        message = pickle.dumps(shared)
        monkeypatch.setattr(_shm, "open_map", interrupted)
        with pytest.raises(TimeoutError, match="of a signal handler"):
            pickle.loads(message)


def test_array_of_a_shared_tensor_names_its_tensor() -> None:
    np = pytest.importorskip("numpy")
    with dlbridge.share_memory(np.arange(3.0)) as shared:
        for function in (np.asarray, np.array, np.sum, lambda obj: np.array([obj, obj])):
            with pytest.raises(TypeError, match=r"is not an array; pass its tensor: numpy.asarray\(shared.tensor\)"):
                function(shared)
        stored = np.array([shared, None], dtype=object)
        assert stored.shape == (2,) and stored[0] is shared
        assert [np.float64(1), shared].index(shared) == 1 and np.float64(1) != shared
        assert (stored == shared).tolist() == [True, False] and shared in stored
        assert (stored != shared).tolist() == [False, True]
        assert bool(np.equal(shared, shared)) and not np.any(np.arange(3) == shared)
        with pytest.raises(TypeError, match="is not an array"):
            np.equal.outer(shared, [1, 2])
        with pytest.raises(TypeError, match="is not an array"):
            np.equal(1, 2, out=shared)
        with pytest.raises(TypeError, match="is not an array"):
            np.equal([1, 2], [2, 2], where=shared)
        for protocol in (None, "buffer"):
            with pytest.raises(TypeError, match=r"pass its tensor: asdlpack\(shared.tensor\)"):
                dlbridge.asdlpack(shared, protocol=protocol)


def test_attribute_of_a_tensor_names_the_tensor() -> None:
    with dlbridge.share_memory(b"abc") as shared:
        untyped: Any = shared
        for name in ("numpy", "shape", "torch", "to", "dtype"):
            with pytest.raises(AttributeError, match=f"does not have {name!r}; use .tensor.{name}$"):
                getattr(untyped, name)
        with pytest.raises(AttributeError, match="'SharedTensor' object .* 'nothing'$"):
            _ = untyped.nothing
        for name in vars(dlbridge.Tensor):
            assert name == "__array__" or not hasattr(shared, name) or hasattr(object, name), name
        with pytest.raises(TypeError, match="'dlbridge.shared.SharedTensor' object supports no exchange protocol"):
            dlbridge.asdlpack(untyped)
        for again in (copy.copy(shared), copy.deepcopy(shared), pickle.loads(pickle.dumps(shared))):
            assert address(again) == address(shared)


def test_segment_made_again_under_its_name_is_another_memory() -> None:
    name = f"dlbridge_test_again_{os.getpid()}"
    with dlbridge.share_memory(b"abc", name=name) as first:
        kept = first.tensor
        first.unlink()
        with dlbridge.share_memory(b"xyz", name=name) as second:
            assert address(second) != kept.address
            assert address(dlbridge.attach(name)) == address(second)
            assert (bytes(kept), bytes(second.tensor)) == (b"abc", b"xyz")


def test_map_is_removed_with_its_last_tensor() -> None:
    if not Path("/proc/self/maps").exists():
        pytest.skip("this system has no /proc/self/maps")

    def mapped() -> bool:
        return name in Path("/proc/self/maps").read_text()

    shared = dlbridge.share_memory(b"abc")
    name = shared.name
    other = dlbridge.attach(name)
    shared.close()
    assert mapped()
    other.close()
    shared.unlink()
    del shared, other
    gc.collect()
    assert not mapped()


@on_linux
def test_live_tensors_need_no_descriptors() -> None:
    code = """
import dlbridge, resource
resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
made = [dlbridge.share_memory(b"a") for _ in range(20_000)]
attached = [dlbridge.attach(one.name).tensor for one in made]
print(len({tensor.address for tensor in attached}))
"""
    assert output(code) == "20000\n"
    others = [dlbridge.share_memory(b"a") for _ in range(300)]
    code = """
import dlbridge, resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
print(len([dlbridge.attach(name).tensor for name in sys.argv[1:]]))
"""
    assert output(code, *(one.name for one in others)) == "300\n"


def test_attach_in_racing_threads_returns_one_memory() -> None:
    code = """
import dlbridge, functools, sys
from concurrently import concurrently
sys.setswitchinterval(1e-6)
for _ in range(200):
    found = concurrently([functools.partial(dlbridge.attach, sys.argv[1])] * 4)
    assert len({shared.tensor.address for shared in found}) == 1
"""
    with dlbridge.share_memory(b"abc") as shared:
        output(code, shared.name, options=())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform does not have os.fork")
def test_attach_in_a_fork_returns_the_memory_of_the_parent() -> None:
    code = """
import dlbridge, os
with dlbridge.share_memory(b"abc") as shared:
    child = os.fork()
    if child == 0:
        same = dlbridge.attach(shared.name).tensor.address == shared.tensor.address
        memoryview(shared.tensor)[0] = ord("x")
        os._exit(0 if same else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert bytes(shared.tensor) == b"xbc"
"""
    output(code, options=())


class Segment:
    """A segment with any content."""

    def __init__(self) -> None:
        self.path = SHM / f"dlbridge_hostile_{os.getpid()}"

    def attach(self, content: bytes) -> dlbridge.SharedTensor:
        self.path.unlink(missing_ok=True)
        self.path.write_bytes(content)
        return dlbridge.attach(self.path.name)


@pytest.fixture
def segment() -> Iterator[Segment]:
    """A segment with any content."""
    if not SHM.is_dir():
        pytest.skip("shared memory is not a file here")
    segment = Segment()
    yield segment
    segment.path.unlink(missing_ok=True)


def page(description: str | bytes) -> bytes:
    text = description.encode("latin-1") if isinstance(description, str) else description
    return (MAGIC + text).ljust(DATA, b"\0")[:DATA]


GOOD: dict[str, Any] = {"dtype": "int16", "shape": [2, 3], "padded": False, "bytes": 12}


def described(**fields: Any) -> bytes:
    """The first page of a segment with some fields changed."""
    return page(json.dumps({**GOOD, **fields}))


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (b"", "it has 0 bytes, fewer than a description"),
        (bytes(DATA - 1), f"it has {DATA - 1} bytes"),
        (bytes(DATA), "it begins with b'"),
        (MAGIC.replace(b"1\n", b"2\n").ljust(DATA), "it begins with b'dlbridge shared tensor 2"),
        (page(""), "its description is not JSON"),
        (page("[" * 4000), "its description is not JSON"),
        (page("\xff"), "its description is not JSON"),
        (page("[]"), r"its description is \[\]; it must be an object"),
        (page("{}"), "'dtype' in its description is None; it must be a string"),
        (described(shape=6), "'shape' in its description is 6; it must be a list"),
        (described(shape=[2, 3.0]), r"'shape' .* is \[2, 3.0\]; it must be a list of numbers"),
        (described(shape=[-2, -3]), r"'shape' .* is \[-2, -3\]"),
        (described(shape=[True, 6]), r"'shape' .* is \[True, 6\]"),
        (described(shape=[2**63, 0]), "'shape' in its description"),
        (described(padded=None), "'padded' in its description is None; it must be true or false"),
        (described(bytes=12.0), r"'bytes' in its description is 12\.0"),
        (described(bytes=-1), "'bytes' in its description is -1"),
        (described(bytes=float("inf")), "'bytes' in its description is inf"),
        (described(dtype="banana", shape=[4], bytes=8), "not the name of a dtype"),
        (described(dtype="handle64", shape=[1], bytes=8), "handles, which are not valid"),
        (described(), "12 bytes of data are needed, and 8 are available"),
        (described(shape=[2, 2]), "12 bytes of data are needed"),
        (described(shape=[3], bytes=8), "of int16 with the shape"),
        (described(shape=[2**62, 4], bytes=8), "of int16 with the shape"),
    ],
)
def test_segment_with_a_wrong_description_is_refused(
    segment: Segment, content: bytes, match: str
) -> None:
    data = bytes(8) if len(content) == DATA else b""
    with pytest.raises(ValueError, match=f"is not a tensor: .*{match}"):
        segment.attach(content + data)


def test_segment_cut_off_after_attach_is_refused(segment: Segment) -> None:
    first = segment.attach(described() + bytes(12))
    os.truncate(segment.path, DATA)
    with pytest.raises(ValueError, match=f"it is truncated: {DATA} of {DATA + 12} bytes are left"):
        dlbridge.attach(segment.path.name)
    first.close()
    with pytest.raises(ValueError, match="12 bytes of data are needed, and 0 are available"):
        dlbridge.attach(segment.path.name)


def test_segment_with_a_new_description_is_checked_again(segment: Segment) -> None:
    first = segment.attach(described() + bytes(12))
    with segment.path.open("r+b") as file:
        file.write(described(shape=[1000], bytes=2000))
    with pytest.raises(ValueError, match="2000 bytes of data are needed, and 12 are available"):
        dlbridge.attach(segment.path.name)
    with segment.path.open("r+b") as file:
        file.write(described(shape=[3], bytes=6))
    assert dlbridge.attach(segment.path.name).tensor.shape == (3,)
    assert first.tensor.shape == (2, 3)


#: Values of a field in the description of a hostile process.
VALUES: list[Any] = [
    *(0, 1, 6, 12, -1, 2**31, 2**32, 2**62, 2**63 - 1, 2**63, 2**64, 2**64 + 12, 10**300),
    *(12.0, 1.5, 1e308, float("nan"), float("inf"), True, False, None, "", "12", "\0", [], {}),
    *([12], [2, 3], [2, -3], [3, 2**63], [2**32, 2**32], [0, 2**62, 2**62], [2.0], ["2"], [[2]]),
    *([1] * 200, {"a": 1}, "int16", "int8", "int4", "bool", "float64", "complex128", "uint8x2"),
    *("bfloat16", "float4_e2m1fn", "handle64", "int65535", "int16x65535", "float0", "int16\0"),
]


def mutated(random: random.Random) -> bytes:
    """The first page of a segment, wrong in one way or several."""
    fields = dict(GOOD)
    for _ in range(random.randrange(4)):
        fields[random.choice(list(GOOD))] = random.choice(VALUES)
    if random.random() < 0.05:
        del fields[random.choice(list(fields))]
    content = bytearray(page(json.dumps(fields)))
    if random.random() < 0.3:
        for _ in range(random.randrange(1, 6)):
            content[random.randrange(len(MAGIC) + 80)] = random.randrange(256)
    return bytes(content)


def test_mutated_segments_are_refused_or_within_bounds(segment: Segment) -> None:
    seeded = random.Random(1)
    attached = refused = 0
    for _ in range(6000):
        length = seeded.choice([0, 1, 11, 12, 13, 64])
        content = mutated(seeded) + seeded.randbytes(length)
        cut = seeded.random() < 0.02
        try:
            shared = segment.attach(content[: seeded.randrange(len(content))] if cut else content)
        except ValueError as error:
            refused += 1
            assert f"the shared memory {segment.path.name!r} is not a tensor: " in str(error)
            assert len(str(error)) < 2000, error
            continue
        attached += 1
        tensor = shared.tensor
        assert tensor.nbytes <= length
        bits = json.JSONDecoder().raw_decode(content[len(MAGIC) :].decode("latin-1"))[0]
        assert (tensor.dtype, list(tensor.shape)) == (bits["dtype"], bits["shape"])
        if tensor.nbytes:
            # All elements, so that a wrong extent would end the process.
            elements = tensor.__reduce_ex__(5)[1][0].raw()  # type: ignore[index]
            assert bytes(elements) == content[DATA : DATA + elements.nbytes]
    assert attached > 300
    assert refused > 2000


def test_segment_written_while_it_is_attached_is_refused_or_within_bounds(segment: Segment) -> None:
    segment.attach(described() + bytes(12))
    # The two pages differ in length, so that a mixture of both may be anything.
    pages = [described(), described(shape=[10**9], bytes=2 * 10**9, dtype="int16")]
    done = threading.Event()

    def write() -> None:
        with segment.path.open("r+b", buffering=0) as file:
            while not done.is_set():
                for content in pages:
                    file.seek(0)
                    file.write(content)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(3000):
            try:
                tensor = dlbridge.attach(segment.path.name).tensor
            except ValueError as error:
                assert "is not a tensor: " in str(error)
            else:
                assert (tensor.shape, bytes(tensor)) == ((2, 3), bytes(12))
    finally:
        done.set()
        writer.join()


def test_segments_without_inodes_are_identified_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    # Shared memory on macOS reports neither a device nor an inode.
    fstat = os.fstat

    def without_inode(descriptor: int) -> os.stat_result:
        mode, _, _, *others = fstat(descriptor)[:10]
        return os.stat_result((mode, 0, 0, *others))

    monkeypatch.setattr(os, "fstat", without_inode)
    with dlbridge.share_memory(b"abc") as one, dlbridge.share_memory(b"defg") as two:
        assert (bytes(one.tensor), bytes(two.tensor)) == (b"abc", b"defg")
        with dlbridge.attach(one.name) as again:
            assert again.tensor.address == one.tensor.address
        name, old = one.name, one.tensor
        one.unlink()
        with dlbridge.share_memory(b"hij", name=name) as new, dlbridge.attach(name) as other:
            assert new.tensor.address == other.tensor.address != old.address
            assert (bytes(old), bytes(new.tensor)) == (b"abc", b"hij")


@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="the call that is interrupted is not there")
@pytest.mark.parametrize("error", [KeyboardInterrupt, TimeoutError])
def test_interrupt_while_memory_is_made_leaves_no_segment(
    monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    name = f"dlbridge_interrupted_{os.getpid()}"

    def interrupted(*_: object) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(os, "posix_fallocate", interrupted)
        with pytest.raises(error):
            dlbridge.share_memory(b"abc", name=name)
    with pytest.raises(FileNotFoundError):
        dlbridge.attach(name)
    # The name is free, and the tracker has forgotten it.
    with dlbridge.share_memory(b"abc", name=name) as shared:
        assert bytes(dlbridge.attach(name).tensor) == b"abc"
        shared.unlink()
