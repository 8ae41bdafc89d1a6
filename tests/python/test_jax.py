"""JAX: legacy capsules before release 0.12, 64-byte alignment, immutable arrays."""

import ctypes
import gc
import itertools
from collections.abc import Iterator
from typing import Any

import dlbridge
import native as n
import pytest
from conftest import require
from native import Flags, Native
from processes import output

np = require("numpy")
jax = require("jax")
from_dlpack = jax.dlpack.from_dlpack


@pytest.fixture(autouse=True, scope="module")
def elements_of_64_bits() -> Iterator[None]:
    """Enables them in this file."""
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", False)


VERSIONED = '"dltensor_versioned"' in repr(jax.numpy.ones(1).__dlpack__(max_version=(1, 3)))
"""True if this release of JAX exports and imports versioned capsules, which mark read-only data."""

PROTOCOL = "dlpack" if VERSIONED else "dlpack-legacy"

DTYPES = [
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "bfloat16", "float32", "float64", "complex64", "complex128"),
    *("float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz"),
    *("float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"),
]


def address(array: Any) -> int:
    return int(array.unsafe_buffer_pointer())


def bytes_of(array: Any) -> bytes:
    """The elements of an array."""
    return ctypes.string_at(address(array), array.nbytes)


def aligned(count: int, alignment: int, offset: int = 0) -> Any:
    """Float32 numbers 0, 1, ... at an address that is ``offset`` bytes off an alignment."""
    memory = np.zeros(4 * count + 2 * alignment, np.uint8)
    start = -memory.ctypes.data % alignment + offset
    array = memory[start : start + 4 * count].view(np.float32)
    array[:] = range(count)
    return array


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_makes_a_round_trip(dtype: str) -> None:
    source = (jax.numpy.arange(12).reshape(3, 4) % 2).astype(dtype)
    tensor = dlbridge.asdlpack(source)
    assert (tensor.dtype, tensor.shape, tensor.strides) == (dtype, (3, 4), (4, 1))
    assert (tensor.protocol, tensor.copied) == (PROTOCOL, False)
    back = from_dlpack(tensor)
    assert back.dtype == source.dtype
    assert address(source) == tensor.address == address(back)
    assert bytes_of(source) == bytes_of(back)


@pytest.mark.parametrize("dtype", DTYPES)
def test_array_that_is_read_in_place_is_imported_as_by_its_method(dtype: str) -> None:
    array = jax.numpy.ones((2, 3), dtype)
    dlbridge.asdlpack(jax.numpy.ones(4, "float32"))
    in_place, called = dlbridge.asdlpack(array), dlbridge.asdlpack(array, protocol="dlpack")
    names = ("address", "shape", "strides", "dtype", "device", "readonly", "protocol", "copied")
    assert [getattr(in_place, name) for name in names] == [getattr(called, name) for name in names]


@pytest.mark.parametrize("shape", [(), (1,), (5,), (2, 3, 4), (0,), (2, 0, 3), (1, 1, 1)])
def test_every_shape_makes_a_round_trip(shape: n.Ints) -> None:
    source = jax.numpy.ones(shape, "float32")
    tensor = dlbridge.asdlpack(source)
    back = from_dlpack(tensor)
    assert tensor.shape == source.shape == back.shape
    assert 0 in shape or tensor.strides == n.c_strides(shape)
    assert back.tolist() == source.tolist()
    assert tensor.address == (0 if 0 in shape else address(source))


def test_transposed_memory_is_shared_with_jax() -> None:
    array = aligned(6, 64).reshape(2, 3)
    back = from_dlpack(dlbridge.asdlpack(array.T))
    assert address(back) == array.ctypes.data
    assert back.tolist() == array.T.tolist()


@pytest.mark.parametrize(("offset", "shared"), [(0, True), (64, True), (4, False), (32, False)])
def test_jax_shares_data_aligned_to_64_bytes(offset: int, shared: bool) -> None:
    array = aligned(6, 128, offset)
    tensor = dlbridge.asdlpack(array)
    back = from_dlpack(tensor)
    assert (address(back) == array.ctypes.data == tensor.address) == shared
    assert back.tolist() == [0, 1, 2, 3, 4, 5]


def test_copy_by_dlbridge_is_aligned_for_jax() -> None:
    for source in (aligned(6, 64, 4), aligned(7, 64)[:0:-1], bytearray(b"abc"), b""):
        tensor = dlbridge.asdlpack(source, copy=True)
        back = from_dlpack(tensor)
        assert tensor.copied
        assert tensor.address % 256 == 0
        assert back.size == 0 or address(back) == tensor.address
        assert back.tolist() == np.asarray(memoryview(source)).tolist()


def test_read_only_data_is_copied_only_for_a_legacy_capsule() -> None:
    """A legacy capsule cannot mark data as read-only."""
    array = aligned(6, 64)
    array.flags.writeable = False
    back = from_dlpack(dlbridge.asdlpack(array))
    assert (address(back) == array.ctypes.data) == VERSIONED
    assert VERSIONED or address(back) % 256 == 0, "our copy is aligned, so JAX does not copy it again"
    assert back.tolist() == [0, 1, 2, 3, 4, 5]


def test_read_only_data_is_released_when_neither_tensor_nor_array_needs_it(native: Native) -> None:
    tensor, crafted = native.tensor((6,), flags=Flags.READ_ONLY)
    data, back = tensor.address, from_dlpack(tensor)
    assert crafted.record.calls == 0
    del tensor
    gc.collect()
    assert crafted.record.calls == (0 if address(back) == data else 1)
    del back
    gc.collect()
    assert crafted.record.calls == 1


def test_keywords_of_jax_are_accepted() -> None:
    tensor = dlbridge.asdlpack(aligned(6, 64))
    assert address(from_dlpack(tensor, copy=False)) == tensor.address
    assert address(jax.numpy.from_dlpack(tensor)) == tensor.address
    source = jax.numpy.arange(3.0)
    assert dlbridge.asdlpack(source, copy=False).address == address(source)
    assert dlbridge.from_dlpack(source, device=(1, 0)).address == address(source)
    copy = dlbridge.asdlpack(source, copy=True)
    assert (copy.copied, copy.address % 256) == (True, 0)


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
def test_last_of_many_holders_frees(native: Native, order: tuple[int, ...]) -> None:
    first, crafted = native.tensor((6,), versioned=False)
    middle = from_dlpack(first)
    second = dlbridge.asdlpack(middle)
    last = np.from_dlpack(second)
    # The payload of a crafted tensor is aligned to 256 bytes.
    assert first.address == address(middle) == second.address == last.ctypes.data
    holders = [[first], [middle], [second], [last]]
    del first, middle, second, last
    for which in order:
        assert crafted.record.calls == 0
        holders[which].clear()
    gc.collect()
    assert crafted.record.calls == 1


def test_deleted_array_is_refused_with_the_reason() -> None:
    deleted = jax.numpy.arange(3)
    deleted.delete()
    for protocol in (None, "dlpack"):
        with pytest.raises(BufferError, match="the array was deleted, or donated.*convert it before") as caught:
            dlbridge.asdlpack(deleted, protocol=protocol)
        assert isinstance(caught.value.__cause__, (RuntimeError, TypeError)), "the exception of JAX"


def test_tracer_is_refused_with_the_reason() -> None:
    def function(x: Any) -> Any:
        dlbridge.asdlpack(x)
        return x

    with pytest.raises(BufferError, match="a tracer of JAX.*outside of the transformed function") as caught:
        jax.jit(function)(1.0)
    assert isinstance(caught.value.__cause__, jax.errors.ConcretizationTypeError)


def test_immutable_arrays_stay_read_only() -> None:
    source = jax.numpy.arange(4.0)
    tensor = dlbridge.asdlpack(source)
    assert tensor.readonly
    array = np.from_dlpack(tensor)
    assert array.ctypes.data == address(source)
    assert not array.flags.writeable
    copy = np.from_dlpack(dlbridge.asdlpack(source, copy=True))
    copy[0] = 99
    assert source.tolist() == [0, 1, 2, 3]


def test_jax_functions_that_call_asarray() -> None:
    tensor = dlbridge.asdlpack(np.ones(3, "f4"))
    assert jax.numpy.asarray(tensor).tolist() == [1, 1, 1]


def test_array_that_jax_cannot_export_is_a_buffer_error() -> None:
    with pytest.raises(BufferError, match="the producer cannot export the data: .*S4") as refusal:
        dlbridge.asdlpack(jax.numpy.zeros(3, "int4"))
    assert refusal.value.__cause__ is not None


def test_array_moved_by_jax_between_cpu_devices_is_reported_as_a_copy() -> None:
    code = """
import os
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"
import dlbridge, jax
array = jax.device_put(jax.numpy.arange(6.0), jax.devices()[1])
tensor = dlbridge.asdlpack(array, device="cpu")
assert tensor.copied == (tensor.address != array.unsafe_buffer_pointer())
assert tensor.copy_reason == "the producer made a copy"
"""
    output(code, options=(), quiet=False)


def test_keys_of_random_numbers_name_their_integers() -> None:
    with pytest.raises(TypeError, match=r"jax\.random\.key_data\(keys\)"):
        dlbridge.asdlpack(jax.random.key(0))
