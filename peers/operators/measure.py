"""Measures operators of dlbridge-ops beside the same operators as people write them now.

    python peers/operators/measure.py --built FOLDER [--write PAGE]

The module `operators` of tests/operators must be importable, built in release mode. The C++ peers are compiled into
FOLDER with the headers of the installed frameworks. All rows of a table run interleaved in one process; a time is the
smallest of many rounds, so the ratios matter, and the times are those of this machine.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib.metadata
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import operators
import torch
import tvm_ffi

HERE = Path(__file__).parent
ROUNDS, CALLS = 40, 300
COUNT = 16


def compiled(source: str, folder: Path, includes: list[str], more: list[str]) -> Path:
    """Compile a C++ file to a shared library, unless that is newer."""
    library = folder / source.replace(".cpp", ".so")
    if not library.exists() or library.stat().st_mtime < (HERE / source).stat().st_mtime:
        command = [os.environ.get("CXX", "g++"), "-std=c++20", "-O2", "-fPIC", "-shared", str(HERE / source)]
        command += [f"-I{include}" for include in includes] + ["-o", str(library), *more]
        subprocess.run(command, check=True)
    return library


def times(functions: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """Return the nanoseconds of a call of each function."""
    best = dict.fromkeys(functions, float("inf"))
    for function in functions.values():
        function()
    for _ in range(ROUNDS):
        for name, function in functions.items():
            begin = time.perf_counter_ns()
            for _ in range(CALLS):
                function()
            best[name] = min(best[name], (time.perf_counter_ns() - begin) / CALLS)
    return best


def of_torch(folder: Path) -> dict[str, dict[str, float]]:
    """Measure PyTorch: without and with gradients."""
    from torch.utils.cpp_extension import include_paths, library_paths

    links = [f"-L{path}" for path in library_paths()] + ["-ltorch", "-ltorch_cpu", "-lc10"]
    flags = [f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}"]
    torch.ops.load_library(str(compiled("torch_operator.cpp", folder, include_paths(), links + flags)))

    @torch.library.custom_op("python::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        return x + x

    @torch.library.custom_op("python::softclip", mutates_args=())
    def softclip(x: torch.Tensor) -> torch.Tensor:
        return x / (1 + x.abs())

    def keep(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(inputs[0])

    softclip.register_autograd(lambda ctx, grad: grad / (1 + ctx.saved_tensors[0].abs()) ** 2, setup_context=keep)
    x = torch.linspace(-3, 3, COUNT)
    operators.twice(x)
    ours, cpp, python = torch.ops.operators, torch.ops.cpp, torch.ops.python
    for one in (ours, cpp, python):
        torch.testing.assert_close(one.twice(x), x + x)
        torch.testing.assert_close(one.softclip(x), x / (1 + x.abs()))
    forward = {
        "ours, torch.ops": lambda: ours.twice.default(x),
        "ours, Python function": lambda: operators.twice(x),
        "C++ with PyTorch's headers": lambda: cpp.twice.default(x),
        "Python custom_op": lambda: python.twice.default(x),
        "torch.add": lambda: torch.add(x, x),
    }
    leaf = x.clone().requires_grad_()

    def backward(function: Any) -> Callable[[], Any]:
        return lambda: torch.autograd.grad(function(leaf).sum(), leaf)

    both = {
        "ours, torch.ops": backward(ours.softclip.default),
        "ours, Python function": backward(operators.softclip),
        "C++ with PyTorch's headers": backward(cpp.softclip.default),
        "Python custom_op": backward(python.softclip.default),
    }
    with_gradient = {
        "ours, torch.ops": lambda: ours.softclip.default(leaf),
        "ours, Python function": lambda: operators.softclip(leaf),
        "C++ with PyTorch's headers": lambda: cpp.softclip.default(leaf),
        "Python custom_op": lambda: python.softclip.default(leaf),
    }
    return {
        "PyTorch, an operator without gradients": times(forward),
        "PyTorch, forward of an operator with gradients": times(with_gradient),
        "PyTorch, forward and backward": times(both),
    }


def of_jax(folder: Path) -> dict[str, dict[str, float]]:
    """Measure JAX, jitted, until the result is there."""
    library = ctypes.CDLL(str(compiled("xla_handler.cpp", folder, [jax.ffi.include_dir()], [])))
    jax.ffi.register_ffi_target("cpp.twice", jax.ffi.pycapsule(library.twice), platform="cpu")
    x = jnp.linspace(-3, 3, COUNT, dtype=jnp.float32)
    result = jax.ShapeDtypeStruct(x.shape, x.dtype)
    called = {
        "ours": jax.jit(lambda x: operators.twice(x)),
        "C++ with JAX's headers": jax.jit(lambda x: jax.ffi.ffi_call("cpp.twice", result)(x)),
        "jax.pure_callback": jax.jit(lambda x: jax.pure_callback(lambda x: np.asarray(x) * 2, result, x)),
        "jax.numpy.add": jax.jit(lambda x: jnp.add(x, x)),
    }
    for function in called.values():
        np.testing.assert_allclose(function(x), x + x)
    waited = {name: (lambda function=function: function(x).block_until_ready()) for name, function in called.items()}
    return {"JAX, jitted": times(waited)}


def of_tvm(folder: Path) -> dict[str, dict[str, float]]:
    """Measure tvm-ffi, with tensors that the caller makes."""
    from tvm_ffi import libinfo

    includes = [libinfo.find_include_path(), libinfo.find_dlpack_include_path()]
    link = libinfo.find_libtvm_ffi()
    peer = tvm_ffi.load_module(str(compiled("tvm_function.cpp", folder, includes, [link])))
    ours = tvm_ffi.load_module(operators.twice.path)
    rows = {}
    for name, made in (("tensors of tvm-ffi", tvm_ffi.from_dlpack), ("tensors of PyTorch", lambda x: x)):
        x, out = made(torch.linspace(-3, 3, COUNT)), made(torch.empty(COUNT))
        rows[f"tvm-ffi, {name}"] = times(
            {
                "ours": lambda x=x, out=out, function=ours["twice"]: function(x, out),
                "C++ with tvm-ffi's headers": lambda x=x, out=out, function=peer["twice"]: function(x, out),
            }
        )
    return rows


def page(tables: dict[str, dict[str, float]]) -> str:
    """Return the page of results."""
    versions = ", ".join(
        f"{name} {importlib.metadata.version(package)}"
        for name, package in (("PyTorch", "torch"), ("JAX", "jax"), ("tvm-ffi", "apache-tvm-ffi"))
    )
    lines = [
        "# Operators: the cost of a call",
        "",
        f"`cargo xtask operators` writes this page. An operator on {COUNT} float32 elements, so that the call dominates; {versions}.",
        "The rows of a table ran interleaved in one process. Compare the ratios: the machine is shared, and the times are the smallest of many rounds.",
    ]
    lines += [
        "",
        "The same code serves all frameworks, so a call first describes the arguments in one form and checks them: dtype, dimensions, layout, alignment, overlap.",
        "That is about 2 000 instructions. They are 10 % of a call in PyTorch and more of one in tvm-ffi, whose own operators check only what their author wrote.",
        "With gradients, PyTorch's own engine takes most of the time; it calls the Python function that names the vjp once for each backward pass.",
    ]
    for title, rows in tables.items():
        reference = rows[next(iter(rows))]
        lines += ["", f"## {title}", "", "| operator | ns | beside ours |", "| --- | --- | --- |"]
        lines += [f"| {name} | {value:.0f} | {value / reference:.2f} |" for name, value in rows.items()]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure, print the page, and write it."""
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--built", type=Path, required=True)
    arguments.add_argument("--write", type=Path)
    options = arguments.parse_args()
    options.built.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    text = page(of_torch(options.built) | of_jax(options.built) | of_tvm(options.built))
    print(text)
    if options.write:
        options.write.write_text(text)


if __name__ == "__main__":
    main()
