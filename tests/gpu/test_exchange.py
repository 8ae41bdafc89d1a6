"""Import and export: values, addresses, devices, strides, empty arrays, masks, kinds of memory."""

import gc
import weakref
from collections.abc import Callable
from typing import Any

import dlbridge
import pytest
from arrays import NEW, Array, InterfaceArray, interface, packed
from conftest import Bench, until

SHAPE = (2, 3)


def test_machine_and_library_are_described(bench: Bench, record_property: Callable[[str, object], None]) -> None:
    """The file of `--junitxml` has the devices and the versions."""
    driver = bench.driver
    record_property("devices", ", ".join(driver.device_name(device) for device in range(driver.devices)))
    record_property("CUDA of the driver", driver.version)
    record_property("dlbridge", dlbridge.__version__)
    record_property(bench.library.name, bench.library.version())
    assert driver.devices > 0


def passed_on(bench: Bench, tensor: dlbridge.Tensor) -> list[float]:
    """Returns the values of a tensor, read by the driver."""
    bench.driver.wait_for_all()
    _, device = tensor.__dlpack_device__()
    return Array(bench.driver, tensor.address, tensor.shape, strides=tensor.strides, device=(2, device)).values()


def in_by_dlpack(bench: Bench, array: Any) -> dlbridge.Tensor:
    if not bench.library.lends or not hasattr(array, "__dlpack__"):
        pytest.skip(f"{bench.library.name}'s arrays do not support __dlpack__")
    return dlbridge.asdlpack(array, protocol="dlpack")


def in_by_interface(array: Any) -> dlbridge.Tensor:
    return dlbridge.asdlpack(InterfaceArray.only(array))


def right(bench: Bench, tensor: dlbridge.Tensor, array: Any, device: int = 0) -> None:
    """Raises AssertionError unless the tensor is the array of SHAPE with the values NEW."""
    address = bench.library.address(array)
    assert tensor.address == address, "the address"
    assert tensor.device == f"cuda:{bench.driver.device_of(address)}", "the device that the driver reports"
    assert tensor.device == f"cuda:{device}", "the device that the array was made on"
    assert (tensor.shape, tensor.strides, tensor.dtype, tensor.copied) == (SHAPE, (3, 1), "float32", False), "the tensor"
    assert passed_on(bench, tensor) == NEW, "the values"


@pytest.mark.parametrize("protocol", ["dlpack", "cuda-array-interface"])
def test_each_protocol_imports_an_array_at_its_address(bench: Bench, protocol: str) -> None:
    array = bench.library.made(NEW, SHAPE)
    tensor = in_by_dlpack(bench, array) if protocol == "dlpack" else in_by_interface(array)
    right(bench, tensor, array)
    assert tensor.protocol == protocol, "the protocol"


def test_first_protocol_imports_on_the_default_stream(bench: Bench) -> None:
    array = bench.library.made(NEW, SHAPE)
    tensor = dlbridge.asdlpack(array)
    right(bench, tensor, array)
    assert tensor.stream == 1, "the stream"


def test_array_on_the_second_device_is_imported_from_it(bench: Bench) -> None:
    device = bench.second_device()
    array = bench.library.made(NEW, SHAPE, device)
    right(bench, in_by_interface(array), array, device)
    if bench.library.lends and bench.library.name != "torch":
        right(bench, in_by_dlpack(bench, array), array, device)


def out_again(bench: Bench, taken: Any, tensor: dlbridge.Tensor) -> None:
    """Raises AssertionError unless the library sees the values that the driver wrote."""
    library = bench.library
    assert library.values(taken) == NEW, f"the values that {library.name} sees"
    assert library.address(taken) == tensor.address, f"the address that {library.name} reports"


def test_dlpack_exports_a_tensor_at_its_address(bench: Bench) -> None:
    if not bench.library.takes:
        pytest.skip(f"{bench.library.name} does not import __dlpack__")
    source = Array(bench.driver, bench.driver.filled(packed(NEW)), SHAPE)
    tensor = dlbridge.asdlpack(source)
    taken = bench.library.from_dlpack(tensor)
    assert tuple(taken.shape) == SHAPE, "the shape"
    out_again(bench, taken, tensor)
    del tensor
    gc.collect()
    assert not source.is_given_back, "the deleter ran while the memory was in use"
    assert bench.library.values(taken) == NEW, "the values after the tensor was dropped"
    del taken
    gc.collect()
    until(lambda: source.is_given_back, "the deleter did not run")


def test_cuda_array_interface_exports_a_tensor_at_its_address(bench: Bench) -> None:
    source = Array(bench.driver, bench.driver.filled(packed(NEW)), SHAPE)
    tensor = dlbridge.asdlpack(source)
    fields = tensor.__cuda_array_interface__
    assert (fields["version"], fields["typestr"], fields["shape"]) == (3, "<f4", SHAPE), "the interface"
    assert (fields["data"], fields["stream"]) == ((source.address, False), 1), "address, read-only mark and stream"
    out_again(bench, bench.library.from_interface(InterfaceArray.only(tensor)), tensor)


def test_round_trip_shares_the_memory(bench: Bench) -> None:
    library = bench.library
    array = library.made(NEW, SHAPE)
    tensor = dlbridge.asdlpack(array)
    if library.takes:
        back = library.from_dlpack(tensor)
    else:
        back = library.from_interface(InterfaceArray.only(tensor))
    assert library.values(back) == NEW, "the values"
    if not tensor.readonly:
        out_again(bench, back, tensor)
    if library.writes:
        stream = bench.driver.stream()
        bench.driver.late(stream, tensor.address, packed(NEW[::-1]))
        bench.driver.wait(stream)
        assert library.values(array) == NEW[::-1], "the array after a write to the memory of the tensor"
        assert library.values(back) == NEW[::-1], "the returned array after a write to the memory of the tensor"


def test_strides_are_imported(bench: Bench) -> None:
    """Import and export keep strides: transposed, every second, backwards, broadcast."""
    library = bench.library
    wrong = []
    for name, array, shape, strides_of, values in library.views():
        tensors = [in_by_interface(array)]
        if library.lends:
            tensors.append(dlbridge.asdlpack(array))
        for tensor in tensors:
            protocol = f"{name}, through {tensor.protocol}"
            if (tensor.shape, tensor.strides) != (shape, strides_of):
                wrong.append(f"{protocol}: shape {tensor.shape} and strides {tensor.strides}")
            elif passed_on(bench, tensor) != values:
                wrong.append(f"{protocol}: {passed_on(bench, tensor)} instead of {values}")
            elif bytes(memoryview(dlbridge.asdlpack(tensor, device="cpu"))) != packed(values):
                wrong.append(f"{protocol}: other values on the CPU")
    assert not wrong, "; ".join(wrong)


def test_strides_are_exported(bench: Bench) -> None:
    """Every protocol that the library accepts exports a transposed tensor and every second element."""
    library = bench.library
    if library.name == "jax":
        pytest.skip("jax's arrays do not support strides")
    address = bench.driver.filled(packed(NEW))
    a, b, c, d, e, f = NEW
    for shape, steps, start, values in [((3, 2), (1, 3), 0, [a, d, b, e, c, f]), ((3,), (2,), 1, [b, d, f])]:
        tensor = dlbridge.asdlpack(Array(bench.driver, address + 4 * start, shape, strides=steps))
        seen = [library.from_interface(InterfaceArray.only(tensor))]
        if library.takes:
            seen.append(library.from_dlpack(tensor))
        for array in seen:
            assert library.values(array) == values, f"the values of strides {steps}"


def test_empty_array_makes_a_round_trip(bench: Bench) -> None:
    library = bench.library
    array = library.made([], (0, 3))
    tensors = [in_by_interface(array)]
    if library.lends:
        tensors.append(dlbridge.asdlpack(array))
    for tensor in tensors:
        assert (tensor.shape, tensor.address, tensor.device) == ((0, 3), 0, "cuda:0"), f"through {tensor.protocol}"
        assert tensor.__cuda_array_interface__["data"][0] == 0, "the address in the interface"
        if library.takes:
            assert tuple(library.from_dlpack(tensor).shape) == (0, 3), "the exported shape"
        if library.name != "jax":  # JAX queries the driver, which does not know a NULL address.
            taken = library.from_interface(InterfaceArray.only(tensor))
            assert tuple(taken.shape) == (0, 3), "the shape through the interface"
        assert dlbridge.asdlpack(tensor, device="cpu").shape == (0, 3), "the copy on the CPU"


def test_array_without_dimensions_makes_a_round_trip(bench: Bench) -> None:
    tensor = dlbridge.asdlpack(bench.library.made([NEW[0]], ()))
    assert (tensor.shape, passed_on(bench, tensor)) == ((), NEW[:1]), "the tensor"
    back = bench.library.from_interface(InterfaceArray.only(tensor))
    assert bench.library.values(back) == NEW[:1], "the exported value"


@pytest.mark.only("driver")
def test_interface_with_an_unknown_address_is_refused(bench: Bench) -> None:
    host = InterfaceArray(interface(16, SHAPE, None))
    with pytest.raises(BufferError, match="does not know the address"):
        dlbridge.asdlpack(host)


@pytest.mark.only("driver")
def test_kinds_of_memory_are_distinguished(bench: Bench) -> None:
    """Device memory, managed memory and pinned host memory are distinguished, on every device."""
    for device in range(bench.driver.devices):
        for kind, name in [("device", f"cuda:{device}"), ("managed", f"cuda_managed:{device}"), ("pinned", "cuda_host")]:
            address = bench.driver.filled(packed(NEW), device, kind)
            tensor = dlbridge.asdlpack(InterfaceArray(interface(address, SHAPE, None)))
            assert tensor.device.startswith(name), f"{kind} memory of device {device} is reported on {tensor.device}"
            if kind == "pinned":
                assert bytes(memoryview(tensor).cast("B")) == packed(NEW), "the values of pinned memory on the CPU"
            else:
                with pytest.raises(BufferError):
                    memoryview(tensor)
                there = dlbridge.asdlpack(tensor, device="cpu")
                assert bytes(memoryview(there).cast("B")) == packed(NEW), f"the copy of {kind} memory"


def test_managed_memory_is_reported(bench: Bench) -> None:
    array = bench.library.memory_of_kind("managed")
    tensors = [in_by_interface(array)] if bench.library.name != "driver" else []
    if bench.library.name != "numba":  # Its managed arrays are also NumPy arrays on the CPU.
        tensors.append(dlbridge.asdlpack(array))
    for tensor in tensors:
        assert tensor.device == "cuda_managed:0", f"the device through {tensor.protocol}"
        values = memoryview(dlbridge.asdlpack(tensor, device="cpu"))
        assert bytes(values) == packed(NEW), "the values"


def test_pinned_memory_is_read_in_place(bench: Bench) -> None:
    array = bench.library.memory_of_kind("pinned")
    tensor = dlbridge.asdlpack(array)
    assert tensor.device in ("cpu", "cuda_host", "cuda_host:0"), f"the device is {tensor.device}"
    assert not tensor.copied, f"it was copied: {tensor.copy_reason}"
    assert bytes(memoryview(tensor)) == packed(NEW), "the values"
    on_device = dlbridge.asdlpack(tensor, device="cuda:0")
    assert passed_on(bench, on_device) == NEW, "the values on the device"


@pytest.mark.only("torch", "cupy", "jax")
def test_producer_lives_as_long_as_the_tensor(bench: Bench) -> None:
    array = bench.library.made(NEW, SHAPE)
    try:
        there = weakref.ref(array)
    except TypeError:
        pytest.skip(f"{bench.library.name}'s arrays do not support weak references")
    tensor = in_by_interface(array)
    del array
    gc.collect()
    assert passed_on(bench, tensor) == NEW, "the values after the array was dropped"
    del tensor
    gc.collect()
    assert there() is None, "the array outlives the tensor"


@pytest.mark.only("torch", "cupy", "jax")
def test_dtypes_make_a_round_trip(bench: Bench) -> None:
    library: Any = bench.library
    module = {"torch": "torch", "cupy": "cupy", "jax": "jax"}[library.name]
    names = ["float16", "uint8", "int32", "bool"] + ([] if module == "jax" else ["float64", "int64", "complex64"])
    one = library.made([1.0, 0.0], (2,))
    for name in names + (["bfloat16"] if module != "cupy" else []):
        if module == "torch":
            array = one.to(getattr(library.torch, name))
        elif module == "cupy":
            array = one.astype(name)
        else:
            array = one.astype(getattr(library.jax.numpy, "bool_" if name == "bool" else name))
        tensor = dlbridge.asdlpack(array)
        assert (tensor.dtype, tensor.device) == (name, "cuda:0"), "dtype and device"
        back = library.from_dlpack(tensor)
        assert str(back.dtype).replace("torch.", "") == name, "the exported dtype"
        if name != "complex64":
            assert library.values(back) == [1.0, 0.0], f"the values as {name}"
