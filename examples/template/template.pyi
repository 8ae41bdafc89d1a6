"""
The extension module.
"""

from dlbridge.typing import TensorLike
from typing import Any

__all__ = ["row_sums"]

def row_sums(x: TensorLike) -> Any:
    """
    The sum of each row.
    """
