"""Passes the data of every producer to every consumer, and prints values and addresses as lines of JSON.

Run as a program. Its arguments are the modules that it may import, because some frameworks cannot share a
process. A line is ``{"producer": .., "consumer": .., "aligned": .., "outcome": ..}``. ``aligned`` is true if the
data begins at a multiple of 64 bytes. The outcome is ``same`` (right values at the same address), ``copy``
(right values at another address) or the class of an exception.
"""

import array
import ctypes
import importlib
import json
import mmap
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing import shared_memory
from pathlib import Path
from typing import Any

import dlbridge
import numpy as np

#: The data of every producer: float32 of this shape, or bytes.
SHAPE = (2, 3, 4)
NUMBERS = np.arange(24, dtype=np.float32).reshape(SHAPE)
BYTES = bytes(range(24))
PICTURE = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)
EXPECTED = {
    "numbers": NUMBERS,
    "row": NUMBERS.ravel(),
    "bytes": np.frombuffer(BYTES, np.uint8),
    "picture": PICTURE,
}


@dataclass(frozen=True)
class Producer:
    """How to make an object, and the module that it needs."""

    name: str
    module: str
    make: Callable[[Any], Any]
    holds: str = "numbers"


def mapped(path: Path) -> Any:
    """A map of a file of numbers."""
    path.write_bytes(BYTES)
    with path.open("r+b") as file:
        return mmap.mmap(file.fileno(), 0)


def shared(_: Any) -> Any:
    """The buffer of a shared memory segment, which closes when the program ends."""
    memory = shared_memory.SharedMemory(create=True, size=24)
    memory.unlink()
    memory.buf[:24] = BYTES
    SEGMENTS.append(memory)
    return memory.buf[:24]


def from_numpy(function: str) -> Callable[[Any], Any]:
    """Returns a function that passes a copy of the numbers to the named function of a module."""

    def make(module: Any) -> Any:
        for name in function.split("."):
            module = getattr(module, name)
        return module(NUMBERS.copy())

    return make


def aligned(dtype: str, size: int) -> Any:
    """Zeros at an address that is aligned to 256 bytes, which every consumer accepts."""
    room = np.zeros(size * np.dtype(dtype).itemsize + 256, np.uint8)
    start = -room.ctypes.data % 256
    return room[start : start + size * np.dtype(dtype).itemsize].view(dtype)


def numpy_array(_: Any) -> Any:
    numbers = aligned("float32", 24).reshape(SHAPE)
    numbers[:] = NUMBERS
    return numbers


FOLDER = Path(tempfile.mkdtemp())
SEGMENTS: list[shared_memory.SharedMemory] = []

PRODUCERS = [
    Producer("numpy", "numpy", numpy_array),
    Producer("numpy memmap", "numpy", lambda np: memmap(np)),
    Producer("bytes", "builtins", lambda _: bytes(BYTES), "bytes"),
    Producer("bytearray", "builtins", lambda _: bytearray(BYTES), "bytes"),
    Producer("memoryview", "builtins", lambda _: memoryview(bytearray(NUMBERS.tobytes())).cast("f", SHAPE)),
    Producer("array", "array", lambda _: array.array("f", NUMBERS.ravel()), "row"),
    Producer("mmap", "mmap", lambda _: mapped(FOLDER / "map"), "bytes"),
    Producer("ctypes", "ctypes", lambda _: ((ctypes.c_float * 4 * 3) * 2).from_buffer_copy(NUMBERS.tobytes())),
    Producer("shared memory", "multiprocessing", shared, "bytes"),
    Producer("torch", "torch", from_numpy("tensor")),
    Producer("jax", "jax.numpy", from_numpy("array")),
    Producer("tensorflow", "tensorflow", from_numpy("constant")),
    Producer("paddle", "paddle", from_numpy("to_tensor")),
    Producer("pyarrow Tensor", "pyarrow", from_numpy("Tensor.from_numpy")),
    Producer("pyarrow Array", "pyarrow", lambda pa: pa.array(NUMBERS.ravel()), "row"),
    Producer("polars", "polars", lambda pl: pl.Series(NUMBERS.ravel()), "row"),
    Producer("pandas", "pandas", lambda pd: pd.Series(NUMBERS.ravel()), "row"),
    Producer("tvm_ffi", "tvm_ffi", lambda tvm: tvm.from_dlpack(numpy_array(None))),
    Producer("onnxruntime", "onnxruntime", from_numpy("OrtValue.ortvalue_from_numpy")),
    Producer("mlx", "mlx.core", from_numpy("array")),
    Producer("warp", "warp", lambda wp: wp.array(NUMBERS, dtype=float, device="cpu")),
    Producer("array_api_strict", "array_api_strict", from_numpy("asarray")),
    Producer("pillow", "PIL.Image", lambda pil: pil.fromarray(PICTURE), "picture"),
    Producer("dlbridge", "dlbridge", lambda dlb: dlb.asdlpack(NUMBERS, copy=True)),
]

def memmap(np: Any) -> Any:
    path = FOLDER / "numbers"
    path.write_bytes(NUMBERS.tobytes())
    return np.memmap(path, "float32", "r+", shape=SHAPE)


@dataclass(frozen=True)
class Consumer:
    """How to convert a tensor to a library's object, and how to read its values and address."""

    name: str
    module: str
    make: Callable[[Any, Any], Any]
    values: Callable[[Any], Any] = np.asarray
    address: Callable[[Any], int] | None = None
    #: If true, the consumer flattens the data to two dimensions, and this program reshapes the result.
    flat: bool = False


def to(library: str) -> Callable[[Any, Any], Any]:
    """Returns a function that converts a tensor with `Tensor.to`."""
    return lambda _, tensor: tensor.to(library)


def numpy_address(array: Any) -> int:
    return int(np.asarray(array).ctypes.data)


def rows(tensor: Any) -> Any:
    """A tensor as a NumPy array of rows of four."""
    return tensor.numpy().reshape(-1, 4)


def picture_address(picture: Any) -> int:
    return int(dlbridge.asdlpack(picture, protocol="arrow").address)


CONSUMERS = [
    Consumer("numpy", "numpy", to("numpy"), address=numpy_address),
    Consumer("numpy.from_dlpack", "numpy", lambda m, t: m.from_dlpack(t), address=numpy_address),
    Consumer("numpy.asarray", "numpy", lambda m, t: m.asarray(t), address=numpy_address),
    Consumer("memoryview", "builtins", lambda _, t: memoryview(t), address=numpy_address),
    Consumer("torch", "torch", to("torch"), address=lambda x: x.data_ptr()),
    Consumer("torch.from_dlpack", "torch", lambda m, t: m.from_dlpack(t), address=lambda x: x.data_ptr()),
    Consumer("jax", "jax", to("jax"), address=lambda x: x.unsafe_buffer_pointer()),
    Consumer("jax.from_dlpack", "jax.dlpack", lambda m, t: m.from_dlpack(t), address=lambda x: x.unsafe_buffer_pointer()),
    Consumer("tensorflow", "tensorflow", to("tensorflow"), address=numpy_address),
    Consumer("paddle", "paddle", to("paddle"), lambda x: x.numpy(), lambda x: x.data_ptr()),
    Consumer("paddle.from_dlpack", "paddle", lambda m, t: m.from_dlpack(t), lambda x: x.numpy(), lambda x: x.data_ptr()),
    Consumer("pyarrow", "pyarrow", to("pyarrow"), lambda x: x.to_numpy(), lambda x: x.to_numpy().ctypes.data),
    Consumer("tvm_ffi", "tvm_ffi", to("tvm_ffi"), np.from_dlpack, lambda x: np.from_dlpack(x).ctypes.data),
    Consumer("onnxruntime", "onnxruntime", to("onnxruntime"), lambda x: x.numpy(), lambda x: x.data_ptr()),
    Consumer("mlx", "mlx.core", to("mlx")),
    Consumer("warp", "warp", to("warp"), lambda x: x.numpy(), lambda x: x.ptr),
    Consumer("array_api_strict", "array_api_strict", to("array_api_strict"), np.from_dlpack, lambda x: np.from_dlpack(x).ctypes.data),
    Consumer("polars", "polars", lambda m, t: m.Series(t.numpy()), lambda x: x.to_numpy(), lambda x: x.to_numpy().ctypes.data),
    Consumer("pandas", "pandas", lambda m, t: m.DataFrame(rows(t), copy=False), lambda x: x.to_numpy(), lambda x: x.to_numpy().ctypes.data, flat=True),
    Consumer("pillow", "PIL.Image", lambda m, t: m.fromarray(rows(t)), np.asarray, picture_address, flat=True),
    Consumer("mpi4py", "mpi4py.MPI", lambda m, t: m.buffer.frombuffer(t, readonly=t.readonly), lambda x: np.frombuffer(x, np.uint8), lambda x: x.address, flat=True),
]


def importable(allowed: set[str], things: list[Any]) -> Iterator[tuple[Any, Any]]:
    """The producers or consumers whose module is allowed and installed, each with its module."""
    for thing in things:
        if thing.module.partition(".")[0] in allowed:
            try:
                yield thing, importlib.import_module(thing.module)
            except ModuleNotFoundError:
                continue


def outcome(producer: Producer, source: Any, consumer: Consumer, target: Any) -> tuple[bool, str]:
    """Runs one exchange. Returns whether the data was aligned, and the outcome."""
    made = producer.make(source)
    expected = EXPECTED[producer.holds]
    tensor = dlbridge.asdlpack(made)
    address = tensor.address
    aligned = address % 64 == 0
    try:
        result = consumer.make(target, tensor)
    except Exception as error:
        return aligned, type(error).__name__
    del tensor, made
    values = np.asarray(consumer.values(result))
    if consumer.flat:
        values = np.ascontiguousarray(values).view(expected.dtype).reshape(expected.shape)
    if values.shape != expected.shape or values.dtype != expected.dtype:
        return aligned, f"{values.dtype} of shape {values.shape}"
    if not np.array_equal(values, expected):
        return aligned, "wrong values"
    same = consumer.address is not None and consumer.address(result) == address
    return aligned, "same" if same else "copy"


def main(modules: list[str]) -> None:
    """Prints a line for each pair."""
    always = {"builtins", "array", "mmap", "ctypes", "multiprocessing", "numpy", "dlbridge"}
    allowed = always | set(modules)
    consumers = list(importable(allowed, CONSUMERS))
    if "warp" in allowed:
        importlib.import_module("warp").config.quiet = True
    for producer, source in importable(allowed, PRODUCERS):
        for consumer, target in consumers:
            is_aligned, result = outcome(producer, source, consumer, target)
            pair = {"producer": producer.name, "consumer": consumer.name}
            line = {**pair, "aligned": is_aligned, "outcome": result}
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
