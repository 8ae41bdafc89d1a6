"""Libraries whose arrays make views by slices and ``T``, and change by assignments, as NumPy's do."""

from __future__ import annotations

import ctypes
import os
from typing import Any

import dlbridge
from dlbridge_conformance.adapter import COMPLEX, FLOATS, INTEGERS, Adapter, WithNumPy, library_path
from dlbridge_conformance.outcome import NotApplicable


class Indexed(Adapter):
    """The methods that these libraries have in common."""

    def from_dlpack(self, producer: Any, **keywords: Any) -> Any:
        return self.library.from_dlpack(producer, **keywords)

    def address(self, array: Any) -> int:
        return int(array.data_ptr())

    def transposed(self, array: Any) -> Any:
        return array.T

    def stepped(self, array: Any) -> Any:
        return array[::2]

    def reversed(self, array: Any) -> Any:
        return array[::-1]

    def sliced(self, array: Any) -> Any:
        return array[1:]

    def broadcast(self, array: Any, extent: int) -> Any:
        return self.library.broadcast_to(array, (extent, *array.shape))

    def write(self, array: Any, value: float) -> None:
        array[(0,) * array.ndim] = value


class NumPy(Indexed):
    """NumPy, in any version."""

    name = module = "numpy"
    dtypes = (*INTEGERS, *FLOATS, *COMPLEX, "bool")

    def array(self, values: Any, dtype: str = "float32") -> Any:
        return self.library.array(values, dtype=dtype)

    def address(self, array: Any) -> int:
        return int(array.ctypes.data)

    def read_only(self, array: Any) -> Any:
        view = array.view()
        view.flags.writeable = False
        return view

    def is_read_only(self, array: Any) -> bool:
        return not array.flags.writeable


class CuPy(NumPy):
    """CuPy. It refuses tensors on the CPU, which are all that the kit crafts: only how it asks is seen of its consumer.

    Written after its documentation, and not run yet on a machine with a GPU.
    """

    name = module = "cupy"
    distribution = ("cupy-cuda13x", "cupy-cuda12x", "cupy-cuda11x", "cupy")
    device = (2, 0)
    takes_host_memory = False
    read_only = Adapter.read_only
    is_read_only = Adapter.is_read_only

    def address(self, array: Any) -> int:
        return int(array.data.ptr)


class DPNP(Indexed):
    """dpnp, on SYCL's CPU device. It imports CPU memory as a NumPy array, without moving it."""

    name = module = "dpnp"
    device = (14, 0)
    dtypes = NumPy.dtypes

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
        return self.library.asarray(values, dtype=dtype)

    def address(self, array: Any) -> int:
        if not hasattr(array, "__sycl_usm_array_interface__"):
            return int(array.ctypes.data)
        interface = array.__sycl_usm_array_interface__
        return int(interface["data"][0]) + int(interface["offset"]) * int(array.itemsize)

    def read_only(self, array: Any) -> Any:
        view = array[...]
        view.flags["W"] = False
        return view

    def is_read_only(self, array: Any) -> bool:
        flags = array.flags
        return not bool(flags.writable if isinstance(array, self.library.ndarray) else flags.writeable)


class MLX(Indexed):
    """MLX on the CPU, whose arrays never change."""

    name = "mlx"
    module = "mlx.core"
    dtypes = (*INTEGERS, *FLOATS, "bfloat16", "complex64", "bool")
    write = Adapter.write

    def array(self, values: Any, dtype: str = "float32") -> Any:
        kind = getattr(self.library, "bool_" if dtype == "bool" else dtype)
        if dtype == "uint64":
            # MLX cannot make an array from Python numbers from 2**63 on.
            return self._computed(self.library.array(_signed(values), dtype=self.library.int64).view(kind))
        return self._computed(self.library.array(values, dtype=kind))

    def address(self, array: Any) -> int:
        return dlbridge.asdlpack(array, protocol="buffer").address

    def transposed(self, array: Any) -> Any:
        return self._computed(super().transposed(array))

    def stepped(self, array: Any) -> Any:
        return self._computed(super().stepped(array))

    def reversed(self, array: Any) -> Any:
        return self._computed(super().reversed(array))

    def sliced(self, array: Any) -> Any:
        return self._computed(super().sliced(array))

    def broadcast(self, array: Any, extent: int) -> Any:
        return self._computed(super().broadcast(array, extent))

    def _computed(self, array: Any) -> Any:
        """Evaluates an array, since MLX computes elements lazily."""
        self.library.eval(array)
        return array


def _signed(values: Any) -> Any:
    """Converts unsigned 64-bit numbers to the signed ones with the same bits."""
    if isinstance(values, list):
        return [_signed(value) for value in values]
    return values - 2**64 if values >= 2**63 else values


class Torch(Indexed):
    """PyTorch. It supports neither read-only tensors nor negative strides."""

    name = module = distribution = "torch"
    dtypes = (
        *INTEGERS, *FLOATS, "bfloat16", *COMPLEX, "bool",
        "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu",
    )  # fmt: skip
    reversed = Adapter.reversed

    def array(self, values: Any, dtype: str = "float32") -> Any:
        return self.library.tensor(values, dtype=getattr(self.library, dtype))

    def broadcast(self, array: Any, extent: int) -> Any:
        return array.expand(extent, *array.shape)


class TorchCUDA(Torch):
    """PyTorch on CUDA. It imports CPU memory without moving it.

    Written after its documentation, and not run yet on a machine with a GPU.
    """

    name = "torch-cuda"
    device = (2, 0)

    def array(self, values: Any, dtype: str = "float32") -> Any:
        return super().array(values, dtype).to("cuda:0")


class Paddle(Indexed):
    """PaddlePaddle. Casts make the 8-bit and 16-bit floats that NumPy lacks."""

    name = module = "paddle"
    distribution = ("paddlepaddle", "paddlepaddle-gpu")
    dtypes = (
        "int8", "int16", "int32", "int64", "uint8", *FLOATS, "bfloat16", *COMPLEX, "bool", "float8_e4m3fn", "float8_e5m2",
    )  # fmt: skip

    def array(self, values: Any, dtype: str = "float32") -> Any:
        if dtype in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):
            return self.library.to_tensor(values, dtype="float32").astype(dtype)
        return self.library.to_tensor(values, dtype=dtype)

    def values(self, array: Any) -> Any:
        if str(array.dtype) in ("paddle.bfloat16", "paddle.float8_e4m3fn", "paddle.float8_e5m2"):
            array = array.astype("float32")
        return array.tolist()

    def broadcast(self, array: Any, extent: int) -> Any:
        return self.library.as_strided(array, [extent, *array.shape], [0, *array.strides])


class ArrayAPIStrict(WithNumPy, Indexed):
    """array-api-strict. The adapter reads elements through NumPy, which the library wraps."""

    name = "array-api-strict"
    module = "array_api_strict"
    dtypes = (*INTEGERS, "float32", "float64", *COMPLEX, "bool")

    def array(self, values: Any, dtype: str = "float32") -> Any:
        return self.library.asarray(values, dtype=getattr(self.library, dtype))

    def stepped(self, array: Any) -> Any:
        return self._first(array, slice(None, None, 2))

    def reversed(self, array: Any) -> Any:
        return self._first(array, slice(None, None, -1))

    def sliced(self, array: Any) -> Any:
        return self._first(array, slice(1, None))

    def is_read_only(self, array: Any) -> bool:
        return not self.as_numpy(array).flags.writeable

    def _first(self, array: Any, part: slice) -> Any:
        """Slices the first axis. The standard requires an index for every axis."""
        return array[(part, *(slice(None),) * (array.ndim - 1))]


class Warp(Indexed):
    """NVIDIA Warp on the CPU, whose arrays have one to four dimensions."""

    name = "warp-lang"
    module = "warp"
    dtypes = (*INTEGERS, *FLOATS, "bfloat16", "bool")
    ndims = (1, 4)
    reversed = Adapter.reversed

    def load(self) -> None:
        super().load()
        self.library.config.log_level = self.library.LOG_ERROR
        self.library.init()

    def array(self, values: Any, dtype: str = "float32") -> Any:
        if not isinstance(values, list):
            raise NotApplicable("warp-lang does not support 0-d arrays")
        return self.library.array(values, dtype=getattr(self.library, dtype), device="cpu")

    def values(self, array: Any) -> Any:
        return array.numpy().tolist()

    def address(self, array: Any) -> int:
        return int(array.ptr)

    def transposed(self, array: Any) -> Any:
        return array.transpose()

    def sliced(self, array: Any) -> Any:
        if array.shape[0] < 2:
            raise NotApplicable("warp-lang does not support empty slices")
        return array[1:]

    def broadcast(self, array: Any, extent: int) -> Any:
        shape, strides = (extent, *array.shape), (0, *array.strides)
        view = self.library.array(ptr=array.ptr, dtype=array.dtype, shape=shape, strides=strides, device="cpu")
        view.base = array
        return view

    def write(self, array: Any, value: float) -> None:
        array.numpy()[(0,) * array.ndim] = value
