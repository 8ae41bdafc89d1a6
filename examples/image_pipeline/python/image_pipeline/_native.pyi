"""The Rust half of the package."""

from os import PathLike

from dlbridge import Tensor

def load(path: str | PathLike[str]) -> Tensor:
    """Decodes a picture into uint8 pixels of shape [height, width, 3].

    What it returns behaves as a `dlbridge.Tensor`; its class is this module's own.
    """

def save(pixels: object, path: str | PathLike[str]) -> int:
    """Writes uint8 pixels of shape [height, width, 3] as PNG.

    `pixels` is whatever speaks DLPack or the buffer protocol. Returns the address that they were
    read from, so that a caller can check that they were not copied on the way.
    """
