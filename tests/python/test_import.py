"""Import by ``__dlpack__``: the tensor that a capsule becomes.

test_import_asked.py has the calls of ``__dlpack__``, test_import_refused.py the refusals.
"""

from collections.abc import Callable
from typing import Any

import dlbridge
import native as n
import pytest
from native import Crafted, Flags, Native, Producer, floats

MAX_VERSION = {"max_version": (1, 3)}
IMPORTS = pytest.mark.parametrize("imports", [dlbridge.asdlpack, dlbridge.from_dlpack])


@IMPORTS
@pytest.mark.parametrize(("versioned", "protocol"), [(True, "dlpack"), (False, "dlpack-legacy")])
def test_protocol_follows_the_capsule(
    native: Native, imports: Callable[[Any], dlbridge.Tensor], versioned: bool, protocol: str
) -> None:
    crafted = native.craft((2, 3), versioned=versioned)
    producer = Producer(crafted)
    tensor = imports(producer)
    assert producer.asked == [MAX_VERSION]
    assert tensor.protocol == protocol
    assert (tensor.shape, tensor.strides, tensor.ndim) == ((2, 3), (3, 1), 2)
    assert (tensor.dtype, tensor.device, tensor.nbytes) == ("float32", "cpu", 24)
    assert (tensor.readonly, tensor.copied) == (not versioned, False)
    assert tensor.address == crafted.fields.data
    assert floats(tensor.address, 6) == [0, 1, 2, 3, 4, 5]
    assert crafted.record.calls == 0
    del tensor
    assert crafted.record.calls == 1


@pytest.mark.parametrize(
    ("dtype", "name", "nbytes"),
    [
        ((0, 8, 1), "int8", 6),
        ((0, 64, 1), "int64", 48),
        ((0, 4, 1), "int4", 3),
        ((1, 16, 1), "uint16", 12),
        ((2, 16, 1), "float16", 12),
        ((2, 128, 1), "float128", 96),
        ((3, 64, 1), "handle64", 48),
        ((4, 16, 1), "bfloat16", 12),
        ((5, 64, 1), "complex64", 48),
        ((6, 8, 1), "bool", 6),
        ((6, 1, 1), "code6_1", 1),
        ((10, 8, 1), "float8_e4m3fn", 6),
        ((15, 6, 1), "float6_e2m3fn", 5),
        ((17, 4, 1), "float4_e2m1fn", 3),
        ((17, 4, 2), "float4_e2m1fnx2", 6),
        ((2, 32, 4), "float32x4", 96),
        ((18, 32, 1), "bcomplex32", 24),
        ((19, 8, 1), "code19_8", 6),
        ((255, 255, 65535), "code255_255x65535", 12533569),
    ],
)
def test_known_and_unknown_dtypes_make_a_round_trip(
    native: Native, dtype: tuple[int, int, int], name: str, nbytes: int
) -> None:
    for versioned in (True, False):
        tensor, _ = native.tensor((2, 3), dtype=dtype, versioned=versioned, device=n.CUDA)
        assert (tensor.dtype, tensor.nbytes) == (name, nbytes)
        held = native.export(tensor, **MAX_VERSION)
        assert held.fields.dtype == dtype
        held.delete()


@pytest.mark.parametrize(
    ("flags", "readonly", "copied"),
    [
        (0, False, False),
        (1, True, False),
        (2, False, True),
        (3, True, True),
        (1 << 40, False, False),
    ],
)
def test_flags_are_kept(native: Native, flags: int, readonly: bool, copied: bool) -> None:
    tensor, _ = native.tensor(flags=flags)
    assert (tensor.readonly, tensor.copied) == (readonly, copied)
    assert dlbridge.asdlpack(tensor) is tensor
    again = dlbridge.from_dlpack(tensor)
    assert (again.readonly, again.copied) == (readonly, False)


@pytest.mark.parametrize("versioned", [True, False])
@pytest.mark.parametrize(
    ("shape", "strides", "origin", "expected"),
    [
        ((), (), 0, ()),
        ((), None, 0, ()),
        ((6,), None, 0, (1,)),
        ((2, 3), None, 0, (3, 1)),
        ((2, 3), (1, 2), 0, (1, 2)),
        ((2, 3), (-3, -1), 5, (-3, -1)),
        ((5, 2), (0, 1), 0, (0, 1)),
        ((2, 1), (1, 77), 0, (1, 77)),
        ((1, 2), (-9, 1), 0, (-9, 1)),
        ((2, 0, 3), None, 0, (3, 3, 1)),
        ((2, 0, 3), (0, 0, 0), 0, (0, 0, 0)),
        ((2**31, 4), (0, 0), 0, (0, 0)),
        ((1,) * 64, None, 0, (1,) * 64),
        ((1,) * 1024, None, 0, (1,) * 1024),
    ],
)
def test_strides_of_any_sign_and_none(
    native: Native, versioned: bool, shape: n.Ints, strides: Any, origin: int, expected: n.Ints
) -> None:
    tensor, crafted = native.tensor(shape, strides=strides, origin=4 * origin, versioned=versioned)
    assert (tensor.shape, tensor.strides) == (shape, expected)
    assert tensor.address == (0 if 0 in shape else crafted.fields.data)


@pytest.mark.parametrize("versioned", [True, False])
def test_shape_and_strides_may_be_at_any_address_and_are_copied(
    native: Native, versioned: bool
) -> None:
    for skew in range(8):
        tensor, crafted = native.tensor((2, 3), strides=(1, 2), skew=skew, versioned=versioned)
        assert (tensor.shape, tensor.strides) == ((2, 3), (1, 2))
        del tensor
        assert crafted.record.calls == 1


@pytest.mark.parametrize("byte_offset", [0, 3, 4, 64])
def test_offsets_are_added_to_the_address(native: Native, byte_offset: int) -> None:
    tensor, crafted = native.tensor((3,), byte_offset=byte_offset)
    assert tensor.address == crafted.fields.data + byte_offset
    held = native.export(tensor)
    assert (held.fields.data, held.fields.byte_offset) == (tensor.address, 0)
    held.delete()
    if byte_offset % 4 == 0:
        first = byte_offset // 4
        assert floats(tensor.address, 3) == [first, first + 1, first + 2]


def test_data_at_any_address(native: Native) -> None:
    tensor, crafted = native.tensor((3,), origin=1)
    assert tensor.address % 4 == 1
    copy = dlbridge.asdlpack(tensor, copy=True)
    assert (copy.address % 256, copy.copied, tensor.copied) == (0, True, False)
    assert crafted.fields.data == tensor.address


@IMPORTS
@pytest.mark.parametrize("versioned", [True, False])
def test_copy_frees_the_capsule_and_is_compact(native: Native, imports: Any, versioned: bool) -> None:
    crafted = native.craft((2, 3), strides=(1, 2), versioned=versioned)
    producer = Producer(crafted)
    tensor = imports(producer, copy=True)
    assert crafted.record.calls == 1
    assert (tensor.copied, tensor.readonly, tensor.address % 256) == (True, False, 0)
    assert (tensor.shape, tensor.strides) == ((2, 3), (3, 1))
    assert floats(tensor.address, 6) == [0, 2, 4, 1, 3, 5]


@IMPORTS
def test_copy_of_the_producer_is_not_copied_again(native: Native, imports: Any) -> None:
    crafted = native.craft(flags=Flags.IS_COPIED)
    tensor = imports(Producer(crafted), copy=True)
    assert (tensor.copied, tensor.address) == (True, crafted.fields.data)


@IMPORTS
@pytest.mark.parametrize("versioned", [True, False])
def test_tensor_without_deleter_or_context_is_imported(native: Native, imports: Any, versioned: bool) -> None:
    crafted: Crafted = native.craft(deleter=False, versioned=versioned)
    assert imports(Producer(crafted)).shape == (2, 3)
    crafted = native.craft(manager_ctx=0, versioned=versioned)
    assert imports(Producer(crafted)).shape == (2, 3)
    assert crafted.record.calls == 1


def test_later_minor_versions_are_read(native: Native) -> None:
    tensor, _ = native.tensor(version=(1, 99))
    held = native.export(tensor, **MAX_VERSION)
    assert held.fields.version == (1, 3)
    held.delete()


def test_own_tensor_is_returned_itself(native: Native) -> None:
    tensor, crafted = native.tensor((2, 3), strides=(1, 2), flags=Flags.READ_ONLY)
    assert dlbridge.asdlpack(tensor) is tensor
    assert dlbridge.asdlpack(tensor, copy=False) is tensor
    for producer in (tensor, Producer(tensor.__dlpack__(max_version=(1, 0)))):
        again = dlbridge.from_dlpack(producer)
        assert again is not tensor
        assert (again.address, again.strides, again.readonly) == (tensor.address, (1, 2), True)
    del tensor, producer
    assert crafted.record.calls == 0
    del again
    assert crafted.record.calls == 1


def test_repr(native: Native) -> None:
    assert repr(native.tensor()[0]) == (
        "dlbridge.Tensor([[0.0, 1.0, 2.0],\n                 [3.0, 4.0, 5.0]], shape=(2, 3), strides=(3, 1), dtype='float32', device='cpu', "
        "readonly=False, protocol='dlpack', copied=False)"
    )
    tensor, _ = native.tensor((7,), strides=(-1,), origin=24, dtype=n.UINT8, versioned=False)
    again = dlbridge.asdlpack(tensor, copy=True)
    assert repr(again) == (
        f"dlbridge.Tensor({again.tolist()}, shape=(7,), strides=(1,), dtype='uint8', device='cpu', "
        "readonly=False, protocol='dlpack-legacy', copied=True)"
    )
    tensor, _ = native.tensor((), flags=Flags.READ_ONLY, device=(2, 1), dtype=(99, 16, 2))
    assert repr(tensor) == (
        "dlbridge.Tensor(shape=(), strides=(), dtype='code99_16x2', device='cuda:1', "
        "readonly=True, protocol='dlpack', copied=False)"
    )
