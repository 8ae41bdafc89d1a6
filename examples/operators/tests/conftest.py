"""Libraries as fixtures; a test is skipped without its library."""

from __future__ import annotations

from typing import Any

import pytest
import rust_operators


@pytest.fixture
def torch() -> Any:
    """Return PyTorch with the operators in `torch.ops`."""
    torch = pytest.importorskip("torch")
    rust_operators.register_torch()
    return torch


@pytest.fixture
def jax() -> Any:
    """Return JAX with 64-bit types."""
    jax = pytest.importorskip("jax")
    jax.config.update("jax_enable_x64", True)
    return jax


@pytest.fixture
def tvm_ffi() -> Any:
    """Return tvm-ffi."""
    return pytest.importorskip("tvm_ffi")
