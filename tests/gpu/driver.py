"""The CUDA driver through ctypes: memory, streams, events, graphs, and slow work.

It is the real driver, or the stand-in for it over host memory, which never counts as a GPU.
"""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

HANDLE, SIZE, INT, TEXT = ctypes.c_uint64, ctypes.c_size_t, ctypes.c_int, ctypes.c_char_p
OUT = ctypes.c_void_p

#: The arguments of the driver's functions. Source: the documentation of the CUDA driver API.
ARGUMENTS: dict[str, list[Any]] = {
    "cuInit": [ctypes.c_uint],
    "cuDriverGetVersion": [OUT],
    "cuDeviceGetCount": [OUT],
    "cuDeviceGet": [OUT, INT],
    "cuDeviceGetName": [TEXT, INT, INT],
    "cuDevicePrimaryCtxRetain": [OUT, INT],
    "cuCtxPushCurrent_v2": [HANDLE],
    "cuCtxPopCurrent_v2": [OUT],
    "cuCtxSynchronize": [],
    "cuGetErrorName": [INT, OUT],
    "cuStreamCreate": [OUT, ctypes.c_uint],
    "cuStreamSynchronize": [HANDLE],
    "cuStreamIsCapturing": [HANDLE, OUT],
    "cuStreamBeginCapture_v2": [HANDLE, INT],
    "cuStreamEndCapture": [HANDLE, OUT],
    "cuGraphInstantiateWithFlags": [OUT, HANDLE, ctypes.c_ulonglong],
    "cuGraphLaunch": [HANDLE, HANDLE],
    "cuEventCreate": [OUT, ctypes.c_uint],
    "cuEventRecord": [HANDLE, HANDLE],
    "cuEventQuery": [HANDLE],
    "cuEventSynchronize": [HANDLE],
    "cuEventElapsedTime": [OUT, HANDLE, HANDLE],
    "cuEventDestroy_v2": [HANDLE],
    "cuStreamWaitEvent": [HANDLE, HANDLE, ctypes.c_uint],
    "cuMemAlloc_v2": [OUT, SIZE],
    "cuMemAllocManaged": [OUT, SIZE, ctypes.c_uint],
    "cuMemHostAlloc": [OUT, SIZE, ctypes.c_uint],
    "cuMemFree_v2": [HANDLE],
    "cuMemFreeHost": [HANDLE],
    "cuMemcpy": [HANDLE, HANDLE, SIZE],
    "cuMemcpyAsync": [HANDLE, HANDLE, SIZE, HANDLE],
    "cuLaunchHostFunc": [HANDLE, OUT, OUT],
    "cuPointerGetAttribute": [OUT, INT, HANDLE],
}

NOT_READY = 600
DISABLE_TIMING = 2
GLOBAL_CAPTURE = 0
NON_BLOCKING = 1

#: The largest read or write, in bytes.
SCRATCH = 1 << 20


class DriverError(Exception):
    """The driver returned an error."""


class NoDevice(Exception):
    """The driver or the device is missing; the reason."""


class Driver:
    """The driver, with a context for each device."""

    def __init__(self, stand_in: Path | None = None) -> None:
        self.is_hardware = stand_in is None
        # The duration of slow work in microseconds. The stand-in starts it when something waits for it.
        self.delay = 40_000 if self.is_hardware else 200
        try:
            self.library = ctypes.CDLL("libcuda.so.1" if stand_in is None else str(stand_in.resolve()))
        except OSError as error:
            raise NoDevice(f"the driver cannot be loaded: {error}") from None
        status = self.function("cuInit")(0)
        if status:
            raise NoDevice(f"the driver cannot be used: cuInit failed with {self.named(status)}")
        self.devices = self.asked(INT, "cuDeviceGetCount")
        if not self.devices:
            raise NoDevice("the driver found no device")
        self.version = self.asked(INT, "cuDriverGetVersion")
        self.contexts = [self.asked(HANDLE, "cuDevicePrimaryCtxRetain", device) for device in range(self.devices)]
        # Allocation may wait for the device, which would hide a missing wait: so this happens once.
        self.scratch = self.memory(SCRATCH, kind="pinned")
        self.fills = [self.stream(device) for device in range(self.devices)]
        self.usleep = ctypes.cast(ctypes.CDLL(None).usleep, OUT)

    def function(self, name: str) -> Any:
        """Returns a function of the driver."""
        function = getattr(self.library, name)
        function.argtypes, function.restype = ARGUMENTS[name], INT
        return function

    def named(self, status: int) -> str:
        name = ctypes.c_char_p()
        self.function("cuGetErrorName")(status, ctypes.byref(name))
        return f"error {status}, {(name.value or b'unknown').decode()}"

    @property
    def faults(self) -> int:
        """The number of uses of freed memory, which the stand-in counts; a GPU does not."""
        return 0 if self.is_hardware else int(self.library.stand_in_faults())

    def call(self, name: str, *arguments: Any) -> None:
        """Calls a function, and raises DriverError for an error."""
        status = self.function(name)(*arguments)
        if status:
            raise DriverError(f"{name}: {self.named(status)}")

    def asked(self, kind: Any, name: str, *arguments: Any) -> int:
        """Returns the value that a function writes to its first argument."""
        value = kind()
        self.call(name, ctypes.byref(value), *arguments)
        return int(value.value)

    @contextmanager
    def on(self, device: int) -> Iterator[None]:
        """Makes a device the current one of this thread."""
        self.call("cuCtxPushCurrent_v2", self.contexts[device])
        try:
            yield
        finally:
            self.call("cuCtxPopCurrent_v2", ctypes.byref(HANDLE()))

    def device_name(self, device: int) -> str:
        name = ctypes.create_string_buffer(128)
        self.call("cuDeviceGetName", name, len(name), device)
        return name.value.decode()

    # Memory

    def memory(self, size: int, device: int = 0, kind: str = "device") -> int:
        """Allocates device, managed or pinned memory, which lives as long as the process unless it is freed."""
        with self.on(device):
            if kind == "device":
                return self.asked(HANDLE, "cuMemAlloc_v2", size)
            function = {"managed": "cuMemAllocManaged", "pinned": "cuMemHostAlloc"}[kind]
            return self.asked(HANDLE, function, size, 1)

    def free(self, address: int, device: int = 0) -> None:
        with self.on(device):
            self.call("cuMemFree_v2", address)

    def device_of(self, address: int) -> int:
        """Returns the device that the driver reports for an address."""
        device_ordinal = 9
        return self.asked(INT, "cuPointerGetAttribute", device_ordinal, address)

    def copy(self, to: int, source: int, size: int, stream: int, device: int = 0) -> None:
        with self.on(device):
            self.call("cuMemcpyAsync", to, source, size, stream)

    def filled(self, content: bytes, device: int = 0, kind: str = "device") -> int:
        """Allocates memory, fills it with this content, and waits for that."""
        address = self.memory(max(len(content), 1), device, kind)
        source = self.memory(max(len(content), 1), device, "pinned")
        ctypes.memmove(source, content, len(content))
        if content:
            self.copy(address, source, len(content), self.fills[device], device)
            self.wait(self.fills[device], device)
        return address

    def read(self, stream: int, address: int, size: int, device: int = 0) -> bytes:
        """Returns the bytes that a kernel on a stream would read now: it waits only for that stream."""
        if not size:
            return b""
        self.copy(self.scratch, address, size, stream, device)
        self.wait(stream, device)
        return ctypes.string_at(self.scratch, size)

    # Streams

    def stream(self, device: int = 0) -> int:
        """Makes a stream, which waits for another only if a call makes it wait."""
        with self.on(device):
            return self.asked(HANDLE, "cuStreamCreate", NON_BLOCKING)

    def wait(self, stream: int, device: int = 0) -> None:
        with self.on(device):
            self.call("cuStreamSynchronize", stream)

    def wait_for_all(self) -> None:
        """Blocks this thread until all pending work has finished."""
        for device in range(self.devices):
            with self.on(device):
                self.call("cuCtxSynchronize")

    def sleep(self, stream: int, device: int = 0) -> None:
        """Queues slow work on a stream: a C function, which does not need the interpreter."""
        with self.on(device):
            self.call("cuLaunchHostFunc", stream, self.usleep, OUT(self.delay))

    def late(self, stream: int, address: int, content: bytes, device: int = 0) -> None:
        """Queues a slow write of this content on a stream."""
        source = self.memory(max(len(content), 1), device, "pinned")
        ctypes.memmove(source, content, len(content))
        self.sleep(stream, device)
        self.copy(address, source, len(content), stream, device)

    def marked(self, stream: int, device: int = 0) -> int:
        """Records an event after the work that is on a stream now."""
        with self.on(device):
            event = self.asked(HANDLE, "cuEventCreate", DISABLE_TIMING)
            self.call("cuEventRecord", event, stream)
        return event

    def has_passed(self, event: int, device: int = 0) -> bool:
        """Returns whether the work before an event has finished."""
        with self.on(device):
            status = int(self.function("cuEventQuery")(event))
        if status not in (0, NOT_READY):
            raise DriverError(f"cuEventQuery: {self.named(status)}")
        return status == 0

    def order(self, passed: int, waiting: int, device: int = 0) -> None:
        """Makes a stream wait for another, as any library would."""
        event = self.marked(passed, device)
        with self.on(device):
            self.call("cuStreamWaitEvent", waiting, event, 0)
            self.call("cuEventDestroy_v2", event)

    # Graphs

    def begin_capture(self, stream: int, device: int = 0) -> None:
        """Begins to capture a stream, so that an unsafe call on any thread invalidates the capture."""
        with self.on(device):
            self.call("cuStreamBeginCapture_v2", stream, GLOBAL_CAPTURE)

    def end_capture(self, stream: int, device: int = 0) -> int:
        """Ends a capture and returns the graph. Raises DriverError for an invalidated capture."""
        graph = HANDLE()
        with self.on(device):
            self.call("cuStreamEndCapture", stream, ctypes.byref(graph))
        return graph.value

    def launch(self, graph: int, stream: int, device: int = 0) -> None:
        """Runs a graph on a stream."""
        with self.on(device):
            executable = self.asked(HANDLE, "cuGraphInstantiateWithFlags", graph, 0)
            self.call("cuGraphLaunch", executable, stream)
