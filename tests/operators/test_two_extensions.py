"""Two extensions with operators in one process: the tests' own, and the example's."""

import os
from importlib.util import find_spec

import operators
import pytest

torch = pytest.importorskip("torch")
# The second extension is imported after the first is in use.
pytestmark = pytest.mark.alone

if find_spec("rust_operators") is None and not os.environ.get("DLBRIDGE_REQUIRE"):
    pytest.skip("the example is not installed", allow_module_level=True)


def gradient(function, x):
    (found,) = torch.autograd.grad(function(x).sum(), x)
    return found


def test_second_extension_leaves_gradients_and_changes_of_the_first() -> None:
    x = torch.linspace(-2, 2, 5, requires_grad=True)
    expected = gradient(operators.softclip, x)

    import rust_operators

    assert torch.equal(gradient(operators.softclip, x), expected)
    assert torch.equal(torch.func.grad(lambda x: operators.softclip(x).sum())(x.detach()), expected)
    assert (gradient(rust_operators.mish, x) - gradient(torch.nn.functional.mish, x)).abs().max() < 1e-5
    changed = torch.ones(2)
    operators.relu_(changed)
    assert changed._version == 1
    with pytest.raises(RuntimeError, match="^relu_: x changes in place, which has no gradient"):
        operators.relu_(x * 1)
