"""Measures model files: opening, reading and writing beside the libraries that own the formats, and shared pages.

    python bench/run.py files [--mib 256] [--tensors 1000] [--repeats 7] [--folder FOLDER] [--shared-only] [--blocks-only]

Each row runs in processes of its own, dlbridge's and the peer's in turns; the times are the smallest of each. Memory is that
of the process above what it had before, without the pages of the file (``RssAnon``), at its highest. The rows of GGUF's
blocks are the CPU time of one thread for 4096 x 4096 random numbers. Prints Markdown.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

PRELUDE = """
import sys, time, threading, json
import numpy as np
path, count = sys.argv[1], int(sys.argv[2])

def anonymous():
    return int(next(line for line in open("/proc/self/status") if line.startswith("RssAnon")).split()[1]) * 1024

def measured(call):
    highest, going = [anonymous()], True
    before = highest[0]
    def watch():
        while going:
            highest.append(anonymous())
            time.sleep(0.001)
    watcher = threading.Thread(target=watch)
    if WATCHED:
        watcher.start()
    begun = time.perf_counter()
    kept = call()
    seconds = time.perf_counter() - begun
    going = False
    if WATCHED:
        watcher.join()
    highest.append(anonymous())
    print(json.dumps([seconds, max(highest) - before]))
"""

TORCH = "import torch\n"
MAKE = TORCH + "n = ELEMENTS\nstate = {f'layer.{i}.weight': torch.full((n // 16, 16), float(i)) for i in range(count)}\n"
FIRST = "def call():\n    file = {open}\n    x = file{get}\n    return float(x[0, 0])\n"
ALL = "def call():\n    state = {load}\n    return state, sum(float(x.sum()) for x in state.values())\n"

ROWS: dict[str, tuple[str, dict[str, str]]] = {
    "safetensors: open": (
        "file.safetensors",
        {
            "dlbridge": "import torch, dlbridge\ndlbridge.load(path, to='torch')\ncall = lambda: dlbridge.load(path, to='torch')",
            "safetensors": "import torch\nfrom safetensors import safe_open\nsafe_open(path, 'pt')\ncall = lambda: safe_open(path, 'pt')",
        },
    ),
    "safetensors: open and read the first element of one": (
        "file.safetensors",
        {
            "dlbridge": "import torch, dlbridge\ndlbridge.load(path, to='torch')\n"
            + FIRST.format(open="dlbridge.load(path, to='torch')", get="['layer.7.weight']"),
            "safetensors": "import torch\nfrom safetensors import safe_open\nsafe_open(path, 'pt')\n"
            + FIRST.format(open="safe_open(path, 'pt')", get=".get_tensor('layer.7.weight')"),
        },
    ),
    "safetensors: all tensors in PyTorch": (
        "file.safetensors",
        {
            "dlbridge": "import torch, dlbridge\ndlbridge.load(path, to='torch')\ncall = lambda: dict(dlbridge.load(path, to='torch'))",
            "safetensors": "import torch\nfrom safetensors.torch import load_file\ncall = lambda: load_file(path)",
        },
    ),
    "safetensors: all tensors in PyTorch, and their sums": (
        "file.safetensors",
        {
            "dlbridge": "import torch, dlbridge\n" + ALL.format(load="dict(dlbridge.load(path, to='torch'))"),
            "safetensors": "import torch\nfrom safetensors.torch import load_file\n" + ALL.format(load="load_file(path)"),
        },
    ),
    "safetensors: all tensors in NumPy, and their sums": (
        "file.safetensors",
        {
            "dlbridge": "import dlbridge\n" + ALL.format(load="dict(dlbridge.load(path, to='numpy'))"),
            "safetensors": "from safetensors.numpy import load_file\n" + ALL.format(load="load_file(path)"),
        },
    ),
    "PyTorch's file: open and read the first element of one": (
        "file.pt",
        {
            "dlbridge": "import torch, dlbridge\ndlbridge.load(path, to='torch')\n"
            + FIRST.format(open="dlbridge.load(path, to='torch')", get="['layer.7.weight']"),
            "torch.load(mmap=True)": TORCH + FIRST.format(open="torch.load(path, mmap=True)", get="['layer.7.weight']"),
        },
    ),
    "PyTorch's file: all tensors, and their sums": (
        "file.pt",
        {
            "dlbridge": "import torch, dlbridge\n" + ALL.format(load="dict(dlbridge.load(path, to='torch'))"),
            "torch.load(mmap=True)": TORCH + ALL.format(load="torch.load(path, mmap=True)"),
        },
    ),
    "npy: open": (
        "file.npy",
        {
            "dlbridge": "import dlbridge\ndlbridge.load(path, to='numpy')\ncall = lambda: dlbridge.load(path, to='numpy')",
            "numpy": "np.load(path, mmap_mode='r')\ncall = lambda: np.load(path, mmap_mode='r')",
        },
    ),
    "npy: the sum": (
        "file.npy",
        {
            "dlbridge": "import dlbridge\ncall = lambda: dlbridge.load(path, to='numpy').sum()",
            "numpy": "call = lambda: np.load(path, mmap_mode='r').sum()",
        },
    ),
    "npz: all arrays, and their sums": (
        "file.npz",
        {
            "dlbridge": "import dlbridge\n" + ALL.format(load="dict(dlbridge.load(path, to='numpy'))"),
            "numpy": ALL.format(load="dict(np.load(path))"),
        },
    ),
    "safetensors: save": (
        "saved.safetensors",
        {
            "dlbridge": MAKE + "import dlbridge\ncall = lambda: dlbridge.save(path, state)",
            "safetensors": MAKE + "from safetensors.torch import save_file\ncall = lambda: save_file(state, path)",
        },
    ),
    "safetensors: save transposed tensors": (
        "saved.safetensors",
        {
            "dlbridge": MAKE + "state = {k: x.T for k, x in state.items()}\nimport dlbridge\ncall = lambda: dlbridge.save(path, state)",
            "safetensors, after contiguous()": MAKE
            + "state = {k: x.T for k, x in state.items()}\nfrom safetensors.torch import save_file\n"
            "call = lambda: save_file({k: x.contiguous() for k, x in state.items()}, path)",
        },
    ),
    "npz: save": (
        "saved.npz",
        {
            "dlbridge": MAKE + "state = {k: x.numpy() for k, x in state.items()}\nimport dlbridge\ncall = lambda: dlbridge.save(path, state)",
            "numpy": MAKE + "state = {k: x.numpy() for k, x in state.items()}\ncall = lambda: np.savez(path, **state)",
        },
    ),
}

SHARED = """
import sys, json
import numpy as np
path, library = sys.argv[1:]
def pss():
    return int(next(line for line in open("/proc/self/smaps_rollup") if line.startswith("Pss:")).split()[1]) * 1024
import dlbridge
if library == "onnxruntime":
    import onnxruntime
    total = lambda x: float(np.asarray(x.numpy()).sum())
elif library == "jax":
    import jax
    total = lambda x: float(np.asarray(x).sum())
else:
    __import__(library)
    total = lambda x: float(x.sum())
# Everything that the libraries allocate at their first use.
first = dlbridge.load(path.replace("shared", "small"), to=library)
kept = [total(x) for x in first.values()]
before = pss()
print(before, flush=True)
sys.stdin.readline()
tensors = dict(dlbridge.load(path, to=library))
totals = [total(x) for x in tensors.values()]
print("ready", flush=True)
sys.stdin.readline()
print(pss() - before, flush=True)
sys.stdin.readline()
"""


def run(code: str, path: Path, count: int, elements: int, watched: bool) -> tuple[float, int]:
    program = f"WATCHED, ELEMENTS = {watched}, {elements}\n" + PRELUDE + code
    program += "\nmeasured(call)\n"
    ran = subprocess.run([sys.executable, "-c", program, path, str(count)], capture_output=True, text=True)
    if ran.returncode:
        raise SystemExit(ran.stderr)
    seconds, memory = json.loads(ran.stdout)
    return float(seconds), int(memory)


def write_files(folder: Path, count: int, elements: int, shared_only: bool) -> None:
    import dlbridge
    import numpy as np
    import safetensors.numpy
    import torch

    state = {f"layer.{n}.weight": np.full((elements // 16, 16), n, "float32") for n in range(count)}
    # Aligned, so that JAX shares the pages too.
    dlbridge.save(folder / "shared.safetensors", state)
    dlbridge.save(folder / "small.safetensors", {"x": np.ones((64, 16), "float32")})
    if shared_only:
        return
    safetensors.numpy.save_file(state, folder / "file.safetensors")
    torch.save({name: torch.from_numpy(array) for name, array in state.items()}, folder / "file.pt")
    np.savez(folder / "file.npz", **state)
    np.save(folder / "file.npy", np.concatenate(list(state.values())))


def by_rows(folder: Path, count: int, elements: int, repeats: int) -> None:
    print("| | library | time | ratio | memory |\n| --- | --- | --- | --- | --- |")
    for row, (file, programs) in ROWS.items():
        found: dict[str, list[float]] = {library: [] for library in programs}
        memory: dict[str, int] = {}
        for _ in range(repeats):
            for library, code in programs.items():
                found[library].append(run(code, folder / file, count, elements, False)[0])
        for library, code in programs.items():
            memory[library] = run(code, folder / file, count, elements, True)[1]
        ours = min(found["dlbridge"])
        for library, times in found.items():
            ratio = "" if library == "dlbridge" else f"{ours / min(times):.2f}"
            print(f"| {row} | {library} | {min(times) * 1000:.2f} ms | {ratio} | {memory[library] / 2**20:.1f} MiB |", flush=True)
            row = ""


def by_processes(path: Path) -> None:
    libraries = ("torch", "jax", "numpy", "onnxruntime")
    processes: list[subprocess.Popen[str]] = [
        subprocess.Popen([sys.executable, "-c", SHARED, path, library], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for library in libraries
    ]

    def told(process: Any) -> str:
        line: str = process.stdout.readline()
        return line.strip()

    def proceed() -> None:
        for process in processes:
            assert process.stdin
            process.stdin.write("\n")
            process.stdin.flush()

    for process in processes:
        told(process)
    proceed()
    for process in processes:
        assert told(process) == "ready"
    proceed()
    sizes = [int(told(process)) for process in processes]
    proceed()
    for process in processes:
        process.wait()
    size = path.stat().st_size
    print("\n| process | PSS above its start |\n| --- | --- |")
    for library, pss in zip(libraries, sizes, strict=True):
        print(f"| {library} | {pss / 2**20:.0f} MiB |")
    print(f"| together | {sum(sizes) / 2**20:.0f} MiB: {sum(sizes) / size:.3f} of the file |")


def by_blocks(folder: Path, repeats: int) -> None:
    import dlbridge
    import gguf
    import numpy as np

    def spent(call: Callable[[], object]) -> float:
        begun = time.thread_time()
        call()
        return time.thread_time() - begun

    dlbridge.set_num_threads(1)
    print("\n| blocks | dlbridge | gguf-py | ratio | float16 | bfloat16 |\n| --- | --- | --- | --- | --- | --- |")
    for kind in "Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2_K Q3_K Q4_K Q5_K Q6_K IQ4_NL IQ4_XS MXFP4 TQ1_0 TQ2_0".split():
        number = gguf.GGMLQuantizationType[kind]
        elements, nbytes = gguf.GGML_QUANT_SIZES[number]
        blocks = np.random.default_rng(0).integers(0, 256, (4096, 4096 // elements * nbytes), "uint8")
        writer = gguf.GGUFWriter(folder / "file.gguf", "llama")
        writer.add_tensor("x", blocks, raw_dtype=number)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        file = dlbridge.load(folder / "file.gguf")
        calls: dict[str, Callable[[], object]] = {
            name: lambda name=name: file.dequantize("x", name)  # type: ignore[misc]
            for name in ("float32", "float16", "bfloat16")
        }
        calls["gguf-py"] = lambda blocks=blocks, number=number: gguf.quants.dequantize(blocks, number)  # type: ignore[misc]
        with np.errstate(all="ignore"):
            times = {name: min(spent(call) for _ in range(repeats)) * 1000 for name, call in calls.items()}
        ours, theirs, half, brain = (times[name] for name in ("float32", "gguf-py", "float16", "bfloat16"))
        print(f"| {kind} | {ours:.1f} ms | {theirs:.0f} ms | {ours / theirs:.3f} | {half:.1f} ms | {brain:.1f} ms |", flush=True)


def main(words: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mib", type=int, default=256)
    parser.add_argument("--tensors", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--folder")
    parser.add_argument("--shared-only", action="store_true")
    parser.add_argument("--blocks-only", action="store_true")
    arguments = parser.parse_args(words)
    elements = (arguments.mib << 20) // 4 // arguments.tensors // 16 * 16
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        if not arguments.shared_only:
            by_blocks(Path(folder), arguments.repeats)
        if arguments.blocks_only:
            return
        write_files(Path(folder), arguments.tensors, elements, arguments.shared_only)
        if not arguments.shared_only:
            by_rows(Path(folder), arguments.tensors, elements, arguments.repeats)
        by_processes(Path(folder) / "shared.safetensors")


if __name__ == "__main__":
    main()
