"""Measures how the cost grows: `scale.py WHAT [--quick] [--file FILE]`; prints JSON.

- `bytes`: one argument of 1 KiB to 1 GiB: nanoseconds by library and size;
- `tensors`: a PyTorch state dict to the extension and back: nanoseconds per tensor, by library and number of tensors;
- `many`: lists and dicts of 1 to 100 000 NumPy arrays as one argument: nanoseconds per array, by collection, library and
  number of arrays;
- `threads`: calls per microsecond of a function with one argument, by library, of 1 to 16 threads together;
- `processes`: the same of 1 to 4 processes together;
- `safetensors LIBRARY`: a large file opened as many tensors: milliseconds until a byte of the last one is read, and the
  growth of the process's memory until then.
"""

from __future__ import annotations

import argparse
import gc
import json
import multiprocessing
import threading
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any, TypeVar

from rows import EXTENSIONS, extension, function_of, tvm_nothing

SIZES = {"1 KiB": 2**10, "64 KiB": 2**16, "1 MiB": 2**20, "64 MiB": 2**26, "1 GiB": 2**30}


def functions() -> dict[str, Callable[[Any], Any]]:
    """Returns each library's function that takes a matrix and does nothing."""
    return {name: no_op(name) for name in (*EXTENSIONS, "tvm-ffi")}


def no_op(library: str) -> Callable[[Any], Any]:
    return tvm_nothing() if library == "tvm-ffi" else extension(library).noop


def taken(function: Callable[[Any], Any], argument: Any, calls: int) -> float:
    """Returns nanoseconds per call, including the loop."""
    turns = range(calls)
    before = time.thread_time_ns()
    for _ in turns:
        function(argument)
    return (time.thread_time_ns() - before) / calls


Work = TypeVar("Work")


def rotated(works: list[Work], turn: int) -> list[Work]:
    """Returns the works with another one first in each turn: the first finds the memory that the last one freed."""
    first = turn % len(works)
    return works[first:] + works[:first]


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
        for turn in range(5 if quick else 15):
            for library, (there, back) in rotated(list(pairs.items()), turn):
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


COUNTS = (1, 10, 1000, 100_000)

ENTRIES = "dlbridge: `Entries`"

OTHER_FUNCTIONS = {"floor": ("floor", "list_by_buffer"), ENTRIES: ("dlbridge", "noop_entries")}
"""The extension and the function of a row that does not have the usual ones."""

MANY = {
    "list": ("noop_list", ("dlbridge", "rust-numpy", "nanobind", "floor")),
    "list, written": ("write_list", ("dlbridge", "rust-numpy", "nanobind")),
    "dict": ("noop_dict", ("dlbridge", ENTRIES, "rust-numpy", "nanobind")),
    "tree": ("noop_tree", ("dlbridge",)),
    "list of PyTorch tensors": ("noop_list", ("dlbridge", "nanobind")),
}
"""The function of each collection, and the libraries that have it."""


def collections_of(count: int) -> dict[str, Any]:
    """Returns as many arrays in each kind of collection."""
    import numpy as np
    import torch

    arrays = [np.ones((4, 6), "float32") for _ in range(count)]
    named = {f"layer.{n}.weight": array for n, array in enumerate(arrays)}
    layers = [{"w": pair[0], "b": pair[-1]} for pair in zip(arrays[::2], arrays[1::2], strict=False)]
    tensors = [torch.ones(4, 6) for _ in range(count)]
    return {
        "list": arrays,
        "list, written": arrays,
        "dict": named,
        "tree": layers or arrays,
        "list of PyTorch tensors": tensors,
    }


def by_many(quick: bool) -> dict[str, dict[str, dict[str, float]]]:
    import numpy as np

    # dlbridge borrows first, so that rust-numpy uses its registry.
    extension("dlbridge").noop(np.ones((4, 6), "float32"))
    found: dict[str, dict[str, dict[str, float]]] = {}
    for count in COUNTS[:-1] if quick else COUNTS:
        arguments = collections_of(count)
        calls = max(1, 10_000 // count)
        works = [
            (collection, library, function_of(*OTHER_FUNCTIONS.get(library, (library, name))))
            for collection, (name, libraries) in MANY.items()
            for library in libraries
        ]
        rounds: dict[tuple[str, str], list[float]] = {work[:2]: [] for work in works}
        # A collection of garbage would look at each array, at a moment that no library chooses.
        gc.disable()
        slow: set[tuple[str, str]] = set()
        for turn in range(3 if quick else 9):
            for collection, library, function in rotated(works, turn):
                if (collection, library) in slow:
                    continue
                each = taken(function, arguments[collection], calls) / count
                rounds[collection, library].append(each)
                # A library whose time grows with the square of the number is measured once.
                if each * count > 5e9:
                    slow.add((collection, library))
        gc.enable()
        for (collection, library), times in rounds.items():
            found.setdefault(collection, {}).setdefault(library, {})[str(count)] = round(median(times), 1)
    return found


THREADS = (1, 2, 4, 8, 16)


Span = tuple[float, float, int]
"""The begin and the end of a thread's calls, in seconds by the clock of all processes, and the number of calls."""


def calling(function: Callable[[Any], Any], seconds: float, start: Callable[[], Any]) -> Span:
    """Calls a function in this thread."""
    import numpy as np

    array = np.ones((4, 6), "float32")
    start()
    begun, calls = time.perf_counter(), 0
    while time.perf_counter() - begun < seconds:
        for _ in range(1000):
            function(array)
        calls += 1000
    return begun, time.perf_counter(), calls


def rate(spans: list[Span]) -> float:
    """Returns the calls of all threads together per microsecond, from the first begin to the last end."""
    begins, ends, calls = zip(*spans, strict=True)
    return round(sum(calls) / (max(ends) - min(begins)) / 1e6, 3)


def by_threads(quick: bool) -> dict[str, dict[str, float]]:
    seconds = 0.1 if quick else 1.0

    def of_threads(function: Callable[[Any], Any], count: int) -> float:
        start = threading.Barrier(count)
        spans: list[Span] = []
        threads = [
            threading.Thread(target=lambda: spans.append(calling(function, seconds, start.wait))) for _ in range(count)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return rate(spans)

    return {
        library: {str(count): of_threads(function, count) for count in THREADS}
        for library, function in functions().items()
    }


PROCESSES = (1, 2, 4)

PATIENCE = 60
"""The seconds after which a process that does not answer ends the measurement."""


def in_process(library: str, seconds: float, start: Any, spans: Any) -> None:
    function = no_op(library)
    calling(function, 0.01, lambda: None)
    spans.put(calling(function, seconds, lambda: start.wait(PATIENCE)))


def by_processes(quick: bool) -> dict[str, dict[str, float]]:
    seconds = 0.1 if quick else 1.0
    # A new process, which shares nothing with this one.
    context = multiprocessing.get_context("spawn")

    def of_processes(library: str, count: int) -> float:
        start, spans = context.Barrier(count), context.Queue()
        processes = [context.Process(target=in_process, args=(library, seconds, start, spans), daemon=True) for _ in range(count)]
        for process in processes:
            process.start()
        found = [spans.get(timeout=PATIENCE) for _ in processes]
        for process in processes:
            process.join()
        return rate(found)

    libraries = ("dlbridge", "rust-numpy", "nanobind", "tvm-ffi")
    return {library: {str(count): of_processes(library, count) for count in PROCESSES} for library in libraries}


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


ASKED: dict[str, Callable[[bool], Any]] = {
    "bytes": by_bytes,
    "tensors": by_tensors,
    "many": by_many,
    "threads": by_threads,
    "processes": by_processes,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=[*ASKED, "safetensors"])
    parser.add_argument("library", nargs="?", default="")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--file", default="")
    options = parser.parse_args()
    if options.what == "safetensors":
        print(json.dumps(by_safetensors(options.library, options.file)))
        return
    print(json.dumps(ASKED[options.what](options.quick)))


if __name__ == "__main__":
    main()
