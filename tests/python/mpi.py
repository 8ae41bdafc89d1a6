"""Sends messages between ranks directly from and into our tensors. Run by mpiexec."""

from collections.abc import Callable
from typing import Any

import dlbridge
import numpy as np
from mpi4py import MPI
from mpi4py.util import pkl5

WORLD = MPI.COMM_WORLD
RANK, SIZE = WORLD.Get_rank(), WORLD.Get_size()


class OnlyDLPack:
    """A tensor without the buffer protocol, so that MPI uses DLPack."""

    def __init__(self, tensor: dlbridge.Tensor) -> None:
        self.__dlpack__ = tensor.__dlpack__
        self.__dlpack_device__ = tensor.__dlpack_device__


Make = Callable[[Any, str], dlbridge.Tensor]

#: Makes a tensor over memory that Rust allocated, and one over memory of NumPy.
MEMORY: list[Make] = [dlbridge.empty, lambda shape, dtype: dlbridge.asdlpack(np.empty(shape, dtype))]


def filled(value: float, dtype: str = "float64", make: Make = dlbridge.empty) -> dlbridge.Tensor:
    tensor = make((3, 4), dtype)
    tensor.numpy()[:] = value
    return tensor


def check(tensor: dlbridge.Tensor, address: int, value: Any) -> None:
    """Asserts that the tensor has the same address and the given value."""
    assert tensor.address == address
    assert (tensor.numpy() == value).all(), tensor.numpy()


def send_and_reduce(wrap: Callable[[dlbridge.Tensor], Any], make: Make) -> None:
    """One message of each kind."""
    ring = filled(-1, make=make)
    address = ring.address
    WORLD.Sendrecv(
        wrap(filled(RANK, make=make)), dest=(RANK + 1) % SIZE, recvbuf=wrap(ring), source=(RANK - 1) % SIZE
    )
    check(ring, address, (RANK - 1) % SIZE)

    if RANK == 0:
        for other in range(1, SIZE):
            WORLD.Send(wrap(filled(10 + other, "int32", make)), dest=other)
    else:
        received = filled(0, "int32", make)
        address = received.address
        WORLD.Recv(wrap(received), source=0)
        check(received, address, 10 + RANK)

    total = filled(0, make=make)
    address = total.address
    WORLD.Allreduce(wrap(filled(RANK + 1, make=make)), wrap(total), op=MPI.SUM)
    check(total, address, SIZE * (SIZE + 1) / 2)

    told = filled(7 if RANK == 0 else 0, "float32", make)
    address = told.address
    WORLD.Bcast(wrap(told), root=0)
    check(told, address, 7)

    in_place = filled(RANK, make=make)
    address = in_place.address
    WORLD.Allreduce(MPI.IN_PLACE, wrap(in_place), op=MPI.MAX)
    check(in_place, address, SIZE - 1)


def send_pickled() -> None:
    """Objects: pickled in one message, and with the elements in messages of their own."""
    for communicator in (WORLD, pkl5.Intracomm(WORLD)):
        mine = dlbridge.asdlpack(np.full((1000, 10), RANK, "float32"))
        request = communicator.isend(mine, dest=(RANK + 1) % SIZE)
        received = communicator.recv(source=(RANK - 1) % SIZE)
        request.wait()
        assert (received.dtype, received.shape) == ("float32", (1000, 10))
        assert (received.numpy() == (RANK - 1) % SIZE).all()
        narrow = dlbridge.empty((3, 3), "bfloat16") if RANK == 0 else None
        narrow = communicator.bcast(narrow, root=0)
        assert (narrow.dtype, narrow.shape) == ("bfloat16", (3, 3))


def receive_into_read_only_memory() -> None:
    """A read-only tensor is refused before a message is received."""
    tensor = dlbridge.asdlpack(bytes(8))
    try:
        MPI.COMM_SELF.Sendrecv(dlbridge.asdlpack(bytes(range(8))), dest=0, recvbuf=tensor, source=0)
    except (BufferError, TypeError, ValueError):
        pass
    else:
        raise AssertionError
    assert bytes(tensor) == bytes(8)


def main() -> None:
    """All messages, by buffer and by DLPack, from and into memory of Rust and of NumPy."""
    for wrap in (lambda tensor: tensor, OnlyDLPack):
        for make in MEMORY:
            send_and_reduce(wrap, make)
    send_pickled()
    receive_into_read_only_memory()
    assert np.array_equal(filled(1).numpy(), np.ones((3, 4)))
    print(f"rank{RANK}.", flush=True)


main()
