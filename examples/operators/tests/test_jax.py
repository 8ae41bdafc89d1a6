"""The operators on arrays of JAX, with their gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import rust_operators
from cases import CASES, IDS_OF_TYPED, TYPED, Case, close, several
from test_numpy import BOXES, SCORES

WITH_GRADIENTS = [case for case in CASES if case.inputs]
NAMES = [case.name for case in WITH_GRADIENTS]


def arrays(jax: Any, case: Case, dtype: str) -> list[Any]:
    """Return the arguments."""
    return [jax.numpy.asarray(one) if isinstance(one, np.ndarray) else one for one in case.typed(dtype)]


@pytest.mark.parametrize(("case", "dtype"), TYPED, ids=IDS_OF_TYPED)
def test_operator_on_arrays_equals_formula(case: Case, dtype: str, jax: Any) -> None:
    expected = case.formula(np, *case.typed(dtype))
    arguments = arrays(jax, case, dtype)
    found = case.operator(*arguments)
    assert all(isinstance(one, jax.Array) for one in several(found))
    close(found, expected)
    attributes = [i for i, one in enumerate(arguments) if isinstance(one, int)]
    close(jax.jit(case.operator, static_argnums=attributes)(*arguments), expected)


@pytest.mark.parametrize("case", WITH_GRADIENTS, ids=NAMES)
def test_gradients_equal_those_of_formula(case: Case, jax: Any) -> None:
    for dtype in case.dtypes:
        gradients = []
        for function in (case.operator, lambda *arguments: (case.smooth or case.formula)(jax.numpy, *arguments)):

            def loss(*arguments: Any, function: Any = function) -> Any:
                result = several(function(*arguments))[0]
                return (result * jax.numpy.linspace(-1, 1, result.size, dtype=result.dtype).reshape(result.shape)).sum()

            gradients.append(jax.grad(loss, case.inputs)(*arrays(jax, case, dtype)))
        close(*gradients)


@pytest.mark.parametrize("case", WITH_GRADIENTS, ids=NAMES)
def test_gradients_equal_finite_differences(case: Case, jax: Any) -> None:
    from jax.test_util import check_grads

    if "float64" not in case.dtypes:
        # Finite differences of float32 are too coarse; the formula's gradient has checked these operators.
        return
    arguments = arrays(jax, case, "float64")

    def floats(*inputs: Any) -> Any:
        passed = list(arguments)
        for position, one in zip(case.inputs, inputs):
            passed[position] = one
        return several(case.operator(*passed))[0]

    check_grads(floats, [arguments[i] for i in case.inputs], order=2 if case.name == "mish" else 1, modes=["rev"])


def test_vmap_equals_calls_one_by_one(jax: Any) -> None:
    values, ids = jax.numpy.asarray(np.random.default_rng(1).normal(size=(2, 5, 3))), jax.numpy.arange(5) % 3
    close(jax.vmap(rust_operators.mish)(values), rust_operators.mish(values))
    found = jax.vmap(lambda one: rust_operators.segment_sum(one, ids, 3))(values)
    close(found, np.stack([rust_operators.segment_sum(np.asarray(one), np.asarray(ids), 3) for one in values]))


def test_suppression_is_refused_with_the_reason(jax: Any) -> None:
    with pytest.raises(NotImplementedError, match="decides the shape of its output kept, but XLA allocates results"):
        rust_operators.non_maximum_suppression(jax.numpy.asarray(BOXES), jax.numpy.asarray(SCORES))


def test_wrong_arguments_are_refused(jax: Any) -> None:
    values = jax.numpy.ones((3, 2))
    with pytest.raises(RuntimeError, match=r"segment_sum: ids\[1\] is 5; it must be from 0 to 2"):
        jax.block_until_ready(rust_operators.segment_sum(values, jax.numpy.asarray([0, 5, 0]), 3))
    with pytest.raises(TypeError, match="mish: x must be float32 or float64, but is int64"):
        rust_operators.mish(jax.numpy.arange(3))
    with pytest.raises(ValueError, match=r"values\[0\] == ids\[0\] is required, but the extents are \[3\] and \[2\]"):
        rust_operators.segment_sum(values, jax.numpy.asarray([0, 1]), 3)
