"""Operators on CUDA without a GPU: the operators of the extension launch no kernel, and record what they get.

These tests do not replace tests on a GPU.
"""

import ctypes
import gc
from pathlib import Path
from typing import Any

import numpy as np
import operators
import pytest

import native as n
from native import OnDevice
from stand_in import Driver, InterfaceArray, driver, stand_in

# The stand-in for the driver of a GPU is loaded once in a process.
pytestmark = pytest.mark.alone

__all__ = ["driver", "stand_in"]


@pytest.fixture(scope="module")
def native() -> n.Native:
    return n.Native()


def found() -> list[int]:
    """Device, stream, and addresses of the last call."""
    return operators.cuda_found(True).tolist()


# NumPy and all others


def test_operator_gets_device_stream_and_addresses(driver: Driver, native: n.Native) -> None:
    x, out = (OnDevice(native.craft((6,), device=(2, 1))) for _ in range(2))
    assert operators.cuda_scale(x, 2.0, out=out) is out
    assert found() == [1, 0, x.crafted.fields.data, out.crafted.fields.data]
    assert x.streams == out.streams == [1], "the producer synchronises with the legacy default stream"
    gc.collect()
    driver.until(lambda: x.crafted.record.calls == out.crafted.record.calls == 1)


def test_default_stream_waits_for_the_stream_of_the_array(driver: Driver) -> None:
    x, out, stream = driver.memory(24), driver.memory(24), driver.stream()
    waits = driver.stream_waits
    operators.cuda_scale(InterfaceArray(x, (6,), stream), out=InterfaceArray(out, (6,), None))
    assert found() == [0, 0, x, out]
    assert driver.stream_waits == waits + 1


def test_tensor_changes_in_place(driver: Driver) -> None:
    address = driver.memory(24)
    x = InterfaceArray(address, (6,), None)
    assert operators.cuda_relu_(x) is x
    assert found() == [0, 0, address, 0]


def test_wrong_arguments_are_refused(driver: Driver, native: n.Native) -> None:
    def on_cuda(device: int = 0, **fields: Any) -> OnDevice:
        # A crafted tensor is exported once.
        return OnDevice(native.craft((3,), device=(2, device), **fields))

    on_cpu, scale = np.ones(3, "f4"), operators.cuda_scale
    with pytest.raises(BufferError, match=r"cuda_scale: out has no memory, .* pass the tensor to fill: `out=`"):
        scale(on_cuda())
    with pytest.raises(TypeError, match=r"cuda_scale: x: expected .* on cuda or cuda_managed; got float32\[3\] on cpu"):
        scale(on_cpu, out=on_cuda())
    with pytest.raises(TypeError, match=r"cuda_scale: out: expected .* on cuda .*; got float32\[3\] on cpu"):
        scale(on_cuda(), out=on_cpu)
    with pytest.raises(TypeError, match=r"softclip: x: expected .* on cpu; got float32\[3\] on cuda:0"):
        operators.softclip(on_cuda())
    with pytest.raises(BufferError, match="cuda_scale: out is on cuda:1, but the call on CUDA device 0"):
        scale(on_cuda(), out=on_cuda(1))
    with pytest.raises(BufferError, match="cuda_scale: x must be aligned and in C order without gaps"):
        scale(on_cuda(strides=(2,)), out=on_cuda())
    x = InterfaceArray(driver.memory(24), (6,), None)
    with pytest.raises(BufferError, match="cuda_scale: out is written and shares memory with x"):
        scale(x, out=x)
    assert found() == [0, 0, 0, 0]


# tvm-ffi


def test_tvm_passes_the_stream_of_the_program(native: n.Native) -> None:
    tvm_ffi = pytest.importorskip("tvm_ffi")
    module = tvm_ffi.load_module(operators.softclip.path)
    crafted = [native.craft((6,), device=(2, 1), versioned=False) for _ in range(2)]
    x, out = (tvm_ffi.from_dlpack(OnDevice(one)) for one in crafted)
    maps = Path("/proc/self/maps").read_text().splitlines()
    library = ctypes.CDLL(next(line.split()[-1] for line in maps if "libtvm_ffi.so" in line))
    library.TVMFFIEnvSetStream(2, 1, ctypes.c_void_p(0x1230), None)
    module["cuda_scale"](x, 1.0, out)
    assert found() == [1, 0x1230, crafted[0].fields.data, crafted[1].fields.data]
    library.TVMFFIEnvSetStream(2, 1, None, None)
    with pytest.raises(ValueError, match="cuda_scale: out has no memory, .* an argument after the inputs with tvm-ffi"):
        module["cuda_scale"](x)
    with pytest.raises(ValueError, match="softclip: x must be on the CPU, but is on cuda:1; move it there"):
        module["softclip"](x)
    on_cpu = tvm_ffi.from_dlpack(np.ones(6, "f4"))
    with pytest.raises(ValueError, match="cuda_scale: x must be on a CUDA device, but is on cpu; move it there"):
        module["cuda_scale"](on_cpu, 1.0, out)


# PyTorch


def test_torch_without_cuda_refuses_tensors_on_the_cpu() -> None:
    torch = pytest.importorskip("torch")
    with pytest.raises(RuntimeError, match="cuda_scale: x must be on a CUDA device, but is on cpu; move it there"):
        operators.cuda_scale(torch.ones(3))
    schema = str(torch.ops.operators.cuda_scale.default._schema)
    assert schema == "operators::cuda_scale(Tensor x, float by=1.) -> Tensor"
    assert torch._C._dispatch_has_kernel_for_dispatch_key("operators::cuda_scale", "CUDA")
    assert not torch._C._dispatch_has_kernel_for_dispatch_key("operators::softclip", "CUDA")


# JAX


def test_jax_lowers_a_call_for_cuda() -> None:
    jax = pytest.importorskip("jax")
    import jax.export

    exported = jax.export.export(
        jax.jit(lambda x: operators.cuda_scale(x, 2.0)),
        platforms=["cuda"],
        disabled_checks=[jax.export.DisabledSafetyCheck.custom_call("operators.cuda_scale")],
    )(jax.ShapeDtypeStruct((4,), "float32"))
    assert "operators.cuda_scale" in exported.mlir_module()
    with pytest.raises(Exception, match="operators.cuda_scale"):
        operators.cuda_scale(jax.numpy.ones(4))
