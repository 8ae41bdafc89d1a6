"""Builds what is measured, below `target/bench`: extension modules, and programs.

The Python that runs this needs numpy and dlbridge; nanobind for its module, and apache-tvm-ffi, which has `dlpack.h`, for
the floor. Programs: cargo, and a C and C++ compiler (`CC`, `CXX`).
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from pathlib import Path

BENCH = Path(__file__).parent
ROOT = BENCH.parent
BUILT = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve() / "bench"
MODULES = BUILT / "modules"

CARGO = ("dlbridge", "dlpark", "dlpk", "pyo3-dlpack", "dlpack-rs", "rust-numpy")
"""The packages `peers/NAME` that Cargo builds."""

ENVIRONMENT = {
    "PYO3_PYTHON": sys.executable,
    "PYO3_BUILD_EXTENSION_MODULE": "1",
    # The modules, and this folder.
    "PYTHONPATH": os.pathsep.join(filter(None, [str(MODULES), str(BENCH), os.environ.get("PYTHONPATH")])),
    # Keeps frameworks from searching for an accelerator, and from starting threads.
    "CUDA_VISIBLE_DEVICES": "",
    "JAX_PLATFORMS": "cpu",
    "TF_CPP_MIN_LOG_LEVEL": "3",
}


def output(command: Sequence[str | Path], environment: Mapping[str, str] | None = None) -> str:
    """Returns what a command prints; its other output is shown only if it fails."""
    done = subprocess.run(command, env={**os.environ, **ENVIRONMENT, **(environment or {})}, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{shlex.join(map(str, command))}: {done.returncode}\n{done.stderr}")
    return done.stdout


def cargo(manifest: Path, options: Sequence[str], environment: Mapping[str, str] | None = None) -> tuple[list[Path], int]:
    """Builds a package in release mode. Returns its libraries and programs, and the number of crates."""
    command: list[str | Path] = ["cargo", "build", "--release", "--locked", "--message-format=json", "--manifest-path", manifest, *options]
    said = output(command, {"CARGO_TARGET_DIR": str(BUILT / "cargo"), **(environment or {})})
    made = [message for message in map(json.loads, said.splitlines()) if message["reason"] == "compiler-artifact"]
    files = [Path(file) for message in made if Path(message["manifest_path"]) == manifest.resolve() for file in message["filenames"]]
    return files, len({message["package_id"] for message in made})


def module(name: str) -> Path:
    """Builds the extension module of a library, and returns the folder of all modules."""
    MODULES.mkdir(parents=True, exist_ok=True)
    file = MODULES / f"with_{name.replace('-', '_')}.so"
    print(f"building {file.name}", file=sys.stderr, flush=True)
    if name == "nanobind":
        nanobind(BENCH / "peers/nanobind.cpp", file)
    elif name == "floor":
        import tvm_ffi.libinfo

        include = tvm_ffi.libinfo.find_dlpack_include_path()
        compiler = os.environ.get("CC", "cc")
        output([compiler, *SHARED, f"-I{include}", BENCH / "peers/floor.c", "-o", file])
    else:
        built, _ = cargo(BENCH / "peers" / name / "Cargo.toml", [])
        file.write_bytes(built[0].read_bytes())
    return MODULES


SHARED = ["-O3", "-flto=auto", "-DNDEBUG", "-shared", "-fPIC", "-fvisibility=hidden", f"-I{sysconfig.get_path('include')}"]
"""Options of a C compiler for an extension module, optimised across its files as the packages of Cargo are."""


def nanobind(source: Path, file: Path) -> None:
    """Compiles nanobind and a file of functions together, without CMake."""
    folder, options = nanobind_folder()
    output([os.environ.get("CXX", "c++"), *SHARED, *options, folder / "src/nb_combined.cpp", source, "-o", file])


def nanobind_folder() -> tuple[Path, list[str]]:
    """Returns the folder of the package nanobind, and the options of a compiler that its files need."""
    import nanobind

    folder = Path(nanobind.__file__).parent
    includes = [f"-I{folder / 'include'}", f"-I{folder / 'ext/robin_map/include'}"]
    return folder, ["-std=c++17", "-fno-strict-aliasing", "-DNB_COMPACT_ASSERTIONS", *includes]


def operators() -> None:
    """Builds the module of `tests/operators`."""
    MODULES.mkdir(parents=True, exist_ok=True)
    print("building operators.so", file=sys.stderr, flush=True)
    built, _ = cargo(ROOT / "tests/operators/Cargo.toml", [])
    library = next(file for file in built if file.suffix == ".so")
    (MODULES / "operators.so").write_bytes(library.read_bytes())


def rust_program(*options: str) -> Path:
    """Builds the program `rust`."""
    print("building rust-benches", file=sys.stderr, flush=True)
    built, _ = cargo(BENCH / "rust/Cargo.toml", options)
    return built[0]
