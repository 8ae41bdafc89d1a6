"""Times operators of dlbridge-ops beside the same operators as people write them now.

The C++ peers are compiled into `target/bench` with the headers of the installed frameworks. All rows of a table run
interleaved in one process; a time is the smallest of many short rounds, so the ratios matter, and the times are those of this
machine. Lines are counted from the sources, between comments `begin: NAME` and `end: NAME`.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import operators
import torch
import tvm_ffi
from build import BUILT
from report import table

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
ROUNDS, NANOSECONDS = 300, 2_000_000
COUNT = 16

Tables = dict[str, dict[str, float]]

# The titles of tables and the names of rows.
PLAIN, FORWARD, BOTH, JITTED, OF_TVM, OF_TORCH = (
    "PyTorch, an operator without gradients",
    "PyTorch, forward of an operator with gradients",
    "PyTorch, forward and backward",
    "JAX, jitted",
    "tvm-ffi, tensors of tvm-ffi",
    "tvm-ffi, tensors of PyTorch",
)
OURS, FUNCTION, PYTHON = "ours, torch.ops", "ours, Python function", "Python custom_op"
CPP_TORCH, CPP_JAX, CPP_TVM = "C++ with PyTorch's headers", "C++ with JAX's headers", "C++ with tvm-ffi's headers"
STABLE = "C++ with PyTorch's stable ABI"
EXAMPLE = "C++, in the form of tvm-ffi's example"


@dataclass(frozen=True)
class Goal:
    """A limit for the time of a row, as a ratio to that of another row."""

    table: str
    ours: str
    limit: float
    peer: str

    def line(self, tables: Tables) -> str:
        """Return a row of the table of goals."""
        found = tables[self.table][self.ours] / tables[self.table][self.peer]
        result = "met" if round(found, 2) <= self.limit else "**missed**"
        return f"| {self.table} | {self.ours} | at most {self.limit} × {self.peer} | {found:.2f} × | {result} |"


GOALS = (
    Goal(PLAIN, OURS, 1.1, CPP_TORCH),
    Goal(PLAIN, FUNCTION, 1.1, CPP_TORCH),
    Goal(PLAIN, OURS, 1.1, STABLE),
    Goal(FORWARD, OURS, 0.5, PYTHON),
    Goal(BOTH, OURS, 0.5, PYTHON),
    Goal(JITTED, "ours", 1.1, CPP_JAX),
    Goal(OF_TVM, "ours", 1.1, EXAMPLE),
    Goal(OF_TVM, "ours", 1.1, CPP_TVM),
    Goal(OF_TORCH, "ours", 1.1, EXAMPLE),
    Goal(OF_TORCH, "ours", 1.1, CPP_TVM),
)

RUST = "Rust with dlbridge-ops, for all frameworks"

# The sources of the operators with their lines for each.
SOURCES = {
    RUST: ROOT / "tests/operators/src/elementwise.rs",
    CPP_TORCH: HERE / "torch_operator.cpp",
    STABLE: HERE / "torch_stable_operator.cpp",
    CPP_JAX: HERE / "xla_handler.cpp",
    CPP_TVM: HERE / "tvm_function.cpp",
    "Python custom_op, for PyTorch": Path(__file__),
}


def compiled(source: str, folder: Path, includes: list[str], more: list[str]) -> Path:
    """Compile a C++ file to a shared library, unless that is newer."""
    library = folder / source.replace(".cpp", ".so")
    if not library.exists() or library.stat().st_mtime < (HERE / source).stat().st_mtime:
        command = [os.environ.get("CXX", "g++"), "-std=c++20", "-O2", "-fPIC", "-shared", str(HERE / source)]
        command += [f"-I{include}" for include in includes] + ["-o", str(library), *more]
        subprocess.run(command, check=True)
    return library


def times(functions: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """Return the nanoseconds of a call of each function.

    A round is short, so that other programs on the machine interrupt few of them.
    """

    def round_of(function: Callable[[], Any], calls: int) -> float:
        begin = time.perf_counter_ns()
        for _ in range(calls):
            function()
        return (time.perf_counter_ns() - begin) / calls

    best = {name: min(round_of(function, 20) for _ in range(5)) for name, function in functions.items()}
    calls = {name: max(1, int(NANOSECONDS / of_one)) for name, of_one in best.items()}
    for _ in range(ROUNDS):
        for name, function in functions.items():
            best[name] = min(best[name], round_of(function, calls[name]))
    return best


def of_torch(folder: Path) -> Tables:
    """Measure PyTorch: without and with gradients."""
    from torch.utils.cpp_extension import include_paths, library_paths

    links = [f"-L{path}" for path in library_paths()] + ["-ltorch", "-ltorch_cpu", "-lc10"]
    flags = [f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}"]
    for source in ("torch_operator.cpp", "torch_stable_operator.cpp"):
        torch.ops.load_library(str(compiled(source, folder, include_paths(), links + flags)))

    # begin: twice
    @torch.library.custom_op("python::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        return x + x

    # end: twice
    # begin: softclip
    @torch.library.custom_op("python::softclip", mutates_args=())
    def softclip(x: torch.Tensor) -> torch.Tensor:
        return x / (1 + x.abs())

    def keep(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(inputs[0])

    softclip.register_autograd(lambda ctx, grad: grad / (1 + ctx.saved_tensors[0].abs()) ** 2, setup_context=keep)
    # end: softclip
    x = torch.linspace(-3, 3, COUNT)
    operators.twice(x)
    ours, cpp, python = torch.ops.operators, torch.ops.cpp, torch.ops.python
    torch.testing.assert_close(torch.ops.cpp_stable.twice(x), x + x)
    for one in (ours, cpp, python):
        torch.testing.assert_close(one.twice(x), x + x)
        torch.testing.assert_close(one.softclip(x), x / (1 + x.abs()))
    forward = {
        OURS: lambda: ours.twice.default(x),
        FUNCTION: lambda: operators.twice(x),
        CPP_TORCH: lambda: cpp.twice.default(x),
        STABLE: lambda: torch.ops.cpp_stable.twice.default(x),
        PYTHON: lambda: python.twice.default(x),
        "torch.add": lambda: torch.add(x, x),
    }
    leaf = x.clone().requires_grad_()

    def backward(function: Any) -> Callable[[], Any]:
        return lambda: torch.autograd.grad(function(leaf).sum(), leaf)

    both = {
        OURS: backward(ours.softclip.default),
        FUNCTION: backward(operators.softclip),
        CPP_TORCH: backward(cpp.softclip.default),
        PYTHON: backward(python.softclip.default),
    }
    with_gradient = {
        OURS: lambda: ours.softclip.default(leaf),
        FUNCTION: lambda: operators.softclip(leaf),
        CPP_TORCH: lambda: cpp.softclip.default(leaf),
        PYTHON: lambda: python.softclip.default(leaf),
    }
    return {
        PLAIN: times(forward),
        FORWARD: times(with_gradient),
        BOTH: times(both),
    }


def of_jax(folder: Path) -> Tables:
    """Measure JAX, jitted, until the result is there."""
    library = ctypes.CDLL(str(compiled("xla_handler.cpp", folder, [jax.ffi.include_dir()], [])))
    jax.ffi.register_ffi_target("cpp.twice", jax.ffi.pycapsule(library.twice), platform="cpu")
    x = jnp.linspace(-3, 3, COUNT, dtype=jnp.float32)
    result = jax.ShapeDtypeStruct(x.shape, x.dtype)
    called = {
        "ours": jax.jit(lambda x: operators.twice(x)),
        CPP_JAX: jax.jit(lambda x: jax.ffi.ffi_call("cpp.twice", result)(x)),
        "jax.pure_callback": jax.jit(lambda x: jax.pure_callback(lambda x: np.asarray(x) * 2, result, x)),
        "jax.numpy.add": jax.jit(lambda x: jnp.add(x, x)),
    }
    for function in called.values():
        np.testing.assert_allclose(function(x), x + x)
    waited = {name: (lambda function=function: function(x).block_until_ready()) for name, function in called.items()}
    return {JITTED: times(waited)}


def of_tvm(folder: Path) -> Tables:
    """Measure tvm-ffi, with tensors that the caller makes."""
    from tvm_ffi import libinfo

    includes = [libinfo.find_include_path(), libinfo.find_dlpack_include_path()]
    link = libinfo.find_libtvm_ffi()
    peer = tvm_ffi.load_module(str(compiled("tvm_function.cpp", folder, includes, [link])))
    ours = tvm_ffi.load_module(operators.twice.path)
    rows = {}
    for title, made in ((OF_TVM, tvm_ffi.from_dlpack), (OF_TORCH, lambda x: x)):
        x, out = made(torch.linspace(-3, 3, COUNT)), made(torch.empty(COUNT))
        for function in (ours["twice"], peer["twice"], peer["twice_of_example"]):
            function(x, out)
            np.testing.assert_array_equal(np.from_dlpack(out), 2 * np.from_dlpack(x))
        rows[title] = times(
            {
                "ours": lambda x=x, out=out, function=ours["twice"]: function(x, out),
                CPP_TVM: lambda x=x, out=out, function=peer["twice"]: function(x, out),
                EXAMPLE: lambda x=x, out=out, function=peer["twice_of_example"]: function(x, out),
            }
        )
    return rows


def part(path: Path, name: str) -> list[str]:
    """Return the lines of an operator in a source that are neither empty nor a comment."""
    pattern = rf"^ *(?://|#) begin: {name}\n(.*?)^ *(?://|#) end: {name}\n"
    found = re.findall(pattern, path.read_text(), re.MULTILINE | re.DOTALL)
    lines = [line.strip() for piece in found for line in piece.splitlines()]
    return [line for line in lines if line and not line.startswith(("//", "# "))]


def raw(lines: list[str]) -> int:
    """Return the number of lines with `unsafe` or a raw pointer."""
    return sum(re.search(r"\bunsafe\b|\*(const|mut)\b|\w\*|_ptr\b", line) is not None for line in lines)


def counted() -> list[str]:
    """Return the table of lines."""
    rows = [
        "| source | `twice` | `softclip` with its gradient | lines with `unsafe` or a raw pointer |",
        "| --- | --- | --- | --- |",
    ]
    for name, path in SOURCES.items():
        twice, softclip = part(path, "twice"), part(path, "softclip")
        if not twice:
            raise SystemExit(f"{path} lacks the part `twice`")
        rows.append(f"| {name} | {len(twice)} | {len(softclip) or ''} | {raw(twice + softclip)} |")
    return rows


def page(tables: Tables) -> str:
    """Return all tables: the goals, the lines of the author, and the times."""
    lines = ["| table | row | goal | measured | result |", "| --- | --- | --- | --- | --- |"]
    lines += [*(goal.line(tables) for goal in GOALS), "", *counted()]
    for title, rows in tables.items():
        reference = rows[next(iter(rows))]
        cells = [[name, f"{value:.0f}", f"{value / reference:.2f}"] for name, value in rows.items()]
        lines += ["", table([f"{title}, {COUNT} float32 elements", "ns", "beside ours"], cells)]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure, and print the tables."""
    torch.set_num_threads(1)
    folder = BUILT / "operators"
    folder.mkdir(parents=True, exist_ok=True)
    tables = of_torch(folder) | of_jax(folder) | of_tvm(folder)
    (BUILT / "operators.json").write_text(json.dumps(tables, indent=1) + "\n")
    (BUILT / "operators.md").write_text(page(tables))
    print(page(tables))
