"""The tests of the package, for whoever wants to know whether it works with what is installed.

>>> import dlbridge.tests
>>> dlbridge.tests.run("package")  # doctest: +SKIP
0
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

__all__ = ["run"]

#: Where the test files are.
FOLDER = Path(__file__).with_name("tests")

#: Modules without which some tests are skipped.
FRAMEWORKS = (
    *("numpy", "torch", "jax", "tensorflow", "paddle", "pyarrow", "tvm_ffi", "onnxruntime", "mlx"),
    *("warp", "array_api_strict", "PIL", "ml_dtypes", "polars", "pandas", "nanoarrow", "mpi4py"),
    *("joblib", "mypy", "pyright"),
)


def run(*names: str) -> int:
    """Run the tests against whatever is installed, and return the exit code: 0 if none failed.

    ``names`` are those of test files without ``test_``, like ``"numpy"``; all files if there are none.
    Each file runs in a process of its own. Tests that need what is not installed are skipped, and the
    last line says what that was. Needs pytest, and a C compiler for the tests with crafted tensors.

    Raises ValueError for a name that no test file has, ModuleNotFoundError without pytest.
    """
    if importlib.util.find_spec("pytest") is None:
        raise ModuleNotFoundError("pytest is not installed; install it first")
    files = {path.stem.removeprefix("test_"): path for path in sorted(FOLDER.glob("test_*.py"))}
    unknown = set(names) - set(files)
    if unknown:
        raise ValueError(f"no tests for {', '.join(sorted(unknown))}; there are {', '.join(files)}")
    failed = [name for name in names or files if not _passes(files[name])]
    print(f"failed: {', '.join(failed) or 'none'}")
    missing = [name for name in FRAMEWORKS if importlib.util.find_spec(name) is None]
    print(f"not installed, so not tested: {', '.join(missing) or 'nothing'}")
    return int(bool(failed))


def _passes(path: Path) -> bool:
    options = ["-q", "-rs", "-p", "no:cacheprovider", "--rootdir", str(FOLDER)]
    command = [sys.executable, "-m", "pytest", *options, str(path)]
    print(f"== {path.stem}", flush=True)
    # With code 5 there was nothing left to run.
    return subprocess.run(command).returncode in (0, 5)
