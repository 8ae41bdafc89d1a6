"""Consumer profiles: data that a library would misread is copied, repaired or refused."""

import re

import dlbridge
import pytest
from conftest import require
from frameworks import require_installed
from native import Flags, Native
from processes import output

np = require("numpy")


def test_consumers_lists_the_profiles() -> None:
    for name in ("numpy", "torch", "jax"):
        require(name)
        dlbridge.empty((2, 3)).to(name)
    consumers = {consumer["name"]: consumer for consumer in dlbridge._core._consumers()}
    assert list(consumers)[:4] == ["numpy", "torch", "jax", "tensorflow"]
    assert consumers["torch"]["exchange_api"]
    assert consumers["torch"]["read_only"] == "ignored"
    assert consumers["numpy"]["read_only"] == "kept"
    assert (consumers["jax"]["layout"], consumers["jax"]["align"]) == ("no gaps between elements", 64)
    assert consumers["pandas"]["measured"] is None
    assert consumers["pandas"]["layout"] == "any strides"


def test_dtype_that_paddle_misreads_is_refused() -> None:
    require_installed("paddle")
    code = """
import dlbridge
tensor = dlbridge.empty(3, "uint16")
try:
    tensor.to("paddle")
except BufferError as error:
    print(error)
print(dlbridge.explain(tensor, to="paddle").verdicts[0].reason)
assert dlbridge.empty(3, "int16").to("paddle").shape == [3]
"""
    message = "paddle reads uint16 as bfloat16; convert the elements to another dtype first\n"
    assert output(code, options=(), quiet=False) == 2 * message


def test_flags_reach_the_table_of_torch(native: Native) -> None:
    require("torch")
    tensor, crafted = native.tensor((6,), flags=Flags.IS_COPIED)
    home = tensor.torch()
    assert home.data_ptr() == crafted.fields.data
    del tensor
    assert crafted.record.calls == 0
    del home
    assert crafted.record.calls == 1


def test_64_bit_dtype_is_exported_to_jax_with_x64() -> None:
    jax = require("jax")
    jax.config.update("jax_enable_x64", True)
    try:
        assert dlbridge.asdlpack(np.array([2**40 + 7])).jax().tolist() == [2**40 + 7]
    finally:
        jax.config.update("jax_enable_x64", False)


def test_read_only_data_of_ml_dtypes_stays_read_only() -> None:
    require("ml_dtypes")
    jax = require("jax")
    source = jax.numpy.ones(4, "bfloat16")
    assert not dlbridge.asdlpack(source).numpy().flags.writeable
    assert not dlbridge.like(np.zeros(1), source).flags.writeable
    marked = dlbridge.asdlpack(dlbridge.asdlpack(source), writable=False)
    assert not marked.numpy().flags.writeable
    assert dlbridge.asdlpack(source, copy=True).numpy().flags.writeable


def test_invalid_booleans_are_repaired_for_jax() -> None:
    require("jax")
    room = np.zeros(128, np.uint8)
    start = -room.ctypes.data % 64
    odd = room[start : start + 4]
    odd[:] = [0, 1, 2, 255]
    odd = odd.view(bool)
    tensor = dlbridge.asdlpack(odd, protocol="dlpack")
    assert int(tensor.jax().sum()) == 3
    with pytest.raises(BufferError, match="neither 0 nor 1"):
        tensor.jax(copy=False)
    repaired = dlbridge.asdlpack(odd, protocol="buffer")
    assert repaired.copy_reason == "some booleans were neither 0 nor 1"
    assert memoryview(repaired).cast("B").tolist() == [0, 1, 1, 1]
    with pytest.raises(BufferError, match="neither 0 nor 1"):
        dlbridge.asdlpack(odd, protocol="array-interface", copy=False)


@pytest.mark.parametrize(
    ("library", "tensor", "match"),
    [
        ("onnxruntime", dlbridge.empty(2, "bool"), "onnxruntime does not support bool; convert"),
        ("pyarrow", dlbridge.empty(2, "bfloat16"), "pyarrow does not support bfloat16"),
        ("dpnp", dlbridge.empty(2, "bfloat16"), "dpnp does not support bfloat16"),
        ("mlx", dlbridge.empty(2, "float64"), "mlx does not support float64"),
        ("mlx", dlbridge.empty(2, "complex128"), "mlx does not support complex128"),
        ("warp", dlbridge.empty(()), "warp takes tensors of at least 1 dimensions, not 0"),
        ("warp", dlbridge.empty(2, "complex64"), "warp does not support complex64"),
        ("warp", dlbridge.empty((1,) * 5), "warp takes at most 4 dimensions, not 5"),
        ("warp", dlbridge.empty(2, "float32x2"), "warp does not support elements with several lanes"),
        ("paddle", dlbridge.empty((1,) * 10), "paddle takes at most 9 dimensions, not 10"),
        ("tensorflow", dlbridge.empty(2, "float8_e5m2"), "tensorflow does not support float8_e5m2"),
        ("tensorflow", dlbridge.empty(2, "float32x2"), "elements with several lanes"),
        ("numpy", dlbridge.empty((1,) * 65), "numpy takes at most 64 dimensions"),
        ("numpy", dlbridge.empty(4, "int128"), "does not support int128"),
        ("numpy", dlbridge.empty(4, "float32x2"), "several lanes, like float32x2"),
    ],
)
def test_known_refusal_of_a_library_is_raised_before_the_export(
    library: str, tensor: dlbridge.Tensor, match: str
) -> None:
    with pytest.raises(BufferError, match=match):
        tensor.to(library)
    [verdict] = dlbridge.explain(tensor, to=library).verdicts
    assert not verdict.zero_copy
    assert re.search(match.partition(";")[0], verdict.reason or "")


def test_tensorflow_computes_with_what_it_gets() -> None:
    """TensorFlow imports data that is not aligned, and aborts when it computes with it."""
    require_installed("tensorflow")
    code = """
import dlbridge, numpy as np, tensorflow as tf
for offset in 4, 16, 32:
    print(offset, flush=True)
    room = dlbridge.empty(1000, "uint8").numpy()
    numbers = room[offset : offset + 400].view("f4")
    numbers[:] = 1
    result = dlbridge.asdlpack(numbers).to("tensorflow")
    assert float(tf.reduce_sum(result)) == 100
"""
    assert output(code, options=(), quiet=False) == "4\n16\n32\n"


def test_negative_stride_of_extent_1_is_copied_for_pyarrow() -> None:
    require("pyarrow")
    row = dlbridge.asdlpack(np.arange(3.0).reshape(1, 3)[::-1])
    assert row.to("pyarrow").to_numpy().tolist() == [[0, 1, 2]]
    with pytest.raises(BufferError, match="pyarrow rejects negative strides even for dimensions of extent 1"):
        row.to("pyarrow", copy=False)
    [verdict] = dlbridge.explain(row, to="pyarrow").verdicts
    assert (verdict.zero_copy, verdict.remedy) == (False, "copy it once, with asdlpack(obj, copy=True)")
    copied = dlbridge.asdlpack(row, copy=True)
    assert copied.to("pyarrow", copy=False).to_numpy().tolist() == [[0, 1, 2]]


#: Code with booleans that are neither 0 nor 1, run in a process for each library.
INVALID_BOOLEANS = """
import dlbridge, numpy as np
odd = np.array([2, 0, 1, 255] * 16, "u1").view(bool)
tensor = dlbridge.asdlpack(odd, align=64)
"""


@pytest.mark.parametrize(
    ("library", "count"),
    [
        ("tensorflow", "int(__import__('tensorflow').reduce_sum(__import__('tensorflow').cast(home, 'int32')))"),
        ("paddle", "int(home.astype('int32').sum())"),
        ("mlx", "int(home.sum())"),
        ("torch", "int(home.sum())"),
    ],
)
def test_invalid_booleans_are_repaired_for_the_library(library: str, count: str) -> None:
    require_installed(library)
    output(f"{INVALID_BOOLEANS}home = tensor.to({library!r})\nassert {count} == 48", options=(), quiet=False)


def test_tensors_of_tensorflow() -> None:
    require_installed("tensorflow")
    code = """
import dlbridge, tensorflow as tf
try:
    dlbridge.asdlpack(tf.constant(["a", "b"]))
except BufferError as error:
    assert "have the dtype string, whose values are not numbers" in str(error)
else:
    raise AssertionError
assert not any(report.answer for report in dlbridge.explain(tf.constant("a")).protocols)
for function in (dlbridge.asdlpack, dlbridge.from_dlpack):
    tensor = function(tf.range(3), device="cpu")
    assert (tensor.shape, tensor.device) == ((3,), "cpu")
"""
    output(code, options=(), quiet=False)
