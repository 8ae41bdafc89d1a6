"""PaddlePaddle."""

from __future__ import annotations

from typing import Any

from dlbridge_conformance.adapter import Adapter, first_version


class Paddle(Adapter):
    """PaddlePaddle. Casts make the 8-bit and 16-bit floats that NumPy lacks."""

    name = module = "paddle"
    dtypes = (
        "int8", "int16", "int32", "int64", "uint8", "float16", "float32", "float64", "bfloat16",
        "complex64", "complex128", "bool", "float8_e4m3fn", "float8_e5m2",
    )  # fmt: skip
    paddle: Any

    def version(self) -> str:
        return first_version("paddlepaddle", "paddlepaddle-gpu")

    def array(self, values: Any, dtype: str = "float32") -> Any:
        if dtype in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):
            return self.paddle.to_tensor(values, dtype="float32").astype(dtype)
        return self.paddle.to_tensor(values, dtype=dtype)

    def from_dlpack(self, producer: Any, **keywords: Any) -> Any:
        return self.paddle.from_dlpack(producer, **keywords)

    def values(self, array: Any) -> Any:
        if str(array.dtype) in ("paddle.bfloat16", "paddle.float8_e4m3fn", "paddle.float8_e5m2"):
            array = array.astype("float32")
        return array.tolist()

    def address(self, array: Any) -> int:
        return int(array.data_ptr())

    def transposed(self, array: Any) -> Any:
        return array.T

    def stepped(self, array: Any) -> Any:
        return array[::2]

    def sliced(self, array: Any) -> Any:
        return array[1:]

    def reversed(self, array: Any) -> Any:
        return array[::-1]

    def broadcast(self, array: Any, extent: int) -> Any:
        return self.paddle.as_strided(array, [extent, *array.shape], [0, *array.strides])

    def write(self, array: Any, value: float) -> None:
        array[(0,) * array.ndim] = value
