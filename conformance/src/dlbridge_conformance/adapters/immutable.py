"""Libraries whose arrays lack views, or never change."""

from __future__ import annotations

import os
from typing import Any

from dlbridge_conformance import elements
from dlbridge_conformance.adapter import COMPLEX, FLOATS, INTEGERS, Adapter, WithNumPy
from dlbridge_conformance.crafter import DTYPES
from dlbridge_conformance.outcome import NotApplicable


class Immutable(Adapter):
    """Every array is read-only."""

    def read_only(self, array: Any) -> Any:
        return array

    def is_read_only(self, array: Any) -> bool:
        return True


class JAX(Immutable):
    """JAX with 64-bit dtypes enabled. It does not make views."""

    name = "jax"
    module = "jax.numpy"
    dtypes = (
        *INTEGERS, *FLOATS, "bfloat16", *COMPLEX, "bool",
        "float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz",
        "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu", "float4_e2m1fn",
    )  # fmt: skip
    jax: Any

    def load(self) -> None:
        super().load()
        self.jax.config.update("jax_enable_x64", True)

    def array(self, values: Any, dtype: str = "float32") -> Any:
        return self.jax.numpy.array(values, dtype=dtype)

    def from_dlpack(self, producer: Any, **keywords: Any) -> Any:
        return self.jax.dlpack.from_dlpack(producer, **keywords)

    def address(self, array: Any) -> int:
        return int(array.unsafe_buffer_pointer())


class TensorFlow(WithNumPy, Immutable):
    """TensorFlow. It imports only capsules, and it does not make views."""

    name = module = "tensorflow"
    distribution = ("tensorflow", "tensorflow-cpu", "tensorflow-intel")
    dtypes = (*INTEGERS, *FLOATS, "bfloat16", *COMPLEX, "bool")
    asks = False

    def load(self) -> None:
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
        super().load()

    def array(self, values: Any, dtype: str = "float32") -> Any:
        if dtype == "bool":
            values = elements.nested([bool(value) for value in elements.flat(values)], elements.shape_of(values))
        return self.library.constant(values, dtype=dtype)

    def from_dlpack(self, producer: Any, **keywords: Any) -> Any:
        return self.library.experimental.dlpack.from_dlpack(producer.__dlpack__(), **keywords)


class PyArrowArray(Immutable):
    """``pyarrow.Array``, which is one-dimensional."""

    name = "pyarrow-array"
    module = distribution = "pyarrow"
    dtypes = (*INTEGERS, *FLOATS)
    ndims = (1, 1)

    def array(self, values: Any, dtype: str = "float32") -> Any:
        """Makes an array over a buffer, because ``pyarrow.array`` of a list imports other libraries."""
        numbers = elements.flat(values)
        if len(elements.shape_of(values)) != 1:
            raise NotApplicable("pyarrow.Array has one dimension")
        buffers = [None, self.library.py_buffer(elements.packed(numbers, dtype))]
        return self.library.Array.from_buffers(getattr(self.library, dtype)(), len(numbers), buffers)

    def from_dlpack(self, producer: Any, **keywords: Any) -> Any:
        return self.library.Array.from_dlpack(producer, **keywords)

    def values(self, array: Any) -> Any:
        return array.to_pylist()

    def address(self, array: Any) -> int:
        start: int = array.buffers()[1].address
        return start + int(array.offset) * int(array.type.bit_width) // 8

    def sliced(self, array: Any) -> Any:
        return array[1:]


class PyArrow(WithNumPy):
    """``pyarrow.Tensor``, whose views are made through NumPy."""

    name = module = "pyarrow"
    dtypes = (*INTEGERS, *FLOATS)

    def array(self, values: Any, dtype: str = "float32") -> Any:
        return self._over(self.numpy.array(values, dtype))

    def from_dlpack(self, producer: Any, **keywords: Any) -> Any:
        return self.library.Tensor.from_dlpack(producer, **keywords)

    def as_numpy(self, array: Any) -> Any:
        return array.to_numpy()

    def transposed(self, array: Any) -> Any:
        return self._over(array.to_numpy().T)

    def stepped(self, array: Any) -> Any:
        return self._over(array.to_numpy()[::2])

    def sliced(self, array: Any) -> Any:
        return self._over(array.to_numpy()[1:])

    def broadcast(self, array: Any, extent: int) -> Any:
        return self._over(self.numpy.broadcast_to(array.to_numpy(), (extent, *array.shape)))

    def read_only(self, array: Any) -> Any:
        source = array.to_numpy()
        source.flags.writeable = False
        return self._over(source)

    def is_read_only(self, array: Any) -> bool:
        return not bool(array.is_mutable)

    def write(self, array: Any, value: float) -> None:
        array.to_numpy()[(0,) * array.ndim] = value

    def _over(self, array: Any) -> Any:
        return self.library.Tensor.from_numpy(array)


class ONNXRuntime(WithNumPy):
    """``OrtValue`` of ONNX Runtime. It supports neither views nor read-only memory."""

    name = module = "onnxruntime"
    distribution = ("onnxruntime", "onnxruntime-gpu")
    dtypes = (*INTEGERS, *FLOATS, "bool")

    def array(self, values: Any, dtype: str = "float32") -> Any:
        return self.library.OrtValue.ortvalue_from_numpy(self.numpy.array(values, dtype))

    def from_dlpack(self, producer: Any, **keywords: Any) -> Any:
        return self.library.OrtValue.from_dlpack(producer, **keywords)

    def as_numpy(self, array: Any) -> Any:
        if "float8" in (kind := array.data_type()) or "float4" in kind:
            raise NotApplicable(f"OrtValue.numpy returns the bytes of a {kind}")
        return array.numpy()

    def address(self, array: Any) -> int:
        return int(array.data_ptr())


class KorniaRS(WithNumPy):
    """``Image`` of kornia-rs, with a height, a width and channels, in C order. The adapter reads it through NumPy."""

    name = "kornia-rs"
    module = "kornia_rs.image"
    dtypes = ("uint8", "uint16", "float32")
    ndims = (3, 3)

    def array(self, values: Any, dtype: str = "float32") -> Any:
        pixels = self.numpy.array(values, dtype)
        if pixels.ndim != 3:
            raise NotApplicable("an image has three dimensions")
        return self.library.Image.from_numpy(pixels)

    def from_dlpack(self, producer: Any, **keywords: Any) -> Any:
        return self.library.Image.from_dlpack(producer, **keywords)

    def as_numpy(self, array: Any) -> Any:
        return array.to_numpy()

    def address(self, array: Any) -> int:
        return int(array.data_ptr)


class TVMFFI(Adapter):
    """TVM FFI. It cannot make arrays or show elements: dlbridge makes the arrays, and the kit reads their memory."""

    name = "tvm-ffi"
    module = "tvm_ffi"
    distribution = "apache-tvm-ffi"
    #: it imports complex tensors, but cannot report their dtype
    dtypes = tuple(name for name in DTYPES if not name.startswith("complex"))

    def array(self, values: Any, dtype: str = "float32") -> Any:
        return self.library.from_dlpack(elements.tensor(values, dtype))

    def from_dlpack(self, producer: Any, **keywords: Any) -> Any:
        return self.library.from_dlpack(producer, **keywords)

    def values(self, array: Any) -> Any:
        kind = array.dtype
        name = elements.name_of((kind.type_code, kind.bits, kind.lanes))
        return elements.at(array.data_ptr(), name, tuple(array.shape), tuple(array.strides))

    def address(self, array: Any) -> int:
        return int(array.data_ptr())


class CuDF(Adapter):
    """cuDF, whose function imports capsules of GPU memory by a copy. Its objects lack ``__dlpack__``.

    Written from its documentation, and not run on a machine with a GPU yet.
    """

    name = module = "cudf"
    distribution = ("cudf-cu13", "cudf-cu12", "cudf")
    device = (2, 0)
    dtypes = (*INTEGERS, "float32", "float64")
    produces = False
    asks = False
    takes_host_memory = False
    ndims = (1, 2)

    def from_dlpack(self, producer: Any, **keywords: Any) -> Any:
        return self.library.from_dlpack(producer.__dlpack__(), **keywords)

    def values(self, array: Any) -> Any:
        return array.to_numpy().tolist()
