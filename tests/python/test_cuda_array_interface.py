"""The CUDA array interface, with crafted producers; the driver is a stand-in over host memory.

The stand-in is a library with the driver's name, which child processes find first. These tests need no GPU, and do not
replace tests on one.
"""

import ctypes
from pathlib import Path
from typing import Any

import dlbridge
import native as n
import pytest
from processes import output
from native import Flags, Native
from stand_in import build

# The stand-in for the driver of a GPU is loaded once in a process.
pytestmark = pytest.mark.alone

PRODUCER = '''
import ctypes, sys
import dlbridge

class Memory:
    """A producer that has only `__cuda_array_interface__`, with the given fields."""

    def __init__(self, **fields):
        self.buffer = (ctypes.c_float * 6)(*range(6))
        self.address = ctypes.addressof(self.buffer)
        whole = {"version": 3, "shape": (2, 3), "typestr": "<f4", "data": (self.address, False)}
        self.__cuda_array_interface__ = {**whole, **fields}

def refused(*matches, function=dlbridge.asdlpack, memory=None, **fields):
    try:
        function(Memory(**fields) if memory is None else memory)
    except BufferError as error:
        assert all(match in str(error) for match in matches), error
    else:
        raise AssertionError("not refused")

driver = ctypes.CDLL("libcuda.so.1")
know = driver.stand_in_know
know.argtypes = [ctypes.c_uint64, ctypes.c_int, ctypes.c_int]
'''


@pytest.fixture(scope="session")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the stand-in."""
    return build(tmp_path_factory.mktemp("driver")).parent


def with_driver(driver: Path, code: str) -> None:
    """Runs code in a process that finds the stand-in."""
    assert output(PRODUCER + code, LD_LIBRARY_PATH=str(driver)) == ""


@pytest.mark.parametrize(
    ("number", "managed", "device"),
    [(0, 0, "cuda:0"), (1, 0, "cuda:1"), (1, 1, "cuda_managed:1")],
)
def test_device_is_read_from_the_driver(
    driver: Path, number: int, managed: int, device: str
) -> None:
    code = f"""
memory = Memory()
know(memory.address, {number}, {managed})
tensor = dlbridge.asdlpack(memory)
assert tensor.device == {device!r}, tensor.device
assert (tensor.protocol, tensor.shape, tensor.strides) == ("cuda-array-interface", (2, 3), (3, 1))
assert (tensor.address, tensor.dtype, tensor.readonly) == (memory.address, "float32", False)
assert tensor.__dlpack_device__()[1] == {number}
out = tensor.__cuda_array_interface__
assert out == {{"version": 3, "shape": (2, 3), "typestr": "<f4", "strides": None, "stream": 1,
               "data": (memory.address, False)}}, out
assert not hasattr(tensor, "__array_interface__")
refused("a buffer is on the CPU", function=memoryview, memory=tensor)
assert driver.stand_in_synchronized(ctypes.byref(ctypes.c_uint64())) == 0
import weakref
gone = weakref.ref(memory)
del memory
assert gone() is not None
del tensor
assert gone() is None
"""
    with_driver(driver, code)


def test_driver_that_is_loaded_later_is_found(driver: Path) -> None:
    """For example, if the library that loads the driver is imported after the first attempt."""
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        pass
    else:
        pytest.skip("the driver is installed, so it is found from the beginning")
    code = f"""
import ctypes, dlbridge

class Memory:
    buffer = (ctypes.c_float * 6)()
    __cuda_array_interface__ = {{
        "version": 3, "shape": (6,), "typestr": "<f4", "data": (ctypes.addressof(buffer), False)
    }}

try:
    dlbridge.asdlpack(Memory())
except BufferError as error:
    assert "no CUDA driver was found" in str(error), error
else:
    raise AssertionError("not refused")
ctypes.CDLL({str(driver / "libcuda.so.1")!r}).stand_in_know(
    ctypes.c_uint64(ctypes.addressof(Memory.buffer)), 1, 0
)
assert dlbridge.asdlpack(Memory()).device == "cuda:1"
"""
    output(code, options=())


def test_stream_that_cannot_be_synchronised_is_refused(driver: Path) -> None:
    code = """
for stream, match in [(0, "never 0"), *((wrong, "None or an integer") for wrong in (-5, "a", 1.5, 2**64, object()))]:
    refused(match, stream=stream)
memory = Memory(stream=0xDEAD0)
know(memory.address, 0, 0)
refused(f"is synchronised with stream {0xDEAD0} and cannot be synchronised with stream 1", "error 400", memory=memory)
assert dlbridge.asdlpack(memory, stream=-1).stream == -1
"""
    with_driver(driver, code)


def test_layouts_and_refusals(driver: Path) -> None:
    code = """
memory = Memory(shape=(3, 2), strides=(4, 12), mask=None)
know(memory.address, 0, 0)
tensor = dlbridge.asdlpack(memory)
assert (tensor.strides, tensor.copied) == ((1, 3), False)
assert tensor.__cuda_array_interface__["strides"] == (4, 12)
nothing = dlbridge.asdlpack(Memory(shape=(0, 3), data=(0, False)))
assert (nothing.shape, nothing.device, nothing.address) == ((0, 3), "cuda:0", 0)
memory = Memory()
know(memory.address, 0, 0)
memory.__cuda_array_interface__["data"] = (memory.address, True)
assert dlbridge.asdlpack(memory).readonly
refused("the CUDA driver does not know the address", )
refused("mask", mask=(1,))
refused("data must be an address and a bool", data=None)
refused("data must be an address and a bool", data=(1, 2, 3))
for fields, match in [({"typestr": ">f4"}, "byte order"), ({"strides": (13, 4)}, "not a multiple")]:
    memory = Memory(**fields)
    know(memory.address, 0, 0)
    refused(match, memory=memory)
memory = Memory()
know(memory.address, 1, 0)
elsewhere = dlbridge.asdlpack(memory, device="cuda:0")
assert (elsewhere.device, elsewhere.copied) == ("cuda:0", True)
assert dlbridge.asdlpack(memory, device="cuda:1").address == memory.address
copy = dlbridge.asdlpack(memory, copy=True)
assert (copy.device, copy.address != memory.address) == ("cuda:1", True)
"""
    with_driver(driver, code)


@pytest.mark.parametrize("device", [n.CUDA, n.ROCM, (13, 0)])
def test_tensor_imported_by_dlpack_exports_the_interface(native: Native, device: tuple[int, int]) -> None:
    tensor, crafted = native.tensor((2, 3), device=device, flags=Flags.READ_ONLY)
    out: dict[str, Any] = tensor.__cuda_array_interface__
    assert (out["data"], out["shape"], out["stream"]) == ((tensor.address, True), (2, 3), 1)
    del tensor
    assert crafted.record.calls == 1


def test_tensor_on_another_device_has_no_interface(native: Native) -> None:
    for device in (n.CPU, n.CUDA_HOST, n.OPENCL):
        tensor, _ = native.tensor((2, 3), device=device)
        with pytest.raises(AttributeError, match="the data is on"):
            _ = tensor.__cuda_array_interface__
    assert not hasattr(dlbridge.empty(3), "__cuda_array_interface__")
