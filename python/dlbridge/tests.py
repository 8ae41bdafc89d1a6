"""A test that takes seconds: round trips of tensors through the installed libraries keep their values.

>>> import dlbridge.tests
>>> dlbridge.tests.run("numpy")  # doctest: +SKIP
numpy 2.4.6: passed
0
"""

from __future__ import annotations

import subprocess
import sys
from array import array
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from typing import Any

import dlbridge
from dlbridge._core import _consumers
from dlbridge.doctor import TIME_LIMIT
from dlbridge.explanation import version_of

__all__ = ["run"]

VALUES = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]

#: The exit code of a process that found a difference.
DIFFERENT = 3


def run(*libraries: str, write: Callable[[str], Any] = print) -> int:
    """Exchange tensors with libraries, and return the exit code: 0 if all of them passed.

    ``libraries`` are names as for :meth:`dlbridge.Tensor.to`; default: all that are installed. Each runs in its own process, and
    one line reports its result. A named library that is not installed fails.

    Raises ValueError for an unknown name.
    """
    modules = {consumer["name"]: consumer["module"] for consumer in _consumers()}
    unknown = set(libraries) - set(modules)
    if unknown:
        raise ValueError(f"unknown library {', '.join(sorted(unknown))}; known: {', '.join(modules)}")
    installed = [name for name, module in modules.items() if find_spec(module.partition(".")[0]) is not None]
    chosen = libraries or installed
    with ThreadPoolExecutor() as pool:
        problems = list(pool.map(_problem, chosen))
    for name, problem in zip(chosen, problems, strict=True):
        version = version_of(modules[name].partition(".")[0]) or ""
        write(f"{name} {version}".rstrip() + f": {problem or 'passed'}")
    return int(any(problems))


def _problem(library: str) -> str | None:
    code = "import sys; from dlbridge.tests import check; check(sys.argv[1])"
    try:
        done = subprocess.run(
            [sys.executable, "-c", code, library], capture_output=True, text=True, timeout=TIME_LIMIT
        )
    except subprocess.TimeoutExpired:
        return f"did not finish in {TIME_LIMIT} s"
    if done.returncode == 0:
        return None
    last = (done.stderr.strip().splitlines() or [""])[-1]
    return last if done.returncode in (1, DIFFERENT) else f"ended with {done.returncode}: {last}"


def check(library: str) -> None:
    """Exchange a tensor with a library in this process, which exits with ``DIFFERENT`` if the values differ."""
    ours = dlbridge.asdlpack(array("f", VALUES))
    theirs = (ours.reshape(2, 3) if library == "pillow" else ours).to(library)
    # The array interface of Pillow makes new bytes.
    back = dlbridge.asdlpack(theirs, protocol="arrow" if library == "pillow" else None)
    found = list(array("f", bytes(back)))
    if found != VALUES:
        print(f"{found} came back instead of {VALUES}", file=sys.stderr)
        sys.exit(DIFFERENT)
