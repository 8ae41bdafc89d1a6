"""Consumers of the matrix: libraries and functions that import objects."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from dlbridge_conformance.adapter import Adapter
from dlbridge_conformance.outcome import NotApplicable


class Consumer:
    """Imports objects. A subclass sets the attributes and overrides what its library supports."""

    name: str
    #: the library to import; empty if it is part of Python
    library: str = ""
    #: the code of the direct way
    call: str
    #: the library's name for ``Tensor.to``; None if dlbridge does not know the library
    to: str | None = None
    #: whether a dlbridge.Tensor is passed as a NumPy array, because the library accepts no other arrays
    by_numpy: bool = False
    #: the dtypes to exchange; None for all; a library that converts other dtypes lists its own
    dtypes: tuple[str, ...] | None = None

    def version(self) -> str:
        """The version of the library; empty if it is part of Python."""
        return ""

    def is_installed(self) -> bool:
        """Returns whether the library can be imported."""
        return True

    def load(self) -> None:
        """Imports the library."""

    def scope(self) -> AbstractContextManager[object]:
        """The context manager that an exchange runs in."""
        return nullcontext()

    def take(self, obj: Any, expected: Any) -> Any:
        """Imports an object. ``expected`` are its elements; an override may use only the number of their axes."""
        raise NotImplementedError

    def values(self, array: Any, expected: Any) -> Any:
        """Returns the elements as nested lists."""
        raise NotImplementedError

    def address(self, array: Any) -> int | None:
        """The address of the first element as the library reports it; None if it does not report one."""
        return None

    def write(self, array: Any, value: Any) -> bool:
        """Writes the element at index zero. Returns False if the library refuses, or if its arrays are immutable."""
        return False


#: the names of libraries in ``Tensor.to``, by adapter; a ``pyarrow.Array`` has none
TO = {
    **{name: name for name in ("numpy", "torch", "jax", "tensorflow", "paddle", "cupy", "pyarrow", "mlx", "onnxruntime", "dpnp")},
    "tvm-ffi": "tvm_ffi", "warp-lang": "warp", "array-api-strict": "array_api_strict",
}  # fmt: skip


class AdapterConsumer(Consumer):
    """The ``from_dlpack`` of a library that has an adapter."""

    def __init__(self, adapter: Adapter) -> None:
        self.adapter = adapter
        self.name = adapter.name
        self.library = adapter.name
        self.call = f"{adapter.name}.from_dlpack(obj)"
        self.to = TO.get(adapter.name)

    def version(self) -> str:
        return self.adapter.version()

    def is_installed(self) -> bool:
        return self.adapter.is_installed()

    def load(self) -> None:
        self.adapter.load()

    def take(self, obj: Any, expected: Any) -> Any:
        return self.adapter.from_dlpack(obj)

    def values(self, array: Any, expected: Any) -> Any:
        return self.adapter.values(array)

    def address(self, array: Any) -> int | None:
        try:
            return int(self.adapter.address(array))
        except NotApplicable:
            return None

    def write(self, array: Any, value: Any) -> bool:
        try:
            self.adapter.write(array, value)
        except Exception:
            return False
        return True


class NarrowJAX(AdapterConsumer):
    """JAX with its default settings, which disable 64-bit dtypes."""

    def __init__(self, adapter: Adapter) -> None:
        super().__init__(adapter)
        self.name = "jax, x64 off"

    def scope(self) -> AbstractContextManager[object]:
        scope: AbstractContextManager[object] = self.adapter.jax.enable_x64(False)  # type: ignore[attr-defined]
        return scope
