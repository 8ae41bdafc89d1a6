"""A driver whose calls can fail: cuda_faults.c between dlbridge and the stand-in."""

import ctypes
from dataclasses import dataclass
from pathlib import Path

from stand_in import Driver, compiled
from stand_in import build as build_stand_in

SOURCE = Path(__file__).with_name("cuda_faults.c")

#: The thread of the test, and all other threads.
HERE, ELSEWHERE = 0, 1

#: An earlier error, and the error for exhausted memory.
BROKEN, NO_MEMORY = 700, 2

#: The calls that can fail because memory is exhausted.
ALLOCATING = {"cuMemAlloc_v2", "cuMemAllocAsync", "cuMemHostAlloc", "cuEventCreate"}

#: The calls that may have done their work although they report an error.
LATE = {
    "cuCtxPopCurrent_v2", "cuThreadExchangeStreamCaptureMode", "cuEventDestroy_v2", "cuMemFree_v2", "cuMemFreeAsync",
    "cuMemcpyAsync", "cuMemcpyPeerAsync", "cuEventRecord", "cuStreamWaitEvent",
}  # fmt: skip


@dataclass(frozen=True)
class Fault:
    """One call that fails, after ``skip`` calls of the function, or of any function if the name is empty."""

    function: str = ""
    skip: int = 0
    status: int = BROKEN
    late: bool = False
    thread: int = HERE


class Faults:
    """The library between dlbridge and the stand-in."""

    def __init__(self, path: Path) -> None:
        self.library = ctypes.CDLL(str(path))
        self.library.faults_called.restype = ctypes.c_char_p
        self.clear()

    def clear(self) -> None:
        """Clears the faults and the recorded calls, and makes this thread the thread of the test."""
        self.library.faults_clear()

    def set(self, *faults: Fault) -> None:
        """Sets the calls that fail from now on. Each fails once."""
        self.clear()
        for fault in faults:
            name = fault.function.encode()
            self.library.faults_add(name, fault.thread, fault.skip, fault.status, fault.late)

    def calls(self, thread: int = HERE) -> list[str]:
        """The names of the called functions, in order."""
        count = self.library.faults_calls(thread)
        return [self.library.faults_called(thread, number).decode() for number in range(count)]

    def hit(self, number: int = 0) -> int | None:
        """The first argument of the call that failed, or `None` if no call failed."""
        argument = ctypes.c_uint64()
        hits = self.library.faults_hit(number, ctypes.byref(argument))
        return argument.value if hits else None


def build(folder: Path) -> tuple[Path, Path]:
    """Compiles the stand-in, and the library between it and dlbridge."""
    stand_in = build_stand_in(folder, name="libstand_in.so")
    return stand_in, compiled(SOURCE, folder / "libcuda.so.1", f'-DSTAND_IN="{stand_in}"')


def load(folder: Path) -> tuple[Driver, Faults]:
    """Loads both libraries, so that dlbridge finds the second under the driver's name."""
    stand_in, path = build(folder)
    return Driver(stand_in), Faults(path)
