"""dpnp: arrays in SYCL memory, on SYCL's CPU device."""

from __future__ import annotations

import ctypes
import os
from typing import Any

from dlbridge_conformance.adapter import Adapter, library_path


class DPNP(Adapter):
    """dpnp. It imports CPU memory as a NumPy array, without moving it."""

    name = module = "dpnp"
    device = (14, 0)
    dtypes = (
        "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
        "float16", "float32", "float64", "complex64", "complex128", "bool",
    )  # fmt: skip
    dpnp: Any

    def is_installed(self) -> bool:
        return super().is_installed() and library_path("intel-opencl-rt", "libintelocl") is not None

    def load(self) -> None:
        """Points OpenCL to the CPU driver, and that driver to oneTBB."""
        driver, threads = library_path("intel-opencl-rt", "libintelocl"), library_path("tbb", "libtbb.so")
        os.environ.setdefault("OCL_ICD_FILENAMES", str(driver))
        if threads is not None:
            ctypes.CDLL(str(threads), ctypes.RTLD_GLOBAL)
        super().load()

    def array(self, values: Any, dtype: str = "float32") -> Any:
        return self.dpnp.asarray(values, dtype=dtype)

    def from_dlpack(self, producer: Any, **keywords: Any) -> Any:
        return self.dpnp.from_dlpack(producer, **keywords)

    def address(self, array: Any) -> int:
        if not hasattr(array, "__sycl_usm_array_interface__"):
            return int(array.ctypes.data)
        interface = array.__sycl_usm_array_interface__
        return int(interface["data"][0]) + int(interface["offset"]) * int(array.itemsize)

    def transposed(self, array: Any) -> Any:
        return array.T

    def stepped(self, array: Any) -> Any:
        return array[::2]

    def reversed(self, array: Any) -> Any:
        return array[::-1]

    def sliced(self, array: Any) -> Any:
        return array[1:]

    def broadcast(self, array: Any, extent: int) -> Any:
        return self.dpnp.broadcast_to(array, (extent, *array.shape))

    def read_only(self, array: Any) -> Any:
        view = array[...]
        view.flags["W"] = False
        return view

    def is_read_only(self, array: Any) -> bool:
        flags = array.flags
        return not bool(flags.writable if isinstance(array, self.dpnp.ndarray) else flags.writeable)

    def write(self, array: Any, value: float) -> None:
        array[(0,) * array.ndim] = value
