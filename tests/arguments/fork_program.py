"""Forks beside native threads that call deleters: python fork_program.py DELETERS FORKS FED [STAND_IN [RUST_NUMPY]].

`DELETERS` is deleters.c, compiled; `FED` is what its threads delete: "recorded", "borrowed" or "on a device"; `STAND_IN` is the
stand-in for the driver of CUDA; `RUST_NUMPY` is the folder of the extension built on rust-numpy. Without the last two, the
children do not use a device or rust-numpy.

Every child calls the functions that touch state shared by the threads of a process. A signal kills a child that hangs. Only one
child in ten uses shared memory, which needs another process and half of the time.

While the process forks, the threads take the locks of borrows, and of memory that waits for a stream.
These locks are different:

- Only attached threads take the locks of rust-numpy's borrows, of known types and of the conformance kit. A thread that calls
  `os.fork` is attached, so no other thread holds these locks then. If C code forks and copies one of them locked, the child
  cannot attach to the interpreter, and so never waits for the lock.
- Two kinds of thread take the lock of unused pinned memory: detached threads that copy, and dlbridge's own thread when it drops
  the memory of failed copies. That thread does so here while the process forks, but holds the lock so briefly that 2 000 forks
  hang no child even if the fork handler leaves this lock out.
"""

import ctypes
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dlbridge
import numpy as np
import typed_arguments as typed
from dlbridge_conformance import crafter

sys.path.append(str(Path(__file__).parents[1] / "python"))

from stand_in import NEW, Driver

#: Tensors that the threads delete while the process forks. With fewer, the threads finish before the fork has copied the
#: memory. If the fork handler leaves out the lock of recorded exports, a child hangs within about 300 forks with 400
#: tensors, and within about 2 000 forks with 100.
FED = 400

#: The same for tensors on a device, which take longer to make and to delete.
ON_DEVICE = 100

#: Copies from a device that fail. Each has two buffers of pinned memory, of 4 MiB each.
FAILED = 16

#: After this many seconds a child counts as hung.
LIMIT = 20

#: The error code of a real driver in a child.
NOT_INITIALIZED = 3

get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
get_pointer.restype, get_pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
set_name = ctypes.pythonapi.PyCapsule_SetName
set_name.argtypes = [ctypes.py_object, ctypes.c_char_p]
USED = b"used_dltensor_versioned"


def exported(tensor: Any, **options: Any) -> int:
    """Exports a tensor and returns the address of the managed tensor. The caller deletes it once."""
    capsule = tensor.__dlpack__(max_version=(1, 3), **options)
    address: int = get_pointer(capsule, b"dltensor_versioned")
    set_name(capsule, USED)
    return address


def is_refused(call: Callable[[], object], what: str) -> bool:
    """Returns true if a call raises a BufferError whose message contains `what`."""
    try:
        call()
    except BufferError as error:
        return what in str(error)
    return False


def use_everything(borrowed: Any, read_only: Any) -> None:
    """Calls the functions that touch the state of the process on the CPU."""
    # A type that this process has not seen, so that dlbridge writes to its cache of types.
    new = type("New", (bytearray,), {})
    tensor = dlbridge.asdlpack(new(b"abc"))
    view = memoryview(tensor)
    view.release()
    array = np.from_dlpack(dlbridge.empty((2, 3), "float64"))
    array[:] = 1
    typed.negate(array)
    assert typed.total_of_anything(array.T) == (-6, True)
    assert typed.while_writing(array[:, ::2], lambda: typed.total_of_anything(array[:, 1])[0]) == -2
    assert is_refused(lambda: typed.while_reading(array, lambda: typed.negate(array)), "borrowed for reading")
    typed.negate(borrowed)
    read_only.__array_struct__
    np.from_dlpack(read_only)
    crafter.craft((2, 3))


def use_rust_numpy(theirs: Any) -> None:
    """Borrows arrays in an extension built on rust-numpy, which uses the registry of dlbridge."""
    array = np.ones(8)
    even, odd = array[::2], array[1::2]
    theirs.hold_readwrite(even, lambda: typed.negate(odd))
    theirs.hold_readonly(array, lambda: theirs.hold_readonly(even, list))
    assert is_refused(lambda: theirs.hold_readwrite(array, lambda: typed.negate(odd)), "borrow")


def use_device(driver: Driver) -> None:
    """Copies to a device and back, and drops memory that a stream still uses."""
    there = dlbridge.asdlpack(NEW, device="cuda:0")
    assert bytes(memoryview(dlbridge.asdlpack(there, device="cpu")).cast("B")) == NEW
    del there
    driver.finish()
    before = driver.live_regions
    dlbridge.asdlpack(NEW, device="cuda:0")
    assert driver.live_regions > before
    settle(driver, before)


def use_lost_device(driver: Driver) -> None:
    """Makes copies that the driver refuses, as real drivers do in a child."""
    there = dlbridge.asdlpack(NEW, device="cuda:0")
    driver.library.stand_in_end(NOT_INITIALIZED)
    refused = f"error {NOT_INITIALIZED}"
    assert is_refused(lambda: dlbridge.asdlpack(there, device="cpu"), refused)
    assert is_refused(lambda: dlbridge.asdlpack(NEW, device="cuda:0"), refused)
    del there


def use_shared_memory() -> None:
    array = np.ones((2, 3))
    with dlbridge.share_memory(array) as shared, dlbridge.attach(shared.name) as other:
        assert other.tensor.address == shared.tensor.address


def settle(driver: Driver, regions: int) -> None:
    """Finishes all streams until at most `regions` regions of memory are left."""
    deadline = time.monotonic() + LIMIT
    driver.finish()
    while driver.live_regions > regions:
        assert time.monotonic() < deadline, "memory is not freed"
        time.sleep(0.0002)
        driver.finish()


class Device:
    """Makes tensors on a device for the threads, and copies that fail."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        # Allocates all pinned memory that the program needs.
        self.fail()
        self.settle()

    def tensor(self) -> int:
        """Returns the address of a managed tensor that a stream has not written yet."""
        return exported(dlbridge.asdlpack(NEW, device="cuda:0"), stream=-1)

    def fail(self) -> None:
        """Begins copies that fail, so that their buffers wait for the stream."""
        # Memory on the device that waits with the buffers. dlbridge drops it after the last of them.
        there = dlbridge.asdlpack(NEW, device="cuda:1")
        self.driver.library.stand_in_fail_waits(700)
        for _ in range(FAILED):
            assert is_refused(lambda: dlbridge.asdlpack(there, device="cpu"), "error 700")
        self.driver.library.stand_in_fail_waits(0)

    def pass_failed(self) -> None:
        """Finishes the stream of the failed copies, and no other."""
        with self.driver.on(1):
            self.driver.check(self.driver.library.cuCtxSynchronize())

    def settle(self) -> None:
        """Waits until dlbridge has dropped all memory that waited."""
        settle(self.driver, 2 * FAILED)


def main(path: str, forks: int, fed: str, stand_in: str = "", rust_numpy: str = "") -> None:
    """Forks `forks` times, and prints how many children hung or failed."""
    deleters = ctypes.CDLL(path)
    deleters.feed.argtypes = [ctypes.c_void_p]
    deleters.start(2)
    borrowed = np.zeros(4)
    read_only = dlbridge.asdlpack(dlbridge.empty(5), writable=False)
    # The parent makes all first calls, so that their caches are filled before a fork.
    use_everything(borrowed, read_only)
    use_shared_memory()
    theirs = driver = device = None
    if rust_numpy:
        sys.path.append(rust_numpy)
        import with_rust_numpy as theirs

        use_rust_numpy(theirs)
    if stand_in:
        driver = Driver(Path(stand_in))
        if fed == "on a device":
            device = Device(driver)
        use_device(driver)
    ends: dict[int, int] = {}
    for fork in range(forks):
        if device:
            for _ in range(ON_DEVICE):
                deleters.feed(device.tensor())
            device.fail()
            device.pass_failed()
        else:
            for _ in range(FED):
                # A tensor that stays borrowed while it is exported.
                deleters.feed(exported(read_only))
        deleters.go()
        child = os.fork()
        if child == 0:
            signal.alarm(LIMIT)
            status = 1
            try:
                use_everything(borrowed, read_only)
                if theirs:
                    use_rust_numpy(theirs)
                if driver:
                    use_device(driver) if fork % 2 else use_lost_device(driver)
                if fork % 10 == 0:
                    use_shared_memory()
                status = 0
            finally:
                os._exit(status)
        _, status = os.waitpid(child, 0)
        ends[status] = ends.get(status, 0) + 1
        deleters.finish()
        if device:
            device.settle()
        if status:
            break
    use_everything(borrowed, read_only)
    use_shared_memory()
    if theirs:
        use_rust_numpy(theirs)
    if driver:
        use_device(driver)
        assert (driver.faults, driver.not_put_back) == (0, 0)
    print(ends)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), *sys.argv[3:])
