"""Models of a few operators, encoded by hand, on NumPy arrays; torch receives the outputs."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

pytest.importorskip("onnxruntime")
torch = pytest.importorskip("torch")

import onnx_session

X = np.arange(6, dtype="f4").reshape(2, 3)
WEIGHTS = np.array([[1, 2], [3, 4], [5, 6]], "f4")


def varint(value: int) -> bytes:
    return bytes([value]) if value < 128 else bytes([value & 127 | 128]) + varint(value >> 7)


def field(tag: int, value: int | str | bytes) -> bytes:
    """Encodes a field of a protobuf message: a number, a string or a message."""
    if isinstance(value, int):
        return varint(tag << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(tag << 3 | 2) + varint(len(data)) + data


def described(name: str) -> bytes:
    """Describes a float32 matrix of any extents."""
    extents = b"".join(field(1, field(2, f"{name}{axis}")) for axis in "ab")
    return field(1, name) + field(2, field(1, field(1, 1) + field(2, extents)))


def model(operator: str, inputs: list[str], output: str | None) -> bytes:
    """Encodes a model of one operator, with the constant matrix `w` and the input `x`."""
    result = "unused" if output in ("x", None) else output
    node = b"".join(field(1, name) for name in inputs) + field(2, result) + field(4, operator)
    extents = b"".join(field(1, extent) for extent in WEIGHTS.shape)
    constant = extents + field(2, 1) + field(8, "w") + field(9, WEIGHTS.tobytes())
    graph = field(1, node) + field(2, "graph") + field(5, constant)
    graph += field(11, described("x"))
    if output is not None:
        graph += field(12, described(output))
    return field(1, 8) + field(7, graph) + field(8, field(2, 13))


PRODUCT = model("MatMul", ["x", "w"], "y")
NOTHING = model("Identity", ["w"], "x")


def address(array: np.ndarray) -> int:
    return int(array.__array_interface__["data"][0])


def test_numpy_input_returns_torch_output() -> None:
    output = onnx_session.Model(PRODUCT)(X)
    result = torch.from_dlpack(output)
    assert result.data_ptr() == address(np.from_dlpack(output))
    assert np.array_equal(result.numpy(), X @ WEIGHTS)
    result *= 2
    assert np.array_equal(np.from_dlpack(output), 2 * (X @ WEIGHTS)), "the same memory"


def test_model_reads_the_memory_of_numpy() -> None:
    # The output of this model is its input, so torch's memory is NumPy's.
    array = X.copy()
    result = torch.from_dlpack(onnx_session.Model(NOTHING)(array))
    assert result.data_ptr() == address(array)


def test_array_lives_as_long_as_tensors_over_its_memory() -> None:
    array = X.copy()
    alive = weakref.ref(array)
    result = torch.from_dlpack(onnx_session.Model(NOTHING)(array))
    del array
    gc.collect()
    assert alive() is not None
    assert np.array_equal(result.numpy(), X)
    del result
    gc.collect()
    assert alive() is None


def test_torch_input_is_accepted() -> None:
    output = onnx_session.Model(PRODUCT)(torch.from_numpy(X))
    assert np.array_equal(np.from_dlpack(output), X @ WEIGHTS)


def test_onnxruntime_package_works_in_the_same_process() -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    session = onnxruntime.InferenceSession(PRODUCT)
    (expected,) = session.run(None, {"x": X})
    assert np.array_equal(np.from_dlpack(onnx_session.Model(PRODUCT)(X)), expected)


def test_unsuitable_input_is_refused() -> None:
    with pytest.raises(ValueError, match="Unexpected input data type"):
        onnx_session.Model(PRODUCT)(X.astype("f8"))
    with pytest.raises(ValueError, match="not contiguous in C order; copy the tensor first"):
        onnx_session.Model(PRODUCT)(np.asfortranarray(X))
    with pytest.raises(ValueError, match="(?i)protobuf"):
        onnx_session.Model(b"not a model")


def test_model_without_output_is_refused() -> None:
    with pytest.raises(ValueError, match="output"):
        onnx_session.Model(model("MatMul", ["x", "w"], None))(X)
