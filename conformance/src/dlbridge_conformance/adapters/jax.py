"""JAX."""

from __future__ import annotations

from typing import Any

from dlbridge_conformance.adapter import Adapter


class JAX(Adapter):
    """JAX with 64-bit dtypes enabled. Its arrays are immutable, and it does not make views."""

    name = "jax"
    module = "jax.numpy"
    dtypes = (
        "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
        "float16", "float32", "float64", "bfloat16", "complex64", "complex128", "bool",
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

    def read_only(self, array: Any) -> Any:
        return array

    def is_read_only(self, array: Any) -> bool:
        return True
