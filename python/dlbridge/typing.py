"""Types for annotations: objects with each protocol, and the results of functions.

The protocol classes work with ``isinstance`` too, which looks for the attribute and does not call ``__dlpack__``. Python 3.11
runs the property of an array interface; later Pythons only look for it, so a tensor on the CPU is a
``SupportsCudaArrayInterface`` there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, runtime_checkable

if TYPE_CHECKING:
    from typing_extensions import CapsuleType

__all__ = [
    "ProtocolName",
    "Reader",
    "SupportsArrayInterface",
    "SupportsArrayStruct",
    "SupportsArrowArray",
    "SupportsArrowDeviceArray",
    "SupportsArrowStream",
    "SupportsBuffer",
    "SupportsCudaArrayInterface",
    "SupportsDLPack",
    "SupportsExchangeAPI",
    "TensorLike",
    "TensorOrSequence",
]

#: The name of a protocol.
ProtocolName: TypeAlias = Literal[
    "exchange-api",
    "dlpack",
    "dlpack-legacy",
    "cuda-array-interface",
    "array-interface",
    "array-struct",
    "buffer",
    "arrow",
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
    """NumPy's array interface."""

    @property
    def __array_interface__(self) -> dict[str, Any]:
        """The place, dtype and layout of the elements."""
        ...


@runtime_checkable
class SupportsArrayStruct(Protocol):
    """NumPy's array interface as a C struct."""

    @property
    def __array_struct__(self) -> CapsuleType:
        """A capsule over the struct."""
        ...


@runtime_checkable
class SupportsCudaArrayInterface(Protocol):
    """CUDA's array interface."""

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """The place, dtype and layout of the elements."""
        ...


@runtime_checkable
class SupportsArrowArray(Protocol):
    """The Arrow PyCapsule interface, for one array."""

    def __arrow_c_array__(self, requested_schema: Any = None) -> tuple[Any, Any]:
        """A capsule over the schema and one over the array."""
        ...


@runtime_checkable
class SupportsArrowDeviceArray(Protocol):
    """The Arrow PyCapsule interface, for one array on a device."""

    def __arrow_c_device_array__(self, requested_schema: Any = None) -> tuple[Any, Any]:
        """A capsule over the schema and one over the array."""
        ...


@runtime_checkable
class SupportsArrowStream(Protocol):
    """The Arrow PyCapsule interface, for a stream of arrays."""

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """A capsule over the stream."""
        ...


@runtime_checkable
class SupportsBuffer(Protocol):
    """The buffer protocol. Before Python 3.12 only type checkers see it."""

    def __buffer__(self, flags: int, /) -> memoryview:
        """A view of the memory, which stays locked as long as the view lives."""
        ...


class Reader(Protocol):
    """A file in binary mode, or an object that behaves like one."""

    def read(self, size: int, /) -> bytes:
        """Up to that many bytes."""
        ...

    def seek(self, offset: int, whence: int, /) -> int:
        """The new position."""
        ...


class _TypedArray(Protocol):
    """TensorFlow's tensors, whose declared type omits their protocols."""

    @property
    def shape(self) -> Any: ...

    @property
    def dtype(self) -> Any: ...

    def __array__(self) -> Any: ...


#: The objects that :func:`dlbridge.asdlpack` imports, and that every typed argument of an extension built
#: on dlbridge accepts: they have one of the protocols. Lists and strings have none.
TensorLike: TypeAlias = (
    SupportsDLPack
    | SupportsExchangeAPI
    | SupportsCudaArrayInterface
    | SupportsArrayInterface
    | SupportsArrayStruct
    | SupportsBuffer
    | SupportsArrowArray
    | SupportsArrowDeviceArray
    | SupportsArrowStream
    | _TypedArray
)

#: The objects that a typed argument with the constraint ``AllowSequence`` accepts: also lists and tuples of numbers,
#: nested ones for several dimensions, and ranges.
TensorOrSequence: TypeAlias = TensorLike | list[Any] | tuple[Any, ...] | range
