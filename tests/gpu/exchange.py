"""Checks of import and export: values, addresses, devices, strides, empty arrays, masks, kinds of memory."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import dlbridge
from arrays import Array, InterfaceArray, interface
from check import NEW, Bench, Skipped, check, equal, holds, packed, refused, until

SHAPE = (2, 3)


def passed_on(bench: Bench, tensor: dlbridge.Tensor) -> list[float]:
    """Returns the values of a tensor, read by the driver."""
    bench.driver.wait_for_all()
    _, device = tensor.__dlpack_device__()
    return Array(bench.driver, tensor.address, tensor.shape, strides=tensor.strides, device=(2, device)).values()


def in_by_dlpack(bench: Bench, array: Any) -> dlbridge.Tensor:
    """Imports an array through DLPack."""
    if not bench.library.lends or not hasattr(array, "__dlpack__"):
        raise Skipped(f"{bench.library.name}'s arrays do not support __dlpack__")
    return dlbridge.asdlpack(array, protocol="dlpack")


def in_by_interface(array: Any) -> dlbridge.Tensor:
    """Imports an array through its interface."""
    return dlbridge.asdlpack(InterfaceArray.only(array))


def right(bench: Bench, tensor: dlbridge.Tensor, array: Any, device: int = 0) -> None:
    """Raises AssertionError unless the tensor is the array of SHAPE with the values NEW."""
    address = bench.library.address(array)
    equal(tensor.address, address, "the address")
    equal(tensor.device, f"cuda:{bench.driver.device_of(address)}", "the device that the driver reports")
    equal(tensor.device, f"cuda:{device}", "the device that the array was made on")
    equal((tensor.shape, tensor.strides, tensor.dtype, tensor.copied), (SHAPE, (3, 1), "float32", False), "the tensor")
    equal(passed_on(bench, tensor), NEW, "the values")


@check()
def import_dlpack(bench: Bench) -> None:
    """DLPack imports an array at its address, on the device that the driver reports."""
    array = bench.library.made(NEW, SHAPE)
    tensor = in_by_dlpack(bench, array)
    right(bench, tensor, array)
    equal(tensor.protocol, "dlpack", "the protocol")


@check()
def import_default_protocol(bench: Bench) -> None:
    """The first protocol that an array supports imports it, on the default stream."""
    array = bench.library.made(NEW, SHAPE)
    tensor = dlbridge.asdlpack(array)
    right(bench, tensor, array)
    equal(tensor.stream, 1, "the stream")


@check()
def import_cuda_array_interface(bench: Bench) -> None:
    """__cuda_array_interface__ imports an array at its address, on the device that the driver reports."""
    array = bench.library.made(NEW, SHAPE)
    tensor = in_by_interface(array)
    right(bench, tensor, array)
    equal(tensor.protocol, "cuda-array-interface", "the protocol")


@check()
def on_the_second_device(bench: Bench) -> None:
    """Both protocols report the device of an array on the second device."""
    device = bench.second_device()
    array = bench.library.made(NEW, SHAPE, device)
    right(bench, in_by_interface(array), array, device)
    if bench.library.lends and bench.library.name != "torch":
        right(bench, in_by_dlpack(bench, array), array, device)


def out_again(bench: Bench, taken: Any, tensor: dlbridge.Tensor) -> None:
    """Raises AssertionError unless the library sees the values that the driver wrote."""
    library = bench.library
    equal(library.values(taken), NEW, f"the values that {library.name} sees")
    equal(library.address(taken), tensor.address, f"the address that {library.name} reports")


@check()
def export_dlpack(bench: Bench) -> None:
    """DLPack exports a tensor over the driver's memory at its address."""
    if not bench.library.takes:
        raise Skipped(f"{bench.library.name} does not import __dlpack__")
    source = Array(bench.driver, bench.driver.filled(packed(NEW)), SHAPE)
    tensor = dlbridge.asdlpack(source)
    taken = bench.library.from_dlpack(tensor)
    equal(tuple(taken.shape), SHAPE, "the shape")
    out_again(bench, taken, tensor)
    del tensor
    gc.collect()
    holds(not source.is_given_back, "the deleter ran while the memory was in use")
    equal(bench.library.values(taken), NEW, "the values after the tensor was dropped")
    del taken
    gc.collect()
    until(lambda: source.is_given_back, "the deleter did not run")


@check()
def export_cuda_array_interface(bench: Bench) -> None:
    """__cuda_array_interface__ exports a tensor over the driver's memory at its address."""
    source = Array(bench.driver, bench.driver.filled(packed(NEW)), SHAPE)
    tensor = dlbridge.asdlpack(source)
    fields = tensor.__cuda_array_interface__
    equal((fields["version"], fields["typestr"], fields["shape"]), (3, "<f4", SHAPE), "the interface")
    equal((fields["data"], fields["stream"]), ((source.address, False), 1), "address, read-only mark and stream")
    out_again(bench, bench.library.from_interface(InterfaceArray.only(tensor)), tensor)


@check()
def round_trip(bench: Bench) -> None:
    """An array makes a round trip through dlbridge into its library, and both sides see writes."""
    library = bench.library
    array = library.made(NEW, SHAPE)
    tensor = dlbridge.asdlpack(array)
    if library.takes:
        back = library.from_dlpack(tensor)
    else:
        back = library.from_interface(InterfaceArray.only(tensor))
    equal(library.values(back), NEW, "the values")
    if not tensor.readonly:
        out_again(bench, back, tensor)
    if library.writes:
        stream = bench.driver.stream()
        bench.driver.late(stream, tensor.address, packed(NEW[::-1]))
        bench.driver.wait(stream)
        equal(library.values(array), NEW[::-1], "the array after a write to the memory of the tensor")
        equal(library.values(back), NEW[::-1], "the returned array after a write to the memory of the tensor")


@check()
def strides(bench: Bench) -> None:
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
    holds(not wrong, "; ".join(wrong))


@check()
def strides_export(bench: Bench) -> None:
    """Every protocol that the library accepts exports a transposed tensor and every second element."""
    library = bench.library
    if library.name == "jax":
        raise Skipped("jax's arrays do not support strides")
    address = bench.driver.filled(packed(NEW))
    a, b, c, d, e, f = NEW
    for shape, steps, start, values in [((3, 2), (1, 3), 0, [a, d, b, e, c, f]), ((3,), (2,), 1, [b, d, f])]:
        tensor = dlbridge.asdlpack(Array(bench.driver, address + 4 * start, shape, strides=steps))
        seen = [library.from_interface(InterfaceArray.only(tensor))]
        if library.takes:
            seen.append(library.from_dlpack(tensor))
        for array in seen:
            equal(library.values(array), values, f"the values of strides {steps}")


@check()
def empty(bench: Bench) -> None:
    """Every protocol imports and exports arrays without elements, with a NULL address."""
    library = bench.library
    array = library.made([], (0, 3))
    tensors = [in_by_interface(array)]
    if library.lends:
        tensors.append(dlbridge.asdlpack(array))
    for tensor in tensors:
        equal((tensor.shape, tensor.address, tensor.device), ((0, 3), 0, "cuda:0"), f"through {tensor.protocol}")
        equal(tensor.__cuda_array_interface__["data"][0], 0, "the address in the interface")
        if library.takes:
            equal(tuple(library.from_dlpack(tensor).shape), (0, 3), "the exported shape")
        if library.name != "jax":  # JAX queries the driver, which does not know a NULL address.
            taken = library.from_interface(InterfaceArray.only(tensor))
            equal(tuple(taken.shape), (0, 3), "the shape through the interface")
        equal(dlbridge.asdlpack(tensor, device="cpu").shape, (0, 3), "the copy on the CPU")


@check()
def a_number_without_dimensions(bench: Bench) -> None:
    """An array without dimensions can be imported and exported."""
    tensor = dlbridge.asdlpack(bench.library.made([NEW[0]], ()))
    equal((tensor.shape, passed_on(bench, tensor)), ((), NEW[:1]), "the tensor")
    back = bench.library.from_interface(InterfaceArray.only(tensor))
    equal(bench.library.values(back), NEW[:1], "the exported value")


@check("driver")
def the_mark_of_read_only_data(bench: Bench) -> None:
    """Both protocols keep the read-only mark on import and on export."""
    source = Array(bench.driver, bench.driver.filled(packed(NEW)), SHAPE, read_only=True)
    for tensor in (dlbridge.asdlpack(source), in_by_interface(source)):
        holds(tensor.readonly, f"the mark was lost through {tensor.protocol}")
        holds(tensor.__cuda_array_interface__["data"][1], "the interface lost the mark")
        holds(bench.library.from_dlpack(tensor).read_only, "DLPack lost the mark")


@check("driver")
def masks(bench: Bench) -> None:
    """An interface with a mask is refused, as are the stream 0 and addresses that the driver does not know."""
    driver = bench.driver
    address = driver.filled(packed(NEW))
    mask = interface(driver.filled(packed(NEW)), SHAPE, None)
    masked = InterfaceArray({**interface(address, SHAPE, None), "mask": InterfaceArray(mask)})
    refused(lambda: dlbridge.asdlpack(masked), word="mask")
    ambiguous = InterfaceArray(interface(address, SHAPE, 0))
    refused(lambda: dlbridge.asdlpack(ambiguous), word="stream")
    host = InterfaceArray(interface(16, SHAPE, None))
    refused(lambda: dlbridge.asdlpack(host), word="does not know the address")
    nobody = InterfaceArray({**interface(address, SHAPE, None), "mask": None})
    equal(passed_on(bench, dlbridge.asdlpack(nobody)), NEW, "the values with mask=None")


@check("driver")
def kinds_of_memory(bench: Bench) -> None:
    """Device memory, managed memory and pinned host memory are distinguished, on every device."""
    for device in range(bench.driver.devices):
        for kind, name in [("device", f"cuda:{device}"), ("managed", f"cuda_managed:{device}"), ("pinned", "cuda_host")]:
            address = bench.driver.filled(packed(NEW), device, kind)
            tensor = dlbridge.asdlpack(InterfaceArray(interface(address, SHAPE, None)))
            holds(tensor.device.startswith(name), f"{kind} memory of device {device} is reported on {tensor.device}")
            if kind == "pinned":
                equal(bytes(memoryview(tensor).cast("B")), packed(NEW), "the values of pinned memory on the CPU")
            else:
                refused(lambda tensor=tensor: memoryview(tensor))  # type: ignore[misc]
                there = dlbridge.asdlpack(tensor, device="cpu")
                equal(bytes(memoryview(there).cast("B")), packed(NEW), f"the copy of {kind} memory")


@check()
def managed_memory(bench: Bench) -> None:
    """Every protocol reports managed memory, and its values can be read."""
    array = bench.library.memory_of_kind("managed")
    tensors = [in_by_interface(array)] if bench.library.name != "driver" else []
    if bench.library.name != "numba":  # Its managed arrays are also NumPy arrays on the CPU.
        tensors.append(dlbridge.asdlpack(array))
    for tensor in tensors:
        equal(tensor.device, "cuda_managed:0", f"the device through {tensor.protocol}")
        values = memoryview(dlbridge.asdlpack(tensor, device="cpu"))
        equal(bytes(values), packed(NEW), "the values")


@check()
def pinned_memory(bench: Bench) -> None:
    """The CPU reads an array in pinned host memory in place."""
    array = bench.library.memory_of_kind("pinned")
    tensor = dlbridge.asdlpack(array)
    holds(tensor.device in ("cpu", "cuda_host", "cuda_host:0"), f"the device is {tensor.device}")
    holds(not tensor.copied, f"it was copied: {tensor.copy_reason}")
    equal(bytes(memoryview(tensor)), packed(NEW), "the values")
    on_device = dlbridge.asdlpack(tensor, device="cuda:0")
    equal(passed_on(bench, on_device), NEW, "the values on the device")


@check("torch", "cupy", "jax")
def the_producer_is_kept_alive(bench: Bench) -> None:
    """The tensor keeps a library's array alive, and releases it when dropped."""
    array = bench.library.made(NEW, SHAPE)
    try:
        there = weakref.ref(array)
    except TypeError:
        raise Skipped(f"{bench.library.name}'s arrays do not support weak references") from None
    tensor = in_by_interface(array)
    del array
    gc.collect()
    equal(passed_on(bench, tensor), NEW, "the values after the array was dropped")
    del tensor
    gc.collect()
    holds(there() is None, "the array outlives the tensor")


@check("torch", "cupy", "jax")
def dtypes(bench: Bench) -> None:
    """Other dtypes are imported and exported unchanged."""
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
        equal((tensor.dtype, tensor.device), (name, "cuda:0"), "dtype and device")
        back = library.from_dlpack(tensor)
        equal(str(back.dtype).replace("torch.", ""), name, "the exported dtype")
        if name != "complex64":
            equal(library.values(back), [1.0, 0.0], f"the values as {name}")
