"""Native functions; :mod:`dlbridge_conformance.crafter` documents and wraps them."""

from typing import Any

def __getattr__(name: str) -> Any: ...
