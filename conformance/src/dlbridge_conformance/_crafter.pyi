"""The functions of the module are described by :mod:`dlbridge_conformance.crafter`."""

from typing import Any

def __getattr__(name: str) -> Any: ...
