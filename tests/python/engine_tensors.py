"""Tensors that the tests of Ray and Dask send to other processes, and a check of the tensors that arrive."""

from typing import Any

import dlbridge
from frameworks import require

np = require("numpy")

#: Enough bytes that Ray stores them in its object store, and not beside the reference.
COUNT = 1 << 18


def values(dtype: str) -> Any:
    """Numbers that every dtype has."""
    return (np.arange(COUNT) % 100).astype(dtype).reshape(2, -1)


def numpy_array(dtype: str) -> Any:
    return values(dtype)


def torch_tensor(dtype: str) -> Any:
    torch = require("torch")
    return torch.from_numpy(values("float32")).to(getattr(torch, dtype))


def jax_array(dtype: str) -> Any:
    return require("jax").numpy.asarray(values("float32"), dtype=dtype)


#: A function that makes a tensor, and the dtype.
CASES = [
    (numpy_array, "float32"),
    (numpy_array, "int64"),
    (torch_tensor, "float32"),
    (torch_tensor, "bfloat16"),
    (jax_array, "float32"),
    (jax_array, "bfloat16"),
]


def assert_values(tensor: dlbridge.Tensor, dtype: str) -> None:
    """Asserts the dtype, the shape and the values of a tensor of one of the cases."""
    assert (tensor.dtype, tensor.shape) == (dtype, (2, COUNT // 2))
    array = tensor.torch(copy=True).float().numpy() if dtype == "bfloat16" else tensor.numpy()
    assert (array == values("float32")).all()
