"""A library of operators without Python's C API, loaded by each framework as it loads C++ operators.

`DLBRIDGE_PLAIN_OPERATORS` names the library: `cargo build -p operators --no-default-features`. Each framework runs in a
process that cannot import the extension module.
"""

import os
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import operators
import pytest
from processes import output

LIBRARY = os.environ.get("DLBRIDGE_PLAIN_OPERATORS", "")

BEGIN = """
import os, sys
os.environ.setdefault("JAX_PLATFORMS", "cpu")
# An import of the extension module raises.
sys.modules["operators"] = None
library, folder = sys.argv[1:]
sys.path.insert(0, folder)

import gc
import numpy as np
from cases import CASES, X, check, several, softclip

def raises(call, *texts, of=Exception):
    try:
        call()
    except of as error:
        assert all(text in str(error) for text in texts), error
        return
    raise AssertionError("nothing was raised")
"""


@pytest.fixture(scope="module")
def library() -> str:
    if not LIBRARY:
        reason = "DLBRIDGE_PLAIN_OPERATORS does not name the library without Python"
        if os.environ.get("DLBRIDGE_REQUIRE") == "1":
            pytest.fail(reason, pytrace=False)
        pytest.skip(reason)
    assert Path(LIBRARY).is_file()
    return LIBRARY


def run(library: str, framework: str, code: str) -> None:
    """Run code in another process, after `BEGIN`."""
    if find_spec(framework) is None:
        pytest.skip(f"{framework} is not installed")
    assert output(BEGIN + code, library, Path(__file__).parent, options=(), quiet=False) == "passed\n"


def undefined(path: str) -> list[str]:
    """Return the symbols that a library expects from others."""
    nm = shutil.which("nm")
    if nm is None:
        if os.environ.get("DLBRIDGE_REQUIRE") == "1":
            pytest.fail("the program nm was not found", pytrace=False)
        pytest.skip("the program nm was not found")
    options = ["-D", "--undefined-only"] if sys.platform == "linux" else ["-u"]
    found = subprocess.run([nm, *options, path], capture_output=True, text=True, check=True).stdout
    return [line.split()[-1].lstrip("_") for line in found.splitlines() if line.strip()]


def test_library_needs_no_function_of_python(library: str) -> None:
    of_python = [symbol for symbol in undefined(library) if symbol.startswith("Py")]
    assert of_python == []
    # The extension module has such symbols, so the comparison finds them.
    assert any(symbol.startswith("Py") for symbol in undefined(operators.softclip.path))


@pytest.mark.skipif(sys.platform != "linux", reason="needs the loader of Linux")
def test_program_without_python_loads_the_library(library: str) -> None:
    # The loader ends a program whose libraries lack a symbol.
    environment = os.environ | {"LD_PRELOAD": library, "LD_BIND_NOW": "1"}
    done = subprocess.run(["/bin/cat", "/proc/self/maps"], env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert os.path.realpath(library) in done.stdout


def test_pytorch_calls_the_operators(library: str) -> None:
    run(
        library,
        "torch",
        """
import torch
torch.ops.load_library(library)
ops = torch.ops.operators
tried = 0
for case in CASES:
    arguments = [torch.from_numpy(one) if isinstance(one, np.ndarray) else one for one in case.copied()]
    # The dispatcher needs a tensor to select the kernel.
    if any(isinstance(one, torch.Tensor) for one in arguments):
        check(case, [*arguments[:case.changed], *several(getattr(ops, case.operator)(*arguments))])
        tried += 1
assert tried > 40

x = torch.linspace(-3, 3, 8)
assert ops.address(x).item() == x.data_ptr()
out = torch.empty(8)
assert ops.softclip(x, out=out) is None
torch.testing.assert_close(out, softclip(x))
assert ops.min_max(torch.empty(3, 4, device="meta"))[0].shape == (3,)
raises(lambda: ops.fails(x), "fails: x has the element -3; it must not be negative", of=RuntimeError)
raises(lambda: ops.panics(x), "panics: panicked: element 0 is negative", of=RuntimeError)
raises(lambda: ops.softclip(x.double()), "softclip: x must be float32, but is float64", of=RuntimeError)
# Gradients are a part of the extension module; PyTorch warns.
import warnings
warnings.simplefilter("ignore")
leaf = x.clone().requires_grad_()
ops.softclip(leaf).sum().backward()
assert leaf.grad is None
print("passed")
""",
    )


def test_tvm_ffi_calls_the_operators(library: str) -> None:
    run(
        library,
        "tvm_ffi",
        """
import tvm_ffi
module = tvm_ffi.load_module(library)
for case in CASES:
    arguments = case.copied()
    found = several(getattr(module, case.operator)(*arguments))
    check(case, [*arguments[:case.changed], *map(np.from_dlpack, found)])

x, out = X.copy(), np.empty_like(X)
assert np.from_dlpack(module["address"](x)).tolist() == [x.ctypes.data]
module["softclip"](x, out)
np.testing.assert_allclose(out, softclip(x), rtol=1e-6)
raises(lambda: module.fails(x), "fails: x has the element -3; it must not be negative", of=RuntimeError)
raises(lambda: module.panics(x), "panics: panicked: element 0 is negative", of=RuntimeError)
raises(lambda: module.softclip(x.astype("f8")), "softclip: x must be float32, but is float64", of=TypeError)
print("passed")
""",
    )


def test_jax_calls_the_handlers(library: str) -> None:
    run(
        library,
        "jax",
        """
import ctypes
import jax
import jax.numpy as jnp
jax.config.update("jax_enable_x64", True)
loaded = ctypes.CDLL(library)

def call(name, results, *arrays, **attributes):
    target = jax.ffi.pycapsule(getattr(loaded, f"operators_{name}_xla"))
    jax.ffi.register_ffi_target(f"operators.{name}", target, platform="cpu")
    results = [jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in results]
    return jax.jit(lambda *arrays: jax.ffi.ffi_call(f"operators.{name}", results)(*arrays, **attributes))(*arrays)

tried = 0
for case in CASES:
    # Attributes are tried below. XLA refuses results whose shape the function decides.
    if case.operator in ("softclip", "softclip_vjp_vjp", "strided_sum", "min_max", "outer", "halves", "twice", "multiply"):
        results = [(np.shape(one), np.asarray(one).dtype) for one in case.results]
        check(case, call(case.operator, results, *map(jnp.asarray, case.arguments)))
        tried += 1
assert tried > 20

x = jnp.asarray(X)
like = [(x.shape, x.dtype)]
np.testing.assert_allclose(call("stretch", like, x, by=np.float64(3))[0], 3 * X, rtol=1e-6)
raises(lambda: call("fails", like, x), "fails: x has the element -3; it must not be negative")
raises(lambda: call("panics", like, x), "panics: panicked: element 0 is negative")
raises(lambda: call("softclip", like, x.astype("int32")), "softclip: x must be float32, but is int32")
print("passed")
""",
    )


def test_code_of_the_chapter_runs(library: str) -> None:
    page = (Path(__file__).parents[2] / "docs/operators.md").read_text()
    (code,) = re.findall(r"^```python\n(torch\.ops\.load_library.*?)^```$", page, re.MULTILINE | re.DOTALL)
    *lines, call = code.strip().splitlines()
    code = "\n".join([*lines, f"result = {call}"])
    code = code.replace("libclips.so", library).replace(".clips_", ".operators_")
    begin = "import ctypes, jax, torch, tvm_ffi\njax_array = jax.numpy.asarray(X)\n"
    end = "np.testing.assert_allclose(result, softclip(X), rtol=1e-6)\nprint('passed')\n"
    for framework in ("jax", "torch"):
        if find_spec(framework) is None:
            pytest.skip(f"{framework} is not installed")
    run(library, "tvm_ffi", f"{begin}{code}\n{end}")
