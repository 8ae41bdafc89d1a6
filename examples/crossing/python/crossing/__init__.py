"""One picture through six libraries, and where its bytes were copied."""

from importlib.resources import files

from crossing import _native
from crossing._native import cross

__all__ = ["MODEL", "cross"]


def _field(tag: int, value: "int | str | bytes") -> bytes:
    """A field of a protobuf message: a number, a text or a message, short enough for a length of one byte."""
    if isinstance(value, int):
        return bytes([tag << 3, value])
    data = value.encode() if isinstance(value, str) else value
    return bytes([tag << 3 | 2, len(data)]) + data


def _described(name: str) -> bytes:
    """float32 of three dimensions."""
    extents = b"".join(_field(1, _field(2, name + axis)) for axis in "chw")
    return _field(1, name) + _field(2, _field(1, _field(1, 1) + _field(2, extents)))


#: An ONNX model whose output is its input added to itself.
MODEL = (
    _field(1, 8)
    + _field(
        7,
        _field(1, _field(1, "x") * 2 + _field(2, "y") + _field(4, "Add"))
        + _field(2, "graph")
        + _field(11, _described("x"))
        + _field(12, _described("y")),
    )
    + _field(8, _field(2, 13))
)


def _library() -> str:
    """The library of ONNX Runtime in the wheel of that name."""
    for file in files("onnxruntime").joinpath("capi").iterdir():
        if file.name.startswith(("libonnxruntime.", "onnxruntime.dll")):
            return str(file)
    raise ImportError("the package onnxruntime has no library; install its wheel")


_native.open_library(_library())
