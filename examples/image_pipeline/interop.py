"""The interop table: for every framework found, the picture exported to it and an array imported from it.

Each framework runs in its own process (``python interop.py NAME`` is such a process), so a framework
that crashes or hangs only adds a line to the table.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import dlbridge
import image_pipeline
import numpy as np
import numpy.typing as npt

PICTURE = Path(__file__).parent / "assets" / "landscape.png"

Pixels = npt.NDArray[np.uint8]

SECONDS = 180
"""The time limit of one framework, most of it for its own import."""

JAX_ALIGNMENT = 64
"""jax shares memory that starts at a multiple of this and copies other memory."""


@dataclass(frozen=True)
class Framework:
    """The functions that the table calls for a framework."""

    take: Callable[[Any, Any], Any]
    """Imports a dlbridge tensor: (module, tensor) -> the framework's array."""
    make: Callable[[Any, Pixels], Any]
    """Makes an array in the framework's own memory: (module, pixels) -> array."""
    address: Callable[[Any], int]
    """Returns the address that the framework reports for an array."""
    alignment: int = 1
    """The alignment that the framework requires of shared memory."""


@dataclass
class Row:
    """A line of the table."""

    name: str
    version: str = ""
    out: str = ""
    back: str = ""
    note: str = ""
    good: bool = True
    """True if no step failed and every copy is explained."""


def as_pixels(tensor: dlbridge.Tensor) -> Pixels:
    """Converts a tensor of pixels to a numpy array, without a copy."""
    return np.asarray(np.from_dlpack(tensor), np.uint8, copy=False)


def numpy_address(array: Any) -> int:
    """Returns the address that numpy reports for an array."""
    return int(np.asarray(array).ctypes.data)


def buffer_address(array: Any) -> int:
    """Returns the address of an array that exposes only a buffer."""
    return numpy_address(memoryview(array))


FRAMEWORKS = {
    "numpy": Framework(
        take=lambda numpy, tensor: numpy.from_dlpack(tensor),
        make=lambda numpy, pixels: numpy.array(pixels),
        address=numpy_address,
    ),
    "torch": Framework(
        take=lambda torch, tensor: torch.from_dlpack(tensor),
        make=lambda torch, pixels: torch.tensor(pixels),
        address=lambda array: int(array.data_ptr()),
    ),
    "jax": Framework(
        take=lambda jax, tensor: jax.numpy.from_dlpack(tensor),
        make=lambda jax, pixels: jax.numpy.array(pixels),
        address=lambda array: int(array.unsafe_buffer_pointer()),
        alignment=JAX_ALIGNMENT,
    ),
    "tensorflow": Framework(
        take=lambda tf, tensor: tf.experimental.dlpack.from_dlpack(tensor.__dlpack__()),
        make=lambda tf, pixels: tf.constant(pixels),
        address=buffer_address,
    ),
    "paddle": Framework(
        take=lambda paddle, tensor: paddle.from_dlpack(tensor),
        make=lambda paddle, pixels: paddle.to_tensor(pixels),
        address=lambda array: int(array.data_ptr()),
    ),
    "pyarrow": Framework(
        take=lambda pa, tensor: pa.Tensor.from_dlpack(tensor),
        make=lambda pa, pixels: pa.Tensor.from_numpy(pixels.copy()),
        address=buffer_address,
    ),
}


def verdict(framework: Framework, lent: int, taken: int) -> tuple[str, bool]:
    """Says whether the framework copied the exported memory, and whether that is expected."""
    if taken == lent:
        return "same address", True
    if lent % framework.alignment != 0:
        return f"it copied (data not {framework.alignment}-byte aligned)", True
    return "COPIED", False


def lend(framework: Framework, module: Any, tensor: dlbridge.Tensor) -> tuple[str, bool]:
    """Exports a tensor to the framework, and compares the address and the pixels."""
    array = framework.take(module, tensor)
    text, good = verdict(framework, tensor.address, framework.address(array))
    if not np.array_equal(np.asarray(array), np.asarray(np.from_dlpack(tensor))):
        return text + ", WRONG VALUES", False
    return text, good


def take_back(framework: Framework, module: Any, pixels: Pixels) -> tuple[str, bool]:
    """Imports an array of the framework, and compares the address and the pixels."""
    array = framework.make(module, pixels)
    tensor = dlbridge.asdlpack(array)
    if tensor.address != framework.address(array) or tensor.copied:
        return "COPIED", False
    if not np.array_equal(np.from_dlpack(tensor), pixels):
        return "same address, WRONG VALUES", False
    return "same address", True


def guarded(step: Callable[[], tuple[str, bool]]) -> tuple[str, bool]:
    """Returns the result of a step, or its exception as text."""
    try:
        return step()
    except Exception as error:  # noqa: BLE001 (the table shows any exception of a framework)
        return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}", False


def aligned_note(framework: Framework, module: Any, picture: dlbridge.Tensor) -> str:
    """Tries the picture in memory with the framework's alignment."""
    aligned = dlbridge.asdlpack(picture, copy=True)
    text, _ = guarded(lambda: lend(framework, module, aligned))
    return f"the same picture in {framework.alignment}-byte aligned memory: {text}"


def probe(name: str) -> Row:
    """Tries one framework, in this process."""
    framework = FRAMEWORKS[name]
    module = importlib.import_module(name)
    picture = image_pipeline.load(PICTURE)
    pixels = as_pixels(picture)
    row = Row(name, version=str(module.__version__))
    row.out, lent = guarded(lambda: lend(framework, module, picture))
    row.back, taken = guarded(lambda: take_back(framework, module, pixels))
    row.good = lent and taken
    if picture.address % framework.alignment != 0:
        row.note = aligned_note(framework, module, picture)
    return row


def run_probe(name: str) -> Row:
    """Tries one framework in its own process."""
    quiet = {"JAX_PLATFORMS": "cpu", "CUDA_VISIBLE_DEVICES": "", "TF_CPP_MIN_LOG_LEVEL": "3"}
    command = [sys.executable, str(Path(__file__).resolve()), name]
    try:
        done = subprocess.run(
            command, env=os.environ | quiet, capture_output=True, text=True, timeout=SECONDS
        )
    except subprocess.TimeoutExpired:
        return Row(name, out=f"no answer in {SECONDS} s", good=False)
    lines = done.stdout.splitlines()
    if done.returncode == 0 and lines:
        return Row(**json.loads(lines[-1]))
    return Row(name, out=how_it_ended(done), good=False)


def how_it_ended(done: subprocess.CompletedProcess[str]) -> str:
    """Describes a failed process in a few words."""
    if done.returncode < 0:
        return f"crashed ({signal.Signals(-done.returncode).name})"
    errors = done.stderr.strip().splitlines()
    return f"failed: {errors[-1] if errors else f'exit status {done.returncode}'}"


def text_table(rows: list[list[str]], right: frozenset[int] = frozenset()) -> str:
    """Formats rows as aligned columns; the columns in `right` are right-aligned."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [
            cell.rjust(width) if i in right else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def print_interop() -> bool:
    """Prints the interop table. Returns True if every framework found passed."""
    found = [name for name in FRAMEWORKS if importlib.util.find_spec(name) is not None]
    missing = [name for name in FRAMEWORKS if name not in found]
    rows = [run_probe(name) for name in found]
    heads = ["framework", "version", "out (dlbridge -> it)", "back (it -> dlbridge)"]
    print("Interop, each framework in its own process:")
    print(text_table([heads, *([row.name, row.version, row.out, row.back] for row in rows)]))
    for row in rows:
        if row.note:
            print(f"{row.name}: {row.note}")
    if missing:
        print("not installed:", ", ".join(missing))
    return all(row.good for row in rows)


if __name__ == "__main__":
    print(json.dumps(asdict(probe(sys.argv[1]))))
