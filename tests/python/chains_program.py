"""Runs loops that export a tensor and import the result: `chains_program.py LOOP TURNS [LOOP TURNS ...]`.

Prints the name of each loop and by how many bytes the process grew during it, then `dropped` and the name once the result is dropped.
A thread with a stack of 512 KiB runs the loop and drops its result, so nested deleters would overflow the stack and end the process.
"""

import pickle
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable
from importlib import import_module
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import dlbridge
import numpy as np

STACK = 512 * 1024

Step = Callable[[Any], Any]


def tensor() -> Any:
    return dlbridge.asdlpack(np.arange(8.0))


def by(protocol: str) -> Step:
    return lambda t: dlbridge.asdlpack(t, protocol=protocol)


def through(function: str) -> Step:
    """Imports each tensor with a function of another library, and imports the result."""
    module, name = function.rsplit(".", 1)
    to_library = getattr(import_module(module), name)
    return lambda t: dlbridge.asdlpack(to_library(t))


def second_copy() -> Any:
    """Loads a second copy of the extension, like another extension built on dlbridge."""
    file = Path(dlbridge._core.__file__)
    with tempfile.TemporaryDirectory() as folder:
        copy = shutil.copy(file, Path(folder) / file.name)
        loader = ExtensionFileLoader("_core", str(copy))
        spec = spec_from_file_location("_core", copy, loader=loader)
        assert spec
        second: Any = module_from_spec(spec)
        loader.exec_module(second)
    assert second.Tensor is not dlbridge.Tensor
    return second


PROTOCOLS = ("buffer", "array-interface", "array-struct", "arrow", "dlpack", "dlpack-legacy", "exchange-api")

FLAT: dict[str, tuple[Callable[[], Any], Callable[[], Step]]] = {
    "like": (lambda: np.arange(8.0), lambda: lambda a: dlbridge.like(a, a)),
    "slices": (lambda: np.arange(2e6), lambda: lambda a: dlbridge.like(a, a)[1:]),
    "memoryview": (tensor, lambda: lambda t: dlbridge.asdlpack(memoryview(t))),
    "memoryview-of-bytes": (
        lambda: dlbridge.asdlpack(b"12345678"),
        lambda: lambda t: dlbridge.asdlpack(memoryview(t)),
    ),
    "pickle-buffer": (tensor, lambda: lambda t: dlbridge.asdlpack(pickle.PickleBuffer(t))),
    "numpy": (tensor, lambda: lambda t: dlbridge.asdlpack(t.numpy())),
    "numpy-of-bytes": (lambda: dlbridge.asdlpack(b"12345678"), lambda: lambda t: dlbridge.asdlpack(t.numpy())),
    "asarray": (tensor, lambda: lambda t: dlbridge.asdlpack(np.asarray(t))),
    "from_dlpack": (tensor, lambda: lambda t: dlbridge.asdlpack(np.from_dlpack(t))),
    "own": (tensor, lambda: dlbridge.from_dlpack),
    "capsule": (tensor, lambda: lambda t: dlbridge.asdlpack(t.__dlpack__(max_version=(1, 3)))),
    **{protocol: (tensor, lambda protocol=protocol: by(protocol)) for protocol in PROTOCOLS},
}
"""Loops whose results keep only the first owner alive."""

class Subclass(np.ndarray):
    """NumPy keeps each array of a subclass, instead of that array's own base."""


GROWING: dict[str, tuple[Callable[[], Any], Callable[[], Step]]] = {
    "torch": (tensor, lambda: through("torch.from_dlpack")),
    "jax": (tensor, lambda: through("jax.dlpack.from_dlpack")),
    "pyarrow": (tensor, lambda: through("pyarrow.array")),
    "numpy": (tensor, lambda: lambda t: dlbridge.asdlpack(t.numpy().view(Subclass))),
}
"""Loops through code that keeps its own reference for each turn, which no other code can see."""


def pyarrow_alone() -> Step:
    import_array = import_module("pyarrow").Array._import_from_c_capsule
    return lambda array: import_array(*array.__arrow_c_array__())


ALONE: dict[str, tuple[Callable[[], Any], Callable[[], Step]]] = {
    "torch": (lambda: import_module("torch").arange(8.0), lambda: import_module("torch").from_dlpack),
    "jax": (lambda: import_module("jax.numpy").arange(8.0), lambda: import_module("jax.dlpack").from_dlpack),
    "pyarrow": (lambda: import_module("pyarrow").array(np.arange(8.0)), pyarrow_alone),
    "numpy": (lambda: np.arange(8.0).view(Subclass), lambda: lambda array: np.from_dlpack(array).view(Subclass)),
}
"""The loops of `GROWING` without dlbridge: they export to the same library and import from it."""

LOOPS = {
    **FLAT,
    "second-copy": (tensor, lambda: lambda t, second=second_copy(): dlbridge.asdlpack(second.asdlpack(t))),
    **{f"through-{name}": loop for name, loop in GROWING.items()},
    **{f"alone-{name}": loop for name, loop in ALONE.items()},
}


def grown() -> int:
    """The resident memory of the process in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def run(name: str, turns: int) -> None:
    first, step = LOOPS[name]

    def loop() -> None:
        x, turn = first(), step()
        for _ in range(min(1_000, turns)):
            x = turn(x)
        before = grown()
        for _ in range(turns):
            x = turn(x)
        print(name, grown() - before, flush=True)
        assert np.asarray(x).size
        del x
        print("dropped", name, flush=True)

    thread = threading.Thread(target=loop)
    thread.start()
    thread.join()


def main() -> None:
    threading.stack_size(STACK)
    for name, turns in zip(sys.argv[1::2], sys.argv[2::2], strict=True):
        run(name, int(turns))


if __name__ == "__main__":
    main()
