"""Calls and errors of operators in each framework leave no memory behind.

Each framework runs in a separate process, where Python's objects come from `malloc` too. `mallinfo2` counts the bytes
in use before and after many calls of each kind, so a leak of one small object in each call is seen. `DLBRIDGE_LEAK_CALLS`
sets the number of calls of each kind, which is divided for slow calls. This command prints the measurements:

    python tests/operators/test_leaks.py torch 1000000
"""

import ctypes
import gc
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
from cases import resident

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs mallinfo2 and /proc")

CALLS = int(os.environ.get("DLBRIDGE_LEAK_CALLS", "500"))

# Bytes that a call may leave. The smallest block of malloc has 32 bytes.
LIMIT = 8

# Bytes that caches may grow by after the warm-up, in blocks in use and in pages.
CACHES, PAGES = 8 << 10, 8 << 20

STEPS: dict[str, Callable[[], Iterator[tuple[str, int, Callable[[], Any]]]]] = {}


@dataclass
class Row:
    """The memory that many calls of one kind left."""

    kind: str
    calls: int
    in_use: int
    pages: int

    def __str__(self) -> str:
        return f"{self.kind:40} {self.calls:9} calls {self.in_use:9} bytes in use {self.pages >> 10:7} KiB of pages"


class _Info(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_size_t)
        for name in "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost".split()
    ]


def in_use() -> int:
    """Return the bytes in use in malloc, in all arenas."""
    mallinfo = ctypes.CDLL(None).mallinfo2
    mallinfo.restype = _Info
    info = mallinfo()
    return int(info.uordblks + info.hblkhd)


def measured(kind: str, calls: int, step: Callable[[], Any]) -> Row:
    """Call a function many times, after a warm-up."""
    for _ in range(min(calls, 300)):
        step()
    for _ in range(3):
        gc.collect()
    pages, used = resident(), in_use()
    for _ in range(calls):
        step()
    for _ in range(3):
        gc.collect()
    return Row(kind, calls, in_use() - used, resident() - pages)


def refused(call: Callable[..., Any], *arguments: Any) -> Callable[[], None]:
    """Return a function that makes a call which raises."""

    def step() -> None:
        try:
            call(*arguments)
        except Exception:
            return
        raise AssertionError("nothing was raised")

    return step


def steps_of(framework: str) -> Callable[[Any], Any]:
    """Register the function with the calls of a framework: kind, divisor of the number of calls, and the call."""
    return lambda steps: STEPS.setdefault(framework, steps)


TEXT, INTS, FLOATS = "a long text" * 10, list(range(1, 11)), [0.5] * 10


@steps_of("numpy")
def _numpy() -> Iterator[tuple[str, int, Callable[[], Any]]]:
    import operators as f

    x, wide = np.ones(64, "float32"), np.ones(128, "float32")
    d, out, changed = np.ones(64), np.empty(64, "float32"), np.ones(64, "float32")
    yield "call", 1, lambda: f.softclip(x)
    yield "call with a copy", 1, lambda: f.softclip(wide[::2])
    yield "call that fills `out`", 1, lambda: f.softclip(x, out=out)
    yield "call in place", 1, lambda: f.relu_(changed)
    yield "call with attributes", 1, lambda: f.mixed(d, d, 1.5, 2, True, TEXT, INTS, FLOATS)
    yield "call with a dynamic output", 1, lambda: f.nonzero(x)
    yield "Err", 1, refused(f.fails, -x)
    yield "panic", 1, refused(f.panics, -x)
    yield "output that is not allocated", 1, refused(f.unallocated, x)
    yield "wrong type", 1, refused(f.softclip, 3)
    yield "wrong dtype", 1, refused(f.softclip, d)
    yield "wrong shape", 1, refused(f.min_max, x)


@steps_of("torch")
def _torch() -> Iterator[tuple[str, int, Callable[[], Any]]]:
    import operators
    import torch

    torch.set_num_threads(1)
    x, wide, matrix = torch.ones(64), torch.ones(128), torch.ones(8, 8)
    d, out, changed = torch.ones(64, dtype=torch.float64), torch.empty(64), torch.ones(64)
    operators.softclip(x)
    leaf = torch.ones(64, requires_grad=True)

    def twice() -> None:
        (gradient,) = torch.autograd.grad(f.softclip(leaf).sum(), leaf, create_graph=True)
        torch.autograd.grad(gradient.sum(), leaf)

    # Each step runs before the next one is made, so all use the `f` of their turn.
    for name, f in (("torch.ops", torch.ops.operators), ("module", operators)):
        yield f"{name}: call", 1, lambda: f.softclip(x)
        yield f"{name}: call with a copy", 1, lambda: f.softclip(wide[::2])
        yield f"{name}: call that fills `out`", 1, lambda: f.softclip(x, out=out)
        yield f"{name}: call in place", 1, lambda: f.relu_(changed)
        yield f"{name}: call with attributes", 1, lambda: f.mixed(d, d, 1.5, 2, True, TEXT, INTS, FLOATS)
        yield f"{name}: call with several outputs", 1, lambda: f.min_max(matrix)
        yield f"{name}: call with a dynamic output", 1, lambda: f.nonzero(x)
        yield f"{name}: forward with a gradient", 1, lambda: f.softclip(leaf)
        yield f"{name}: forward and backward", 5, lambda: torch.autograd.grad(f.softclip(leaf).sum(), leaf)
        yield f"{name}: forward and backward, twice", 10, twice
        yield f"{name}: Err", 5, refused(f.fails, -x)
        yield f"{name}: panic", 5, refused(f.panics, -x)
        yield f"{name}: wrong dtype", 5, refused(f.softclip, d)
        yield f"{name}: wrong dtype beside attributes", 5, refused(f.mixed, d, x, 1.5, 2, True, TEXT, INTS, FLOATS)
        yield f"{name}: wrong shape", 5, refused(f.min_max, x)
        yield f"{name}: `out` that is the input", 5, refused(lambda: f.softclip(x, out=x))
        yield f"{name}: wrong dtype with a gradient", 10, refused(f.softclip, d.clone().requires_grad_())


@steps_of("jax")
def _jax() -> Iterator[tuple[str, int, Callable[[], Any]]]:
    import jax
    import jax.numpy as jnp
    import operators as f

    x, whole = jnp.ones(64, jnp.float32), jnp.ones(64, jnp.int32)

    def change(_: int, x: Any) -> Any:
        return f.relu_(f.affine(f.scaled(x, factors=[0.5, 2.0]), scale=-1.0))

    def waited(function: Callable[..., Any], *arguments: Any) -> Callable[[], Any]:
        return lambda: jax.block_until_ready(function(*arguments))

    yield "call", 1, waited(f.softclip, x)
    yield "call in jit", 1, waited(jax.jit(lambda x: f.softclip(x) + 1), x)
    yield "call in place", 1, waited(jax.jit(f.relu_), x)
    yield "call with attributes", 1, waited(jax.jit(lambda x: f.affine(x, x, 1.5)), x)
    yield "call with lists as attributes", 1, waited(lambda x: f.scaled(x, factors=[0.5, 2.0]), x)
    yield "calls in a loop of a program", 1, waited(jax.jit(lambda x: jax.lax.fori_loop(0, 10, change, x)), x)
    yield "gradient", 1, waited(jax.jit(jax.grad(lambda x: f.softclip(x).sum())), x)
    yield "Err", 10, refused(waited(jax.jit(f.fails), -x))
    yield "panic", 10, refused(waited(jax.jit(f.panics), -x))
    yield "wrong dtype", 100, refused(f.softclip, whole)
    yield "wrong shape", 100, refused(f.min_max, x)


@steps_of("tvm_ffi")
def _tvm_ffi() -> Iterator[tuple[str, int, Callable[[], Any]]]:
    import operators
    import tvm_ffi

    f = tvm_ffi.load_module(operators.softclip.path)
    made = tvm_ffi.from_dlpack
    x, wide = made(np.ones(64, "float32")), made(np.ones(128, "float32")[::2])
    negative, matrix = made(-np.ones(64, "float32")), made(np.ones((8, 8), "float32"))
    d, out, changed = made(np.ones(64)), made(np.empty(64, "float32")), made(np.ones(64, "float32"))
    yield "call that returns", 1, lambda: f.softclip(x)
    yield "call that fills", 1, lambda: f.softclip(x, out)
    yield "call of the Python function", 1, lambda: operators.softclip(x)
    yield "call with a copy", 1, lambda: f.softclip(wide, out)
    yield "call in place", 1, lambda: f.relu_(changed)
    yield "call with attributes", 1, lambda: f.mixed(d, d, 1.5, 2, True, TEXT, INTS, FLOATS)
    yield "call with several outputs", 1, lambda: f.min_max(matrix)
    yield "call with a dynamic output", 1, lambda: f.nonzero(x)
    yield "Err", 5, refused(f.fails, negative)
    yield "panic", 5, refused(f.panics, negative)
    yield "wrong dtype", 5, refused(f.softclip, d)
    yield "wrong shape", 5, refused(f.min_max, x)
    yield "wrong destination", 5, refused(f.softclip, x, matrix)


@steps_of("control")
def _control() -> Iterator[tuple[str, int, Callable[[], Any]]]:
    yield "nothing", 1, lambda: None
    # No other object holds it, as if an operator forgot to drop it.
    yield "a leaked object", 1, lambda: ctypes.pythonapi.Py_IncRef(ctypes.py_object(object()))


def rows(framework: str, calls: int) -> Iterator[Row]:
    """Measure a framework in another process."""
    environment = os.environ | {"PYTHONMALLOC": "malloc", "JAX_PLATFORMS": "cpu", "RUST_BACKTRACE": "0"}
    command = [sys.executable, __file__, framework, str(calls), "json"]
    # Each panic prints its message.
    with tempfile.TemporaryFile("w+") as errors:
        child = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True)
        with child:
            assert child.stdout is not None
            for line in child.stdout:
                yield Row(**json.loads(line))
        errors.seek(0)
        assert child.returncode == 0, errors.read()[-4000:]


@pytest.mark.parametrize("framework", ["numpy", "torch", "jax", "tvm_ffi"])
def test_calls_and_errors_leave_no_memory(framework: str) -> None:
    if find_spec(framework) is None:
        pytest.skip(f"{framework} is not installed")
    found = list(rows(framework, CALLS))
    print(*found, sep="\n")
    assert [row for row in found if row.in_use > row.calls * LIMIT + CACHES] == []
    assert [row for row in found if row.pages > row.calls * LIMIT + PAGES] == []


def test_measurement_finds_a_leak_of_one_object() -> None:
    nothing, leak = rows("control", 2000)
    assert nothing.in_use < 2000 * LIMIT
    assert leak.in_use > 2000 * LIMIT + CACHES


def main() -> None:
    """Print the memory that the calls of a framework leave, as text or, in the process that measures, as a JSON object for each kind of call."""
    framework, calls = sys.argv[1], int(sys.argv[2])
    if sys.argv[3:] == ["json"]:
        for kind, less, step in STEPS[framework]():
            print(json.dumps(asdict(measured(kind, max(calls // less, 1), step))), flush=True)
    else:
        for row in rows(framework, calls):
            print(row, flush=True)


if __name__ == "__main__":
    main()
