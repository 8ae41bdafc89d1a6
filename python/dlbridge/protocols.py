"""What an object must have for each door, as types for annotations.

``SupportsDLPack`` and the others can be asked with ``isinstance`` too; that looks for the attribute
and calls nothing of ``__dlpack__``, but runs the property of an array interface.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    from typing_extensions import CapsuleType

__all__ = [
    "SupportsArrayInterface",
    "SupportsArrayStruct",
    "SupportsCudaArrayInterface",
    "SupportsDLPack",
    "SupportsExchangeAPI",
]


@runtime_checkable
class SupportsDLPack(Protocol):
    """``__dlpack__`` of the Python specification of DLPack."""

    def __dlpack__(self) -> Any:
        """A capsule over the data; keywords differ from producer to producer."""
        ...


@runtime_checkable
class SupportsExchangeAPI(Protocol):
    """The C exchange API of DLPack 1.3, on the type."""

    @property
    def __dlpack_c_exchange_api__(self) -> CapsuleType:
        """A capsule over the table of functions."""
        ...


@runtime_checkable
class SupportsArrayInterface(Protocol):
    """The array interface of NumPy."""

    @property
    def __array_interface__(self) -> dict[str, Any]:
        """Where the elements are, and what they are."""
        ...


@runtime_checkable
class SupportsArrayStruct(Protocol):
    """The array interface of NumPy as a C struct."""

    @property
    def __array_struct__(self) -> CapsuleType:
        """A capsule over the struct."""
        ...


@runtime_checkable
class SupportsCudaArrayInterface(Protocol):
    """The array interface of CUDA."""

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """Where the elements are, and what they are."""
        ...
