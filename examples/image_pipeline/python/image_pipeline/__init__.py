"""Pictures decoded and encoded by Rust, exported to every library that supports DLPack."""

from ._native import load, save

__all__ = ["load", "save"]
