"""The names of the libraries that tensors are exported to, and whether they are installed."""

from __future__ import annotations

import sys
from types import ModuleType

from dlbridge._core import _canonical, consumers


def library_name(library: object) -> str:
    """Return the name in an argument ``to``, which is a name or a module.

    Raises TypeError for another object. The name may be unknown.
    """
    if isinstance(library, str):
        return library
    if not isinstance(library, ModuleType):
        raise TypeError(f"to must be the name of a library, or its module, not {library!r}")
    return library.__name__.partition(".")[0]


def check_installed(library: str) -> None:
    """Raise what :meth:`dlbridge.Tensor.to` raises for a library that is unknown or not installed. Imports nothing."""
    name = _canonical(library)
    module = next(consumer["module"] for consumer in consumers() if consumer["name"] == name)
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
