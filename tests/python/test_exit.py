"""The end of a process with live tensors in every framework: exit code 0, and an empty stderr."""

import subprocess

import processes
import pytest
from frameworks import require_installed

#: Settings that stop frameworks from printing at import.
QUIET = {"TF_CPP_MIN_LOG_LEVEL": "3", "TF_ENABLE_ONEDNN_OPTS": "0", "PYTHONWARNINGS": "ignore"}

LIBRARIES = [
    *("numpy", "torch", "jax", "tensorflow", "paddle", "pyarrow", "tvm_ffi", "onnxruntime", "mlx"),
    *("warp", "array_api_strict"),
]

BEGIN = """
import array, sys, threading
import dlbridge
library = sys.argv[1]
"""

#: Exchanges in both directions, kept by globals, by a cycle, by a module, and by a running thread.
EXCHANGE = """
source = array.array("f", range(6))
ours = dlbridge.asdlpack(source)
theirs = [ours.to(library), dlbridge.empty(6).to(library)]
again = [dlbridge.asdlpack(one) for one in theirs]
capsules = [one.__dlpack__(max_version=(1, 0)) for one in again]
views = [memoryview(one) for one in again]
cycle = [again, theirs]
cycle.append(cycle)
sys.modules["kept_to_the_end"] = (ours, theirs, again)
parked = threading.Event()
threading.Thread(target=lambda kept: parked.wait(), args=(theirs,), daemon=True).start()
"""

BASELINE = """
kept = dlbridge.empty(6).to(library)
"""


def run(code: str, library: str) -> subprocess.CompletedProcess[str]:
    """Runs code in a process that prints as little as possible."""
    return processes.run(BEGIN + code, library, options=(), **QUIET)


@pytest.mark.parametrize("library", LIBRARIES)
def test_live_tensors_at_exit(library: str) -> None:
    require_installed(library)
    result = run(EXCHANGE, library)
    assert result.returncode == 0, result.stderr[-2000:]
    if result.stderr:
        # Some frameworks always print something.
        assert result.stderr.splitlines() == run(BASELINE, library).stderr.splitlines()


@pytest.mark.parametrize("library", ["numpy", "torch", "jax"])
def test_exception_ends_the_program(library: str) -> None:
    require_installed(library)
    result = run(EXCHANGE + "raise ZeroDivisionError('on purpose')\n", library)
    assert result.returncode == 1
    assert result.stderr.endswith("ZeroDivisionError: on purpose\n")
    assert result.stderr.count("Traceback") == 1
    assert "Exception ignored" not in result.stderr


def test_sys_exit_and_fork() -> None:
    require_installed("numpy")
    code = """
import os
child = os.fork()
if child == 0:
    assert memoryview(again[0]).tolist() == [0, 1, 2, 3, 4, 5]
    sys.exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
sys.exit(5)
"""
    result = run(EXCHANGE + code, "numpy")
    assert (result.returncode, result.stderr) == (5, "")
