"""The interop table: for every framework found, the picture lent out and an array taken back.

Each framework runs in a process of its own (``python interop.py NAME`` is such a process), so
that one that crashes or hangs is a line of the table and not the end of it.
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
"""How long one framework may take, most of it for its own import."""

JAX_ALIGNMENT = 64
"""jax shares memory that starts at a multiple of this and copies all other."""


@dataclass(frozen=True)
class Framework:
    """How the table talks to a framework."""

    take: Callable[[Any, Any], Any]
    """Takes a dlbridge tensor: (module, tensor) -> the framework's array."""
    make: Callable[[Any, Pixels], Any]
    """Makes an array of the framework's own memory: (module, pixels) -> array."""
    address: Callable[[Any], int]
    """Where the framework says that an array lies."""
    alignment: int = 1
    """What the framework asks of memory that it shares."""


@dataclass
class Row:
    """A line of the table."""

    name: str
    version: str = ""
    out: str = ""
    back: str = ""
    note: str = ""
    good: bool = True
    """Whether everything went as it should: nothing failed, and what was copied is explained."""


def as_pixels(tensor: dlbridge.Tensor) -> Pixels:
    """A tensor of pixels as numpy takes it."""
    return np.asarray(np.from_dlpack(tensor), np.uint8, copy=False)


def numpy_address(array: Any) -> int:
    """Where numpy says that an array lies."""
    return int(np.asarray(array).ctypes.data)


def buffer_address(array: Any) -> int:
    """Where an array lies that has no address of its own to ask for, but a buffer."""
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
    """What became of lent memory, and whether that is as it should be."""
    if taken == lent:
        return "same address", True
    if lent % framework.alignment != 0:
        return f"copied by it (data not {framework.alignment}-byte aligned)", True
    return "COPIED", False


def lend(framework: Framework, module: Any, tensor: dlbridge.Tensor) -> tuple[str, bool]:
    """Lends a tensor to the framework, and checks the address and the pixels there."""
    array = framework.take(module, tensor)
    text, good = verdict(framework, tensor.address, framework.address(array))
    if not np.array_equal(np.asarray(array), np.asarray(np.from_dlpack(tensor))):
        return text + ", WRONG VALUES", False
    return text, good


def take_back(framework: Framework, module: Any, pixels: Pixels) -> tuple[str, bool]:
    """Takes an array of the framework's own, and checks the address and the pixels here."""
    array = framework.make(module, pixels)
    tensor = dlbridge.asdlpack(array)
    if tensor.address != framework.address(array) or tensor.copied:
        return "COPIED", False
    if not np.array_equal(np.from_dlpack(tensor), pixels):
        return "same address, WRONG VALUES", False
    return "same address", True


def guarded(step: Callable[[], tuple[str, bool]]) -> tuple[str, bool]:
    """The result of a step, or its exception as a text."""
    try:
        return step()
    except Exception as error:  # noqa: BLE001 (whatever a framework raises belongs into the table)
        return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}", False


def aligned_note(framework: Framework, module: Any, picture: dlbridge.Tensor) -> str:
    """What becomes of the picture in memory as aligned as the framework asks."""
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
    """Tries one framework in a process of its own."""
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
    """A process that failed, in a few words."""
    if done.returncode < 0:
        return f"crashed ({signal.Signals(-done.returncode).name})"
    errors = done.stderr.strip().splitlines()
    return f"failed: {errors[-1] if errors else f'exit status {done.returncode}'}"


def text_table(rows: list[list[str]], right: frozenset[int] = frozenset()) -> str:
    """Rows as text with aligned columns; the columns in `right` flush right."""
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
    """Prints the interop table. True if every framework found did as it should."""
    found = [name for name in FRAMEWORKS if importlib.util.find_spec(name) is not None]
    missing = [name for name in FRAMEWORKS if name not in found]
    rows = [run_probe(name) for name in found]
    heads = ["framework", "version", "out (dlbridge -> it)", "back (it -> dlbridge)"]
    print("Interop, each framework in a process of its own:")
    print(text_table([heads, *([row.name, row.version, row.out, row.back] for row in rows)]))
    for row in rows:
        if row.note:
            print(f"{row.name}: {row.note}")
    if missing:
        print("not installed:", ", ".join(missing))
    return all(row.good for row in rows)


if __name__ == "__main__":
    print(json.dumps(asdict(probe(sys.argv[1]))))
