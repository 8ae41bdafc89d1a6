"""A tensor keeps the memory that PyTorch's tensor had at the import, even if PyTorch's tensor gets other memory later."""

import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
from conftest import require
from processes import run

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


@pytest.mark.parametrize(
    "replace", [lambda x: setattr(x, "data", torch.zeros(4)), lambda x: x.set_(torch.zeros(4))], ids=["data", "set_"]
)
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


def test_class_that_exports_other_memory_by_its_own_method_is_imported_from_it() -> None:
    other = torch.arange(3.0)

    class Converted(torch.Tensor):  # type: ignore[misc]
        def __dlpack__(self, **options: Any) -> Any:
            return other.__dlpack__(**options)

    x = torch.ones(2, 3).as_subclass(Converted)
    tensor = dlbridge.asdlpack(x)
    assert (tensor.address, tensor.tolist()) == (other.data_ptr(), [0.0, 1.0, 2.0])
    assert dlbridge.from_dlpack(x).address == other.data_ptr()


def test_imports_within_an_import_end_with_an_error() -> None:
    x, calls = torch.ones(3), []

    class Mode(torch.overrides.TorchFunctionMode):  # type: ignore[misc]
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            calls.append(func)
            with self:
                dlbridge.asdlpack(x)
            return func(*args, **(kwargs or {}))

    with Mode(), pytest.raises(RecursionError):
        dlbridge.asdlpack(x)
    assert len(calls) < 200


def test_storage_of_another_class_does_not_replace_that_of_pytorch() -> None:
    code = """
import dlbridge, torch
class Storage:
    def data_ptr(self): return 0
    def nbytes(self): return 1 << 62
    def __len__(self): return 1 << 62
class Odd(torch.Tensor):
    def untyped_storage(self): return Storage()
dlbridge.asdlpack(torch.ones(3).as_subclass(Odd))
x = torch.ones(3)
t = dlbridge.asdlpack(x)
kept = [x.detach()]  # so that no two memories have one address
class Mode(torch.overrides.TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        with torch._C.DisableTorchFunction():
            result = func(*args, **(kwargs or {}))
            kept.append(torch.zeros(3))
            x.data = kept[-1]
        return result
try:
    with Mode():
        dlbridge.asdlpack(x)
except BufferError as error:
    print(error)
"""
    done = run(code)
    assert "other memory while it was imported" in done.stdout, done.stderr
