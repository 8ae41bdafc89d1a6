"""``TensorFile.dequantize``: the numbers of GGUF's blocks, compared with gguf-py.

Two numbers are the same if they have the same bits. NaN is the same as NaN: IEEE 754 leaves its sign and payload to the
processor and the order of the operands.
"""

import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import dlbridge
import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
from conftest import require

TYPES = "Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2_K Q3_K Q4_K Q5_K Q6_K IQ4_NL IQ4_XS MXFP4 TQ1_0 TQ2_0".split()

SCALES = [0x7C00, 0xFC00, 0x7E01, 0xFD55, 0x0001, 0x83FF, 0x0000, 0x8000, 0x7BFF, 0x0400]
"""Scales as the bits of 16-bit floats: infinite, NaN (quiet, signalling), subnormal, zero, the largest, the smallest."""

Bytes = npt.NDArray[np.uint8]


def size(kind: str) -> tuple[int, int]:
    """The number of elements and of bytes of a block."""
    gguf = require("gguf")
    elements, nbytes = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[kind]]
    return elements, nbytes


def hostile(kind: str) -> Bytes:
    """Rows of random blocks: each has a scale of ``SCALES`` in one place; all places where a scale may be are there."""
    _, nbytes = size(kind)
    places = [(scale, place) for scale in SCALES for place in range(0, nbytes - 1, 2)]
    blocks = np.random.default_rng(nbytes).integers(0, 256, (len(places), nbytes), "uint8")
    for block, (scale, place) in zip(blocks, places, strict=True):
        block[place : place + 2] = scale & 0xFF, scale >> 8
    # MXFP4 has a power of two in the first byte: all of them.
    blocks[:256, 0] = np.arange(len(blocks[:256]))
    return blocks.reshape(len(SCALES), -1)


def write(path: Path, tensors: Mapping[str, tuple[str | None, npt.NDArray[Any]]]) -> None:
    """Writes a file of blocks of types, or of elements."""
    gguf = require("gguf")
    writer = gguf.GGUFWriter(path, "llama")
    for name, (kind, blocks) in tensors.items():
        writer.add_tensor(name, blocks, raw_dtype=kind if kind is None else gguf.GGMLQuantizationType[kind])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def expected(kind: str, blocks: Bytes) -> npt.NDArray[np.float32]:
    gguf = require("gguf")
    with np.errstate(all="ignore"):
        numbers: npt.NDArray[np.float32] = gguf.quants.dequantize(blocks, gguf.GGMLQuantizationType[kind])
    return numbers


def assert_same(found: npt.NDArray[Any], right: npt.NDArray[Any]) -> None:
    assert (found.dtype, found.shape) == (right.dtype, right.shape)
    nan = np.isnan(right)
    np.testing.assert_array_equal(np.isnan(found), nan)
    bits = f"uint{8 * right.itemsize}"
    np.testing.assert_array_equal(found.view(bits)[~nan], right.view(bits)[~nan])


@pytest.mark.parametrize("kind", TYPES)
def test_hostile_blocks_are_dequantized_as_by_gguf_py(tmp_path: Path, kind: str) -> None:
    path, blocks = tmp_path / "x.gguf", hostile(kind)
    write(path, {"x": (kind, blocks)})
    file, right = dlbridge.load(path), expected(kind, blocks)
    elements, nbytes = size(kind)
    assert right.shape == file.info("x").quantization.shape == (len(SCALES), blocks.shape[1] // nbytes * elements)
    numbers = file.dequantize("x")
    assert (numbers.dtype, numbers.readonly, numbers.address % 64) == ("float32", False, 0)
    assert_same(numbers.numpy(), right)
    with np.errstate(all="ignore"):
        assert_same(file.dequantize("x", "float16").numpy(), right.astype("float16"))
        assert_same(file.dequantize("x", "bfloat16").numpy(), right.astype(ml_dtypes.bfloat16))


def test_tensor_of_more_than_16_mib_is_dequantized_by_threads(tmp_path: Path) -> None:
    # The last of the pieces that the threads work on is incomplete.
    path, blocks = tmp_path / "x.gguf", np.random.default_rng(1).integers(0, 256, (33, 3973 * 34), "uint8")
    write(path, {"x": ("Q8_0", blocks)})
    threads = dlbridge.get_num_threads()
    dlbridge.set_num_threads(3)
    try:
        numbers = dlbridge.load(path, to="numpy").dequantize("x")
    finally:
        dlbridge.set_num_threads(threads)
    assert_same(numbers, expected("Q8_0", blocks))


def test_load_dequantize_converts_blocks_alone(tmp_path: Path) -> None:
    path, blocks = tmp_path / "x.gguf", hostile("Q8_0")
    norm = np.array([1.5, -0.0, np.inf, 1e-7], "float32")
    write(path, {"q": ("Q8_0", blocks), "norm": (None, norm), "half": (None, norm.astype("float16"))})
    file = dlbridge.load(path, to="numpy", dequantize=np.dtype("float16"))
    with np.errstate(all="ignore"):
        right = expected("Q8_0", blocks).astype("float16")
    assert_same(file["q"], right)
    assert_same(pickle.loads(pickle.dumps(file))["q"], right)
    assert_same(file["norm"], norm)
    assert_same(file.dequantize("norm", "float16"), norm.astype("float16"))
    assert_same(file.dequantize("half"), norm.astype("float16").astype("float32"))
    assert_same(file.dequantize("norm"), norm)
    assert file.info("q").dtype == "uint8"
    assert dlbridge.load(path, to="torch", dequantize="bfloat16")["q"].dtype == require("torch").bfloat16


def test_types_without_numbers_are_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "x.gguf"
    write(path, {"x": ("IQ2_XXS", np.zeros((1, 66), "uint8")), "n": (None, np.zeros(3, "int8"))})
    file = dlbridge.load(path, dequantize="float32")
    for read in (file.__getitem__, file.dequantize):
        with pytest.raises(ValueError, match='tensor "x": .*IQ2_XXS.*gguf-py'):
            read("x")
    with pytest.raises(ValueError, match='tensor "n": its elements are int8, not blocks'):
        file.dequantize("n")
    assert file["n"].shape == (3,)
    with pytest.raises(KeyError):
        file.dequantize("none")


def test_other_dtypes_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.gguf"
    write(path, {"x": ("Q8_0", np.zeros((1, 34), "uint8"))})
    with pytest.raises(ValueError, match="dequantize must be None, float32, float16 or bfloat16, not int8"):
        dlbridge.load(path, dequantize="int8")
    with pytest.raises(ValueError, match='tensor "x": .* not float64'):
        dlbridge.load(path).dequantize("x", "float64")
    with pytest.raises(TypeError):
        dlbridge.load(path, dequantize=3)


def test_files_of_other_formats_have_no_blocks(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    dlbridge.save(path, {"x": np.ones((2, 3), "float32")})
    assert dlbridge.load(path, dequantize="float16")["x"].dtype == "float32"
    pa = require("pyarrow")
    arrow = tmp_path / "x.arrow"
    with pa.OSFile(str(arrow), "wb") as sink, pa.ipc.new_file(sink, pa.schema([("a", pa.int32())])):
        pass
    with pytest.raises(ValueError, match="column 'a': .* not quantised"):
        dlbridge.load(arrow).dequantize("a")
