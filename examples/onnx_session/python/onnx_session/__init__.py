"""Models run in Rust, by ONNX Runtime, on tensors of any framework."""

from importlib.resources import files

from onnx_session import _native
from onnx_session._native import Model

__all__ = ["Model"]


def _library() -> str:
    """The library of ONNX Runtime in the wheel of that name: one file for all of the process."""
    for file in files("onnxruntime").joinpath("capi").iterdir():
        if file.name.startswith(("libonnxruntime.", "onnxruntime.dll")):
            return str(file)
    raise ImportError("the package onnxruntime has no library; install its wheel")


_native.open_library(_library())
