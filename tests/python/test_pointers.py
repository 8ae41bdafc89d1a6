"""Addresses of DLPack's structs, for C libraries that Python calls by ctypes."""

import ctypes
from typing import Any

import dlbridge
import pytest
from dlbridge.compat.dlpack import _DLTensor as DLTensor
from native import Native, floats


def test_struct_describes_the_tensor_and_keeps_its_memory(native: Native) -> None:
    producer, crafted = native.tensor((2, 3))
    with dlbridge.asdlpack(producer).T.dltensor(writable=True) as address:
        del producer
        struct = DLTensor.from_address(address)
        assert (struct.ndim, struct.shape[:2], struct.strides[:2]) == (2, [3, 2], [1, 3])
        assert floats(struct.data + struct.byte_offset, 6) == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
        assert crafted.record.calls == 0
    assert crafted.record.calls == 1


def test_struct_ends_with_the_block_after_an_exception() -> None:
    scope = dlbridge.asdlpack(bytearray(3)).dltensor()
    with pytest.raises(KeyError), scope:
        raise KeyError
    with pytest.raises(ValueError, match=r"the block has ended; call t.dltensor\(\) again"):
        scope.__enter__()


def test_struct_of_read_only_data_for_writing_is_refused() -> None:
    tensor = dlbridge.asdlpack(b"abc")
    with pytest.raises(BufferError, match="the tensor is read-only, and writable=True"):
        tensor.dltensor(writable=True)
    with tensor.dltensor() as address:
        assert DLTensor.from_address(address).data


@pytest.mark.parametrize("versioned", [True, False])
def test_managed_tensor_is_taken_over_and_deleted_once(native: Native, versioned: bool) -> None:
    crafted = native.craft((6,), versioned=versioned)
    capsule = crafted.capsule()
    name = b"dltensor_versioned" if versioned else b"dltensor"
    pointer, rename = ctypes.pythonapi.PyCapsule_GetPointer, ctypes.pythonapi.PyCapsule_SetName
    pointer.restype, pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    rename.argtypes = (ctypes.py_object, ctypes.c_char_p)
    address = pointer(capsule, name)
    used = b"used"
    rename(capsule, used)
    tensor = dlbridge.from_managed(address, legacy=not versioned)
    assert (tensor.tolist(), tensor.readonly) == ([0.0, 1.0, 2.0, 3.0, 4.0, 5.0], not versioned)
    assert crafted.record.calls == 0
    del tensor
    assert crafted.record.calls == 1


@pytest.mark.parametrize(("address", "error"), [(0, ValueError), (4, ValueError), (-8, ValueError), ("8", TypeError), (True, TypeError)])
def test_address_that_cannot_be_one_is_refused(address: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="address must be the address of a managed tensor, a multiple of 8, not"):
        dlbridge.from_managed(address)


@pytest.mark.parametrize("call", [lambda flag: dlbridge.empty(2).dltensor(writable=flag), lambda flag: dlbridge.from_managed(8, legacy=flag)])
def test_flag_that_is_not_a_bool_is_refused_by_its_name(call: Any) -> None:
    with pytest.raises(TypeError, match="^(writable|legacy) must be None, True or False, not 1$"):
        call(1)
