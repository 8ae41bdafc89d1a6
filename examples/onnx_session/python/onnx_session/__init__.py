"""ONNX Runtime models in Rust, on tensors of any framework."""

from importlib.resources import files

from onnx_session import _native
from onnx_session._native import Model

__all__ = ["Model"]


def _library() -> str:
    """Returns the path of the ONNX Runtime library in the wheel `onnxruntime`: one file for the process."""
    for file in files("onnxruntime").joinpath("capi").iterdir():
        if file.name.startswith(("libonnxruntime.", "onnxruntime.dll")):
            return str(file)
    raise ImportError("the package onnxruntime lacks its library; install its wheel")


_native.open_library(_library())
