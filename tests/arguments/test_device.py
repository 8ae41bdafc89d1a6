"""Arguments that stay on their device, with crafted tensors that claim to be on one. These tests need no GPU, and do
not replace tests on one."""

import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import dlbridge
import numpy as np
import pytest
import typed_arguments as typed

jax = pytest.importorskip("jax")
torch = pytest.importorskip("torch")

import native as n
from dlbridge_conformance import crafter
from exchange_table import foreign
from native import OnDevice
from stand_in import Driver, InterfaceArray, build, driver, stand_in

__all__ = ["driver", "stand_in"]

# The stand-in for the driver of a GPU is loaded once in a process.
pytestmark = [pytest.mark.alone, pytest.mark.usefixtures("driver", "rocm")]

OPENCL, ROCM, MANAGED = (4, 0), (10, 1), (13, 0)


@pytest.fixture(scope="session")
def rocm(tmp_path_factory: pytest.TempPathFactory) -> Driver:
    return Driver(build(tmp_path_factory.mktemp("rocm"), rocm=True))


@pytest.fixture(scope="module")
def native() -> n.Native:
    return n.Native()


@pytest.mark.parametrize(
    ("device", "name"), [((2, 3), "cuda:3"), (ROCM, "rocm:1"), (OPENCL, "opencl:0")], ids=str
)
def test_argument_gets_the_work_stream_of_its_producer(
    native: n.Native, device: tuple[int, int], name: str
) -> None:
    crafted, asked = native.craft((6,), device=device), []
    tensor = foreign(crafted, asked, table={"stream": 0xABC0})()
    assert typed.on_work_stream(tensor) == (name, crafted.fields.data, 0xABC0)
    assert (asked, crafter.native.stream_asked()) == ([tensor], [device])
    assert crafted.record.calls == 1, "the deleter runs when the function returns"


def test_producer_without_a_work_stream_gets_the_default_stream(
    native: n.Native,
) -> None:
    for device, name, number in [((2, 3), "cuda:3", 1), (MANAGED, "cuda_managed:0", 1), (ROCM, "rocm:1", 0)]:
        producer = OnDevice(native.craft((6,), device=device))
        place = (name, producer.crafted.fields.data, 0)
        assert typed.on_work_stream(producer) == place
        assert producer.streams == [number]
        assert producer.crafted.record.calls == 1
    unused = native.craft((6,), device=n.CUDA)
    methods = OnDevice(native.craft((6,), device=n.CUDA))
    answers = {"__dlpack__": lambda _, **asked: methods.__dlpack__(**asked)}
    # The function for the stream is NULL in this table.
    kind = foreign(unused, **answers, __dlpack_device__=lambda _: n.CUDA)
    assert typed.on_work_stream(kind()) == ("cuda:0", methods.crafted.fields.data, 0)
    assert methods.streams == [1]


def test_table_that_fails_to_return_the_stream_raises(native: n.Native) -> None:
    crafted = native.craft((6,), device=n.CUDA)
    kind = foreign(crafted, table={"stream": None})
    with pytest.raises(BufferError, match="current_work_stream failed without a reason"):
        typed.on_work_stream(kind())
    assert crafted.record.calls == 1


def test_default_stream_waits_for_the_work_stream_of_the_table(driver: Driver, native: n.Native) -> None:
    crafted = native.craft((6,), device=n.CUDA)
    kind = foreign(crafted, table={"stream": driver.stream()})
    waits = driver.stream_waits
    assert typed.on_default_stream(kind()) == ("cuda:0", crafted.fields.data, 0)
    assert (crafter.native.stream_asked(), driver.stream_waits) == ([(2, 0)], waits + 1), "the table does not synchronise"


def test_producer_synchronises_with_the_stream_of_the_consumer(native: n.Native) -> None:
    for device, name in [((2, 1), "cuda:1"), (MANAGED, "cuda_managed:0")]:
        producer = OnDevice(native.craft((6,), device=device))
        assert typed.on_own_stream(producer) == (name, producer.crafted.fields.data, 2)
        assert producer.streams == [2]
    producer = OnDevice(native.craft((6,), device=ROCM))
    with pytest.raises(BufferError, match="rocm:1 does not have this stream"):
        typed.on_own_stream(producer)
    assert producer.streams == []


@pytest.mark.parametrize("versioned", [True, False])
def test_producer_without_dlpack_device_on_another_stream_is_refused(native: n.Native, versioned: bool) -> None:
    crafted = native.craft((6,), device=n.CUDA, versioned=versioned)
    silent = SimpleNamespace(__dlpack__=lambda **_: crafted.capsule())
    with pytest.raises(BufferError, match="was not asked to synchronise with the stream 2;"):
        typed.on_own_stream(silent)
    assert crafted.record.calls == 2, "it was asked without a stream, and again with it"


@pytest.fixture
def choose() -> Iterator[Any]:
    yield typed.choose_stream
    typed.choose_stream(0)


def test_producer_gets_the_number_of_the_chosen_stream(driver: Driver, rocm: Driver, native: n.Native, choose: Any) -> None:
    cudas, rocms = driver.stream(), rocm.stream(1)
    for device, handle, number in [
        (n.CUDA, 0, 1), (n.CUDA, 1, 1), (n.CUDA, 2, 2), (n.CUDA, cudas, cudas), (MANAGED, 0, 1),
        (ROCM, 0, 0), (ROCM, rocms, rocms), (OPENCL, 0, None),
    ]:  # fmt: skip
        choose(handle)
        producer = OnDevice(native.craft((6,), device=device))
        assert typed.on_chosen_stream(producer)[2] == handle
        assert producer.streams == [number], (device, handle)


def test_stream_without_a_dlpack_number_is_refused(native: n.Native, choose: Any) -> None:
    for device, handle, kind, match in [
        (ROCM, 1, ValueError, "rocm:1 is 0x1, which is not a stream of ROCm; its default one is NULL"),
        (ROCM, 2, ValueError, "rocm:1 is 0x2, which is not a stream of ROCm"),
        # As a signed number it is -1, which means: do not synchronise.
        (n.CUDA, 2**64 - 1, ValueError, "is 0xffffffffffffffff, which is not a handle"),
        (ROCM, 2**63, ValueError, "is 0x8000000000000000, which is not a handle"),
        (OPENCL, 0x1230, BufferError, "opencl:0, and DLPack does not number its streams"),
    ]:
        choose(handle)
        producer = OnDevice(native.craft((6,), device=device))
        with pytest.raises(kind, match=match):
            typed.on_chosen_stream(producer)
        assert producer.streams == [], "the producer is not called"
    choose(2**64 - 1)
    x = np.arange(3.0)
    assert typed.on_chosen_stream(x) == ("cpu", x.ctypes.data, 0), "the CPU has no streams"


@pytest.mark.parametrize("function", ["on_work_stream", "on_default_stream", "on_own_stream"])
def test_capsule_on_a_device_is_refused_as_it_cannot_synchronise(native: n.Native, function: str) -> None:
    crafted = native.craft((6,), device=n.CUDA)
    with pytest.raises(BufferError, match="cuda:0, and a capsule cannot synchronise"):
        getattr(typed, function)(crafted.capsule())
    assert crafted.record.calls == 1
    crafted = native.craft((6,))
    assert getattr(typed, function)(crafted.capsule()) == ("cpu", crafted.fields.data, 0)


def test_copy_on_a_device_is_not_written(native: n.Native) -> None:
    crafted = native.craft((6,), device=n.CUDA, flags=n.Flags.IS_COPIED)
    kind = foreign(crafted, table={"stream": 5})
    with pytest.raises(TypeError, match="writable, without a copy; got .*, which needs a copy, since"):
        typed.to_be_changed(kind())
    assert crafted.record.calls == 1


def test_opencl_handle_is_not_checked_for_alignment(native: n.Native) -> None:
    crafted = native.craft((2,), device=OPENCL, dtype=n.FLOAT64, data=0x1001)
    assert typed.aligned_on_device(OnDevice(crafted)) == 2


def test_own_tensor_is_synchronised_with_the_requested_stream(driver: Driver, native: n.Native) -> None:
    tensor = dlbridge.asdlpack(OnDevice(native.craft((6,), device=n.CUDA)))
    ours = typed.kept(tensor)
    assert type(ours) is dlbridge.Tensor, "the package makes the objects of all extensions"
    for x in (tensor, ours):
        waits = driver.stream_waits
        assert typed.on_work_stream(x) == ("cuda:0", tensor.address, 0)
        assert typed.on_default_stream(x) == ("cuda:0", tensor.address, 0)
        assert typed.on_chosen_stream(x) == ("cuda:0", tensor.address, 0)
        assert driver.stream_waits == waits, "the tensor is already synchronised with that stream"
        assert typed.on_own_stream(x) == ("cuda:0", tensor.address, 2)
        assert driver.stream_waits == waits + 1
    elsewhere = dlbridge.asdlpack(OnDevice(native.craft((6,), device=n.CUDA)), stream=driver.stream())
    waits = driver.stream_waits
    assert typed.on_work_stream(elsewhere) == ("cuda:0", elsewhere.address, 0)
    assert driver.stream_waits == waits + 1, "our table returns the default stream, which waits"


def test_data_is_released_after_the_work_on_the_stream_of_the_function(driver: Driver, native: n.Native) -> None:
    crafted = native.craft((6,), device=n.CUDA)
    driver.block(2)
    assert typed.on_own_stream(OnDevice(crafted)) == ("cuda:0", crafted.fields.data, 2)
    time.sleep(0.05)
    assert crafted.record.calls == 0, "the work that the function launched is still running"
    driver.release()
    driver.until(lambda: crafted.record.calls == 1)


def test_cuda_array_interface_is_synchronised_with_the_requested_stream(driver: Driver) -> None:
    address, stream = driver.memory(24), driver.stream()
    for function, handle in [(typed.on_work_stream, 0), (typed.on_default_stream, 0), (typed.on_own_stream, 2)]:
        place = ("cuda:0", address, handle)
        # The first import finds the device, for the default stream; the function's own stream waits too.
        own = function is typed.on_own_stream
        for producers, expected, of_own in [(None, 0, 0), (1, 0, 1), (2, 1, 0), (stream, 1, 1)]:
            waits = driver.stream_waits
            assert function(InterfaceArray(address, (6,), producers)) == place
            assert driver.stream_waits == waits + expected + own * of_own


def test_data_on_the_cpu_has_no_stream() -> None:
    x = np.arange(3.0)
    place = ("cpu", x.ctypes.data, 0)
    functions = [typed.on_work_stream, typed.on_default_stream, typed.on_own_stream]
    assert [function(x) for function in functions] == [place] * 3
    t = torch.arange(3.0)
    assert typed.on_work_stream(t) == ("cpu", t.data_ptr(), 0)


def test_data_on_the_cpu_is_borrowed() -> None:
    x = np.arange(3.0)
    with pytest.raises(BufferError, match="borrowed for writing, overlaps"):
        typed.while_reading(x, lambda: typed.while_on_device(x, list))
    with pytest.raises(BufferError, match="borrowed for reading, overlaps"):
        typed.while_on_device(x, lambda: typed.on_work_stream(x))
    assert typed.while_on_device(x, lambda: 5) == 5


def test_pinned_memory_is_borrowed(native: n.Native) -> None:
    crafted = native.craft((3,), device=n.CUDA_HOST, dtype=n.FLOAT64)
    data = crafted.fields.data
    again = native.craft((3,), device=n.CUDA_HOST, dtype=n.FLOAT64, data=data)
    with pytest.raises(BufferError, match="overlaps"):
        typed.while_on_device(OnDevice(crafted), lambda: typed.on_work_stream(OnDevice(again)))


def test_packed_elements_are_borrowed_by_the_byte(native: n.Native) -> None:
    # Eight elements of four bits are four bytes.
    packed = native.craft((8,), dtype=(1, 4, 1))
    data = packed.fields.data

    def held(first: int, count: int) -> None:
        other = native.craft((count,), dtype=(1, 8, 1), data=data + first)
        typed.swap_bytes(OnDevice(other))

    def holding(function: Any) -> None:
        again = native.craft((8,), dtype=(1, 4, 1), data=data)
        typed.while_writing(OnDevice(again), function)

    for first, count in [(0, 1), (3, 1), (3, 9)]:
        with pytest.raises(BufferError, match="overlaps"):
            holding(lambda: held(first, count))
    holding(lambda: held(4, 4))


def test_mismatch_names_the_device(native: n.Native) -> None:
    expected = r"expected float32\[_\] on cuda or cuda_managed, C order, writable; got "
    with pytest.raises(TypeError, match=expected + r"float64\[2, 2\] on cpu$"):
        typed.to_be_changed(np.ones((2, 2)))
    fixed = np.ones((4, 4), "f4")[::2, ::2]
    fixed.flags.writeable = False
    with pytest.raises(TypeError, match=expected + r"float32\[2, 2\] on cpu, strides \[8, 2\], read-only$"):
        typed.to_be_changed(fixed)
    crafted = native.craft((6,), device=n.CUDA, strides=(2,), flags=n.Flags.READ_ONLY)
    with pytest.raises(TypeError, match=expected + r"float32\[6\] on cuda:0, strides \[2\], read-only$"):
        typed.to_be_changed(OnDevice(crafted))
    assert crafted.record.calls == 1
    fits = OnDevice(native.craft((6,), device=MANAGED))
    assert typed.to_be_changed(fits) == 6
    with pytest.raises(BufferError, match="requires grad"):
        typed.on_work_stream(torch.ones(3, requires_grad=True))
    with pytest.raises(TypeError, match=r"expected any dtype\[_\] on cpu; got"):
        typed.dtype(OnDevice(native.craft((6,), device=n.CUDA)))


def test_pinned_memory(native: n.Native) -> None:
    crafted = native.craft((3,), device=n.CUDA_HOST)
    assert typed.total_of_pinned(OnDevice(crafted)) == 3
    with pytest.raises(TypeError, match=r"expected float32\[_\] on cuda_host; got float32\[3\] on cpu"):
        typed.total_of_pinned(np.ones(3, np.float32))
    assert crafted.record.calls == 1


def test_refusals_of_the_device_are_explained_and_recursion_ends() -> None:
    deleted = jax.numpy.arange(3.0)
    deleted.delete()
    functions = [typed.on_work_stream, typed.on_default_stream, typed.on_own_stream]
    for function in functions:
        with pytest.raises(BufferError, match="the array was deleted"):
            function(deleted)

    class Endless:
        def __dlpack_device__(self) -> Any:
            return typed.on_default_stream(self)

        def __dlpack__(self, **_: object) -> Any: ...

    with pytest.raises(RecursionError, match="nested too deeply"):
        typed.on_default_stream(Endless())


def test_device_that_changes_is_refused(driver: Driver, native: n.Native) -> None:
    class Changing(OnDevice):
        devices = iter([(2, 0)])

        def __dlpack_device__(self) -> tuple[int, int]:
            return next(self.devices, (2, 1))

    with pytest.raises(BufferError, match="on cuda:0, but exported one on cuda:1"):
        typed.on_default_stream(Changing(native.craft((6,), device=(2, 1))))
