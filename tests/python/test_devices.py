"""Every device of the specification, and device types outside it: dlbridge exchanges their tensors, prints their names, and
refuses access by the CPU.

The data is at an unmapped address: code that reads or writes a byte of it ends the process.
"""

import copy
import pickle
from typing import Any

import dlbridge
import native as n
import pytest
from conftest import require
from native import Native

# Other files load the stand-in for the driver of a GPU.
pytestmark = pytest.mark.alone

np = require("numpy")

#: Device types with the numbers of dlpack.h 1.3, without those that the CPU can read.
DEVICES = {
    "cuda": 2,
    "opencl": 4,
    "vulkan": 7,
    "metal": 8,
    "vpi": 9,
    "rocm": 10,
    "ext_dev": 12,
    "cuda_managed": 13,
    "oneapi": 14,
    "webgpu": 15,
    "hexagon": 16,
    "maia": 17,
    "trn": 18,
    "tpu": 19,
    "tpu_host": 20,
    "ascend": 21,
    "device_type_22": 22,
    "device_type_0": 0,
    "device_type_-7": -7,
}

#: Device types where `data` is an address, to which an export adds the byte offset.
WITH_ADDRESSES = ("cuda", "rocm", "cuda_managed", "oneapi")

NOWHERE = 0x4_0000

EVERY = pytest.mark.parametrize(("name", "code"), DEVICES.items(), ids=list(DEVICES))


def crafted(native: Native, code: int) -> tuple[Any, n.Crafted]:
    """A float32 matrix of 2 x 3 on the second device of a type."""
    return native.tensor(device=(code, 1), data=NOWHERE, byte_offset=16)


@EVERY
def test_tensor_on_any_device_makes_a_round_trip(native: Native, name: str, code: int) -> None:
    tensor, made = crafted(native, code)
    assert (tensor.device, tensor.__dlpack_device__()) == (f"{name}:1", (code, 1))
    assert f"{name}:1" in repr(tensor)
    assert (tensor.shape, tensor.strides, tensor.dtype, tensor.copied) == ((2, 3), (3, 1), "float32", False)
    place = (NOWHERE + 16, 0) if name in WITH_ADDRESSES else (NOWHERE, 16)
    for keywords in ({"max_version": (1, 3)}, {}):
        held = native.export(tensor, **keywords)
        fields = held.fields
        assert (fields.device, fields.data, fields.byte_offset) == ((code, 1), *place)
        assert (fields.shape, fields.strides, fields.dtype) == ((2, 3), (3, 1), n.FLOAT32)
        held.delete()
    second = dlbridge.asdlpack(tensor)
    assert second.device == tensor.device
    del tensor, second
    assert made.record.calls == 1


@EVERY
def test_access_by_the_cpu_is_refused(native: Native, name: str, code: int) -> None:
    tensor, made = crafted(native, code)
    refused: dict[str, Any] = {
        "memoryview": lambda: memoryview(tensor),
        "numpy": lambda: tensor.numpy(),
        "asarray": lambda: np.asarray(tensor),
        "from_dlpack": lambda: np.from_dlpack(tensor),
        "a copy": lambda: tensor.__dlpack__(copy=True, max_version=(1, 3)),
        "to the CPU": lambda: tensor.__dlpack__(dl_device=(1, 0), max_version=(1, 3)),
        "asdlpack to the CPU": lambda: dlbridge.asdlpack(tensor, device="cpu"),
        "in another order": lambda: dlbridge.asdlpack(tensor, contiguous="F"),
        "pickle": lambda: pickle.dumps(tensor, protocol=5),
        "deepcopy": lambda: copy.deepcopy(tensor),
        "Arrow": lambda: tensor.__arrow_c_array__(),
        "the array interface": lambda: tensor.__array_interface__,
    }
    if name == "cuda_managed":
        # NumPy accepts this memory, which may be right: the CPU can read it while no kernel uses it.
        del refused["from_dlpack"]
    for access, ask in refused.items():
        with pytest.raises((BufferError, AttributeError, RuntimeError, ValueError)) as caught:
            ask()
        assert caught.type is not RuntimeError or access == "from_dlpack", (access, caught.value)
    del tensor, caught, ask
    refused.clear()
    assert made.record.calls == 1
