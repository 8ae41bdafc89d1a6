"""The machine and the versions of a measurement, without names of the machine or of folders."""

from __future__ import annotations

import os
import platform
import subprocess
import tomllib
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).parents[2]

INSTALLED = ("numpy", "torch", "jax", "pandas", "polars", "pyarrow", "apache-tvm-ffi", "nanobind", "pydlpack", "safetensors")
"""From PyPI."""

LOCKED = {
    "benches/rust": ("dlpark", "dlpk", "dlpack-rs", "ndarray", "safetensors"),
    "peers/dlbridge": ("pyo3",),
    "peers/dlpark": ("dlpark", "pyo3"),
    "peers/dlpk": ("dlpk", "pyo3"),
    "peers/pyo3-dlpack": ("pyo3-dlpack", "pyo3"),
    "peers/dlpack-rs": ("dlpack-rs", "pyo3"),
    "peers/rust-numpy": ("numpy", "pyo3"),
}
"""From crates.io: the versions that each package's lock file pins."""


def field(file: str, name: str) -> str:
    """Returns VALUE of the first line `NAME: VALUE` or `NAME=VALUE` of a system file."""
    try:
        lines = Path(file).read_text().splitlines()
    except OSError:
        return "unknown"
    for line in lines:
        key, separator, value = line.partition("=" if "=" in line else ":")
        if separator and key.strip() == name:
            return value.strip().strip('"')
    return "unknown"


def memory() -> str:
    total = field("/proc/meminfo", "MemTotal").split()[0]
    return f"{round(int(total) / 2**20)} GiB" if total.isdigit() else "unknown"


def first_line(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "none"
    return done.stdout.splitlines()[0].strip()


def locked(package: str) -> str:
    """Returns a text like `dlpark 0.10.0, pyo3 0.30.1`."""
    lock = tomllib.loads((ROOT / package / "Cargo.lock").read_text())
    versions = {entry["name"]: entry["version"] for entry in lock["package"]}
    return ", ".join(f"{name} {versions[name]}" for name in LOCKED[package])


def described() -> dict[str, str]:
    """Returns the lines of the page's table."""
    kernel = ".".join(platform.release().split(".")[:2])
    return {
        "processor": field("/proc/cpuinfo", "model name"),
        "processors that the system sees": str(os.cpu_count()),
        "memory": memory(),
        "system": f"{field('/etc/os-release', 'PRETTY_NAME')}, {platform.system()} {kernel}, {platform.machine()}",
        "Rust": first_line("rustc", "--version"),
        "C++": first_line(os.environ.get("CXX", "c++"), "--version"),
        "Python": platform.python_version(),
        "from PyPI": ", ".join(f"{name} {version(name)}" for name in INSTALLED),
        **{f"crates of `{package}`": locked(package) for package in LOCKED},
    }
