"""cuDF, on a GPU."""

from __future__ import annotations

from typing import Any

from dlbridge_conformance.adapter import Adapter, first_version, has_cuda


class CuDF(Adapter):
    """cuDF, whose function imports capsules of GPU memory by a copy. Its objects lack ``__dlpack__``.

    Written from its documentation, and not run on a machine with a GPU yet.
    """

    name = module = "cudf"
    device = (2, 0)
    dtypes = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64")
    produces = False
    asks = False
    takes_host_memory = False
    ndims = (1, 2)
    cudf: Any

    def is_installed(self) -> bool:
        return super().is_installed() and has_cuda()

    def version(self) -> str:
        return first_version("cudf-cu13", "cudf-cu12", "cudf")

    def from_dlpack(self, producer: Any, **keywords: Any) -> Any:
        return self.cudf.from_dlpack(producer.__dlpack__(), **keywords)

    def values(self, array: Any) -> Any:
        return array.to_numpy().tolist()
