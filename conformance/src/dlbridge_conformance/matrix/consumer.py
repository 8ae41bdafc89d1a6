"""Consumers: who takes the objects that are exchanged."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import dlbridge
from dlbridge_conformance.adapter import Adapter
from dlbridge_conformance.outcome import NotApplicable


class Consumer:
    """Who takes objects. A subclass sets the attributes and overrides what its library can do."""

    name: str
    #: the library that is imported; empty for what comes with Python
    library: str = ""
    #: how the direct way is written
    call: str
    #: how the converting way is written; empty if there is none
    conversion: str = ""
    #: the name for ``Tensor.to``; None if dlbridge has no way of its own to the library
    to: str | None = None
    #: whether a dlbridge.Tensor goes there as an array of NumPy, since the library knows no other arrays
    by_numpy: bool = False
    #: the dtypes that are exchanged; None for all, and less for a library that turns the others into what it has
    dtypes: tuple[str, ...] | None = None

    def version(self) -> str:
        """The version of the library; empty for what comes with Python."""
        return ""

    def is_installed(self) -> bool:
        """Whether it can be imported."""
        return True

    def load(self) -> None:
        """Imports the library."""

    def scope(self) -> AbstractContextManager[object]:
        """What an exchange runs in."""
        return nullcontext()

    def take(self, obj: Any, expected: Any) -> Any:
        """What the library makes of an object. ``expected`` are its elements, of which only the axes are looked at."""
        raise NotImplementedError

    def convert(self, obj: Any) -> Any:
        """What the library's function that makes an array of anything makes of an object."""
        raise NotApplicable(f"{self.name} has no such function")

    def values(self, array: Any, expected: Any) -> Any:
        """The elements as nested lists."""
        raise NotImplementedError

    def address(self, array: Any) -> int | None:
        """Where the library says that the first element is; None if it does not."""
        return None

    def write(self, array: Any, value: Any) -> bool:
        """Writes the element at index zero; False if the library refuses, or its arrays never change."""
        return False


#: The functions that make an array of anything, by the name of the adapter: how they are written, and what they do.
CONVERSIONS: dict[str, tuple[str, Callable[[Any, Any], Any]]] = {
    "numpy": ("numpy.asarray(obj)", lambda lib, obj: lib.numpy.asarray(obj)),
    "torch": ("torch.as_tensor(obj)", lambda lib, obj: lib.torch.as_tensor(obj)),
    "jax": ("jax.numpy.asarray(obj)", lambda lib, obj: lib.jax.numpy.asarray(obj)),
    "tensorflow": ("tensorflow.convert_to_tensor(obj)", lambda lib, obj: lib.tensorflow.convert_to_tensor(obj)),
    "paddle": ("paddle.to_tensor(obj)", lambda lib, obj: lib.paddle.to_tensor(obj)),
    "mlx": ("mlx.core.array(obj)", lambda lib, obj: lib.mlx.core.array(obj)),
    "dpnp": ("dpnp.asarray(obj)", lambda lib, obj: lib.dpnp.asarray(obj)),
    "array-api-strict": ("array_api_strict.asarray(obj)", lambda lib, obj: lib.array_api_strict.asarray(obj)),
}


class AdapterConsumer(Consumer):
    """The ``from_dlpack`` of a library that has an adapter."""

    def __init__(self, adapter: Adapter) -> None:
        self.adapter = adapter
        self.name = adapter.name
        self.library = adapter.name
        self.call = f"{adapter.name}.from_dlpack(obj)"
        self.conversion = CONVERSIONS[adapter.name][0] if adapter.name in CONVERSIONS else ""
        root = adapter.module.partition(".")[0]
        # Tensor.to makes a pyarrow.Tensor, which is another class.
        known = (c["name"] for c in dlbridge.consumers() if c["module"].partition(".")[0] == root)
        self.to = None if adapter.name == "pyarrow-array" else next(known, None)

    def version(self) -> str:
        return self.adapter.version()

    def is_installed(self) -> bool:
        return self.adapter.is_installed()

    def load(self) -> None:
        self.adapter.load()

    def take(self, obj: Any, expected: Any) -> Any:
        return self.adapter.from_dlpack(obj)

    def convert(self, obj: Any) -> Any:
        return CONVERSIONS[self.adapter.name][1](self.adapter, obj)

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
    """JAX as it is by default, with its dtypes of 64 bits switched off."""

    def __init__(self, adapter: Adapter) -> None:
        super().__init__(adapter)
        self.name = "jax, x64 off"

    def scope(self) -> AbstractContextManager[object]:
        scope: AbstractContextManager[object] = self.adapter.jax.enable_x64(False)  # type: ignore[attr-defined]
        return scope
