"""A blur in Rust for pictures of any framework."""

from image_filter._native import blur, darken

__all__ = ["blur", "darken"]
