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


def _runs_the_kit() -> bool:
    """Returns whether ``python -m dlbridge_conformance``, or ``-m`` with a module of the kit, imports this just now."""
    return sys.argv[:1] == ["-m"] and _module(sys.orig_argv).partition(".")[0] == __package__


def _module(arguments: list[str]) -> str:
    """Returns the module that Python's own arguments name: X of ``-m X``, ``-mX`` and ``-um X``."""
    rest = iter(arguments[1:])
    for argument in rest:
        letters = "" if argument.startswith("--") or not argument.startswith("-") else argument[1:]
        for place, letter in enumerate(letters, 1):
            if letter in "mWX":
                value = letters[place:] or next(rest, "")
                if letter == "m":
                    return value
                break
    return ""


# ``python -m`` puts the current folder first, where it would hide the modules that the kit itself imports.
if _runs_the_kit() and not sys.flags.safe_path:
    sys.path.append(sys.path.pop(0))
