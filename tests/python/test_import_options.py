"""The options of asdlpack, and the attributes that report a copy."""

from typing import Any

import dlbridge
import native as n
import numpy as np
import pytest
from native import Flags, Native
from producers import numbers, producer
from producers import values as rows


def test_options_that_the_data_fulfils_need_no_copy() -> None:
    source = numbers()
    for keywords in [
        {},
        *({"copy": False}, {"device": "cpu"}, {"device": (1, 0)}, {"align": 4}, {"align": 1}),
        *({"contiguous": True}, {"contiguous": "C"}, {"contiguous": False}, {"writable": True}),
        {"protocol": "buffer"},
        {"copy": False, "device": "cpu", "align": 4, "contiguous": "C", "writable": True},
    ]:
        tensor = dlbridge.asdlpack(source, **keywords)
        assert (tensor.copied, tensor.copy_reason, tensor.readonly) == (False, None, False)
        assert dlbridge.asdlpack(tensor, **{**keywords, "protocol": None}) is tensor
        source[0, 0] += 1
        assert rows(tensor)[0][0] == source[0, 0]


def test_copy_true_copies_and_reports_it() -> None:
    source = numbers()
    tensor = dlbridge.asdlpack(source, copy=True)
    assert (tensor.copied, tensor.copy_reason) == (True, "a copy was requested")
    assert (tensor.readonly, tensor.address % 256, tensor.protocol) == (False, 0, "buffer")
    source[0, 0] = 100
    assert rows(tensor) == [[0, 1, 2], [3, 4, 5]]
    again = dlbridge.asdlpack(tensor, copy=True)
    assert again.address != tensor.address


def test_contiguous_option_copies_into_the_order() -> None:
    source = numbers()
    columns = dlbridge.asdlpack(source, contiguous="F")
    assert (columns.strides, columns.address % 256) == ((1, 2), 0)
    assert columns.copy_reason == "the elements were not contiguous in Fortran order"
    assert rows(columns) == [[0, 1, 2], [3, 4, 5]]
    back = dlbridge.asdlpack(columns, contiguous="C")
    assert (back.strides, rows(back)) == ((3, 1), [[0, 1, 2], [3, 4, 5]])
    assert back.copy_reason == "the elements were not contiguous in C order"
    assert dlbridge.asdlpack(columns, contiguous="F", copy=False) is columns
    with pytest.raises(BufferError, match="not contiguous in C order, and copy=False forbids it"):
        dlbridge.asdlpack(columns, contiguous=True, copy=False)
    both = dlbridge.asdlpack(source, contiguous="F", copy=True)
    assert (both.strides, both.copy_reason) == ((1, 2), columns.copy_reason)


def test_align_option_copies_misaligned_data() -> None:
    room = memoryview(dlbridge.empty(300, "uint8"))
    source = room[1:5]
    for align in (2, 8, 256, 512, 4096, 1 << 21):
        tensor = dlbridge.asdlpack(source, align=align)
        assert tensor.address % align == 0
        assert tensor.copy_reason is not None
        assert f"was not aligned to {align} bytes" in tensor.copy_reason
        with pytest.raises(BufferError, match=f"not aligned to {align} bytes, and copy=False"):
            dlbridge.asdlpack(source, align=align, copy=False)
    assert not dlbridge.asdlpack(room, align=256).copied


@pytest.mark.parametrize("align", [512, 4096, 1 << 21])
def test_align_to_pages_is_met_by_copies_and_new_tensors(align: int) -> None:
    packed = dlbridge.empty((3, 3), "int4", align=align)
    assert packed.address % align == 0
    assert dlbridge.empty(5, align=align).address % align == 0
    columns = memoryview(bytearray(24)).cast("B", (4, 6))
    for contiguous in ("C", "F"):
        copied = dlbridge.asdlpack(columns, align=align, contiguous=contiguous, copy=True)
        assert copied.address % align == 0


def test_align_of_any_integer_type_is_taken() -> None:
    number = producer(__index__=lambda _: 4096)
    assert dlbridge.asdlpack(b"abc", align=number, copy=True).address % 4096 == 0
    assert dlbridge.empty(3, align=number).address % 4096 == 0


@pytest.mark.parametrize("pair", [(1, 0), [1, 0]])
def test_device_as_tuple_or_list_is_taken_everywhere(pair: Any) -> None:
    tensor = dlbridge.asdlpack(bytearray(b"abc"))
    producer = n.Producer(lambda keywords: tensor.__dlpack__(**keywords), pair)
    for imported in (dlbridge.asdlpack(producer), dlbridge.from_dlpack(producer)):
        assert imported.address == tensor.address
    assert dlbridge.asdlpack(tensor, device=pair) is tensor
    assert dlbridge.empty(3, device=pair).device == "cpu"
    assert tensor.__dlpack__(dl_device=pair)


def test_writable_option_copies_read_only_data() -> None:
    tensor = dlbridge.asdlpack(b"abc", writable=True)
    assert (tensor.readonly, tensor.copy_reason) == (False, "the data was read-only")
    memoryview(tensor)[0] = 0
    with pytest.raises(BufferError, match="the data was read-only, and copy=False"):
        dlbridge.asdlpack(b"abc", writable=True, copy=False)


def test_writable_false_marks_without_a_copy(native: Native) -> None:
    source = numbers()
    tensor = dlbridge.asdlpack(source, writable=False)
    assert (tensor.readonly, tensor.copied) == (True, False)
    held = native.export(tensor, max_version=(1, 0))
    assert held.fields.flags & Flags.READ_ONLY
    held.delete()
    shared = dlbridge.asdlpack(source)
    marked = dlbridge.asdlpack(shared, writable=False)
    assert (marked.readonly, shared.readonly) == (True, False)
    assert marked.address == shared.address
    copied = dlbridge.asdlpack(shared, writable=False, copy=True)
    assert (copied.readonly, copied.copied) == (True, True)


def test_data_of_a_legacy_producer_is_writable_after_a_copy(native: Native) -> None:
    producer, crafted = native.tensor((6,), versioned=False)
    tensor = dlbridge.asdlpack(producer, writable=True)
    assert (tensor.readonly, tensor.copied) == (False, True)
    del producer
    assert crafted.record.calls == 1


def test_data_of_a_legacy_producer_is_shared_as_writable_if_the_caller_promises_it(native: Native) -> None:
    crafted = native.craft((6,), versioned=False)
    tensor = dlbridge.asdlpack(n.OldProducer(crafted), assume_writable=True, writable=True, copy=False)
    assert (tensor.readonly, tensor.copied) == (False, False)
    assert tensor.protocol == "dlpack-legacy, assumed writable"
    memoryview(tensor)[0] = 7.0
    assert tensor.tolist()[0] == 7.0
    assert dlbridge.asdlpack(tensor, assume_writable=True) is tensor
    del tensor
    assert crafted.record.calls == 1


def test_promise_counts_for_an_imported_tensor(native: Native) -> None:
    producer, crafted = native.tensor((6,), versioned=False)
    imported = dlbridge.asdlpack(producer)
    promised = dlbridge.asdlpack(imported, assume_writable=True)
    assert (imported.readonly, promised.readonly, promised.address) == (True, False, imported.address)
    del producer, imported, promised
    assert crafted.record.calls == 1


@pytest.mark.parametrize("source", [b"abc", dlbridge.asdlpack(bytearray(3), writable=False)])
def test_promise_for_data_that_is_marked_read_only_is_refused(source: Any) -> None:
    with pytest.raises(BufferError, match=r"marked as read-only, and assume_writable=True .* pass writable=True"):
        dlbridge.asdlpack(source, assume_writable=True)


def test_promise_for_writable_data_changes_nothing() -> None:
    tensor = dlbridge.asdlpack(bytearray(3), assume_writable=True)
    assert (tensor.readonly, tensor.protocol) == (False, "buffer")
    with pytest.raises(TypeError, match="assume_writable must be None, True or False"):
        dlbridge.asdlpack(bytearray(3), assume_writable=1)  # type: ignore[arg-type]


def test_device_option_moves_data_to_the_cpu_or_refuses(native: Native) -> None:
    producer, crafted = native.tensor((6,), device=n.CUDA_HOST)
    tensor = dlbridge.asdlpack(producer)
    assert tensor.device == "cuda_host"
    moved = dlbridge.asdlpack(tensor, device="cpu")
    assert (moved.device, moved.copy_reason) == ("cpu", "the data was in memory of another device")
    with pytest.raises(BufferError, match="another device, and copy=False"):
        dlbridge.asdlpack(tensor, device="cpu", copy=False)
    with pytest.raises(BufferError, match="the data is on cuda_host and cannot be imported on rocm:1"):
        dlbridge.asdlpack(tensor, device="rocm:1")
    for source in (b"abc", numbers()):
        with pytest.raises(BufferError, match="a buffer is on the CPU"):
            dlbridge.asdlpack(source, device="metal")
    del tensor, producer, moved
    assert crafted.record.calls == 1


@pytest.mark.parametrize(
    ("keywords", "error", "match"),
    [
        ({"copy": 1}, TypeError, "copy must be None, True or False, not 1"),
        ({"writable": "yes"}, TypeError, "writable must be None, True or False, not 'yes'"),
        ({"align": 3}, ValueError, "align must be None or a power of two, at most 1073741824 .1 GiB., not 3"),
        ({"align": 1 << 70}, ValueError, f"not {1 << 70}"),
        ({"align": 0}, ValueError, "not 0"),
        ({"align": 1 << 31}, ValueError, "not 2147483648"),
        ({"align": -8}, ValueError, "not -8"),
        ({"align": "8"}, TypeError, "not '8'"),
        ({"align": True}, TypeError, "not True"),
        ({"contiguous": "K"}, ValueError, "contiguous must be None, a bool, 'C' or 'F', not 'K'"),
        ({"contiguous": 1}, TypeError, "contiguous must be None, a bool, 'C' or 'F', not 1"),
        ({"protocol": "dlpac"}, ValueError, "protocol must be None or one of 'exchange-api', 'dl"),
        ({"protocol": 1}, TypeError, "protocol must be None or one of"),
        ({"device": "gpu"}, ValueError, "device is 'gpu'"),
        ({"device": 1}, TypeError, "device must be None, a name like 'cpu'"),
    ],
)
def test_wrong_arguments(keywords: dict[str, Any], error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        dlbridge.asdlpack(b"abc", **keywords)


def test_asdlpack_with_protocol_tries_only_that_protocol(native: Native) -> None:
    crafted = native.craft((6,))
    only_dlpack = producer(__dlpack__=lambda _, max_version=None: crafted.capsule())
    tensor = dlbridge.asdlpack(only_dlpack, protocol="dlpack")
    assert tensor.protocol == "dlpack"
    del tensor
    assert crafted.record.calls == 1
    for protocol, name in [
        ("exchange-api", "__dlpack_c_exchange_api__"),
        ("cuda-array-interface", "__cuda_array_interface__"),
        ("array-interface", "__array_interface__"),
        ("array-struct", "__array_struct__"),
        ("buffer", "the buffer protocol"),
    ]:
        with pytest.raises(TypeError, match=f"looked for {name};"):
            dlbridge.asdlpack(only_dlpack, protocol=protocol)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="looked for __dlpack__;"):
        dlbridge.asdlpack(b"abc", protocol="dlpack")


@pytest.mark.parametrize(
    "protocol", ["exchange-api", "dlpack", "dlpack-legacy", "array-interface", "array-struct", "buffer"]
)
def test_our_own_tensors_have_every_protocol(protocol: Any) -> None:
    tensor = dlbridge.asdlpack(numbers()).T
    again = dlbridge.asdlpack(tensor, protocol=protocol)
    assert again is not tensor
    assert (again.protocol, again.address, again.copied) == (protocol, tensor.address, False)
    assert (again.readonly, again.strides) == (protocol == "dlpack-legacy", (1, 3))
    assert rows(again) == [[0, 3], [1, 4], [2, 5]]


def test_legacy_capsule_can_be_requested(native: Native) -> None:
    both = n.Producer(lambda keywords: native.craft((6,), versioned="max_version" in keywords))
    legacy = dlbridge.asdlpack(both, protocol="dlpack-legacy")
    assert (legacy.protocol, legacy.readonly) == ("dlpack-legacy", True)
    versioned = dlbridge.asdlpack(both, protocol="dlpack")
    assert (versioned.protocol, versioned.readonly) == ("dlpack", False)


def test_new_tensors() -> None:
    tensor = dlbridge.empty((2, 3), "int16")
    assert (tensor.shape, tensor.strides, tensor.dtype) == ((2, 3), (3, 1), "int16")
    assert (tensor.device, tensor.readonly, tensor.protocol) == ("cpu", False, None)
    assert tensor.address % 256 == 0
    view = memoryview(tensor)
    view[1, 2] = -7
    assert view.tolist()[1][2] == -7
    assert dlbridge.empty(5).dtype == "float32"
    assert dlbridge.empty((), "bool").shape == ()
    assert dlbridge.empty((0, 4)).address == 0
    assert dlbridge.empty([8], "float4_e2m1fn", align=256, device="cpu").nbytes == 4
    with pytest.raises(ValueError, match="dtype"):
        dlbridge.empty(3, "float33x")
    with pytest.raises(ValueError, match="align"):
        dlbridge.empty(3, align=12)
    with pytest.raises(BufferError, match="cannot allocate memory on cuda:0"):
        dlbridge.empty(3, device="cuda")
    for shape in ("3", True, [True], (True, False), b"ab", 2.0, np.array([2, 3])):
        with pytest.raises(TypeError, match="shape must be .* a tuple or list of them, not "):
            dlbridge.empty(shape)  # type: ignore[arg-type]
    assert dlbridge.empty(np.array(3)).shape == dlbridge.empty(np.int64(3)).shape == (3,)  # type: ignore[arg-type]
    for shape in (-1, (2, -1), -(2**70)):
        with pytest.raises(ValueError, match="shape must be a non-negative integer"):
            dlbridge.empty(shape)
    for shape in (2**70, (1, 2**70)):
        with pytest.raises(ValueError, match=f"extents of at most {2**63 - 1}, and cannot have {2**70}"):
            dlbridge.empty(shape)
    for dtype in ("float32x0", "uint0"):
        with pytest.raises(ValueError, match=f"dtype is '{dtype}': no dtype has code .*, and at least one lane"):
            dlbridge.empty(2, dtype)
    for device in ("cpu:+0", "cpu:00", "cuda:01"):
        with pytest.raises(ValueError, match="not the name of a device"):
            dlbridge.empty(2, device=device)
    with pytest.raises((BufferError, MemoryError)):
        dlbridge.empty((2**40, 2**40))
    with pytest.raises(MemoryError, match="no memory for a tensor of 140737488355328 bytes"):
        dlbridge.empty(1 << 45)


def test_versioned_capsule_as_legacy_is_refused_and_kept(native: Native) -> None:
    capsule = dlbridge.asdlpack(b"abc").__dlpack__(max_version=(1, 0))
    with pytest.raises(ValueError, match="is versioned, and protocol='dlpack-legacy'"):
        dlbridge.asdlpack(capsule, protocol="dlpack-legacy")
    assert dlbridge.asdlpack(capsule, protocol="dlpack").protocol == "dlpack", "still there"


def test_producer_that_has_yet_to_implement_a_keyword_is_asked_without_it() -> None:
    class Producer:
        """As array-api-strict was: it names the keywords, and implements none."""

        def __init__(self) -> None:
            self.tensor = dlbridge.empty(3)

        def __dlpack_device__(self) -> tuple[int, int]:
            return self.tensor.__dlpack_device__()

        def __dlpack__(self, *, max_version: Any = None, copy: Any = None, **_: Any) -> Any:
            if max_version is not None:
                raise NotImplementedError("The max_version argument to __dlpack__ is not yet implemented")
            return self.tensor.__dlpack__(copy=copy)

    producer = Producer()
    assert dlbridge.asdlpack(producer).address == producer.tensor.address
    assert dlbridge.asdlpack(producer, copy=False).address == producer.tensor.address


def test_refusal_of_a_copy_is_not_taken_for_an_old_producer() -> None:
    class Producer:
        def __dlpack_device__(self) -> tuple[int, int]:
            return 1, 0

        def __dlpack__(self, *, copy: Any = None, **_: Any) -> Any:
            raise NotImplementedError(f"copy={copy} is not supported")

    for copy in (True, False):
        with pytest.raises(NotImplementedError, match="is not supported"):
            dlbridge.asdlpack(Producer(), copy=copy)
