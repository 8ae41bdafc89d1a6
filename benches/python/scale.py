"""Measures how the cost grows: `scale.py WHAT [--quick] [--file FILE]`; prints JSON.

- `bytes`: one argument of 1 KiB to 1 GiB: nanoseconds by library and size;
- `tensors`: a PyTorch state dict to the extension and back: nanoseconds per tensor, by library and number of tensors;
- `threads`: calls per microsecond of a function with one argument, by library, from one thread and from two;
- `safetensors LIBRARY`: a large file opened as many tensors: milliseconds until a byte of the last one is read, and the
  growth of the process's memory until then.
"""

from __future__ import annotations

import argparse
import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from rows import EXTENSIONS, extension

SIZES = {"1 KiB": 2**10, "64 KiB": 2**16, "1 MiB": 2**20, "64 MiB": 2**26, "1 GiB": 2**30}


def functions() -> dict[str, Callable[[Any], Any]]:
    """Returns each library's function that takes a matrix and does nothing."""
    import tvm_ffi

    found = {name: extension(name).noop for name in EXTENSIONS}
    return {**found, "tvm-ffi": tvm_ffi.get_global_func("testing.nop")}


def taken(function: Callable[[Any], Any], argument: Any, calls: int) -> float:
    """Returns nanoseconds per call, including the loop."""
    turns = range(calls)
    before = time.thread_time_ns()
    for _ in turns:
        function(argument)
    return (time.thread_time_ns() - before) / calls


def by_bytes(quick: bool) -> dict[str, dict[str, dict[str, float]]]:
    import numpy as np
    import torch

    # Untouched memory: a library that reads or copies it pays for page faults, and shows here most clearly.
    numpy_arrays = {label: np.empty((size // 1024, 256), "float32") for label, size in SIZES.items()}
    frameworks = {
        "numpy": numpy_arrays,
        "torch": {label: torch.empty(size // 1024, 256) for label, size in SIZES.items()},
    }
    found: dict[str, dict[str, dict[str, float]]] = {}
    for framework, arrays in frameworks.items():
        for library, function in functions().items():
            if library == "rust-numpy" and framework != "numpy":
                continue
            rounds: dict[str, list[float]] = {label: [] for label in arrays}
            for _ in range(5 if quick else 15):
                for label, array in arrays.items():
                    rounds[label].append(taken(function, array, 1000))
            shown = {label: round(median(times), 1) for label, times in rounds.items()}
            found.setdefault(framework, {})[library] = shown
    return found


def by_tensors(quick: bool) -> dict[str, dict[str, dict[str, float]]]:
    import torch
    import tvm_ffi

    Pair = tuple[Callable[[Any], Any], Callable[[Any], Any]]
    pairs: dict[str, Pair] = {
        "dlbridge": (extension("dlbridge").hand_on, lambda tensor: tensor.torch()),
        "dlpark": (extension("dlpark").hand_on, torch.from_dlpack),
        "dlpk": (extension("dlpk").hand_on, torch.from_dlpack),
        "tvm-ffi": (tvm_ffi.from_dlpack, torch.from_dlpack),
    }
    found: dict[str, dict[str, dict[str, float]]] = {}
    for count in (100, 1000, 10_000):
        # As in a model: a few shapes, many times.
        state = {f"layer.{n}.weight": torch.ones(4 + n % 5, 6) for n in range(count)}
        rounds: dict[str, list[tuple[float, float]]] = {library: [] for library in pairs}
        for _ in range(5 if quick else 15):
            for library, (there, back) in pairs.items():
                begun = time.thread_time_ns()
                held = {name: there(tensor) for name, tensor in state.items()}
                between = time.thread_time_ns()
                returned = {name: back(tensor) for name, tensor in held.items()}
                ended = time.thread_time_ns()
                assert all(returned[name].data_ptr() == state[name].data_ptr() for name in state)
                del held, returned
                rounds[library].append(((between - begun) / count, (ended - between) / count))
        for library, times in rounds.items():
            there_and_back = (round(median(way), 1) for way in zip(*times, strict=True))
            found.setdefault(library, {})[str(count)] = dict(zip(("there", "back"), there_and_back, strict=True))
    return found


def by_threads(quick: bool) -> dict[str, dict[str, float]]:
    import numpy as np

    seconds = 0.1 if quick else 1.0

    def rate(function: Callable[[Any], Any], count: int) -> float:
        """Returns the calls of all threads together per microsecond."""
        start = threading.Barrier(count)
        rates: list[float] = []

        def work() -> None:
            array = np.ones((4, 6), "float32")
            start.wait()
            begun, calls = time.perf_counter(), 0
            while time.perf_counter() - begun < seconds:
                for _ in range(1000):
                    function(array)
                calls += 1000
            rates.append(calls / (time.perf_counter() - begun) / 1e6)

        threads = [threading.Thread(target=work) for _ in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return round(sum(rates), 3)

    return {library: {"1": rate(function, 1), "2": rate(function, 2)} for library, function in functions().items()}


def resident() -> int:
    """Returns the resident memory of this process in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def by_safetensors(library: str, file: str) -> dict[str, float]:
    import numpy as np
    import safetensors
    import safetensors.numpy

    ours = extension("dlbridge")
    before, begun = resident(), time.perf_counter()
    kept: Any
    if library == "dlbridge":
        tensors = ours.open_safetensors(file)
        kept = tensors, np.from_dlpack(tensors[max(tensors)])
    elif library == "safetensors: `safe_open`":
        opened = safetensors.safe_open(file, framework="np")
        kept = opened, opened.get_tensor(max(opened.keys()))
    elif library == "safetensors: `load_file`":
        tensors = safetensors.numpy.load_file(file)
        kept = tensors, tensors[max(tensors)]
    else:
        raise SystemExit(f"unknown library for safetensors files: {library}")
    kept[1][0, 0]
    milliseconds = (time.perf_counter() - begun) * 1000
    return {"ms": round(milliseconds, 3), "resident": resident() - before}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["bytes", "tensors", "threads", "safetensors"])
    parser.add_argument("library", nargs="?", default="")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--file", default="")
    options = parser.parse_args()
    if options.what == "safetensors":
        print(json.dumps(by_safetensors(options.library, options.file)))
        return
    ask = {"bytes": by_bytes, "tensors": by_tensors, "threads": by_threads}[options.what]
    print(json.dumps(ask(options.quick)))


if __name__ == "__main__":
    main()
