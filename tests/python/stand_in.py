"""The stand-in for the drivers of CUDA and ROCm (cuda_driver.c), and arrays of a library that uses it.

Tests on the stand-in do not replace tests on a GPU. A process loads one stand-in for each driver before dlbridge loads the
real driver; then the loader finds the stand-in by the driver's name.
"""

from __future__ import annotations

import ctypes
import gc
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import native as n
import pytest
from frameworks import missing

SOURCE = Path(__file__).with_name("cuda_driver.c")

#: The functions of HIP for those of CUDA.
HIP = {
    "cuInit": "hipInit",
    "cuEventCreate": "hipEventCreateWithFlags",
    "cuEventRecord": "hipEventRecord",
    "cuEventQuery": "hipEventQuery",
    "cuEventSynchronize": "hipEventSynchronize",
    "cuEventDestroy_v2": "hipEventDestroy",
    "cuStreamWaitEvent": "hipStreamWaitEvent",
    "cuStreamGetCaptureInfo": "hipStreamGetCaptureInfo",
    "cuThreadExchangeStreamCaptureMode": "hipThreadExchangeStreamCaptureMode",
}

GLOBAL = 0

#: Six numbers that a stream writes to arrays late.
NEW = bytes(reversed(n.numbers(6)))


def build(folder: Path, *, rocm: bool = False, name: str | None = None) -> Path:
    """Compiles the library under the name of a driver, or under `name`."""
    name = name or ("libamdhip64.so" if rocm else "libcuda.so.1")
    options = [f"-D{cuda}={hip}" for cuda, hip in HIP.items()] + ["-DROCM"] if rocm else []
    return compiled(SOURCE, folder / name, *options)


def compiled(source: Path, path: Path, *options: str) -> Path:
    """Compiles C code to a shared library."""
    compiler = shutil.which(os.environ.get("CC", "cc")) or shutil.which("gcc")
    if compiler is None or sys.platform != "linux":
        missing("a library in C needs Linux and a compiler")
    command = [compiler, *options, "-shared", "-fPIC", "-pthread", f"-Wl,-soname,{path.name}", "-o", str(path)]
    subprocess.run([*command, str(source), "-ldl"], check=True)
    return path


class Driver:
    """The loaded stand-in, and its functions for tests."""

    def __init__(self, path: Path) -> None:
        self.library = ctypes.CDLL(str(path))
        self.is_rocm = path.name == "libamdhip64.so"
        self.contexts = []
        for device in range(2):
            context = ctypes.c_void_p()
            self.check(self.library.cuDevicePrimaryCtxRetain(ctypes.byref(context), device))
            self.contexts.append(context)

    @staticmethod
    def check(status: int) -> None:
        if status:
            raise RuntimeError(f"error {status} of the stand-in")

    @contextmanager
    def on(self, device: int) -> Iterator[None]:
        """Makes a device current in the block. Outside of the block no device is current."""
        self.check(self.library.cuCtxPushCurrent_v2(self.contexts[device]))
        try:
            yield
        finally:
            self.check(self.library.cuCtxPopCurrent_v2(None))

    def made(self, function: str, device: int, *arguments: Any) -> int:
        """Calls a function of the driver, and returns the handle or address that it makes."""
        handle = ctypes.c_uint64()
        with self.on(device):
            self.check(self.function(function)(ctypes.byref(handle), *arguments))
        return handle.value

    def function(self, name: str) -> Any:
        """A function of the driver, by its name in CUDA."""
        return getattr(self.library, HIP.get(name, name) if self.is_rocm else name)

    def stream(self, device: int = 0, *, non_blocking: bool = True) -> int:
        return self.made("cuStreamCreate", device, int(non_blocking))

    def memory(self, size: int, device: int = 0, kind: str = "device") -> int:
        """Allocates memory: of the device, managed or pinned."""
        count = ctypes.c_size_t(size)
        if kind == "device":
            return self.made("cuMemAlloc_v2", device, count)
        function = {"managed": "cuMemAllocManaged", "pinned": "cuMemHostAlloc"}[kind]
        return self.made(function, device, count, 1)

    def write(self, stream: int, address: int, content: bytes, device: int = 0) -> None:
        """Queues a write of these bytes on a stream."""
        with self.on(device):
            self.check(
                self.library.stand_in_write(
                    ctypes.c_uint64(stream), ctypes.c_uint64(address), content, ctypes.c_size_t(len(content))
                )
            )

    def now(self, address: int, size: int) -> bytes:
        """The current bytes, without a wait."""
        content = ctypes.create_string_buffer(size)
        self.library.stand_in_read(ctypes.c_uint64(address), content, ctypes.c_size_t(size))
        return content.raw

    def seen_on(self, stream: int, address: int, size: int, device: int = 0) -> bytes:
        """The bytes that a kernel on a stream would read."""
        pinned = self.memory(size, device, "pinned")
        handle = ctypes.c_uint64(stream)
        with self.on(device):
            self.check(
                self.library.cuMemcpyAsync(
                    ctypes.c_uint64(pinned), ctypes.c_uint64(address), ctypes.c_size_t(size), handle
                )
            )
            self.check(self.library.cuStreamSynchronize(handle))
            content = ctypes.string_at(pinned, size)
            self.check(self.library.cuMemFreeHost(ctypes.c_uint64(pinned)))
        return content

    def wait(self, stream: int, device: int = 0) -> None:
        with self.on(device):
            self.check(self.library.cuStreamSynchronize(ctypes.c_uint64(stream)))

    def order(self, passed: int, waiting: int, device: int = 0) -> None:
        """Makes the stream `waiting` wait for the stream `passed`, with an event."""
        event = self.made("cuEventCreate", device, 2)
        with self.on(device):
            self.check(self.function("cuEventRecord")(ctypes.c_uint64(event), ctypes.c_uint64(passed)))
            self.check(self.function("cuStreamWaitEvent")(ctypes.c_uint64(waiting), ctypes.c_uint64(event), 0))
            self.check(self.function("cuEventDestroy_v2")(ctypes.c_uint64(event)))

    @contextmanager
    def capturing(self, stream: int, device: int = 0) -> Iterator[None]:
        """Captures a stream. Raises at the end if the capture was invalidated."""
        graph = ctypes.c_void_p()
        with self.on(device):
            self.check(self.library.cuStreamBeginCapture_v2(ctypes.c_uint64(stream), GLOBAL))
        yield
        with self.on(device):
            self.check(self.library.cuStreamEndCapture(ctypes.c_uint64(stream), ctypes.byref(graph)))

    def block(self, stream: int, device: int = 0) -> None:
        """Queues work on a stream that waits for :meth:`release`."""
        with self.on(device):
            self.check(self.library.stand_in_block(ctypes.c_uint64(stream)))

    def release(self) -> None:
        """Ends the wait that :meth:`block` queued."""
        self.library.stand_in_release()

    def finish(self) -> None:
        """Runs all queued work, which a device would run by itself."""
        for device in range(2):
            with self.on(device):
                self.check(self.library.cuCtxSynchronize())

    def until(self, is_so: Callable[[], bool]) -> None:
        """Runs queued work until a condition holds, and fails after 20 seconds."""
        deadline = time.monotonic() + 20
        while not is_so():
            assert time.monotonic() < deadline, "the condition did not come true"
            self.finish()
            time.sleep(0.002)

    @property
    def faults(self) -> int:
        """How often freed memory was used."""
        return int(self.library.stand_in_faults())

    @property
    def live_regions(self) -> int:
        """The number of regions of memory that were not freed: of the device, managed and pinned."""
        return int(self.library.stand_in_live_regions())

    @property
    def not_put_back(self) -> int:
        """The number of contexts and capture modes that threads did not restore."""
        return int(self.library.stand_in_not_put_back())

    @property
    def host_waits(self) -> int:
        """How often a thread waited for a stream."""
        return int(self.library.stand_in_synchronized(ctypes.byref(ctypes.c_uint64())))

    @property
    def stream_waits(self) -> int:
        """How often a stream was made to wait."""
        return int(self.library.stand_in_stream_waits())

    @property
    def live_events(self) -> int:
        """The number of events that were not destroyed."""
        return int(self.library.stand_in_live_events())

    def lives(self, address: int) -> bool:
        value = ctypes.c_int()
        return self.library.cuPointerGetAttribute(ctypes.byref(value), 9, ctypes.c_uint64(address)) == 0  # type: ignore[no-any-return]


class Array:
    """An array of a library that follows the standard: it works on its own stream, and makes the consumer's stream wait
    for that."""

    def __init__(
        self, driver: Driver, native: n.Native, crafted: n.Crafted, stream: int, device: tuple[int, int]
    ) -> None:
        self.driver, self.native, self.crafted = driver, native, crafted
        self.stream, self.device = stream, device
        # Read now, because the struct is freed when the tensor is released.
        self.fields = crafted.fields
        self.asked: list[Any] = []

    def again(self) -> Array:
        """An array over the same memory, without pending work."""
        assert self.fields.shape is not None
        crafted = self.native.craft(self.fields.shape, device=self.device, data=self.fields.data)
        return Array(self.driver, self.native, crafted, self.stream, self.device)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device

    def __dlpack__(
        self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: Any = None
    ) -> Any:
        """Returns a capsule; may be called once."""
        if dl_device not in (None, self.device) or copy:
            raise BufferError("this library moves nothing")
        self.asked.append(stream)
        if stream not in (-1, self.stream):
            self.driver.order(self.stream, stream or 0, self.device[1])
        return self.crafted.capsule()


class InterfaceArray:
    """An array with only ``__cuda_array_interface__``."""

    def __init__(self, address: int, shape: tuple[int, ...], stream: int | None, **fields: Any) -> None:
        self.__cuda_array_interface__ = {
            "version": 3,
            "shape": shape,
            "typestr": "<f4",
            "data": (address, False),
            "stream": stream,
            **fields,
        }


@pytest.fixture(scope="session")
def stand_in(tmp_path_factory: pytest.TempPathFactory) -> Driver:
    """The stand-in for the CUDA driver, in this process."""
    return Driver(build(tmp_path_factory.mktemp("driver")))


@pytest.fixture
def driver(stand_in: Driver) -> Iterator[Driver]:
    """The stand-in. After the test it must have counted no fault, and no event may be left over."""
    faults, events = stand_in.faults, stand_in.live_events
    yield stand_in
    gc.collect()
    # Another thread may still be releasing memory, and each of CUDA's two buffers of pinned memory may have an event.
    most = events if stand_in.is_rocm else max(events, 2)
    stand_in.until(lambda: stand_in.live_events <= most)
    assert stand_in.faults == faults, "freed memory was used"
    assert stand_in.live_events <= most, "an event was not destroyed"


@pytest.fixture(autouse=True)
def given_back(driver: Driver, native: n.Native) -> Iterator[None]:
    """Runs the streams until all memory that waits for them is released, before the test checks its deleters."""
    yield
    gc.collect()
    driver.until(native.all_deleted)


@pytest.fixture
def array(driver: Driver, native: n.Native) -> Callable[..., Array]:
    """Makes arrays of six numbers, which their library's stream has not written yet."""

    def array(device: int = 0, stream: int | None = None, kind: str = "device") -> Array:
        address = driver.memory(24, device, kind)
        stream = driver.stream(device) if stream is None else stream
        driver.write(stream, address, NEW, device)
        code = 10 if driver.is_rocm else {"device": 2, "managed": 13}[kind]
        crafted = native.craft((2, 3), device=(code, device), data=address)
        return Array(driver, native, crafted, stream, (code, device))

    return array
