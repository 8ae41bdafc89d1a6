"""
The extension module.
"""

from _typeshed import SupportsGetItem
from dlbridge.typing import TensorLike
from numpy import float32
from numpy.typing import NDArray
from typing import Any, SupportsFloat, SupportsIndex

__all__ = ["matrix", "row_sums"]

def matrix(values: SupportsGetItem[int, SupportsFloat | SupportsIndex], rows: SupportsIndex, columns: SupportsIndex) -> Any:
    """
    Returns the values as a matrix, row by row. `?` raises dlbridge's error if they do not fit.
    """

def row_sums(x: TensorLike) -> NDArray[float32]:
    """
    Returns the sum of each row, as a NumPy array.
    """
