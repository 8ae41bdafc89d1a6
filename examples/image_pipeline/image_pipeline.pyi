"""Pictures decoded and encoded by Rust, exported to every library that supports DLPack."""

from os import PathLike

from dlbridge import Tensor

def load(path: str | PathLike[str]) -> Tensor:
    """Decodes a picture into uint8 pixels of shape [height, width, 3].

    The result behaves as a `dlbridge.Tensor`; its class belongs to this module.
    """

def save(pixels: object, path: str | PathLike[str]) -> int:
    """Writes uint8 pixels of shape [height, width, 3] as PNG.

    `pixels` is any object that supports DLPack or the buffer protocol. Returns the address of the pixels, so a caller
    can check that they were not copied.
    """
