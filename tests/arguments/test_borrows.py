"""Writing, and the rules of borrowing: readers share memory, a writer excludes others, and the memory lives until the end of the call."""

import gc
import pickle
import weakref
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import dlbridge
import numpy as np
import pytest
import typed_arguments as typed
from concurrently import concurrently
from producers import raises

pa, torch = pytest.importorskip("pyarrow"), pytest.importorskip("torch")


def test_view_of_booleans_is_checked() -> None:
    flags = np.array([True, True, False, True])
    assert typed.leading(flags) == 2
    assert typed.leading(flags[:0]) == 0
    assert typed.leading(flags[::2]) == 1
    with pytest.raises(BufferError, match="not a valid bool"):
        typed.leading(np.array([1, 2], "u1").view(bool))


@pytest.mark.parametrize("name", ["total_where", "invert_flags"])
def test_later_argument_changes_boolean_array_raises_buffer_error(name: str) -> None:
    flags = np.array([True, False])
    numbers = np.array([1.0, 2.0])

    class Late:
        def __dlpack__(self, **keywords: Any) -> Any:
            flags.view("u1")[0] = 7
            return numbers.__dlpack__(**keywords)

        def __dlpack_device__(self) -> Any:
            return numbers.__dlpack_device__()

    function = getattr(typed, name)
    with pytest.raises(dlbridge.TensorBorrowError, match="not a valid bool"):
        function(flags, Late())
    assert flags.view("u1").tolist() == [7, 0]
    flags.view("u1")[0] = 1
    assert function(flags, numbers) in (1.0, None)


def test_writing() -> None:
    picture = np.arange(12, dtype="u1").reshape(2, 2, 3)
    typed.invert(picture)
    assert picture.ravel().tolist() == list(range(255, 243, -1))
    typed.invert(picture[::-1, ::-1])
    assert picture.ravel().tolist() == list(range(12))
    memory = bytearray(range(12))
    typed.invert(memoryview(memory).cast("B", (2, 2, 3)))
    assert memory == bytes(range(255, 243, -1))
    for x in (np.ones(3, "f4"), np.ones((2, 2)), np.array(1, "i4"), torch.ones(3), dlbridge.empty(3)):
        before = np.asarray(x).copy()
        typed.negate(x)
        assert np.array_equal(np.asarray(x), -before)
    with pytest.raises(BufferError, match="may lead to one element|overlap"):
        typed.negate(np.lib.stride_tricks.as_strided(np.zeros(3), (3, 3), (8, 8)))


def test_overlapping_memory_is_not_borrowed_twice_for_writing() -> None:
    a = np.arange(24.0).reshape(4, 6)
    typed.add(a[:, ::2], a[:, 1::2])
    typed.add(a[:2], a[2:])
    typed.add(a[:, :3], a[:, 3:])
    typed.swap(a[0], a[1])
    typed.add(a[:0], a[:0])
    for target, source in [(a, a), (a[:3], a[1:]), (a[:, ::2], a[:, 2::2]), (a, a[::-1])]:
        before = a.copy()
        with pytest.raises(BufferError) as refusal:
            typed.add(target, source)
        text = str(refusal.value)
        assert text.startswith("argument 'source': the memory of this numpy.ndarray, borrowed for reading,")
        assert "overlaps that of a numpy.ndarray, borrowed for writing" in text
        assert np.array_equal(a, before)
    with pytest.raises(BufferError, match=r"argument 'b': .*torch\.Tensor.*a numpy\.ndarray"):
        typed.swap(a[0], torch.from_numpy(a)[0])
    typed.swap(a[0], a[1])


def test_readers_share_and_a_writer_excludes_others() -> None:
    x = np.arange(3.0)
    assert typed.while_reading(x, lambda: typed.total_of_anything(x)) == (3, False)
    assert typed.while_reading(x, lambda: typed.while_reading(x, lambda: 5)) == 5
    for function in (typed.negate, lambda x: typed.swap(x, np.zeros(3))):
        with pytest.raises(BufferError, match="borrowed for writing, overlaps .* borrowed for reading"):
            typed.while_reading(x, lambda function=function: function(x))
    with pytest.raises(BufferError, match="borrowed for reading, overlaps .* borrowed for writing"):
        typed.while_writing(x, lambda: typed.total_of_anything(x))
    other = dlbridge.asdlpack(x)
    with pytest.raises(BufferError, match="this dlbridge.Tensor"):
        typed.while_writing(x, lambda: typed.negate(other))
    # The caller's own copy is not borrowed.
    other = x.astype("f4")
    assert typed.while_writing(x, lambda: typed.total_of_anything(other)) == (3, True)
    typed.negate(x)
    assert x.tolist() == [0, -1, -2]


def test_borrows_end_with_exceptions_and_refusals() -> None:
    x = np.arange(3.0)
    for function in (typed.while_reading, typed.while_writing):
        with pytest.raises(KeyError, match="stop"):
            function(x, raises(KeyError("stop")))
        typed.negate(x)
    with pytest.raises(TypeError, match="supports no exchange protocol"):
        typed.swap(x, "no tensor at all")
    typed.negate(x)


def test_other_extensions_see_the_borrows(tmp_path: Path) -> None:
    image_pipeline = pytest.importorskip("image_pipeline")
    pixels = np.zeros((2, 8, 3), "u1")
    bytes_of_floats = np.zeros(6)
    assert image_pipeline.save(pixels, tmp_path / "a.png") == pixels.ctypes.data
    overlapping = bytes_of_floats.view("u1").reshape(2, 8, 3)
    with pytest.raises(BufferError, match="overlaps that of a numpy.ndarray, borrowed for writing"):
        typed.while_writing(bytes_of_floats, lambda: image_pipeline.save(overlapping, tmp_path / "b.png"))
    image_pipeline.save(overlapping, tmp_path / "b.png")


def test_threads_compute_at_once_and_never_write_at_once() -> None:
    x = np.ones(100_000)
    assert typed.total_detached(x) == 100_000
    written = []

    def work(seed: int) -> None:
        part = x[seed * 1000 : seed * 1000 + 40_000]
        for _ in range(50):
            with suppress(BufferError):
                typed.negate(part)
                written.append(seed)
                typed.negate(part)
            typed.total_detached(x[90_000:])

    assert concurrently([partial(work, seed) for seed in range(4)]) == [None] * 4
    assert written
    assert np.abs(x).tolist() == [1] * 100_000
    typed.negate(x)


def test_call_keeps_no_reference_to_its_argument() -> None:
    class Array(np.ndarray[Any, Any]):
        """An array that supports weak references."""

    x = np.ones(3).view(Array)
    gone = weakref.ref(x)
    typed.negate(x)
    typed.total_of_anything(x)
    with pytest.raises(TypeError):
        typed.mean(x)
    with pytest.raises(BufferError):
        typed.swap(x, x)
    del x
    gc.collect()
    assert gone() is None


def test_copied_argument_is_borrowed_during_the_copy() -> None:
    a = np.arange(12.0).reshape(3, 4)
    tensor = dlbridge.asdlpack(a)
    flags = np.array([True, False])
    copies = [
        lambda: typed.total_of_anything(a[:, ::2]),
        lambda: typed.total_of_anything(a.view("f4")),
        lambda: dlbridge.asdlpack(a, copy=True),
        lambda: dlbridge.asdlpack(a, contiguous="F"),
        lambda: dlbridge.asdlpack(a.view(">f8")),
        lambda: tensor.__dlpack__(copy=True, max_version=(1, 0)),
        lambda: tensor.numpy(copy=True),
        lambda: pickle.dumps(dlbridge.asdlpack(a.T)),
        lambda: dlbridge.asdlpack(a[0, :1].view("?"), protocol="buffer"),
    ]
    for copy in copies:
        copy()
        typed.while_reading(a, copy)
        with pytest.raises(BufferError, match="borrowed for reading, overlaps .* borrowed for writing"):
            typed.while_writing(a, copy)
    assert typed.while_writing(np.zeros(1), lambda: typed.count(flags)) == 1


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "forget",
    [
        torch.from_dlpack,
        torch.asarray,
        lambda x: torch.from_numpy(np.asarray(x)),
        lambda x: torch.from_numpy(np.from_dlpack(x)),
        lambda x: torch.frombuffer(memoryview(x), dtype=torch.float64),
        lambda x: torch.from_numpy(pa.array(x).to_numpy()),
        lambda x: torch.from_numpy(pa.array(dlbridge.Ragged(np.array([0, 3]), x)).flatten().to_numpy()),
        lambda x: torch.from_numpy(np.frombuffer(memoryview(x), dtype="f8")),
    ],
)
def test_read_only_memory_of_rust_is_not_written_through_a_library_that_drops_the_flag(forget: Any) -> None:
    constants = typed.constants()
    forgotten = forget(constants)
    assert forgotten.data_ptr() == constants.address
    with pytest.raises(BufferError, match="overlaps that of a read-only dlbridge.Tensor, borrowed for reading"):
        typed.negate(forgotten)
    alias = forgotten[1:]
    del forgotten, constants
    gc.collect()
    with pytest.raises(BufferError, match="borrowed for writing, overlaps"):
        typed.negate(alias)
    assert alias.tolist() == [2, 3]


def test_any_dtype_to_write() -> None:
    x = np.arange(3, dtype="u2")
    typed.swap_bytes(x)
    assert x.tolist() == [0, 256, 512]
    with pytest.raises(dlbridge.TensorBorrowError, match="^argument 'x': elements may overlap"):
        typed.swap_bytes(np.lib.stride_tricks.as_strided(x, (4,), (0,)))


@pytest.mark.parametrize("replace", ["data", "set_"])
def test_argument_keeps_its_memory_when_its_tensor_gets_another(replace: str) -> None:
    class Memory(np.ndarray):  # type: ignore[type-arg]
        pass

    array = np.arange(4.0).view(Memory)
    owner = weakref.ref(array)
    x = torch.from_numpy(array)
    del array

    alive: list[bool] = []

    def give_other_memory() -> None:
        other = torch.zeros(4, dtype=torch.float64)
        if replace == "data":
            x.data = other
        else:
            x.set_(other)
        gc.collect()
        alive.append(owner() is not None)

    typed.while_reading(x, give_other_memory)
    assert alive == [True]
    gc.collect()
    assert owner() is None


@pytest.mark.parametrize("way", ["attach", "pickle", "attach after close"])
def test_attached_tensor_beside_its_own_segment_is_the_same_memory(way: str) -> None:
    with dlbridge.share_memory(np.arange(4.0)) as shared:
        tensor = shared.tensor
        if way == "attach after close":
            shared.close()
        again = pickle.loads(pickle.dumps(shared)) if way == "pickle" else dlbridge.attach(shared.name)
        with pytest.raises(BufferError, match="overlaps"):
            typed.swap(tensor, again.tensor)
        with pytest.raises(BufferError, match="overlaps"):
            typed.while_reading(tensor, lambda: typed.negate(again.tensor))
        typed.swap(tensor.numpy()[:2], again.tensor.numpy()[2:])
        assert tensor.numpy().tolist() == [2.0, 3.0, 0.0, 1.0]


def test_two_extensions_and_the_package_share_one_registry() -> None:
    operators = pytest.importorskip("operators")
    array = np.zeros((2, 3), "f4")
    for function in (operators.relu_, operators.softclip, partial(dlbridge.asdlpack, copy=True), typed.total_of_anything):
        with pytest.raises(dlbridge.TensorBorrowError, match="overlaps that of a numpy.ndarray, borrowed for writing"):
            typed.while_writing(array, partial(function, array))
