"""Batches of pictures in memory that the caller provides."""

from batch_loader._native import Pictures

__all__ = ["Pictures"]
