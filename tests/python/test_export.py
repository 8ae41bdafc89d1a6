"""``Tensor.__dlpack__``: every keyword of the array API standard, and the contents of the capsules."""

import ctypes
import inspect
import threading
from typing import Any

import dlbridge
import native as n
import pytest
from native import Flags, Kind, Native, Producer, Way, floats

#: Keywords that request a legacy capsule, and a versioned one.
LEGACY: dict[str, Any] = {}
VERSIONED: dict[str, Any] = {"max_version": (1, 3)}
BOTH = pytest.mark.parametrize("abi", [LEGACY, VERSIONED], ids=["legacy", "versioned"])

WRONG_TYPES: dict[str, list[Any]] = {
    "max_version": [1, 1.0, "1.0", [1, 0], (1,), (1, 0, 0), ("1", "0"), ((1, 0),), (1.0, 0), {}],
    "stream": ["1", 1.5, object(), (1,), b"", []],
    "dl_device": [1, "cpu", [1], (1,), (1, 0, 0), ("cpu", 0), (1, None)],
    "copy": [0, 1, "yes", 1.0, object()],
}


@pytest.mark.parametrize(
    ("max_version", "version"),
    [
        *((old, None) for old in [None, (0, 8), (0, 0), (-1, 3)]),
        *((new, (1, 3)) for new in [(1, 0), (1, 3), (1, 99), (2, 0), (2**31, 0)]),
    ],
)
def test_consumers_get_legacy_capsules_or_those_of_our_version(native: Native, max_version: Any, version: Any) -> None:
    tensor, crafted = native.tensor()
    capsule = tensor.__dlpack__(max_version=max_version)
    assert native.name(capsule) == ("dltensor_versioned" if version else "dltensor")
    held = native.take(capsule)
    assert (held.fields.data, held.fields.version) == (crafted.fields.data, version)
    held.delete()


def test_version_that_changes_is_read_in_each_call(native: Native) -> None:
    class Major:
        value = 1

        def __index__(self) -> int:
            return self.value

    tensor, version = dlbridge.asdlpack(bytearray(4)), (Major(), 0)
    assert "dltensor_versioned" in repr(tensor.__dlpack__(max_version=version))
    Major.value = 0
    assert "dltensor_versioned" not in repr(tensor.__dlpack__(max_version=version))


@pytest.mark.parametrize(
    ("keyword", "value"),
    [(keyword, value) for keyword, values in WRONG_TYPES.items() for value in values],
)
def test_wrong_types_are_type_errors_that_name_the_argument(
    native: Native, keyword: str, value: Any
) -> None:
    tensor, _ = native.tensor()
    with pytest.raises(TypeError, match=f"{keyword} must be None"):
        tensor.__dlpack__(**{keyword: value})


def test_positional_and_unknown_arguments_are_refused(native: Native) -> None:
    tensor: Any = native.tensor()[0]
    with pytest.raises(TypeError, match="positional"):
        tensor.__dlpack__(None)
    with pytest.raises(TypeError, match="unexpected keyword argument 'read_only'"):
        tensor.__dlpack__(read_only=True)


def has_driver(device: tuple[int, int]) -> bool:
    """Returns true if the driver for a device is installed."""
    try:
        ctypes.CDLL("libcuda.so.1" if device == n.CUDA else "libamdhip64.so")
    except OSError:
        return False
    return True


@pytest.mark.parametrize(
    ("device", "stream", "error"),
    [
        *((n.CPU, stream, None) for stream in (None, -1)),
        *((n.CPU, stream, ValueError) for stream in (0, 1, 2, 77, -2, 2**80)),
        *((n.CUDA, stream, None) for stream in (None, -1, 1)),
        *((n.CUDA, stream, ValueError) for stream in (0, -2, 2**80)),
        *((n.CUDA, stream, BufferError) for stream in (2, 77)),
        *((n.ROCM, stream, None) for stream in (None, -1, 0)),
        *((n.ROCM, stream, ValueError) for stream in (1, 2, -2, 2**80)),
        (n.ROCM, 77, BufferError),
        *((n.OPENCL, stream, None) for stream in (None, -1)),
        *((device, stream, ValueError) for device in (n.OPENCL, (8, 0), (7, 1)) for stream in (0, 1, 77)),
    ],
)
def test_streams_that_cannot_be_synchronised_with_are_refused(
    native: Native, device: tuple[int, int], stream: Any, error: type[Exception] | None
) -> None:
    if error is BufferError and has_driver(device):
        pytest.skip("the test would pass an invalid stream to the driver")
    tensor, _ = native.tensor(device=device)
    if error is None:
        native.export(tensor, stream=stream, **VERSIONED).delete()
    else:
        with pytest.raises(error, match=f"stream.*{stream}"):
            tensor.__dlpack__(stream=stream, **VERSIONED)


@BOTH
@pytest.mark.parametrize("copy", [None, False])
@pytest.mark.parametrize("dl_device", [None, (1, 0), (Kind.CPU, 0)])
def test_export_to_the_same_device_is_not_a_copy(native: Native, abi: Any, dl_device: Any, copy: Any) -> None:
    tensor, crafted = native.tensor()
    held = native.export(tensor, dl_device=dl_device, copy=copy, **abi)
    assert (held.fields.data, held.fields.device, held.fields.flags) == (crafted.fields.data, (1, 0), 0)
    held.delete()


@BOTH
@pytest.mark.parametrize("copy", [None, True, False])
@pytest.mark.parametrize(
    ("device", "dl_device"),
    [
        *((n.CPU, other) for other in ((1, 1), (2, 0), (0, 0), (99, 0), (-1, 0))),
        *((n.CUDA, other) for other in ((1, 0), (2, 1), (3, 0))),
    ],
)
def test_export_to_another_device_is_refused(
    native: Native, abi: Any, copy: Any, device: tuple[int, int], dl_device: tuple[int, int]
) -> None:
    tensor, _ = native.tensor(device=device)
    with pytest.raises(BufferError, match="cannot be (exported|copied) to"):
        tensor.__dlpack__(dl_device=dl_device, copy=copy, **abi)


@BOTH
def test_pinned_memory_is_exported_to_the_cpu_as_a_copy(native: Native, abi: Any) -> None:
    tensor, crafted = native.tensor(device=n.CUDA_HOST)
    assert tensor.__dlpack_device__() == n.CUDA_HOST
    held = native.export(tensor, **abi)
    assert (held.fields.device, held.fields.data) == (n.CUDA_HOST, crafted.fields.data)
    held.delete()
    for copy in (None, True):
        held = native.export(tensor, dl_device=n.CPU, copy=copy, **abi)
        assert (held.fields.device, held.fields.data % 256) == (n.CPU, 0)
        assert held.fields.data != crafted.fields.data
        assert held.fields.flags == (Flags.IS_COPIED if abi else 0)
        assert floats(held.fields.data, 6) == [0, 1, 2, 3, 4, 5]
        held.delete()
    with pytest.raises(BufferError, match="copy=False"):
        tensor.__dlpack__(dl_device=n.CPU, copy=False, **abi)


@BOTH
@pytest.mark.parametrize("flags", [0, Flags.READ_ONLY, Flags.IS_COPIED])
@pytest.mark.parametrize(
    ("shape", "strides", "origin", "expected"),
    [
        ((), (), 0, [0]),
        ((2, 3), (3, 1), 0, [0, 1, 2, 3, 4, 5]),
        ((2, 3), (1, 2), 0, [0, 2, 4, 1, 3, 5]),
        ((2, 3), (-3, -1), 5, [5, 4, 3, 2, 1, 0]),
        ((2, 2), (0, 7), 0, [0, 7, 0, 7]),
        ((1, 2), (-9, 2), 0, [0, 2]),
    ],
)
def test_copy_is_compact_aligned_and_marked(
    native: Native, abi: Any, flags: int, shape: n.Ints, strides: n.Ints, origin: int, expected: Any
) -> None:
    tensor, crafted = native.tensor(shape, strides=strides, origin=4 * origin, flags=flags)
    held = native.export(tensor, copy=True, **abi)
    fields = held.fields
    assert fields.data != crafted.fields.data
    assert fields.data % 256 == 0
    assert fields.flags == (Flags.IS_COPIED if abi else 0)
    assert (fields.shape, fields.strides) == (shape, n.c_strides(shape))
    del tensor
    assert floats(fields.data, len(expected)) == expected
    held.delete()


@pytest.mark.parametrize("device", [n.ROCM, n.OPENCL, (99, 0)])
def test_data_that_the_cpu_cannot_read_is_not_copied(native: Native, device: tuple[int, int]) -> None:
    tensor, _ = native.tensor(device=device)
    with pytest.raises(BufferError, match="copy it to the CPU first"):
        tensor.__dlpack__(copy=True, **VERSIONED)


def test_read_only_data_is_marked_or_copied(native: Native) -> None:
    tensor, crafted = native.tensor(flags=Flags.READ_ONLY)
    for copy in (None, False):
        held = native.export(tensor, copy=copy, **VERSIONED)
        assert (held.fields.data, held.fields.flags) == (crafted.fields.data, Flags.READ_ONLY)
        held.delete()
    # A legacy capsule cannot mark data as read-only, and its consumer might write.
    held = native.export(tensor)
    assert held.fields.data != crafted.fields.data
    assert floats(held.fields.data, 6) == floats(crafted.fields.data, 6)
    held.delete()
    with pytest.raises(BufferError, match="read-only"):
        tensor.__dlpack__(copy=False)


def test_export_that_shares_memory_is_not_marked_as_a_copy(native: Native) -> None:
    copy = dlbridge.asdlpack(bytearray(8), copy=True)
    assert copy.copied
    marked, _ = native.tensor(flags=Flags.IS_COPIED | Flags.READ_ONLY)
    for tensor, flags in ((copy, 0), (marked, Flags.READ_ONLY)):
        held = [native.export(tensor, **VERSIONED) for _ in range(2)]
        assert [h.fields.flags for h in held] == [flags, flags]
        for h in held:
            h.delete()


def test_padded_elements_are_marked_or_refused(native: Native) -> None:
    tensor, _ = native.tensor((3,), dtype=(17, 4, 1), flags=Flags.SUBBYTE_PADDED)
    for copy, copied in ((None, 0), (True, Flags.IS_COPIED)):
        held = native.export(tensor, copy=copy, **VERSIONED)
        assert held.fields.flags == Flags.SUBBYTE_PADDED | copied
        held.delete()
        with pytest.raises(BufferError, match="padded"):
            tensor.__dlpack__(copy=copy)


@BOTH
@pytest.mark.parametrize("copy", [None, True])
@pytest.mark.parametrize("shape", [(), (1,), (3,), (2, 3), (0,), (2, 0, 3), (1,) * 20])
def test_struct_has_everything_that_consumers_rely_on(
    native: Native, abi: Any, copy: Any, shape: n.Ints
) -> None:
    tensor, crafted = native.tensor(shape, strides=None)
    held = native.export(tensor, copy=copy, **abi)
    fields = held.fields
    assert fields.manager_ctx != 0
    assert fields.deleter != 0
    assert fields.byte_offset == 0
    assert (fields.ndim, fields.shape) == (len(shape), shape)
    assert fields.strides == n.c_strides(shape), "never NULL"
    assert (fields.dtype, fields.device) == (n.FLOAT32, n.CPU)
    assert (fields.data == 0) == (0 in shape)
    if copy is None and fields.data:
        assert fields.data == crafted.fields.data
    held.delete()


@BOTH
def test_unused_capsule_frees_and_a_used_one_does_not(native: Native, abi: Any) -> None:
    tensor, crafted = native.tensor()
    capsule = tensor.__dlpack__(**abi)
    del tensor
    assert crafted.record.calls == 0
    del capsule
    assert crafted.record.calls == 1

    tensor, crafted = native.tensor()
    capsule = tensor.__dlpack__(**abi)
    held = native.take(capsule)
    del tensor, capsule
    assert crafted.record.calls == 0
    assert floats(held.fields.data, 6) == [0, 1, 2, 3, 4, 5]
    held.delete()
    assert crafted.record.calls == 1


@BOTH
@pytest.mark.parametrize("way", [Way.WITH_GIL, Way.WITHOUT_GIL, Way.NATIVE_THREAD])
def test_deleter_runs_on_any_thread_with_or_without_the_gil(
    native: Native, abi: Any, way: Way
) -> None:
    tensor, crafted = native.tensor()
    held = native.export(tensor, **abi)
    del tensor
    held.delete(way)
    record = crafted.record
    assert (record.calls, record.gil) == (1, way == Way.WITH_GIL)
    assert (record.thread == threading.get_ident()) == (way != Way.NATIVE_THREAD)
    exporter = native.exporter()
    native.export(dlbridge.asdlpack(exporter), **abi).delete(way)
    assert native.released(exporter).gil, "a buffer is released with the GIL"
    assert native.released(exporter).calls == 1
    native.export(dlbridge.asdlpack(exporter, copy=True), **abi).delete(way)


def loses_an_exception() -> None:
    """Raises and handles exceptions, as a producer may while its buffer is released."""
    try:
        raise KeyError("lost")
    except KeyError:
        raise LookupError("not reported") from None


@BOTH
def test_pending_exception_is_kept(native: Native, abi: Any) -> None:
    def owners() -> list[dlbridge.Tensor]:
        exporter = native.exporter(on_release=loses_an_exception)
        copied = dlbridge.asdlpack(native.exporter(), copy=True)
        return [native.tensor()[0], dlbridge.asdlpack(exporter), copied]

    for which in range(3):
        owner = owners()[which]
        held = native.export(owner, **abi)
        del owner
        assert held.delete_keeps(ValueError("deleter"))
        capsules: list[Any] = [owners()[which].__dlpack__(**abi)]
        assert native.clear_keeps(capsules, ValueError("capsule"))
        assert not capsules
        assert native.clear_keeps([owners()[which]], ValueError("tensor"))


def test_producer_is_called_once_for_any_number_of_exports(native: Native) -> None:
    producer = Producer(native.craft())
    tensor = dlbridge.asdlpack(producer)
    for _ in range(10):
        tensor.__dlpack__()
        tensor.__dlpack__(copy=True)
    assert len(producer.asked) == 1


def test_keywords_of_dlpack_are_found_by_their_text() -> None:
    tensor = dlbridge.empty(3)
    written = "".join(["max", "_version"])
    assert "versioned" in repr(tensor.__dlpack__(**{written: (1, 3)}))
    assert "versioned" not in repr(tensor.__dlpack__(**{written: None, "copy": None}))


def test_dlpack_is_a_method_of_the_class() -> None:
    method = dlbridge.Tensor.__dlpack__
    assert list(inspect.signature(method).parameters) == ["self", "stream", "max_version", "dl_device", "copy"]
    assert "array API standard" in method.__doc__
    with pytest.raises(TypeError):
        method(object())
    assert "dltensor" in repr(method(dlbridge.empty(3)))
