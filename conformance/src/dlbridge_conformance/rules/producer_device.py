"""The result of ``__dlpack_device__``."""

from __future__ import annotations

import operator
from typing import Any

from dlbridge_conformance.context import Context
from dlbridge_conformance.exports import each_abi
from dlbridge_conformance.outcome import Broken
from dlbridge_conformance.rule import must

STANDARD = "array API standard 2024.12, __dlpack_device__"
HEADER = "dlpack.h 1.3, DLDevice"

#: the device types of dlpack.h 1.3
KNOWN = {1, 2, 3, 4, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18}
#: the device types with only the device id 0: CPU, CUDAHost, ROCMHost, CUDAManaged
SINGLE = {1, 3, 11, 13}


def _device(c: Context, array: Any) -> Any:
    device = array.__dlpack_device__()
    c.got(f"__dlpack_device__() is {device!r}")
    return device


def _integer(value: Any, what: str) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise Broken(f"the {what} is {value!r}, a {type(value).__name__}") from None


@must("P-DEVICE-TUPLE", "__dlpack_device__ takes no arguments and returns a tuple of two.", STANDARD)
def pair(c: Context) -> None:
    device = _device(c, c.array())
    c.expect(isinstance(device, tuple), f"it is a {type(device).__name__}")
    c.expect(len(device) == 2, f"it has {len(device)} items")


must("P-DEVICE-TYPE", "The first item, the device type, is an integer or a member of an enumeration of integers.",
     STANDARD, lambda c: _integer(_device(c, c.array())[0], "device type"))  # fmt: skip
must("P-DEVICE-ID", "The second item, the device id, is an integer.", STANDARD,
     lambda c: _integer(_device(c, c.array())[1], "device id"))  # fmt: skip


@must("P-DEVICE-KNOWN", "The device type is one that DLPack defines.", "dlpack.h 1.3, DLDeviceType")
def known(c: Context) -> None:
    found = int(_device(c, c.array())[0])
    c.expect(found in KNOWN, f"DLPack does not define device type {found}")


@must("P-DEVICE-AGREES", "The tensor in the capsule is on the device that __dlpack_device__ returns.", STANDARD)
def agrees(c: Context) -> None:
    array = c.array()
    told = tuple(_device(c, array))
    for held in each_abi(c, array):
        c.expect(held.fields.device == told, f"the tensor is on {held.fields.device}, not on {told}")


@must("P-DEVICE-SINGLE-ID", "The device id of CPU, pinned and managed memory is 0, in the tuple and in the struct.",
      HEADER)  # fmt: skip
def single_id(c: Context) -> None:
    array = c.array()
    told = tuple(_device(c, array))
    c.needs(told[0] in SINGLE, f"several devices of type {told[0]} can exist")
    c.expect(told[1] == 0, f"the device id in the tuple is {told[1]!r}")
    for held in each_abi(c, array):
        c.expect(held.fields.device[1] == 0, f"the device id in the struct is {held.fields.device[1]}")


@must("P-DEVICE-ZERO-SIZE", "An array without elements has a device too, and its tensor has the same one.", STANDARD)
def zero_size(c: Context) -> None:
    array = c.array([])
    told = tuple(_device(c, array))
    for held in each_abi(c, array):
        c.expect(held.fields.device == told, f"the tensor is on {held.fields.device}, not on {told}")


@must("P-DEVICE-OF-VIEWS", "A view is on the device of its array.", STANDARD)
def views(c: Context) -> None:
    array = c.array()
    view = c.lib.sliced(array)
    whole, part = tuple(_device(c, array)), tuple(_device(c, view))
    c.expect(whole == part, f"the array is on {whole}, and its view on {part}")
    for held in each_abi(c, view, "a slice"):
        c.expect(held.fields.device == whole, f"the tensor of the view is on {held.fields.device}")


@must("P-DEVICE-STABLE", "An export does not change the device of an array.", STANDARD)
def stable(c: Context) -> None:
    array = c.array()
    before = tuple(_device(c, array))
    each_abi(c, array)
    after = tuple(_device(c, array))
    c.expect(before == after, f"it was {before}, and is {after} after the export")
