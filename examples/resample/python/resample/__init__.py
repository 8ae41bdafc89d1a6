"""Audio from array.array at another rate."""

from resample._native import resample

__all__ = ["resample"]
