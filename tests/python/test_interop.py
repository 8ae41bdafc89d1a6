"""Passes the data of every producer to every consumer, in separate processes: values, addresses, refusals."""

import importlib.util
from functools import cache

import pytest
from frameworks import LEFT_OUT, require_installed
from processes import printed, run

#: Modules that can share a process. TensorFlow and Paddle cannot.
TOGETHER = [
    *("torch", "jax", "pyarrow", "polars", "pandas", "tvm_ffi", "onnxruntime", "mlx"),
    *("warp", "array_api_strict", "PIL", "mpi4py"),
]
PROCESSES = {"tensorflow": [*TOGETHER, "tensorflow"], "paddle": ["torch", "pyarrow", "paddle"]}

#: Producers that mark their data as read-only.
READ_ONLY = {"bytes", "pyarrow Array", "polars", "pandas"}

#: Producers of legacy capsules, which cannot mark read-only data: dlbridge treats their data as read-only.
UNTOLD = {"jax", "tensorflow", "onnxruntime", "mlx", "warp"}

#: Producers of bytes; the others have floats.
BYTES = {"bytes", "bytearray", "mmap", "shared memory", "pillow"}

#: Consumers that would write read-only data.
CARELESS = {"torch", "paddle", "tvm_ffi", "onnxruntime", "warp"}

#: Consumers that import only legacy capsules, which cannot mark read-only data.
LEGACY = {"jax", "jax.from_dlpack", "tensorflow", "onnxruntime", "warp"}

#: Consumers that copy data that does not begin at a multiple of 64 bytes.
ALIGNING = {"jax", "jax.from_dlpack", "tensorflow"}


@cache
def jax_is_versioned() -> bool:
    """Returns true if this release of JAX exports and imports versioned capsules, as JAX does since 0.12."""
    if importlib.util.find_spec("jax") is None:
        return False
    code = "import jax; print(jax.numpy.ones(1).__dlpack__(max_version=(1, 3)))"
    return '"dltensor_versioned"' in run(code, options=()).stdout


def expected(producer: str, consumer: str, aligned: bool) -> str:
    """The result that an exchange must have."""
    jax = {"jax"} if jax_is_versioned() else set()
    read_only, untold = READ_ONLY | jax, UNTOLD - jax
    legacy = LEGACY - {"jax", "jax.from_dlpack"} if jax else LEGACY
    if consumer == "mlx" or (consumer == "pillow" and producer not in BYTES):
        return "copy"
    if producer in read_only | untold and consumer in CARELESS:
        return "copy"
    if producer in read_only and consumer in legacy:
        return "copy"
    if consumer in ALIGNING and not aligned:
        return "copy"
    return "same"


@pytest.mark.parametrize("alone", PROCESSES)
def test_every_producer_and_consumer_exchange_right_values(alone: str) -> None:
    modules = [module for module in PROCESSES[alone] if module not in LEFT_OUT]
    # Another Python may lack large libraries on purpose. Its exchanges among the others are those of one process.
    if alone in LEFT_OUT and alone != next(iter(PROCESSES)):
        pytest.skip(f"{alone} was left out")
    require_installed(*modules)
    found = {(line["producer"], line["consumer"]): line for line in printed("interop.py", *modules)}
    wrong = {
        pair: line["outcome"]
        for pair, line in found.items()
        if line["outcome"] != expected(*pair, line["aligned"])
    }
    assert wrong == {}
    producers = {producer for producer, _ in found}
    consumers = {consumer for _, consumer in found}
    assert len(found) == len(producers) * len(consumers)
    required = {"numpy", "torch"} | ({alone} - set(LEFT_OUT))
    assert {*required, "bytes"} <= producers
    assert {*required, "memoryview"} <= consumers
    assert len(producers) > (20 if modules == PROCESSES["tensorflow"] else 12)
