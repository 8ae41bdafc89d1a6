"""What each kind of argument takes, what it refuses and in which words, and who may borrow what."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dlbridge
import numpy as np
import pytest
import typed_arguments as typed
from built_for import EXPORTS_BUFFERS

torch = pytest.importorskip("torch")
jax = pytest.importorskip("jax")


def everywhere(array: Any) -> list[Any]:
    """An array as objects of several libraries, over memory of each."""
    return [
        array,
        torch.from_numpy(array.copy()),
        jax.numpy.asarray(array),
        dlbridge.asdlpack(array),
        memoryview(array),
    ]


def test_a_matrix_of_any_framework_with_any_strides() -> None:
    array = np.arange(24, dtype="f4").reshape(4, 6)
    for x in everywhere(array):
        assert typed.mean(x) == 11.5, type(x)
    for view in (array.T, array[::-1], array[::2, ::3], array[:1, :2], array[:, ::-2]):
        assert typed.mean(view) == view.mean()
    assert np.isnan(typed.mean(np.zeros((0, 3), "f4")))


def refused(function: Callable[..., Any], x: Any, message: str) -> None:
    """The call is a TypeError with this message, whole."""
    with pytest.raises(TypeError) as refusal:
        function(x)
    assert str(refusal.value) == message


def test_all_differences_in_one_sentence() -> None:
    picture = np.zeros((480, 640, 4), "f4")
    refused(
        typed.brightest,
        picture,
        "argument 'image': expected uint8[_, _, 3] on cpu, C order; got float32[480, 640, 4] on cpu",
    )
    refused(
        typed.brightest,
        picture[:, ::2],
        "argument 'image': expected uint8[_, _, 3] on cpu, C order; got float32[480, 320, 4] on cpu, "
        "strides [2560, 8, 1]",
    )
    refused(
        typed.invert,
        bytes(3),
        "argument 'image': expected uint8[_, _, _] on cpu, writable; got uint8[3] on cpu, read-only",
    )
    refused(
        typed.norm,
        np.zeros((2, 2), "i4"),
        "argument 'x': expected float32 or float64[_] on cpu; got int32[2, 2] on cpu",
    )
    refused(
        typed.negate,
        jax.numpy.ones(3),
        "argument 'x': expected float32, float64 or int32[...] on cpu, writable; got float32[3] on cpu, "
        "from a producer that cannot say whether it may be written",
    )
    refused(
        typed.dtype,
        np.zeros((2, 2), "c8"),
        "argument 'x': expected any dtype[_] on cpu; got complex64[2, 2] on cpu",
    )
    refused(
        typed.mean,
        np.zeros((2, 2), np.dtype("f4").newbyteorder()),
        "argument 'x': expected float32[_, _] on cpu, without a copy; got float32[2, 2] on cpu, "
        "copied, since the elements were not in this machine's byte order",
    )
    with pytest.raises(TypeError) as refusal:
        typed.brightest(picture)
    assert type(refusal.value).__module__ == "dlbridge"
    refusal.value.add_note("more")
    assert str(refusal.value).startswith("argument 'image': ")
    assert refusal.value.__notes__ == ["more"]


def test_orders_and_alignments() -> None:
    array = np.arange(6, dtype="f8").reshape(2, 3)
    assert typed.total(array.astype("f4")) == 15
    assert typed.first_column(np.asfortranarray(array)) == [0, 3]
    assert typed.first_column(np.empty((1, 0), order="F")) == []
    with pytest.raises(TypeError, match=r"Fortran order; got float64\[2, 3\] on cpu, strides \[3, 1\]"):
        typed.first_column(array)
    with pytest.raises(TypeError, match=r"C order; got float32\[3, 2\] on cpu, strides \[1, 3\]"):
        typed.total(array.astype("f4").T)
    room = dlbridge.empty(100, "uint8").numpy()
    assert typed.aligned(room) == 100
    for offset, found in ((1, 1), (8, 8), (32, 32)):
        with pytest.raises(TypeError, match=f"aligned to 64 bytes; got .*, aligned to {found} bytes"):
            typed.aligned(room[offset:])
    odd = np.frombuffer(bytes(17), "u1")[1:].view("f4").reshape(2, 2)
    with pytest.raises(TypeError, match=r"on cpu, aligned to 4 bytes; got .*, aligned to 1 bytes"):
        typed.mean(odd)
    # Axes of one element spoil no order.
    assert typed.total(np.ones((1, 5), "f4")[::-1]) == 5


def test_what_is_optional_and_what_may_be_anything() -> None:
    assert typed.shape() is None
    assert typed.shape(None) is None
    assert typed.shape(np.ones((2, 0, 3), "f4")) == [2, 0, 3]
    assert typed.shape(np.float32(1)) == []
    assert typed.dtype(np.ones(3, "c16")) == "complex128"
    assert typed.dtype(torch.ones(3, dtype=torch.bfloat16)) == "bfloat16"
    assert typed.norm(np.array([3, 4.0])) == typed.norm(np.array([3, 4], "f4")) == 5


def test_truth_values() -> None:
    assert typed.count(np.array([[True, False], [True, True]])) == 3
    with pytest.raises(BufferError, match="no valid bool"):
        typed.count(np.array([1, 2], "u1").view(bool))


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
    with pytest.raises(BufferError, match="no valid bool"):
        function(flags, Late())
    assert flags.view("u1").tolist() == [7, 0]
    flags.view("u1")[0] = 1
    assert function(flags, numbers) in (1.0, None)


def test_objects_that_are_no_tensors() -> None:
    with pytest.raises(TypeError, match="got a list, which speaks no exchange protocol"):
        typed.mean([[1.0]])
    with pytest.raises(BufferError, match=r"requires grad.*detach\(\)"):
        typed.mean(torch.ones(2, 2, requires_grad=True))


@pytest.mark.parametrize(
    ("x", "total", "converted"),
    [
        (np.ones(3), 3, False),
        (np.ones((2, 3)).T, 6, True),
        (np.ones(3, ">f8"), 3, True),
        (np.ones(3, "f4"), 3, True),
        (np.arange(4, dtype="i4")[::-1], 6, True),
        (np.arange(4, dtype="u1"), 6, True),
        (np.array([True, False, True]), 2, True),
        (torch.ones(2, 2, dtype=torch.int16), 4, True),
        (jax.numpy.ones(3), 3, True),
        (np.frombuffer(b"\0" + np.ones(3).tobytes(), "u1")[1:].view("f8"), 3, True),
        (np.frombuffer(b"\0" + np.ones(3, "f4").tobytes(), "u1")[1:].view("f4"), 3, True),
    ],
)
def test_what_is_converted_if_that_is_allowed(x: Any, total: float, converted: bool) -> None:
    assert typed.total_of_anything(x) == (total, converted)


@pytest.mark.parametrize("dtype", ["i8", "u8", "f2", "c16"])
def test_what_would_lose_values_is_not_converted(dtype: str) -> None:
    with pytest.raises(TypeError, match=r"expected float64\[\.\.\.\] on cpu, C order; got"):
        typed.total_of_anything(np.ones(3, dtype))


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


def test_memory_that_overlaps_is_not_borrowed_twice_to_be_written() -> None:
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
        assert text.startswith("argument 'source': the memory of this numpy.ndarray, borrowed to be read,")
        assert "overlaps that of a numpy.ndarray, borrowed to be written" in text
        assert np.array_equal(a, before)
    with pytest.raises(BufferError, match=r"argument 'b': .*torch\.Tensor.*a numpy\.ndarray"):
        typed.swap(a[0], torch.from_numpy(a)[0])
    typed.swap(a[0], a[1])


def test_readers_share_and_a_writer_is_alone() -> None:
    x = np.arange(3.0)
    assert typed.while_reading(x, lambda: typed.total_of_anything(x)) == (3, False)
    assert typed.while_reading(x, lambda: typed.while_reading(x, lambda: 5)) == 5
    for function in (typed.negate, lambda x: typed.swap(x, np.zeros(3))):
        with pytest.raises(BufferError, match="borrowed to be written, overlaps .* borrowed to be read"):
            typed.while_reading(x, lambda function=function: function(x))
    with pytest.raises(BufferError, match="borrowed to be read, overlaps .* borrowed to be written"):
        typed.while_writing(x, lambda: typed.total_of_anything(x))
    other = dlbridge.asdlpack(x)
    with pytest.raises(BufferError, match="this dlbridge.Tensor"):
        typed.while_writing(x, lambda: typed.negate(other))
    # A copy of the caller's own is nobody's.
    other = x.astype("f4")
    assert typed.while_writing(x, lambda: typed.total_of_anything(other)) == (3, True)
    typed.negate(x)
    assert x.tolist() == [0, -1, -2]


def test_borrows_end_with_exceptions_and_refusals() -> None:
    x = np.arange(3.0)

    def fail() -> None:
        raise KeyError("stop")

    for function in (typed.while_reading, typed.while_writing):
        with pytest.raises(KeyError, match="stop"):
            function(x, fail)
        typed.negate(x)
    with pytest.raises(TypeError, match="speaks no exchange protocol"):
        typed.swap(x, "no tensor at all")
    typed.negate(x)


def test_other_extensions_see_the_borrows(tmp_path: Path) -> None:
    image_pipeline = pytest.importorskip("image_pipeline")
    pixels = np.zeros((2, 8, 3), "u1")
    bytes_of_floats = np.zeros(6)
    assert image_pipeline.save(pixels, tmp_path / "a.png") == pixels.ctypes.data
    overlapping = bytes_of_floats.view("u1").reshape(2, 8, 3)
    with pytest.raises(BufferError, match="overlaps that of a numpy.ndarray, borrowed to be written"):
        typed.while_writing(bytes_of_floats, lambda: image_pipeline.save(overlapping, tmp_path / "b.png"))
    image_pipeline.save(overlapping, tmp_path / "b.png")


def test_threads_compute_at_once_and_never_write_at_once() -> None:
    x = np.ones(100_000)
    assert typed.total_detached(x) == 100_000
    outcomes = []

    def work(seed: int) -> None:
        part = x[seed * 1000 : seed * 1000 + 40_000]
        for _ in range(50):
            try:
                typed.negate(part)
                outcomes.append("written")
                typed.negate(part)
            except BufferError:
                outcomes.append("refused")
            typed.total_detached(x[90_000:])

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outcomes.count("written") > 0
    assert np.abs(x).tolist() == [1] * 100_000
    typed.negate(x)


def test_answers_in_the_library_of_the_argument() -> None:
    for x in (np.ones(3, "f4"), torch.ones(3), jax.numpy.ones(3, "float32"), dlbridge.empty(3)):
        answer = typed.twice(x)
        assert type(answer).__module__.split(".")[0] == type(x).__module__.split(".")[0]
        assert np.array_equal(np.asarray(answer), 2 * np.asarray(x))

    class Bare:
        """Of no library that is known."""

        array = np.ones(3, "f4")
        __array_interface__ = array.__array_interface__

    answer = typed.twice(Bare())
    assert type(answer).__name__ == "Tensor"
    assert np.from_dlpack(answer).tolist() == [2, 2, 2]
    assert typed.ramp(3, "numpy").tolist() == [0, 1, 2]
    assert type(typed.ramp(3, "torch")) is torch.Tensor
    with pytest.raises(ValueError, match="'nope' is no library"):
        typed.ramp(3, "nope")


def test_nothing_is_kept() -> None:
    class Array(np.ndarray[Any, Any]):
        """An array of which one can tell whether it is alive."""

    import weakref

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


def test_a_class_that_lends_its_tensor() -> None:
    sound = typed.Sound(4, 2)
    array, tensor = np.asarray(sound), torch.from_dlpack(sound)
    view = memoryview(sound) if EXPORTS_BUFFERS else memoryview(array)
    assert array.shape == tuple(tensor.shape) == view.shape == (4, 2)
    assert array.ctypes.data == tensor.data_ptr() == sound.__array_interface__["data"][0]
    array[1, 1] = -3
    assert (tensor[1, 1], view[1, 1]) == (-3, -3)
    assert np.from_dlpack(sound).ctypes.data == array.ctypes.data
    assert jax.numpy.from_dlpack(sound)[1, 1] == -3
    assert sound.__dlpack_device__() == (1, 0)
    assert dlbridge.asdlpack(sound).protocol == "exchange-api"
    doors = [door.protocol for door in dlbridge.explain(sound).doors if door.answer]
    buffer = ["buffer"] if EXPORTS_BUFFERS else []
    assert doors == ["exchange-api", "dlpack", "array-interface", "array-struct", *buffer, "arrow"]
    assert sound.loudest() == 3
    sound.amplify(2)
    assert array[1, 1] == -6
    assert typed.mean(sound) == -0.75
    pyarrow = pytest.importorskip("pyarrow")
    assert pyarrow.array(sound).to_numpy_ndarray()[1, 1] == -6
    del sound, tensor, view
    gc.collect()
    assert array[1, 1] == -6, "the memory lives as long as somebody has it"


def test_the_class_itself_borrows_what_it_reads_and_writes() -> None:
    sound = typed.Sound(4, 2)
    doubles = np.asarray(sound).view("f8")
    assert typed.while_reading(doubles, sound.loudest) == 0
    with pytest.raises(BufferError, match=r"borrowed to be read, overlaps that of a numpy.ndarray"):
        typed.while_writing(doubles, sound.loudest)
    with pytest.raises(BufferError, match="borrowed to be written"):
        typed.while_reading(doubles, lambda: sound.amplify(2))
    sound.amplify(2)


def test_pickles_of_a_class_that_lends() -> None:
    import pickle

    sound = typed.Sound(2, 1)
    np.asarray(sound)[:] = 5
    for protocol in (2, 4, 5):
        again = pickle.loads(pickle.dumps(sound, protocol=protocol))
        assert type(again) is dlbridge.Tensor
        assert again.numpy().tolist() == [[5], [5]]
    buffers: list[Any] = []
    data = pickle.dumps(sound, protocol=5, buffer_callback=buffers.append)
    again = pickle.loads(data, buffers=buffers)
    is_same = again.address == np.asarray(sound).ctypes.data
    assert is_same is EXPORTS_BUFFERS, "out of band without a copy, if there is a buffer to pass on"
    assert again.numpy().tolist() == [[5], [5]]


def test_a_class_that_makes_its_tensor_when_asked() -> None:
    squares = typed.Squares(4)
    assert np.from_dlpack(squares).tolist() == [0, 1, 4, 9]
    assert np.asarray(squares, "f8").tolist() == [0, 1, 4, 9]
    assert dlbridge.asdlpack(squares).numpy().tolist() == [0, 1, 4, 9]
    squares.count = None
    requests = [np.from_dlpack, dlbridge.asdlpack, lambda s: s.__dlpack_device__()]
    for ask in [*requests, memoryview] if EXPORTS_BUFFERS else requests:
        with pytest.raises(ValueError, match="no squares today"):
            ask(squares)
    with pytest.raises(ValueError, match="made where they are needed"):
        squares.__reduce_ex__(5)


def test_a_consumer_in_c_takes_a_class_that_lends() -> None:
    tvm_ffi = pytest.importorskip("tvm_ffi")
    echo = tvm_ffi.get_global_func("testing.echo")
    sound = typed.Sound(4, 2)
    np.asarray(sound)[:] = 2
    echoed = np.from_dlpack(echo(tvm_ffi.from_dlpack(sound)))
    assert echoed.ctypes.data == np.asarray(sound).ctypes.data


def test_views_of_ndarray() -> None:
    x = np.arange(12.0).reshape(3, 4)
    for view in (x, x.T, x[::-1, ::-1], x[:, 1:2], x[:0]):
        assert typed.trace(view) == np.trace(view)
    typed.scale(x[::-2, ::2], -1)
    assert x.tolist() == [[0, 1, -2, 3], [4, 5, 6, 7], [-8, 9, -10, 11]]


@pytest.mark.parametrize("ndim", [0, 1, 3, 8])
def test_views_of_ndarray_have_the_dimensions_of_a_dynamic_argument(ndim: int) -> None:
    source = np.arange(2.0**ndim).reshape((2,) * ndim)
    target = np.ones_like(source)
    typed.accumulate(target.T, source.T)
    np.testing.assert_array_equal(target, source + 1)
    with pytest.raises(ValueError, match="differ in their shapes"):
        typed.accumulate(target, np.zeros((2,) * (ndim + 1)))


def test_the_table_for_code_in_c() -> None:
    import ctypes

    from typed_arguments import _native

    class Table(ctypes.Structure):
        """DLPackExchangeAPI."""

        _fields_ = (
            ("version", ctypes.c_uint32 * 2),
            ("previous", ctypes.c_void_p),
            ("functions", ctypes.c_void_p * 5),
        )

    function = ctypes.CDLL(_native.__file__).typed_arguments_exchange_api
    function.restype = ctypes.POINTER(Table)
    table = function().contents
    assert tuple(table.version) == (1, 3)
    assert all(table.functions)
    # A tensor in, and the same memory out.
    out = ctypes.c_void_p()
    ours = typed.Sound(2, 1).__dlbridge_tensor__()
    take = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(ctypes.c_void_p))
    assert take(table.functions[1])(ours, ctypes.byref(out)) == 0
    give = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(ctypes.py_object))
    again = ctypes.py_object()
    assert give(table.functions[2])(out, ctypes.byref(again)) == 0
    assert again.value.address == ours.address
    with pytest.raises(TypeError, match="'list' object is no dlbridge.Tensor"):
        take(table.functions[1])([], ctypes.byref(out))
    borrow = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_void_p)(table.functions[3])
    room = ctypes.create_string_buffer(64)
    assert borrow(ours, room) == 0
    # Nothing would keep alive what this class makes when it is asked.
    with pytest.raises(TypeError, match="cannot be borrowed; take its managed tensor"):
        borrow(typed.Squares(5), room)


def test_what_is_copied_is_borrowed_meanwhile() -> None:
    import pickle

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
        with pytest.raises(BufferError, match="borrowed to be read, overlaps .* borrowed to be written"):
            typed.while_writing(a, copy)
    assert typed.while_writing(np.zeros(1), lambda: typed.count(flags)) == 1


def test_what_must_not_change_does_not_though_pytorch_forgets_that() -> None:
    numbers = typed.constants()
    tensor = torch.from_dlpack(numbers)
    assert tensor.tolist() == [1, 2, 3]
    with pytest.raises(BufferError, match="borrowed to be written, overlaps"):
        typed.negate(tensor)
    assert tensor.tolist() == [1, 2, 3]
    alias = tensor[1:]
    del tensor
    gc.collect()
    with pytest.raises(BufferError):
        typed.negate(alias)


def test_exceptions_have_a_name_and_can_be_sent() -> None:
    import pickle

    with pytest.raises(dlbridge.TensorMismatchError) as mismatch:
        typed.mean(np.zeros(3))
    again = pickle.loads(pickle.dumps(mismatch.value))
    assert (type(again), str(again)) == (dlbridge.TensorMismatchError, str(mismatch.value))
    x = np.zeros(3)
    with pytest.raises(dlbridge.TensorBorrowError) as conflict:
        typed.swap(x, x)
    conflict.value.add_note("while processing batch 7")
    assert str(conflict.value).startswith("argument 'b': ")
    assert conflict.value.__notes__ == ["while processing batch 7"]
    sound = typed.Sound(2, 2)
    with pytest.raises(dlbridge.TensorBorrowError) as inside:
        typed.while_reading(np.asarray(sound).view("f8"), lambda: sound.amplify(2))
    assert str(inside.value).startswith("the memory of this")


def test_a_mismatch_that_no_copy_would_mend_is_found_before_one_is_made() -> None:
    huge = np.lib.stride_tricks.as_strided(np.zeros(1, "u1"), (1 << 20, 1 << 20), (0, 0))
    with pytest.raises(TypeError, match=r"expected float64\[_\] on cpu, C order; got uint8\[1048576, 1048576\]"):
        typed.total_of_vector(huge)


def test_any_dtype_to_write() -> None:
    x = np.arange(3, dtype="u2")
    typed.swap_bytes(x)
    assert x.tolist() == [0, 256, 512]
    with pytest.raises(BufferError, match="may overlap"):
        typed.swap_bytes(np.lib.stride_tricks.as_strided(x, (4,), (0,)))


def test_what_a_producer_copies_is_read_and_not_written() -> None:
    class Copies:
        """Its data is made when it is asked for."""

        def __dlpack__(self, **keywords: Any) -> Any:
            """A capsule over a copy."""
            return np.ones((2, 2), "f4").__dlpack__(**{**keywords, "copy": True})

        def __dlpack_device__(self) -> tuple[int, int]:
            """The CPU."""
            return (1, 0)

    assert typed.mean(Copies()) == 1
    with pytest.raises(TypeError, match="writable, without a copy; got .*, copied, since"):
        typed.negate(Copies())


def test_columns_of_any_layout() -> None:
    x = np.arange(6.0).reshape(2, 3)
    columns = [0, 3, 1, 4, 2, 5]
    for matrix in [x, np.asfortranarray(x), x.astype("i4"), np.repeat(x, 2, axis=0)[::2]]:
        assert typed.by_columns(matrix) == columns


def test_extents_say_how_many_axes_there_are() -> None:
    assert typed.pixels(np.zeros((4, 5, 3), "u1")) == 20
    for shape in [(5, 3), (1, 4, 5, 3), (3,), ()]:
        with pytest.raises(TypeError, match=r"expected uint8\[_, _, 3\] on cpu; got"):
            typed.pixels(np.zeros(shape, "u1"))


def test_what_is_no_tensor() -> None:
    refused(typed.mean, [[1.0]], "argument 'x': expected float32[_, _] on cpu; got a list, which speaks no exchange protocol; pass an array of its elements")
    refused(typed.negate, None, "argument 'x': expected float32, float64 or int32[...] on cpu, writable; got a NoneType, which speaks no exchange protocol")
    refused(typed.mean, 5, "argument 'x': expected float32[_, _] on cpu; got an int, which speaks no exchange protocol")
    refused(typed.mean, object(), "argument 'x': expected float32[_, _] on cpu; got an object, which speaks no exchange protocol")


def test_an_empty_tensor_that_was_converted() -> None:
    assert typed.total_of_anything(np.zeros(0)) == (0, False)
    assert typed.total_of_anything(np.zeros(0, "u1")) == (0, True)


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
