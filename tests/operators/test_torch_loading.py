"""The order in which PyTorch and extensions are loaded, each in a process of its own."""

import shutil
from functools import partial

import processes
import pytest
from processes import output

pytest.importorskip("torch")

import operators  # noqa: E402


run = partial(output, options=(), PYTHONWARNINGS="error,ignore:::torch")

CHECKED = """
x = torch.linspace(-3, 3, 12)
assert torch.equal(torch.ops.operators.softclip(x), x / (1 + x.abs()))
assert torch.ops.operators.softclip(x.to("meta")).shape == (12,)
"""


def test_extension_before_torch_registers_with_the_first_call_and_compiles():
    program = """
import operators, sys
assert "torch" not in sys.modules
import torch, torch._dynamo
x = torch.linspace(-3, 3, 12)
assert torch.equal(operators.softclip(x), x / (1 + x.abs()))
found = torch.compile(lambda x: operators.softclip(x) + 1, fullgraph=True, backend="aot_eager")(x)
assert torch.equal(found, x / (1 + x.abs()) + 1)
"""
    run(program + CHECKED)


@pytest.mark.parametrize("first", ["", "import importlib.util; importlib.util.find_spec('torch._dynamo');"])
def test_first_call_of_an_extension_before_torch_may_be_compiled(first):
    program = f"""
import operators, torch
{first}
x = torch.linspace(-3, 3, 12)
found = torch.compile(lambda x: operators.softclip(x) + 1, fullgraph=True, backend="aot_eager")(x)
assert torch.equal(found, x / (1 + x.abs()) + 1)
"""
    run(program)


def test_extension_before_torch_registers_on_request():
    run("import operators; operators.register_torch(); operators.register_torch(); import torch" + CHECKED)


def test_extension_after_torch_registers_at_once():
    run("import torch, operators" + CHECKED)


def test_arrays_do_not_import_torch():
    run("import numpy, operators, sys; operators.softclip(numpy.ones(1, 'f4')); assert 'torch' not in sys.modules")


LOADED = """
import sys, torch
torch.ops.load_library(sys.argv[1])
torch.ops.load_library(sys.argv[1])
assert "operators" not in sys.modules
f = torch.ops.operators
low, high = f.min_max(torch.arange(12.0).view(3, 4))
assert low.tolist() == [0, 4, 8] and high.tolist() == [3, 7, 11]
try:
    f.min_max(torch.ones(1))
except RuntimeError as error:
    assert "must have 2 dimensions" in str(error)
else:
    raise AssertionError("no error")
found = torch.compile(lambda x: f.softclip(x) + 1, fullgraph=True, backend="aot_eager")(torch.ones(3))
assert found.tolist() == [1.5] * 3
"""


def test_file_without_import_is_loaded_by_torch_and_imported_later():
    gradient = "x.requires_grad_(); operators.softclip(x).sum().backward(); assert x.grad[0] == 1 / 16\n"
    run(LOADED + CHECKED + "import operators" + CHECKED + gradient, operators.softclip.path)


STUB = """
import sys, types
torch = types.ModuleType("torch")
torch.Tensor = type("Tensor", (), {})
torch.library = types.ModuleType("torch.library")
sys.modules["torch"] = torch
import numpy, operators
assert operators.softclip(numpy.ones(2, "f4")).tolist() == [0.5, 0.5]
for call in (lambda: operators.softclip(torch.Tensor()), operators.register_torch):
    try:
        call()
    except ImportError as error:
        assert "import torch before the operators are registered" in str(error), error
    else:
        raise AssertionError("no error")
assert operators.softclip(numpy.ones(2, "f4")).tolist() == [0.5, 0.5]
"""


def test_unsupported_torch_is_refused_with_the_first_tensor():
    run(STUB)


WITHOUT_NAME = """
import importlib, sys, torch
module, name = sys.argv[1:]
delattr(importlib.import_module(module), name)
import numpy, operators
assert operators.softclip(numpy.ones(2, "f4")).tolist() == [0.5, 0.5]
for call in (lambda: operators.relu_(torch.ones(2)), operators.register_torch):
    try:
        call()
    except ImportError as error:
        assert str(error).startswith(f"PyTorch {torch.__version__} does not have {module}.{name}, which"), error
        assert "; install PyTorch 2." in str(error)
    else:
        raise AssertionError("no error")
assert not hasattr(torch.ops.operators, "relu_")
"""


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("torch._C", "_AutoDispatchBelowAutograd"),
        ("torch._C", "_any_requires_grad"),
        ("torch._functorch.utils", "enable_single_level_autograd_function"),
        ("torch.autograd.function", "_SingleLevelFunction"),
        ("torch.autograd.forward_ad", "_current_level"),
    ],
)
def test_torch_without_a_private_name_is_refused(module, name):
    run(WITHOUT_NAME, module, name)


TWICE = """
import importlib.util, sys
if sys.argv[2] == "first":
    import torch
import operators
spec = importlib.util.spec_from_file_location("operators", sys.argv[1])
second = importlib.util.module_from_spec(spec)
try:
    spec.loader.exec_module(second)
    import torch
    assert operators.twice(torch.ones(2)).tolist() == [2, 2]
    second.twice(torch.ones(2))
except RuntimeError as error:
    message = str(error)
    assert message.startswith("PyTorch failed to define operators::softclip: "), message
    assert "another extension has an operator operators::softclip, rename the operator or its namespace" in message
else:
    raise AssertionError("no error")
assert operators.twice(torch.ones(2)).tolist() == [2, 2]
"""


@pytest.mark.parametrize("torch_is", ["first", "last"])
def test_two_extensions_with_the_same_names_are_refused(tmp_path, torch_is):
    copy = tmp_path / "operators.abi3.so"
    shutil.copyfile(operators.softclip.path, copy)
    done = processes.run(TWICE, copy, torch_is, options=())
    assert done.returncode == 0, done.stderr
