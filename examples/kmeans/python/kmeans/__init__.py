"""k-means in Rust on any framework's matrix."""

from kmeans._native import kmeans

__all__ = ["kmeans"]
