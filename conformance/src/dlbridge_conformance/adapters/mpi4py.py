"""mpi4py: messages from a process to itself."""

from __future__ import annotations

import importlib
import os
from typing import Any

from dlbridge_conformance.adapter import Adapter, library_path
from dlbridge_conformance.outcome import NotApplicable

MPI_LIBRARIES = (("mpich", "libmpi.so"), ("openmpi", "libmpi.so"), ("impi-rt", "libmpi.so"))


class MPI4Py(Adapter):
    """mpi4py, whose consumer is whatever takes a send buffer.

    What it makes of a tensor is a message: the bytes of the elements, without shape and dtype. MPI is initialized by
    the first message, since it does not outlive a fork.
    """

    name = module = "mpi4py"
    produces = False
    mpi4py: Any

    def is_installed(self) -> bool:
        return super().is_installed() and any(library_path(*library) for library in MPI_LIBRARIES)

    def load(self) -> None:
        """Imports MPI from the folder of its distribution, without initializing it."""
        super().load()
        path = next(path for library in MPI_LIBRARIES if (path := library_path(*library)))
        os.environ.setdefault("MPI4PY_LIBMPI", str(path))
        self.mpi4py.rc.initialize = False
        self.mpi4py.rc.finalize = False
        importlib.import_module("mpi4py.MPI")

    def from_dlpack(self, producer: Any, **keywords: Any) -> Any:
        mpi = self.mpi4py.MPI
        if not mpi.Is_initialized():
            mpi.Init()
        request = mpi.COMM_SELF.Isend(producer, 0, **keywords)
        status = mpi.Status()
        mpi.COMM_SELF.Probe(0, status=status)
        message = bytearray(status.Get_count(mpi.BYTE))
        mpi.COMM_SELF.Recv([message, mpi.BYTE], 0)
        request.Wait()
        return message

    def values(self, array: Any) -> Any:
        raise NotApplicable("a message does not have a shape or a dtype")
