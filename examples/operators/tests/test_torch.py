"""The operators on tensors of PyTorch, with their gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import rust_operators
from cases import CASES, IDS_OF_TYPED, TYPED, Case, close, several
from test_numpy import BOXES, SCORES

WITH_GRADIENTS = [case for case in CASES if case.inputs]
NAMES = [case.name for case in WITH_GRADIENTS]


def tensors(torch: Any, case: Case, dtype: str, *, grad: bool = False) -> list[Any]:
    """Return the arguments, with gradients if `grad`."""
    made = [torch.tensor(one) if isinstance(one, np.ndarray) else one for one in case.typed(dtype)]
    return [one.requires_grad_(grad) if i in case.inputs else one for i, one in enumerate(made)]


@pytest.mark.parametrize(("case", "dtype"), TYPED, ids=IDS_OF_TYPED)
def test_operator_on_tensors_equals_formula(case: Case, dtype: str, torch: Any) -> None:
    expected = case.formula(np, *case.typed(dtype))
    arguments = tensors(torch, case, dtype)
    found = case.operator(*arguments)
    assert all(type(one) is torch.Tensor for one in several(found))
    close(found, expected)
    close(getattr(torch.ops.rust_operators, case.name)(*arguments), expected)


@pytest.mark.parametrize("case", WITH_GRADIENTS, ids=NAMES)
def test_gradients_equal_those_of_formula(case: Case, torch: Any) -> None:
    for dtype in case.dtypes:
        gradients = []
        for function in (case.operator, lambda *arguments: (case.smooth or case.formula)(torch, *arguments)):
            arguments = tensors(torch, case, dtype, grad=True)
            result = several(function(*arguments))[0]
            weights = torch.linspace(-1, 1, result.numel(), dtype=result.dtype).reshape(result.shape)
            gradients.append(torch.autograd.grad((result * weights).sum(), [arguments[i] for i in case.inputs]))
        close(*gradients)


@pytest.mark.parametrize("case", WITH_GRADIENTS, ids=NAMES)
def test_gradients_pass_gradcheck(case: Case, torch: Any) -> None:
    if "float64" not in case.dtypes:
        # Finite differences of float32 are too coarse; the formula's gradient has checked these operators.
        return
    arguments = tensors(torch, case, "float64", grad=True)
    floats = lambda *arguments: several(case.operator(*arguments))[0]  # noqa: E731
    assert torch.autograd.gradcheck(floats, arguments)
    if case.name == "mish":
        assert torch.autograd.gradgradcheck(floats, arguments)


# opcheck itself reads the attribute.
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning")
@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_operator_passes_opcheck(case: Case, torch: Any) -> None:
    operator = getattr(torch.ops.rust_operators, case.name).default
    torch.library.opcheck(operator, tuple(tensors(torch, case, "float32", grad=True)))


def test_compiled_function_equals_the_function(torch: Any) -> None:
    def loss(values: Any, ids: Any) -> Any:
        return (rust_operators.segment_sum(torch.ops.rust_operators.mish(values), ids, 4) ** 2).sum()

    values, ids = torch.randn(6, 3), torch.tensor([0, 1, 3, 0, 1, 3])
    gradients = []
    for function in (loss, torch.compile(loss, backend="aot_eager")):
        leaf = values.clone().requires_grad_()
        gradients.append(torch.autograd.grad(function(leaf, ids), leaf)[0])
    close(*gradients)


def test_suppression_returns_the_indices_of_kept_boxes(torch: Any) -> None:
    boxes, scores = torch.from_numpy(BOXES), torch.from_numpy(SCORES)
    kept = rust_operators.non_maximum_suppression(boxes, scores)
    assert kept.tolist() == [1, 2, 3]
    assert torch.equal(boxes[kept], boxes[[1, 2, 3]])


def test_nearest_indexes_the_rows(torch: Any) -> None:
    x, y = torch.randn(4, 3), torch.randn(5, 3)
    squared, nearest = rust_operators.distances(x, y)
    assert torch.allclose(((x - y[nearest]) ** 2).sum(1), squared.min(1).values, atol=1e-5)


def test_wrong_arguments_are_refused(torch: Any) -> None:
    values = torch.ones(3, 2)
    with pytest.raises(RuntimeError, match=r"segment_sum: ids\[1\] is 5; it must be from 0 to 2"):
        rust_operators.segment_sum(values, torch.tensor([0, 5, 0]), 3)
    with pytest.raises((RuntimeError, TypeError), match="mish: x must be float32 or float64, but is int64"):
        rust_operators.mish(torch.arange(3))
