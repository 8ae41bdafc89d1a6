"""``python -m dlbridge doctor``: what the installed frameworks speak, tried out."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from threading import Lock
from typing import Any

import dlbridge
from dlbridge.explanation import alignment, version_of

#: How to make an own tensor of each library, as an expression of its module ``m``.
SAMPLES: dict[str, str] = {
    "numpy": "m.arange(6, dtype='float32')",
    "torch": "m.arange(6, dtype=m.float32)",
    "jax": "__import__('jax').numpy.arange(6, dtype='float32')",
    "tensorflow": "m.range(6, dtype='float32')",
    "paddle": "m.arange(6, dtype='float32')",
    "cupy": "m.arange(6, dtype='float32')",
    "pyarrow": "m.array([0, 1, 2, 3, 4, 5], m.float32())",
    "mlx": "m.arange(6, dtype=m.float32)",
    "tvm_ffi": "m.from_dlpack(dlbridge.empty(6))",
    "onnxruntime": "m.OrtValue.ortvalue_from_numpy(__import__('numpy').arange(6, dtype='float32'))",
    "warp": "m.array([0, 1, 2, 3, 4, 5], dtype=float, device='cpu')",
    "dpnp": "m.arange(6, dtype='float32')",
    "array_api_strict": "m.arange(6, dtype=m.float32)",
    "polars": "m.Series([0, 1, 2, 3, 4, 5], dtype=m.Float32)",
    "pandas": "m.Series([0, 1, 2, 3, 4, 5], dtype='float32')",
    "pillow": "m.new('F', (3, 2))",
}

#: The longest that a framework may take to be imported and tried, in seconds.
TIME_LIMIT = 120


@dataclass(frozen=True)
class Finding:
    """What was found out about a framework."""

    library: str
    version: str | None = None
    #: Why nothing was found out.
    problem: str | None = None
    #: The doors of its tensors.
    doors: tuple[str, ...] = ()
    #: What its tensor came in as.
    tensor: str | None = None
    #: Whether its tensor came in over the same memory; the sentence why not.
    imported: str | None = None
    #: Whether our tensor became one of its own over the same memory; the sentence why not.
    exported: str | None = None


def examine(library: str) -> Finding:
    """Try a framework out in this process."""
    consumer = next(c for c in dlbridge.consumers() if c["name"] == library)
    module = __import__(consumer["module"], fromlist=["*"])
    version = version_of(consumer["module"].partition(".")[0])
    sample: Any = eval(SAMPLES[library], {"m": module, "dlbridge": dlbridge})
    explanation = dlbridge.explain(sample)
    tensor, imported = None, explanation.refusal
    if explanation.tensor is not None:
        facts = explanation.tensor
        tensor = f"{facts['dtype']} on {facts['device']}, aligned to {facts['alignment']}"
        tensor += ", read-only" if facts["read_only"] else ""
        copied = facts["copied"]
        imported = "shared" if copied == "no" else f"copied: {copied}"
    doors = tuple(door.protocol for door in explanation.doors if door.there)
    return Finding(library, version, None, doors, tensor, imported, _export(library))


def _export(library: str) -> str:
    tensor = dlbridge.empty((2, 3) if library == "pillow" else 6)
    try:
        made = tensor.to(library)
        # The array interface of Pillow makes new bytes.
        back = dlbridge.asdlpack(made, protocol="arrow" if library == "pillow" else None)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    if back.address == tensor.address:
        return "shared"
    return f"copied, to an address aligned to {alignment(back.address)}"


def examine_apart(library: str) -> Finding:
    """Try a framework out in a process of its own: some crash next to others."""
    code = "import sys, json, dataclasses; from dlbridge.doctor import examine; "
    code += "print('\\n' + json.dumps(dataclasses.asdict(examine(sys.argv[1]))))"
    command = [sys.executable, "-c", code, library]
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=TIME_LIMIT)
    except subprocess.TimeoutExpired:
        return Finding(library, problem=f"did not answer in {TIME_LIMIT} s")
    if run.returncode == 0:
        found = json.loads(run.stdout.splitlines()[-1])
        return Finding(**{**found, "doors": tuple(found["doors"])})
    last = (run.stderr.strip().splitlines() or [""])[-1]
    module = next(c["module"] for c in dlbridge.consumers() if c["name"] == library)
    # What the library itself needs, and does not find, is a problem of another kind.
    if last == f"ModuleNotFoundError: No module named '{module.partition('.')[0]}'":
        return Finding(library, problem="not installed")
    ended = f"signal {-run.returncode}" if run.returncode < 0 else f"code {run.returncode}"
    return Finding(library, problem=f"ended with {ended}: {last}")


def examine_all(libraries: Sequence[str]) -> list[Finding]:
    """Try frameworks out side by side, a process each. Standard error says which are done."""

    def examine_and_say(library: str) -> Finding:
        finding = examine_apart(library)
        with lock:
            done.append(library)
            print(f"{len(done)} of {len(libraries)}: {library}", file=sys.stderr, flush=True)
        return finding

    done: list[str] = []
    lock = Lock()
    with ThreadPoolExecutor(len(libraries)) as pool:
        return list(pool.map(examine_and_say, libraries))


def describe(finding: Finding) -> str:
    """The finding as text."""
    head = f"{finding.library} {finding.version or ''}".rstrip()
    if finding.problem is not None:
        return f"{head}: {finding.problem}"
    return "\n".join(
        [
            head,
            f"  speaks      {', '.join(finding.doors)}",
            f"  its tensor  {finding.tensor or 'does not come in'}",
            f"  from it     {finding.imported}",
            f"  to it       {finding.exported}",
        ]
    )


def main(arguments: Sequence[str], write: Callable[[str], Any] = print) -> int:
    """The command; what it returns is the exit code: 1 if a framework that was named has a problem."""
    names = [consumer["name"] for consumer in dlbridge.consumers()]
    parser = argparse.ArgumentParser(
        prog="python -m dlbridge doctor",
        description="Try out which frameworks exchange tensors with dlbridge, and how.",
    )
    parser.add_argument(
        "framework", nargs="*", help=f"one of {', '.join(names)}; all that are installed if none"
    )
    parser.add_argument("--json", action="store_true", help="write JSON")
    options = parser.parse_args(arguments)
    unknown = set(options.framework) - set(names)
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}; known are {', '.join(names)}")
    findings = examine_all(options.framework or names)
    if not options.framework:
        findings = [finding for finding in findings if finding.problem != "not installed"]
    if options.json:
        write(json.dumps([asdict(finding) for finding in findings], indent=2))
    else:
        write(f"dlbridge {dlbridge.__version__}, Python {sys.version.split()[0]}")
        for finding in findings:
            write(describe(finding))
    return int(bool(options.framework) and any(f.problem is not None for f in findings))
