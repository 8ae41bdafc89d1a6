"""Pictures decoded and encoded by Rust, lent to every library that speaks DLPack."""

from ._native import load, save

__all__ = ["load", "save"]
