"""Runs the kit in the environment of another Python, without installing anything there."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from dlbridge_conformance import result

#: the packages of the kit, without dependencies, whose extension modules run in every Python from 3.11 on
PACKAGES = ("dlbridge", "dlbridge_conformance")

#: prints whether a Python can import the kit: its version, and whether it has the GIL, which the stable ABI needs
QUESTION = "import sys, sysconfig; print(*sys.version_info[:2], int(bool(sysconfig.get_config_var('Py_GIL_DISABLED'))))"


def run(python: Path, arguments: Sequence[str]) -> int:
    """Runs the kit with another Python, and returns its exit status. Raises ValueError if that Python cannot run it."""
    _check(python)
    with tempfile.TemporaryDirectory(prefix="dlbridge-conformance-") as folder:
        for name in PACKAGES:
            spec = find_spec(name)
            assert spec is not None and spec.origin is not None
            _link(Path(spec.origin).parent, Path(folder, name))
        # Only these two packages, so that no other package of this environment hides one of the other environment.
        path = os.pathsep.join([folder, *filter(None, [os.environ.get("PYTHONPATH")])])
        program = f"{result.PROGRAM} --python {python}"
        environment = {**os.environ, "PYTHONPATH": path, result.PROGRAM_VARIABLE: program}
        process = subprocess.Popen([python, "-P", "-m", "dlbridge_conformance", *arguments], env=environment)
        while True:
            try:
                return process.wait()
            except KeyboardInterrupt:
                # The terminal interrupts both processes, and the other one still writes its report.
                continue


def _check(python: Path) -> None:
    try:
        # With -I, which every Python 3 has, no module of the current folder is imported.
        done = subprocess.run([python, "-I", "-c", QUESTION], capture_output=True, text=True)
    except OSError as error:
        raise ValueError(f"--python {python} cannot be run: {error.strerror}; it is the path of a Python") from error
    words = done.stdout.split()
    if done.returncode or len(words) != 3:
        raise ValueError(f"--python {python} is not a Python: it ended with {done.returncode} and printed {done.stdout[:80]!r}")
    major, minor, free_threaded = map(int, words)
    if (major, minor) < (3, 11):
        raise ValueError(f"--python {python} is Python {major}.{minor}, and the kit needs 3.11 or newer")
    if free_threaded:
        raise ValueError(f"--python {python} is a Python without GIL, and the kit needs one with it")


def _link(source: Path, target: Path) -> None:
    """Makes a folder appear at another place: as a link, or on Windows as a copy, since links need rights there."""
    if sys.platform == "win32":
        import shutil

        shutil.copytree(source, target)
    else:
        target.symlink_to(source, target_is_directory=True)
