"""A class that owns a big buffer and lends it."""

from recording._native import Recording

__all__ = ["Recording"]
