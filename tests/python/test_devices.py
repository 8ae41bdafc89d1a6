"""Every device of the specification, and ones that it does not have: carried untouched, printed by name, refused to the CPU.

The data is at an address at which there is nothing: whoever reads or writes a byte of it ends the process.
"""

from __future__ import annotations

import copy
import pickle
from typing import Any

import dlbridge
import native as n
import pytest
from conftest import require
from native import Native

np = require("numpy")

#: With the numbers of dlpack.h 1.3; those that the CPU reads are not among them.
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

#: Where `data` is an address, to which a byte offset is added.
WITH_ADDRESSES = ("cuda", "rocm", "cuda_managed", "oneapi")

NOWHERE = 0x4_0000

EVERY = pytest.mark.parametrize(("name", "code"), DEVICES.items(), ids=list(DEVICES))


def crafted(native: Native, code: int) -> tuple[Any, n.Crafted]:
    """A float32 matrix of 2 x 3 on the second device of a type."""
    return native.tensor(device=(code, 1), data=NOWHERE, byte_offset=16)


@EVERY
def test_it_is_carried_untouched(native: Native, name: str, code: int) -> None:
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
def test_the_cpu_is_refused(native: Native, name: str, code: int) -> None:
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
        # NumPy's own decision, which may be right: the CPU reads such memory while no kernel uses it.
        del refused["from_dlpack"]
    for door, ask in refused.items():
        with pytest.raises((BufferError, AttributeError, RuntimeError, ValueError)) as caught:
            ask()
        assert caught.type is not RuntimeError or door == "from_dlpack", (door, caught.value)
    del tensor, caught, ask
    refused.clear()
    assert made.record.calls == 1
