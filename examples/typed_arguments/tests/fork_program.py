"""Forks beside native threads that call deleters: python fork_program.py LIBRARY FORKS RECORD.

Every child uses the functions that touch what the threads of a process share on the CPU, and is killed if it hangs. Shared
memory, which needs another process and half of the time, is used by one child in ten. The locks of
rust-numpy's borrows and of GPUs are not used here.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from typing import Any

import dlbridge
import numpy as np
import typed_arguments as typed

#: Tensors that the threads delete while the process forks. With fewer, the threads are done before the fork has copied
#: the memory: if the recorded exports are left out of the fork handler, 400 hang a child within some 300 forks, 100
#: within some 2 000.
FED = 400

#: Seconds after which a child is taken to hang.
LIMIT = 20

get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
get_pointer.restype, get_pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
set_name = ctypes.pythonapi.PyCapsule_SetName
set_name.argtypes = [ctypes.py_object, ctypes.c_char_p]
USED = b"used_dltensor_versioned"


def exported(tensor: Any) -> int:
    """The address of a managed tensor, to be deleted once."""
    capsule = tensor.__dlpack__(max_version=(1, 3))
    address: int = get_pointer(capsule, b"dltensor_versioned")
    set_name(capsule, USED)
    return address


def use_everything(borrowed: Any, read_only: Any) -> None:
    """Calls whatever touches the state of the process."""
    before = len(dlbridge.live_exports())
    recording = dlbridge.record_exports(True)
    # A type that this process has not seen, so that what is known of it is written.
    new = type("New", (bytearray,), {})
    tensor = dlbridge.asdlpack(new(b"abc"))
    view = memoryview(tensor)
    assert len(dlbridge.live_exports()) == before + 1
    view.release()
    assert len(dlbridge.live_exports()) == before
    dlbridge.record_exports(recording)
    array = np.from_dlpack(dlbridge.empty((2, 3), "float64"))
    array[:] = 1
    typed.negate(array)
    assert typed.total_of_anything(array.T) == (-6, True)
    assert typed.while_writing(array[:, ::2], lambda: typed.total_of_anything(array[:, 1])[0]) == -2
    try:
        typed.while_reading(array, lambda: typed.negate(array))
    except BufferError:
        pass
    else:
        raise AssertionError("a writer beside a reader")
    typed.negate(borrowed)
    read_only.__array_struct__
    np.from_dlpack(read_only)


def use_shared_memory() -> None:
    """Makes a segment and attaches to it."""
    array = np.ones((2, 3))
    with dlbridge.share_memory(array) as shared, dlbridge.attach(shared.name) as other:
        assert other.tensor.address == shared.tensor.address


def main(path: str, forks: int, record: bool) -> None:
    """Forks `forks` times, and prints how many children hung or failed."""
    deleters = ctypes.CDLL(path)
    deleters.feed.argtypes = [ctypes.c_void_p]
    deleters.start(2)
    dlbridge.record_exports(record)
    borrowed = np.zeros(4)
    tensor = dlbridge.empty(3)
    read_only = dlbridge.asdlpack(dlbridge.empty(5), writable=False)
    # The parent makes all first calls, so that everything cached at a first call is cached before a fork.
    use_everything(borrowed, read_only)
    use_shared_memory()
    ends: dict[int, int] = {}
    for fork in range(forks):
        for number in range(FED):
            # A tensor that is recorded, or one that is borrowed as long as it is exported.
            deleters.feed(exported(tensor if record and number % 2 else read_only))
        deleters.go()
        child = os.fork()
        if child == 0:
            signal.alarm(LIMIT)
            status = 1
            try:
                use_everything(borrowed, read_only)
                if fork % 10 == 0:
                    use_shared_memory()
                status = 0
            finally:
                os._exit(status)
        _, status = os.waitpid(child, 0)
        ends[status] = ends.get(status, 0) + 1
        deleters.finish()
        if status:
            break
    assert dlbridge.live_exports() == []
    use_everything(borrowed, read_only)
    use_shared_memory()
    print(ends)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3] == "True")
