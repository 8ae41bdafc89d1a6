"""kornia-rs: images, which have a height, a width and channels."""

from __future__ import annotations

from typing import Any

from dlbridge_conformance.adapter import Adapter
from dlbridge_conformance.outcome import NotApplicable


class KorniaRS(Adapter):
    """``Image`` of kornia-rs. It is always in C order; the adapter reads its elements through NumPy."""

    name = "kornia-rs"
    module = "kornia_rs.image"
    dtypes = ("uint8", "uint16", "float32")
    ndims = (3, 3)
    kornia_rs: Any
    numpy: Any

    def load(self) -> None:
        super().load()
        import numpy

        self.numpy = numpy

    def array(self, values: Any, dtype: str = "float32") -> Any:
        pixels = self.numpy.array(values, dtype)
        if pixels.ndim != 3:
            raise NotApplicable("an image has three dimensions")
        return self.kornia_rs.image.Image.from_numpy(pixels)

    def from_dlpack(self, producer: Any, **keywords: Any) -> Any:
        return self.kornia_rs.image.Image.from_dlpack(producer, **keywords)

    def values(self, array: Any) -> Any:
        return array.to_numpy().tolist()

    def address(self, array: Any) -> int:
        return int(array.data_ptr)
