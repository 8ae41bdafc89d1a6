"""Checks that a library is installed, and imports nothing."""

from __future__ import annotations

import sys
from types import ModuleType

from dlbridge._core import _canonical, _consumers


def check_installed(to: str | ModuleType) -> None:
    """Raise what :meth:`dlbridge.Tensor.to` raises for a library that is unknown or not installed. Imports nothing."""
    name = _canonical(to)
    module = next(consumer["module"] for consumer in _consumers() if consumer["name"] == name)
    package = module.partition(".")[0]
    if not is_installed(package):
        raise ModuleNotFoundError(f"{name} is not installed; install it first", name=package)


def is_installed(package: str) -> bool:
    """Return true if a package is installed or loaded. Does not import it."""
    # find_spec raises for a module that a program made itself, because it lacks a specification.
    if sys.modules.get(package) is not None:
        return True
    from importlib.util import find_spec

    return find_spec(package) is not None
