"""What the tests with PyTorch's tensors have in common: most call both the function of the module and the operator in
`torch.ops`."""

import pytest
from cases import CASES, several

torch = pytest.importorskip("torch")

import operators  # noqa: E402

# PyTorch imports deprecated functions of its own while it compiles, and when forward mode begins.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.torch.jit:FutureWarning"),
]

ops = torch.ops.operators

# The namespaces of functions.
BOTH = pytest.mark.parametrize("f", [operators, ops], ids=["module", "torch.ops"])


@pytest.fixture
def x():
    return torch.linspace(-3, 3, 12)


def tensors(case):
    return [torch.from_numpy(one) if hasattr(one, "dtype") else one for one in case.copied()]


def results(f, case, arguments, result):
    """Returns the arguments that change in place, then the results: the schema has only the latter."""
    changed = [] if f is operators else arguments[: case.changed]
    return [*changed, *several(result)]


# The dispatcher needs a tensor to select the kernel.
WITH_TENSOR = [case for case in CASES if any(hasattr(one, "dtype") for one in case.arguments)]
EACH = pytest.mark.parametrize("case", WITH_TENSOR, ids=str)
