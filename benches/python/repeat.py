"""Runs the paths with a budget, between marks for callgrind: `repeat.py SHORT LONG`; `--rows` prints their names.

It imports only numpy and dlbridge, so it runs in every environment of the tests.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from itertools import repeat
from typing import Any

ROWS = {
    "an empty loop": "pass",
    "NumPy array -> no-op argument": "noop(array)",
    "dlbridge.Tensor -> no-op argument": "noop(tensor)",
    "new tensor -> capsule": "new()",
    "new tensor -> object -> capsule": "make().__dlpack__(max_version=version)",
    "object -> np.from_dlpack": "from_dlpack(kept)",
    "asdlpack(NumPy array)": "asdlpack(array)",
    "new vector -> NumPy array": "new_numpy()",
}


def names() -> dict[str, Any]:
    import with_dlbridge as ours
    import dlbridge
    import numpy as np

    array = np.ones((4, 6), "float32")
    return {
        "array": array,
        "tensor": dlbridge.asdlpack(np.ones((4, 6), "float32")),
        "kept": ours.make(),
        "noop": ours.noop,
        "new": ours.new,
        "new_numpy": ours.new_numpy,
        "make": ours.make,
        "version": (1, 3),
        "from_dlpack": np.from_dlpack,
        "asdlpack": dlbridge.asdlpack,
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


def main(short: int, long: int) -> None:
    known = names()
    loops = [loop(statement, known) for statement in ROWS.values()]
    # Warm-up: the interpreter specialises its code, and the libraries fill their caches.
    for run in loops:
        run(100)
    os.getppid()
    for run in loops:
        for times in (short, long):
            run(times)
            os.getppid()


if __name__ == "__main__":
    if sys.argv[1:] == ["--rows"]:
        print(json.dumps(list(ROWS)))
    else:
        main(int(sys.argv[1]), int(sys.argv[2]))
