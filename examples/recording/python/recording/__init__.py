"""A class that owns a large buffer and exports it."""

from recording._native import Recording

__all__ = ["Recording"]
