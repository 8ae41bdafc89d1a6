"""Runs the paths with a budget, between marks for callgrind: `repeat.py GROUP SHORT LONG`; `--rows` prints their names.

The group `numpy` imports only numpy and dlbridge, so it runs in every environment of the tests. The groups `torch` and
`jax` run where these are installed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from itertools import repeat
from typing import Any

MANY = 1000
"""The number of arrays in a collection. A row with a collection runs once for this number of turns, so its count is per array."""

EMPTY = "an empty loop"

ROWS: dict[str, dict[str, str]] = {
    "numpy": {
        EMPTY: "pass",
        "NumPy array -> no-op argument": "noop(array)",
        "dlbridge.Tensor -> no-op argument": "noop(tensor)",
        "new tensor -> capsule": "new()",
        "new tensor -> object": "make()",
        "new tensor -> object -> capsule": "make().__dlpack__(max_version=version)",
        "object -> np.from_dlpack": "from_dlpack(kept)",
        "new object -> np.from_dlpack": "from_dlpack(make())",
        "asdlpack(NumPy array)": "asdlpack(array)",
        "new vector -> NumPy array": "new_numpy()",
        "asdlpack(24 elements, copy=True)": "asdlpack(tensor, copy=True)",
        "asdlpack(64 x 64 transposed, copy=True)": "asdlpack(transposed, copy=True)",
    },
    "torch": {
        EMPTY: "pass",
        "PyTorch tensor -> no-op argument": "noop(x)",
        "PyTorch tensor -> import": "bare(x)",
        "asdlpack(PyTorch tensor)": "asdlpack(x)",
        "list of a PyTorch tensor to write -> argument": "write_list(tensors)",
        "object -> torch.from_dlpack": "from_dlpack(kept)",
        "new object -> torch.from_dlpack": "from_dlpack(make())",
        "new vector -> PyTorch tensor": "new_torch()",
    },
    "jax": {
        EMPTY: "pass",
        "JAX array -> no-op argument": "noop(x)",
        "asdlpack(JAX array)": "asdlpack(x)",
        "JAX array -> import": "bare(x)",
    },
}

COLLECTIONS = {
    "list of 1000 NumPy arrays -> argument, each": "noop_list(arrays)",
    "list of 1000 NumPy arrays to write -> argument, each": "write_list(arrays)",
    "dict of 1000 NumPy arrays -> argument, each": "noop_dict(named)",
    "tree of 1000 NumPy arrays -> argument, each": "noop_tree(named)",
    "state dict of 1000 NumPy arrays -> objects, each": "{name: hand_on(x) for name, x in named.items()}",
    "state dict of 1000 objects -> NumPy arrays, each": "{name: from_dlpack(x) for name, x in objects.items()}",
}
"""The rows of `numpy` with collections."""

ROWS["numpy"].update(COLLECTIONS)

OUR_CODE = ("with_dlbridge", "_core.abi3")

COUNTED: dict[str, tuple[str, ...] | None] = {"numpy": None, "torch": OUR_CODE, "jax": OUR_CODE}
"""The libraries whose instructions count; `None` for all. Frameworks choose their instructions by the processor."""


def names(group: str) -> dict[str, Any]:
    import with_dlbridge as ours
    import dlbridge
    import numpy as np

    functions = ("noop", "noop_list", "write_list", "noop_dict", "noop_tree", "hand_on")
    functions += ("new", "new_numpy", "new_torch", "make", "bare")
    known = {name: getattr(ours, name) for name in functions}
    known["asdlpack"] = dlbridge.asdlpack
    if group == "torch":
        import torch

        x = torch.ones(4, 6)
        return {**known, "x": x, "tensors": [x], "kept": ours.make(), "from_dlpack": torch.from_dlpack}
    if group == "jax":
        import jax

        return {**known, "x": jax.block_until_ready(jax.numpy.ones((4, 6), "float32"))}
    arrays = [np.ones((4, 6), "float32") for _ in range(MANY)]
    named = {f"layer.{n}.weight": array for n, array in enumerate(arrays)}
    return {
        **known,
        "array": arrays[0],
        "arrays": arrays,
        "named": named,
        "objects": {name: ours.hand_on(array) for name, array in named.items()},
        "tensor": dlbridge.asdlpack(np.ones((4, 6), "float32")),
        "transposed": dlbridge.asdlpack(np.ones((64, 64), "float32").T),
        "kept": ours.make(),
        "version": (1, 3),
        "from_dlpack": np.from_dlpack,
    }


def loop(statement: str, known: dict[str, Any]) -> Callable[[int], None]:
    """Returns a function that runs a statement a given number of times."""
    source = f"def run(times):\n    for _ in repeat(None, times):\n        {statement}\n"
    # Local variables of a function need no dictionary lookup.
    arguments = ", ".join(known)
    wrapped = f"def wrap({arguments}, repeat):\n" + "".join(f"    {line}\n" for line in source.splitlines())
    scope: dict[str, Any] = {}
    exec(f"{wrapped}    return run\n", scope)
    run: Callable[[int], None] = scope["wrap"](**known, repeat=repeat)
    return run


def turns(row: str, times: int) -> int:
    """Returns how often a row runs."""
    return times // MANY if row in COLLECTIONS else times


def main(group: str, short: int, long: int) -> None:
    known = names(group)
    loops = {row: loop(statement, known) for row, statement in ROWS[group].items()}
    # Warm-up: the interpreter specialises its code, and the libraries fill their caches.
    for row, run in loops.items():
        run(max(turns(row, 100), 3))
    if "COUNTING_STARTS" in os.environ:
        subprocess.run(["callgrind_control", "-i", "on", str(os.getpid())], check=True, capture_output=True)
    os.getppid()
    for row, run in loops.items():
        for times in (short, long):
            run(turns(row, times))
            os.getppid()


if __name__ == "__main__":
    if sys.argv[1:] == ["--rows"]:
        print(json.dumps(ROWS))
    else:
        main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
