"""A tensor keeps the memory that PyTorch's tensor had at the import, even if PyTorch's tensor gets other memory later."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
from conftest import require

import dlbridge

torch = require("torch")
numpy = require("numpy")


class Memory(numpy.ndarray):  # type: ignore[misc]
    """An array that supports weak references."""


def with_owner() -> tuple[Any, weakref.ref[Any]]:
    """A PyTorch tensor over an array, and a weak reference to the array."""
    array = numpy.arange(4, dtype="f4").view(Memory)
    return torch.from_numpy(array), weakref.ref(array)


class Subclass(torch.Tensor):  # type: ignore[misc]
    pass


KINDS: dict[str, Callable[[Any], Any]] = {
    "tensor": lambda x: x,
    "view": lambda x: x[::2],
    "parameter": lambda x: torch.nn.Parameter(x, requires_grad=False),
    "subclass": lambda x: x.as_subclass(Subclass),
}

IMPORTS: dict[str, Callable[[Any], Any]] = {
    "asdlpack": dlbridge.asdlpack,
    "exchange-api": lambda x: dlbridge.asdlpack(x, protocol="exchange-api"),
    "dlpack": lambda x: dlbridge.asdlpack(x, protocol="dlpack"),
    "dlpack-legacy": lambda x: dlbridge.asdlpack(x, protocol="dlpack-legacy"),
    "from_dlpack": dlbridge.from_dlpack,
    "like": lambda x: dlbridge.like(numpy.zeros(0), x),
    "numpy": lambda x: dlbridge.asdlpack(x).numpy(),
}


def set_data(x: Any) -> None:
    x.data = torch.zeros(4)


def set_(x: Any) -> None:
    x.set_(torch.zeros(4))


@pytest.mark.parametrize("replace", [set_data, set_])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", IMPORTS)
def test_memory_is_kept_when_the_tensor_gets_another(name: str, kind: str, replace: Callable[[Any], None]) -> None:
    base, owner = with_owner()
    x = KINDS[kind](base)
    expected = x.tolist()
    t = IMPORTS[name](x)
    replace(x)
    del base, x
    gc.collect()
    assert owner() is not None
    assert numpy.from_dlpack(t).tolist() == expected
    del t
    gc.collect()
    assert owner() is None


def test_copy_does_not_keep_the_memory() -> None:
    base, owner = with_owner()
    t = dlbridge.asdlpack(base, copy=True)
    base.data = torch.zeros(4)
    gc.collect()
    assert owner() is None
    assert numpy.from_dlpack(t).tolist() == [0, 1, 2, 3]
