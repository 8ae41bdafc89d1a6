"""The calls in docs/operators.md run, with the operators of the tests in place of the chapter's. `test_plain.py` has the rest."""

import os
import re
import sys
from pathlib import Path

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import numpy as np
import operators
import pytest

torch = pytest.importorskip("torch")
jax = pytest.importorskip("jax")
tvm_ffi = pytest.importorskip("tvm_ffi")

PAGE = Path(__file__).parents[2] / "docs/operators.md"
FIRST = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)[0]


# PyTorch imports deprecated functions of its own while it compiles.
@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
def test_calls_from_each_framework_return_its_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "clips", operators)
    array = np.linspace(-3, 3, 8, dtype="float32")
    names = {"jax": jax, "torch": torch, "tvm_ffi": tvm_ffi, "numpy_array": array}
    names |= {"jax_array": jax.numpy.asarray(array), "torch_tensor": torch.tensor(array, requires_grad=True)}
    import_, *lines = [line for line in FIRST.splitlines() if line]
    exec(import_, names)
    found = [eval(line, names) for line in lines]
    expected, gradient = array / (1 + abs(array)), (1 + abs(array)) ** -2
    assert isinstance(found[0], np.ndarray)
    np.testing.assert_allclose(found[0], expected, rtol=1e-6)
    np.testing.assert_allclose(names["torch_tensor"].grad, gradient, rtol=1e-6)
    np.testing.assert_allclose(found[2].detach(), expected + 1, rtol=1e-6)
    assert isinstance(found[3], jax.Array)
    np.testing.assert_allclose(found[3], gradient, rtol=1e-6)
    assert isinstance(found[4], tvm_ffi.Tensor)
    np.testing.assert_allclose(np.from_dlpack(found[4]), expected, rtol=1e-6)
