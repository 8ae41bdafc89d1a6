"""One picture through six libraries, and which steps copy its bytes."""

from importlib.resources import files

from crossing import _native
from crossing._native import cross

__all__ = ["MODEL", "cross"]


def _field(tag: int, value: "int | str | bytes") -> bytes:
    """Encodes a field of a protobuf message: a number, a text or a message, short enough for a one-byte length."""
    if isinstance(value, int):
        return bytes([tag << 3, value])
    data = value.encode() if isinstance(value, str) else value
    return bytes([tag << 3 | 2, len(data)]) + data


def _described(name: str) -> bytes:
    """Describes a float32 tensor of three dimensions."""
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
    """Returns the path of the ONNX Runtime library in the wheel `onnxruntime`."""
    for file in files("onnxruntime").joinpath("capi").iterdir():
        if file.name.startswith(("libonnxruntime.", "onnxruntime.dll")):
            return str(file)
    raise ImportError("the package onnxruntime lacks its library; install its wheel")


_native.open_library(_library())
