"""The place of the current folder in Python's search path: the end, so that it hides no installed module.

A project with ``mylibrary/`` at its root has compiled parts only in the installed ``mylibrary``, and a folder ``json`` of
it is not Python's ``json``.
"""

from __future__ import annotations

import os
import sys


def search_here() -> None:
    """Appends the current folder to the path, so that an adapter in a file of it is found."""
    if os.getcwd() not in sys.path and "" not in sys.path:
        sys.path.append(os.getcwd())


# ``python -m dlbridge_conformance`` puts the current folder first, where it would hide the modules that the kit itself
# imports. ``sys.argv`` begins with ``-m`` only while the package of the module to run is imported.
if sys.argv[:1] == ["-m"] and any(f"{__package__}" in word for word in sys.orig_argv) and not sys.flags.safe_path:
    sys.path.append(sys.path.pop(0))
