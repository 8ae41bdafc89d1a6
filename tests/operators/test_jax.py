"""Operators called with JAX arrays: values, attributes, memory, errors and registration."""

import ctypes
import gc
import os
import shutil
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import numpy as np
import pytest

jax = pytest.importorskip("jax")
import jax.numpy as jnp
import operators
from cases import CASES, Case, check, resident, several, softclip
from concurrently import concurrently
from processes import output

X = jnp.linspace(-3, 3, 12, dtype=jnp.float32).reshape(3, 4)
LIKE = jax.ShapeDtypeStruct(X.shape, X.dtype)
PATH = operators.softclip.path

eager_and_jit = pytest.mark.parametrize("wrap", [lambda f, **options: f, jax.jit], ids=["eager", "jit"])


def close(found: Any, wanted: Any) -> None:
    np.testing.assert_allclose(np.asarray(found), np.asarray(wanted), rtol=1e-6, atol=1e-6)


run = partial(output, options=(), quiet=False)


@pytest.fixture
def x64() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


# Values.


@eager_and_jit
def test_output_begins_as_zeros(wrap: Any) -> None:
    function = wrap(operators.accumulated)
    for size in (12, 512, 4096) * 8:
        x = jnp.ones(size)
        # XLA's allocator reuses this memory.
        del [(jnp.full(size, 7.0) + i).block_until_ready() for i in range(4)][:]
        for found in function(x):
            np.testing.assert_array_equal(found, x)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("case", CASES, ids=str)
@eager_and_jit
def test_operator_on_arrays_returns_arrays(wrap: Any, case: Case) -> None:
    function = getattr(operators, case.operator)
    arrays = {i: jnp.asarray(one) for i, one in enumerate(case.arguments) if isinstance(one, np.ndarray)}

    def call(arrays: dict[int, Any]) -> Any:
        return function(*[arrays.get(i, one) for i, one in enumerate(case.arguments)])

    if any(function.dynamic):
        with pytest.raises(NotImplementedError, match=f"^{function.name}: the operator decides the shape of its output"):
            wrap(call)(arrays)
        return
    found = several(wrap(call)(arrays))
    assert all(isinstance(one, jax.Array) for one in found) or not arrays
    check(case, found)
    for i, array in arrays.items():
        np.testing.assert_array_equal(np.asarray(array), case.arguments[i])


def test_bfloat16_is_doubled() -> None:
    x = jnp.arange(6, dtype="bfloat16")
    found = operators.twice(x)
    assert (found.dtype, found.tolist()) == (x.dtype, (2 * x).tolist())


def test_mixed_arguments_return_jax_array() -> None:
    assert isinstance(operators.strided_sum(np.asarray(X), X), jax.Array)
    assert isinstance(operators.affine(np.asarray(X), bias=X[0]), jax.Array)
    assert isinstance(operators.softclip(np.asarray(X)), np.ndarray)


def test_transposed_argument_is_in_c_order() -> None:
    close(jax.jit(lambda x: operators.min_max(x.T)[0])(X), X.min(0))
    close(operators.strided_sum(X.T, X.T), (X * X).sum())
    assert operators.strided_sum.copies == 0


def test_several_outputs_are_a_tuple() -> None:
    assert type(operators.min_max(X)) is tuple


@pytest.mark.usefixtures("x64")
@eager_and_jit
def test_kernel_reads_the_address_of_the_argument(wrap: Any) -> None:
    assert wrap(operators.address)(X).tolist() == [X.unsafe_buffer_pointer()]


def test_function_has_weak_references_and_a_signature() -> None:
    assert weakref.ref(operators.softclip)() is operators.softclip
    close(jax.jit(operators.affine, static_argnames="scale")(X, scale=3.0), 3 * X)
    close(jax.jit(operators.affine, static_argnums=2)(X, None, 0.5), 0.5 * X)


def test_argument_out_is_refused_unless_it_is_none() -> None:
    close(operators.softclip(X, out=None), softclip(X))
    with pytest.raises(TypeError, match=r"^softclip: out cannot be filled, because JAX arrays never change; use the result"):
        operators.softclip(X, out=X)


# Attributes.


@eager_and_jit
def test_attributes_are_positional_or_named(wrap: Any) -> None:
    close(wrap(lambda x: operators.scaled(x))(X), X)
    close(wrap(lambda x: operators.scaled(x, 2, [2, 0.5], shift=(1, 2)))(X), 2 * X + 3)
    close(wrap(lambda x: operators.scaled(x, factors=[], shift=[]))(X), X)
    close(wrap(lambda x: operators.affine(x=x, scale=np.float32(0.5)))(X), 0.5 * X)


def test_float_attributes_keep_64_bits() -> None:
    ones = jnp.ones(1, jnp.float32)
    assert operators.scaled(ones, factors=[1e-300, 1e300]).tolist() == [1]
    assert operators.scaled(ones, times=2**40).tolist() == [2**40]
    assert operators.affine(ones, scale=float("inf")).tolist() == [np.inf]
    assert np.isnan(operators.affine(ones, scale=float("nan")))[0]


def test_negative_zero_is_another_program_than_zero() -> None:
    ones, zero = jnp.ones(1, jnp.float32), jnp.array([-0.0], jnp.float32)
    signs = [bool(np.signbit(operators.affine(ones, zero, scale)[0])) for scale in (0.0, -0.0, 0.0)]
    assert signs == [False, True, False]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: operators.affine(X, scale="2"), TypeError, "affine: scale must be a float, but is str"),
        (lambda: operators.affine(X, factor=2.0), TypeError, "affine: there is no parameter factor; known: x, bias, scale"),
        (lambda: operators.affine(X, x=2.0), TypeError, "affine: x is passed two times"),
        (lambda: operators.affine(X, [1.0]), TypeError, "affine: bias must be an array or None, but is list"),
        (lambda: operators.affine(bias=X), TypeError, "affine: the argument x is missing"),
        (lambda: operators.softclip(X, X), TypeError, "softclip: 1 arguments are expected, but there are 2"),
        (lambda: operators.scaled(X, 1.5), TypeError, "scaled: times must be an integer, but is float"),
        (lambda: operators.scaled(X, 2**63), ValueError, "scaled: times must fit in 64 bits, but is 9223372036854775808"),
        (lambda: operators.scaled(X, shift=3), TypeError, "scaled: shift must be a list of integers, but is int"),
        (lambda: operators.scaled(X, shift=[1, 2.5]), TypeError, r"scaled: shift\[1\] must be an integer, but is float"),
        (lambda: operators.scaled(X, factors="ab"), TypeError, "scaled: factors must be a list of floats, but is str"),
        (lambda: operators.described(X, b"a"), TypeError, "described: text must be a string, but is bytes"),
        (lambda: operators.described(X, double=1), TypeError, "described: double must be a boolean, but is int"),
        (lambda: operators.described(X, n=-1), ValueError, "described: an extent of the result would be -1"),
        (lambda: operators.softclip(jnp.arange(3)), TypeError, "softclip: x must be float32, but is int32; convert"),
        (lambda: operators.min_max(X[0]), ValueError, "min_max: x must have 2 dimensions, but has 1"),
        (lambda: operators.add_(X, X[0]), ValueError, r"add_: x\[..\] == y\[..\] is required, but the extents are \[3, 4\] and"),
        (lambda: operators.planar(X[0]), ValueError, r"planar: out must have 2 dimensions, but its shape is \[4\]"),
        (lambda: operators.multiply(X, X[0]), ValueError, r"multiply: a\[..\] == b\[..\] is required, but the extents are \[3, 4\]"),
        (lambda: operators.shapeless(X), RuntimeError, r"shapeless: panicked: no shape for \[3, 4\]"),
        (
            lambda: operators.strided_sum(X, X.astype(jnp.bfloat16)),
            TypeError,
            "strided_sum: y must be float32 or float64, but is bfloat16; convert it before the call",
        ),
        (
            lambda: jax.jit(lambda x, by: operators.affine(x, scale=by))(X, 2.0),
            TypeError,
            "affine: scale must be a float that is known while JAX traces, but is traced; pass a Python value, or name it",
        ),
    ],
)
def test_wrong_call_is_refused_while_jax_traces(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=f"^{message}"):
        call()
    with pytest.raises(error, match=f"^{message}"):
        jax.eval_shape(call)


# 64 bits.


def test_64_bits_without_x64_are_refused_with_the_setting() -> None:
    with pytest.raises(TypeError, match="^described: the output out is int64, which JAX has not enabled: .*jax_enable_x64"):
        operators.described(X)
    with pytest.raises(TypeError, match="^divmod: x must be int64, but is int32; .*jax_enable_x64"):
        operators.divmod(jnp.arange(3))
    # JAX makes it float32.
    assert operators.strided_sum(X, np.ones(X.shape)).dtype == jnp.float32


def test_64_bits_with_x64_are_kept() -> None:
    code = """
import jax.numpy as jnp, operators
x = jnp.arange(-3, 3)
quotient, remainder = operators.divmod(x, by=4)
print(x.dtype, quotient.dtype, quotient.tolist(), remainder.tolist())
print(operators.twice(jnp.array([2**40])).tolist(), operators.outer(jnp.ones(2) / 3, jnp.ones(1)).tolist())
"""
    found = run(code, JAX_ENABLE_X64="1").split("\n")
    assert found[0] == "int64 int64 [-1, -1, -1, 0, 0, 0] [1, 2, 3, 0, 1, 2]"
    assert found[1] == f"[{2**41}] [[{1 / 3}], [{1 / 3}]]"


# In place.


@eager_and_jit
def test_array_that_is_changed_and_read_is_copied(wrap: Any) -> None:
    x = jnp.ones(1000, jnp.float32)
    changed, total = wrap(operators.add_)(x, x)
    assert (x.tolist(), changed.tolist(), float(total)) == ([1] * 1000, [2] * 1000, 2000)


@pytest.mark.usefixtures("x64")
def test_donated_array_is_changed_in_its_memory() -> None:
    x = jnp.ones(5000, jnp.float32)
    address = x.unsafe_buffer_pointer()
    changed, inside = jax.jit(operators.mark_, donate_argnums=0)(x)
    assert x.is_deleted()
    assert [changed.unsafe_buffer_pointer()] == inside.tolist() == [address]
    assert changed.tolist() == [2] * 5000


@pytest.mark.usefixtures("x64")
def test_array_that_is_not_donated_is_copied() -> None:
    x = jnp.ones(5000, jnp.float32)
    _, inside = jax.jit(operators.mark_)(x)
    assert inside.tolist() != [x.unsafe_buffer_pointer()]
    assert x.tolist() == [1] * 5000


# Errors.


@eager_and_jit
def test_error_of_the_function_is_raised(wrap: Any) -> None:
    for function, message in [
        (operators.fails, "INTERNAL: fails: x has the element -3; it must not be negative"),
        (operators.panics, "INTERNAL: panics: panicked: element 0 is negative"),
    ]:
        with pytest.raises(jax.errors.JaxRuntimeError, match=f"^{message}"):
            wrap(function)(X).block_until_ready()
        close(wrap(function)(-X[0]), -X[0])


@pytest.mark.usefixtures("x64")
@eager_and_jit
def test_error_and_panic_drop_the_values_of_the_function(wrap: Any) -> None:
    for wrong in (X, X * jnp.nan):
        with pytest.raises(jax.errors.JaxRuntimeError, match="alive: .*x begins with"):
            wrap(operators.alive)(wrong).block_until_ready()
    assert wrap(operators.alive)(-X) == 1


@eager_and_jit
def test_dynamic_output_is_refused_with_the_reason(wrap: Any) -> None:
    for function, output in [(operators.nonzero, "indices"), (operators.ragged, "positive"), (operators.unallocated, "out")]:
        reason = f"the operator decides the shape of its output {output}, but XLA allocates results before the call; call it"
        with pytest.raises(NotImplementedError, match=f"^{function.name}: {reason}"):
            wrap(function)(X)


@pytest.mark.parametrize(
    ("name", "result", "arguments", "attributes", "message"),
    [
        ("affine", LIKE, (X,), {"scale": np.int32(5)}, "scale must be a float, but XLA passes another type"),
        ("affine", LIKE, (X,), {"by": np.float32(3)}, "there is no attribute by; known: scale"),
        ("softclip", LIKE, (X, X), {}, "1 tensors are expected, but XLA passes 2"),
        ("softclip", [LIKE, LIKE], (X,), {}, "1 results are expected, but XLA passes 2"),
        ("softclip", jax.ShapeDtypeStruct((4, 3), X.dtype), (X,), {}, r"out must have the shape \[3, 4\], but has \[4, 3\]"),
        ("softclip", jax.ShapeDtypeStruct(X.shape, "int32"), (X,), {}, "out must be float32, but is int32"),
        ("softclip", LIKE, (X.astype("int32"),), {}, "x must be float32, but is int32"),
        ("shapeless", LIKE, (X,), {}, r"panicked: no shape for \[3, 4\]"),
        ("nonzero", jax.ShapeDtypeStruct((1,), "int32"), (X,), {}, "the function decides the shape of indices, but XLA"),
    ],
)
def test_call_by_hand_with_wrong_parts_is_refused(
    name: str, result: Any, arguments: Any, attributes: Any, message: str
) -> None:
    handler = jax.ffi.pycapsule(ctypes.CDLL(PATH)[f"operators_{name}_xla"])
    jax.ffi.register_ffi_target(f"by_hand.{name}", handler, platform="cpu")
    attributes = attributes | ({"dlbridge.present": np.int64(0)} if name == "affine" else {})
    with pytest.raises(jax.errors.JaxRuntimeError, match=f"^(INVALID_ARGUMENT|INTERNAL): {name}: {message}"):
        jax.block_until_ready(jax.ffi.ffi_call(f"by_hand.{name}", result)(*arguments, **attributes))


# Registration.


def test_handler_of_the_plain_file_is_called_without_the_module() -> None:
    code = """
import ctypes, sys, jax, jax.numpy as jnp
handler = jax.ffi.pycapsule(ctypes.CDLL(sys.argv[1]).operators_affine_xla)
jax.ffi.register_ffi_target("plain", handler, platform="cpu")
x = jnp.arange(3, dtype=jnp.float32)
print(jax.jit(lambda x: jax.ffi.ffi_call("plain", jax.ShapeDtypeStruct((3,), "float32"))(x, x))(x).tolist())
assert "operators" not in sys.modules
"""
    assert run(code, PATH) == "[0.0, 3.0, 6.0]\n"


def test_second_extension_of_the_same_namespace_is_refused(tmp_path: Path) -> None:
    copy = str(shutil.copy(PATH, tmp_path / "copy.abi3.so"))
    code = """
import importlib.util, sys, jax, jax.numpy as jnp, operators
spec = importlib.util.spec_from_file_location("operators", sys.argv[1])
copy = importlib.util.module_from_spec(spec)
spec.loader.exec_module(copy)
x = jnp.ones(1)
for first, second in [(operators.softclip, copy.softclip), (copy.twice, operators.twice)]:
    first(x)
    for _ in range(2):
        try: second(x)
        except RuntimeError as error: print(error)
    first(x)
jax.ffi.register_ffi_target("operators.fails", copy.panics.xla_handler(), platform="cpu")
try: operators.fails(x)
except RuntimeError as error: print(error)
"""
    found = run(code, copy).splitlines()
    for line, (name, one, other) in zip(found, [("softclip", PATH, copy)] * 2 + [("twice", copy, PATH)] * 2):
        end = "rename the namespace of one in `library!`"
        assert line == f"two extensions have an operator operators.{name}: {one} and {other}; {end}"
    assert found[4].startswith(f"XLA refuses the operator operators.fails of {PATH}: ")


@pytest.mark.parametrize("version", ["0.9.2", "0.4.38"])
def test_release_of_jax_that_is_too_old_is_refused(version: str) -> None:
    code = """
import sys, jax, jax.numpy as jnp, operators
jax.__version__, jax.__version_info__ = sys.argv[1], tuple(map(int, sys.argv[1].split(".")))
for _ in range(2):
    try: operators.softclip(jnp.ones(1))
    except ImportError as error: print(error)
"""
    message = f"softclip: operators need JAX 0.10.0 or later, but {version} is imported; install a newer one: pip install"
    for line in run(code, version).splitlines():
        assert line.startswith(message)


# Threads and memory.


def test_operator_runs_without_the_gil() -> None:
    x = jnp.ones(1, jnp.float32)
    # Two programs, because XLA runs one program in one thread at a time.
    programs = [jax.jit(lambda x: operators.meets(x)).lower(x).compile() for _ in range(2)]
    with ThreadPoolExecutor(2) as pool:
        # Each waits for the other.
        assert [met.tolist() for met in pool.map(lambda program: program(x), programs)] == [True, True]


def test_threads_call_at_once() -> None:
    x = jnp.linspace(-1, 1, 4096, dtype=jnp.float32)
    wanted = np.asarray(softclip(x))

    def is_right() -> bool:
        return all(np.allclose(operators.softclip(x), wanted, rtol=1e-6) for _ in range(200))

    assert concurrently([is_right] * 4) == [True] * 4


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="needs /proc")
def test_values_of_attributes_leave_few_programs_in_memory() -> None:
    x = jnp.ones(4, jnp.float32)
    before = 0
    for scale in range(150):
        if scale == 25:
            before = resident()
        operators.affine(x, scale=float(scale))
    gc.collect()
    # 125 programs of about 0.7 MB, of which 32 stay.
    assert resident() - before < 40 << 20


def test_argument_before_a_required_one_is_omitted_by_name() -> None:
    np.testing.assert_allclose(operators.late(x=jnp.asarray(X)), 2 * X + 1)


def test_input_named_out_is_an_input() -> None:
    x = jnp.asarray(X)
    np.testing.assert_allclose(operators.exponential_vjp(out=x, grad_out=x), X * X, rtol=1e-6)
    np.testing.assert_allclose(jax.grad(lambda x: operators.exponential(x).sum())(x), np.exp(X), rtol=1e-5)


def test_extent_divided_by_zero_is_refused_with_symbolic_extents() -> None:
    message = "^parted: an extent is divided by 0; divide by a positive number"
    with pytest.raises(ValueError, match=message):
        operators.parted(jnp.asarray(X[0]), 0)
    shape = jax.ShapeDtypeStruct(jax.export.symbolic_shape("n"), "float32")
    with pytest.raises(ValueError, match=message):
        jax.export.export(jax.jit(lambda x: operators.parted(x, 0)))(shape)


@pytest.mark.parametrize("wrap", [lambda call: call, jax.jit], ids=["eager", "jit"])
def test_array_of_another_library_in_place_is_refused(wrap: Any) -> None:
    message = (
        "^add_: x changes in place, so it must be a JAX array as another argument is, but is of type ndarray; "
        "pass jax.numpy.asarray"
    )
    x, y = np.zeros(3, "float32"), jnp.ones(3)
    with pytest.raises(TypeError, match=message):
        wrap(lambda y: operators.add_(x, y))(y)
    with pytest.raises(TypeError, match=message):
        wrap(lambda y: operators.add_(y=y, x=x))(y)
    assert x.tolist() == [0, 0, 0]
    assert operators.add_(y, x)[0].tolist() == [1, 1, 1]


def test_tensor_of_torch_in_place_is_refused() -> None:
    torch = pytest.importorskip("torch")
    x = torch.zeros(3)
    with pytest.raises((TypeError, RuntimeError), match="add_"):
        operators.add_(x, jnp.ones(3))
    with pytest.raises(TypeError, match="add_|not a valid JAX type"):
        operators.add_(jnp.ones(3), x)
    assert x.tolist() == [0, 0, 0]
