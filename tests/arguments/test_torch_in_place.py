"""Tensors of PyTorch as arguments that are only read: described in place, and refused for the same reasons as by an import."""

import gc
import weakref
from collections.abc import Callable
from typing import Any

import dlbridge
import numpy as np
import processes
import pytest
import typed_arguments as typed

torch = pytest.importorskip("torch")


@pytest.fixture(autouse=True)
def known() -> None:
    """The first tensor of a class is imported, and decides about the later ones."""
    assert typed.mean(torch.ones(2, 3)) == 1.0
    assert typed.mean(torch.nn.Parameter(torch.ones(2, 3), requires_grad=False)) == 1.0


class Subclass(torch.Tensor):
    pass


class Plus(torch.Tensor):
    """A subclass that overrides all functions."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return super().__torch_function__(func, types, args, kwargs or {})


def numbers(*shape: int, dtype: Any = torch.float32) -> Any:
    return torch.arange(1, 1 + int(np.prod(shape))).to(dtype).reshape(shape)


def negated(shape: tuple[int, int]) -> Any:
    return torch.complex(numbers(*shape), numbers(*shape)).conj().imag


def fake() -> Any:
    with torch._subclasses.FakeTensorMode():
        return torch.ones(2, 3)


def in_inference_mode() -> Any:
    with torch.inference_mode():
        return numbers(2, 3)


def without_memory() -> Any:
    x = numbers(2, 3)
    x.untyped_storage().resize_(0)
    return x


TENSORS: dict[str, Callable[[], Any]] = {
    "contiguous": lambda: numbers(2, 3),
    "transposed": lambda: numbers(2, 3).T,
    "steps": lambda: numbers(4, 6)[::2, 1::3],
    "offset": lambda: numbers(4, 6)[1:3],
    "expanded": lambda: numbers(1, 3).expand(4, 3),
    "one element": lambda: numbers(1, 1),
    "odd stride of extent 1": lambda: numbers(2, 3).as_strided((1, 3), (7, 1)),
    "no rows": lambda: numbers(0, 3),
    "one dimension": lambda: numbers(3),
    "three dimensions": lambda: numbers(2, 3, 4),
    "six dimensions": lambda: numbers(1, 2, 1, 2, 1, 2),
    "no dimension": lambda: torch.tensor(1.0),
    "float64": lambda: numbers(2, 3, dtype=torch.float64),
    "bool": lambda: numbers(2, 3).bool(),
    "complex": lambda: numbers(2, 3, dtype=torch.complex64),
    "conjugate": lambda: numbers(2, 3, dtype=torch.complex64).conj(),
    "negative": lambda: negated((2, 3)),
    "negative view": lambda: negated((4, 3))[1:3],
    "negative of integers": lambda: torch._neg_view(torch.ones(2, 3, dtype=torch.int32)),
    "resolved": lambda: negated((2, 3)).resolve_neg(),
    "leaf with grad": lambda: torch.ones(2, 3, requires_grad=True),
    "result with grad": lambda: torch.ones(2, 3, requires_grad=True) * 2,
    "view with grad": lambda: torch.ones(4, 3, requires_grad=True)[1:3],
    "detached": lambda: (torch.ones(2, 3, requires_grad=True) * 2).detach(),
    "parameter": lambda: torch.nn.Parameter(numbers(2, 3)),
    "frozen parameter": lambda: torch.nn.Parameter(numbers(2, 3), requires_grad=False),
    "buffer": lambda: torch.nn.Buffer(numbers(2, 3)),
    "subclass": lambda: numbers(2, 3).as_subclass(Subclass),
    "subclass with grad": lambda: torch.ones(2, 3, requires_grad=True).as_subclass(Subclass),
    "overriding subclass": lambda: numbers(2, 3).as_subclass(Plus),
    "inference": in_inference_mode,
    "fake": fake,
    "meta": lambda: torch.ones(2, 3, device="meta"),
    "sparse": lambda: numbers(2, 3).to_sparse(),
    "sparse rows": lambda: numbers(2, 3).to_sparse_csr(),
    "quantised": lambda: torch.quantize_per_tensor(numbers(2, 3), 0.5, 0, torch.qint8),
    "nested": lambda: torch.nested.nested_tensor([numbers(3), numbers(2)]),
    "zeros without memory": lambda: torch._efficientzerotensor(2, 3),
    "functional": lambda: torch._to_functional_tensor(numbers(2, 3)),
    "without memory": without_memory,
    "uninitialised parameter": lambda: torch.nn.UninitializedParameter(),
}


def imported(x: Any) -> tuple[str, Any]:
    """The elements that an import finds, or its message. An import makes a tensor that owns its memory."""
    try:
        return "elements", dlbridge.asdlpack(x).numpy()
    except Exception as error:
        return "refused", str(error)


def assert_same(x: Any) -> None:
    outcome, found = imported(x)
    if outcome == "elements" and found.dtype == np.float32 and found.ndim == 2 and found.size:
        assert typed.mean(x) == pytest.approx(found.mean())
        return
    if outcome == "elements" and found.size == 0:
        assert np.isnan(typed.mean(x))
        return
    with pytest.raises((TypeError, BufferError)) as refusal:
        typed.mean(x)
    if outcome == "refused":
        assert found.rstrip(".") in str(refusal.value)


# PyTorch warns that some kinds are prototypes or will go.
@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize("name", TENSORS)
def test_tensor_is_taken_or_refused_as_by_an_import(name: str) -> None:
    try:
        x = TENSORS[name]()
    except (RuntimeError, NotImplementedError) as error:
        pytest.skip(f"PyTorch cannot make it: {error}")
    for _ in range(3):
        assert_same(x)


@pytest.mark.parametrize("name", ["contiguous", "steps", "one dimension", "three dimensions", "six dimensions", "no rows"])
def test_any_number_of_dimensions_is_described(name: str) -> None:
    x = TENSORS[name]()
    assert typed.shape(x) == list(x.shape)


def test_tensors_of_transforms_are_taken_or_refused_as_by_an_import() -> None:
    seen: list[str] = []

    def inside(x: Any) -> Any:
        assert_same(x)
        seen.append(type(x).__name__)
        return (x * x).sum()

    torch.func.vmap(inside)(numbers(2, 2, 3))
    torch.func.grad(inside)(numbers(2, 3))
    torch.func.functionalize(inside)(numbers(2, 3))
    torch.func.vmap(torch.func.grad(inside))(numbers(2, 2, 3))
    assert len(seen) == 4


@pytest.mark.filterwarnings("ignore::FutureWarning:torch")
def test_tensor_with_a_tangent_is_refused() -> None:
    forward, x = torch.autograd.forward_ad, numbers(2, 3)
    with forward.dual_level():
        dual = forward.make_dual(x, torch.ones(2, 3))
        for tensor in (dual, dual * 2, dual[:1], dual.T, dual.as_subclass(Subclass), dual.as_subclass(Plus)):
            for take in (typed.mean, typed.shape, dlbridge.asdlpack):
                with pytest.raises(BufferError, match=r"has a tangent, .*; call detach\(\) first"):
                    take(tensor)
        with pytest.raises(BufferError, match="has a tangent"):
            dlbridge.asdlpack(dual.to(torch.complex64))
        for tensor in (x, dual.detach(), forward.unpack_dual(dual).tangent * 3.5):
            assert typed.mean(tensor) == 3.5
            assert dlbridge.asdlpack(tensor).address == tensor.data_ptr()
        assert dlbridge.asdlpack(x.int()).shape == (2, 3)
    assert typed.mean(dual) == 3.5


@pytest.mark.parametrize("name", [*(f"{sign}int{bits}" for bits in range(1, 8) for sign in ("", "u")), "bit"])
def test_dtype_that_torch_exports_as_bytes_is_refused(name: str) -> None:
    x = torch.ones(2, 3, dtype=torch.uint8).view(getattr(torch, name))
    for tensor in (x, x.as_subclass(Subclass), x.as_subclass(Plus)):
        for take in (typed.total_of_anything, dlbridge.asdlpack):
            with pytest.raises(BufferError, match=rf"dtype is {x.dtype}, which .*call view\(torch.uint8\)"):
                take(tensor)
    for dtype in (torch.int8, torch.uint8):
        assert dlbridge.asdlpack(x.view(dtype)).address == x.data_ptr()


WITHOUT_NAMES = """
import sys, torch
for name in sys.argv[1:]:
    delattr(torch.autograd.forward_ad, name)
import dlbridge, typed_arguments
x = torch.ones(2, 3)
for _ in range(3):
    assert typed_arguments.mean(x) == 1 and dlbridge.asdlpack(x).address == x.data_ptr()
"""


@pytest.mark.parametrize("names", [["_current_level"], ["unpack_dual"], ["_current_level", "unpack_dual"]])
def test_torch_without_the_names_of_tangents_is_imported(names: list[str]) -> None:
    processes.output(WITHOUT_NAMES, *names, options=())


@pytest.mark.parametrize(
    ("function", "message"),
    [(torch.Tensor.is_neg, "negative bit"), (torch.Tensor.requires_grad.__get__, "requires grad")],
)
def test_torch_function_mode_answers_for_the_tensor(function: Any, message: str) -> None:
    class Mode(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return True if func == function else func(*args, **(kwargs or {}))

    x = numbers(2, 3)
    with Mode(), pytest.raises(BufferError, match=message):
        typed.mean(x)
    assert typed.mean(x) == 3.5


class ReplacesMemory(torch.overrides.TorchFunctionMode):
    """Gives a tensor other memory after each of the first functions."""

    def __init__(self, x: Any, times: int = 10**9) -> None:
        super().__init__()
        self.x = x
        self.times = times
        self.count = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        with torch._C.DisableTorchFunction():
            result = func(*args, **(kwargs or {}))
            if self.count < self.times:
                self.count += 1
                self.x.data = torch.full((200, 300), float(self.count))
        return result


def test_memory_that_is_replaced_during_the_call_is_kept_or_refused() -> None:
    x = torch.zeros(200, 300)
    for take in (typed.mean, lambda x: np.from_dlpack(dlbridge.asdlpack(x)).mean()):
        for _ in range(20):
            before = float(x[0, 0])
            with ReplacesMemory(x) as mode:
                try:
                    mean = take(x)
                except BufferError as error:
                    assert "other memory while it was imported" in str(error)
                    continue
            # The elements are those of one memory, which was not freed.
            assert mean in range(mode.count + 1) or mean == before
        # Only the storage that was looked up first is another one.
        for round in range(20):
            with ReplacesMemory(x, times=1) as mode:
                assert take(x) == mode.count == 1, round


def test_state_that_changes_after_an_import_is_seen() -> None:
    x = numbers(2, 3)
    assert typed.mean(x) == 3.5
    x.requires_grad_()
    with pytest.raises(BufferError, match="requires grad"):
        typed.mean(x)
    x.requires_grad_(False)
    torch._C._set_neg(x, True)
    with pytest.raises(BufferError, match="negative bit"):
        typed.mean(x)
    torch._C._set_neg(x, False)
    x.data = numbers(3, 3)
    assert typed.mean(x) == 5.0
    x.resize_(1, 3)
    assert typed.mean(x) == 2.0


def test_exception_of_the_storage_that_ends_the_program_is_raised() -> None:
    class Mode(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            raise KeyboardInterrupt

    x = numbers(2, 3)
    with Mode(), pytest.raises(KeyboardInterrupt):
        typed.mean(x)


def test_storage_and_tensor_are_released_after_the_call() -> None:
    class Memory(np.ndarray):  # type: ignore[type-arg]
        pass

    array = np.ones((2, 3), "f4").view(Memory)
    owner = weakref.ref(array)
    x = torch.from_numpy(array)
    del array
    assert typed.mean(x) == 1.0
    with pytest.raises(TypeError):
        typed.mean(x[0])
    del x
    gc.collect()
    assert owner() is None
