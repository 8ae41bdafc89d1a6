"""MLX."""

from __future__ import annotations

from typing import Any

import dlbridge
from dlbridge_conformance.adapter import Adapter


class MLX(Adapter):
    """MLX on the CPU."""

    name = "mlx"
    module = "mlx.core"
    dtypes = (
        "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
        "float16", "float32", "float64", "bfloat16", "complex64", "bool",
    )  # fmt: skip
    mlx: Any

    def array(self, values: Any, dtype: str = "float32") -> Any:
        kind = getattr(self.mlx.core, "bool_" if dtype == "bool" else dtype)
        if dtype == "uint64":
            # MLX cannot make an array from Python numbers from 2**63 on.
            return self._computed(self.mlx.core.array(_signed(values), dtype=self.mlx.core.int64).view(kind))
        return self._computed(self.mlx.core.array(values, dtype=kind))

    def from_dlpack(self, producer: Any, **keywords: Any) -> Any:
        return self.mlx.core.from_dlpack(producer, **keywords)

    def address(self, array: Any) -> int:
        return dlbridge.asdlpack(array, protocol="buffer").address

    def transposed(self, array: Any) -> Any:
        return self._computed(array.T)

    def stepped(self, array: Any) -> Any:
        return self._computed(array[::2])

    def reversed(self, array: Any) -> Any:
        return self._computed(array[::-1])

    def sliced(self, array: Any) -> Any:
        return self._computed(array[1:])

    def broadcast(self, array: Any, extent: int) -> Any:
        return self._computed(self.mlx.core.broadcast_to(array, (extent, *array.shape)))

    def _computed(self, array: Any) -> Any:
        """Evaluates an array, since MLX computes elements lazily."""
        self.mlx.core.eval(array)
        return array


def _signed(values: Any) -> Any:
    """Converts unsigned 64-bit numbers to the signed ones with the same bits."""
    if isinstance(values, list):
        return [_signed(value) for value in values]
    return values - 2**64 if values >= 2**63 else values
