"""Sends messages between ranks directly from and into our tensors. Run by mpiexec."""

from __future__ import annotations

from typing import Any

import dlbridge
import numpy as np
from mpi4py import MPI

WORLD = MPI.COMM_WORLD
RANK, SIZE = WORLD.Get_rank(), WORLD.Get_size()


class OnlyDLPack:
    """A tensor without the buffer protocol, so that MPI uses DLPack."""

    def __init__(self, tensor: dlbridge.Tensor) -> None:
        self.__dlpack__ = tensor.__dlpack__
        self.__dlpack_device__ = tensor.__dlpack_device__


def filled(value: float, dtype: str = "float64") -> dlbridge.Tensor:
    """Twelve equal numbers."""
    tensor = dlbridge.empty((3, 4), dtype)
    tensor.numpy()[:] = value
    return tensor


def check(tensor: dlbridge.Tensor, address: int, value: Any) -> None:
    """Asserts that the tensor has the same address and the given value."""
    assert tensor.address == address
    assert (tensor.numpy() == value).all(), tensor.numpy()


def main() -> None:
    """One message of each kind, by buffer and by DLPack."""
    for wrap in (lambda tensor: tensor, OnlyDLPack):
        ring = filled(-1)
        address = ring.address
        WORLD.Sendrecv(
            wrap(filled(RANK)), dest=(RANK + 1) % SIZE, recvbuf=wrap(ring), source=(RANK - 1) % SIZE
        )
        check(ring, address, (RANK - 1) % SIZE)

        if RANK == 0:
            for other in range(1, SIZE):
                WORLD.Send(wrap(filled(10 + other, "int32")), dest=other)
        else:
            received = filled(0, "int32")
            address = received.address
            WORLD.Recv(wrap(received), source=0)
            check(received, address, 10 + RANK)

        total = filled(0)
        address = total.address
        WORLD.Allreduce(wrap(filled(RANK + 1)), wrap(total), op=MPI.SUM)
        check(total, address, SIZE * (SIZE + 1) / 2)

        told = filled(7 if RANK == 0 else 0, "float32")
        address = told.address
        WORLD.Bcast(wrap(told), root=0)
        check(told, address, 7)

        in_place = filled(RANK)
        address = in_place.address
        WORLD.Allreduce(MPI.IN_PLACE, wrap(in_place), op=MPI.MAX)
        check(in_place, address, SIZE - 1)
    assert np.array_equal(filled(1).numpy(), np.ones((3, 4)))
    print(f"rank{RANK}.", flush=True)


main()
