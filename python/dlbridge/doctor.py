"""``python -m dlbridge doctor``: exchanges tensors with the installed frameworks and reports the results."""

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
from dlbridge._core import _canonical, _consumers
from dlbridge.explanation import alignment, version_of

#: An expression that makes a tensor of each library; ``m`` is its module.
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

#: The time limit for the import and the test of a framework, in seconds.
TIME_LIMIT = 120


@dataclass(frozen=True)
class Finding:
    """The results for a framework."""

    library: str
    version: str | None = None
    #: The reason why there are no results.
    problem: str | None = None
    #: The protocols of its tensors.
    protocols: tuple[str, ...] = ()
    #: The tensor that an import makes of the framework's tensor.
    tensor: str | None = None
    #: ``"shared"`` if the import shares the memory, or the reason why not.
    imported: str | None = None
    #: ``"shared"`` if the export shares the memory, or the reason why not.
    exported: str | None = None


def examine(library: str) -> Finding:
    """Test a framework in this process."""
    consumer = next(c for c in _consumers() if c["name"] == library)
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
    protocols = tuple(report.protocol for report in explanation.protocols if report.present)
    return Finding(library, version, None, protocols, tensor, imported, _export(library))


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
    """Test a framework in its own process: some crash beside others."""
    code = "import sys, json, dataclasses; from dlbridge.doctor import examine; "
    code += "print('\\n' + json.dumps(dataclasses.asdict(examine(sys.argv[1]))))"
    command = [sys.executable, "-c", code, library]
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=TIME_LIMIT)
    except subprocess.TimeoutExpired:
        return Finding(library, problem=f"did not finish in {TIME_LIMIT} s")
    if run.returncode == 0:
        found = json.loads(run.stdout.splitlines()[-1])
        return Finding(**{**found, "protocols": tuple(found["protocols"])})
    last = (run.stderr.strip().splitlines() or [""])[-1]
    module = next(c["module"] for c in _consumers() if c["name"] == library)
    # A missing dependency of the library is a different problem.
    if last == f"ModuleNotFoundError: No module named '{module.partition('.')[0]}'":
        return Finding(library, problem="not installed")
    ended = f"signal {-run.returncode}" if run.returncode < 0 else f"code {run.returncode}"
    return Finding(library, problem=f"ended with {ended}: {last}")


def examine_all(libraries: Sequence[str]) -> list[Finding]:
    """Test frameworks side by side, each in its own process, and print progress to standard error."""

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
            f"  protocols   {', '.join(finding.protocols)}",
            f"  its tensor  {finding.tensor or 'cannot be imported'}",
            f"  import      {finding.imported}",
            f"  export      {finding.exported}",
        ]
    )


def _name(library: str) -> str:
    """The canonical name of a library; an unknown name as it is."""
    try:
        return _canonical(library)
    except ValueError:
        return library


def main(arguments: Sequence[str], write: Callable[[str], Any] = print) -> int:
    """Run the command and return the exit code: 1 if a named framework has a problem."""
    names = [consumer["name"] for consumer in _consumers()]
    parser = argparse.ArgumentParser(
        prog="python -m dlbridge doctor",
        description="Test which frameworks exchange tensors with dlbridge, and how.",
    )
    parser.add_argument(
        "framework", nargs="*", help=f"one of {', '.join(names)}; default: all that are installed"
    )
    parser.add_argument("--json", action="store_true", help="write JSON")
    options = parser.parse_args(arguments)
    chosen = dict.fromkeys(_name(name) for name in options.framework)
    unknown = set(chosen) - set(names)
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}; known are {', '.join(names)}")
    findings = examine_all(list(chosen) or names)
    if not options.framework:
        findings = [finding for finding in findings if finding.problem != "not installed"]
    if options.json:
        write(json.dumps([asdict(finding) for finding in findings], indent=2))
    else:
        write(f"dlbridge {dlbridge.__version__}, Python {sys.version.split()[0]}")
        for finding in findings:
            write(describe(finding))
    return int(bool(options.framework) and any(f.problem is not None for f in findings))
