"""Operators under the transformations of JAX: gradients, `vmap`, control flow, `shard_map` and exported programs."""

import os
from collections.abc import Iterator
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import numpy as np
import pytest

jax = pytest.importorskip("jax")
import jax.export
import jax.numpy as jnp
import jax.test_util
import operators
from cases import softclip
from processes import output

X = jnp.linspace(-3, 3, 12, dtype=jnp.float32).reshape(3, 4)


def slope(x: Any) -> Any:
    return 1 / (1 + jnp.abs(x)) ** 2


def close(found: Any, wanted: Any) -> None:
    np.testing.assert_allclose(np.asarray(found), np.asarray(wanted), rtol=1e-5, atol=1e-6)


@pytest.fixture
def x64() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


# Gradients.


def test_grad_of_the_function_itself_is_the_slope() -> None:
    close(jax.grad(operators.softclip)(X[0, 1]), slope(X[0, 1]))
    close(jax.vmap(jax.grad(operators.softclip))(X[0]), slope(X[0]))
    close(jax.jit(jax.vmap(jax.grad(operators.softclip)))(X[0]), slope(X[0]))
    close(jax.jit(jax.grad(lambda x: operators.softclip(x).sum()))(X), slope(X))
    close(jax.jacrev(operators.softclip)(X[0]), jnp.diag(slope(X[0])))


def test_grad_of_grad_is_the_second_derivative() -> None:
    x = X[0, 1]
    close(jax.grad(jax.grad(operators.softclip))(x), jax.grad(jax.grad(softclip))(x))
    found = jax.jit(jax.vmap(jax.grad(jax.grad(operators.softclip))))(X[0])
    close(found, jax.vmap(jax.grad(jax.grad(softclip)))(X[0]))
    outer = lambda f: jax.grad(lambda x, y: (jax.grad(lambda x: (f(x) * y).sum())(x) ** 2).sum(), argnums=(0, 1))
    for one, other in zip(outer(operators.softclip)(X, X.T.reshape(3, 4)), outer(softclip)(X, X.T.reshape(3, 4))):
        close(one, other)


def test_gradients_of_two_orders_are_checked() -> None:
    jax.test_util.check_grads(operators.softclip, (X + 0.1,), order=2, modes=["rev"], rtol=2e-2, atol=2e-2)


@pytest.mark.usefixtures("x64")
def test_gradients_of_several_inputs_are_checked() -> None:
    x, y = jnp.linspace(-1, 1, 5), jnp.linspace(0, 2, 5)
    jax.test_util.check_grads(operators.strided_sum, (x, y), order=1, modes=["rev"])
    jax.test_util.check_grads(operators.outer, (x, y[:3]), order=1, modes=["rev"])


@pytest.mark.usefixtures("x64")
def test_gradient_with_an_attribute_is_checked() -> None:
    x = jnp.linspace(-1, 1, 5)
    jax.test_util.check_grads(lambda x: operators.stretch(x, by=3.0), (x,), order=1, modes=["rev"])
    close(jax.grad(lambda x: operators.stretch(x).sum())(x), 2 * jnp.ones(5))


def test_gradient_of_one_output_takes_zero_for_the_other() -> None:
    found = jax.grad(lambda x: operators.min_max(x)[1].sum())(X)
    close(found, jnp.zeros_like(X).at[:, 3].set(1))


def test_integer_input_has_a_gradient_of_float0() -> None:
    x, index = jnp.arange(4, dtype=jnp.float32), jnp.array([1, 1, 3], jnp.int32)
    close(operators.pick(x, index), [1, 1, 3])
    call = lambda x, index: (operators.pick(x, index) * jnp.array([1.0, 2.0, 4.0])).sum()
    grad_x, grad_index = jax.grad(call, argnums=(0, 1), allow_int=True)(x, index)
    close(grad_x, [0, 3, 0, 4])
    assert (grad_index.dtype, grad_index.shape) == (jax.dtypes.float0, (3,))


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda x: operators.fails(x).sum(), "fails"),
        (lambda x: operators.add_(x, x)[1], "add_"),
        (lambda x: jax.grad(lambda y: operators.stretch(y).sum() * y.sum())(x).sum(), "stretch_vjp"),
    ],
)
def test_gradient_without_a_vjp_is_refused(call: Any, name: str) -> None:
    end = "add `vjp = ...` to its attribute `op`, or pass its arguments through jax.lax.stop_gradient"
    with pytest.raises(TypeError, match=f"^{name} has no gradient: {end}"):
        jax.grad(call)(jnp.abs(X))


def test_stop_gradient_allows_an_operator_without_a_vjp() -> None:
    x = jnp.abs(X)
    close(jax.grad(lambda x: (x * operators.fails(jax.lax.stop_gradient(x))).sum())(x), x)


def test_checkpoint_keeps_gradients() -> None:
    twice = jax.checkpoint(lambda x: operators.softclip(operators.softclip(x)).sum())
    close(jax.grad(twice)(X), jax.grad(lambda x: softclip(softclip(x)).sum())(X))


# vmap.


def test_vmap_of_an_elementwise_operator_is_one_call() -> None:
    close(jax.vmap(operators.softclip)(X), softclip(X))
    close(jax.vmap(operators.softclip, in_axes=1, out_axes=1)(X), softclip(X))
    close(jax.vmap(jax.vmap(operators.softclip))(X), softclip(X))
    assert "while" not in str(jax.make_jaxpr(jax.vmap(operators.softclip))(X))


def test_vmap_with_an_unbatched_argument_of_an_elementwise_operator() -> None:
    close(jax.vmap(operators.softclip_vjp, in_axes=(0, None))(X, X[0]), X[0] * slope(X))
    nested = jax.vmap(jax.vmap(operators.softclip_vjp, in_axes=(None, 0)), in_axes=(0, None))
    close(nested(X[0], X[:, 0]), X[:, 0] * slope(X[0][:, None]))


def test_vmap_of_another_operator_calls_it_in_sequence() -> None:
    x = jnp.stack([X, -X, X * 2])
    low, high = jax.vmap(operators.min_max)(x)
    close(low, x.min(2))
    close(high, x.max(2))
    nested = jax.vmap(jax.vmap(operators.min_max, in_axes=0), in_axes=1)(jnp.stack([x, x]))
    close(nested[0], jnp.stack([x, x]).min(3).swapaxes(0, 1))


def test_vmap_with_an_unbatched_argument_of_another_operator() -> None:
    x, index = jnp.arange(6, dtype=jnp.float32).reshape(2, 3), jnp.array([2, 0], jnp.int32)
    close(jax.vmap(operators.pick, in_axes=(0, None))(x, index), [[2, 0], [5, 3]])
    close(jax.vmap(operators.pick, in_axes=(None, 0))(x[1], index[:, None]), [[5], [3]])
    close(jax.vmap(jax.grad(lambda x: operators.pick(x, index).sum()))(x), [[1, 0, 1], [1, 0, 1]])


def test_vmap_of_an_operator_in_place_changes_each() -> None:
    y = jnp.ones(4, jnp.float32)
    changed, total = jax.vmap(operators.add_, in_axes=(0, None))(X, y)
    close(changed, X + 1)
    close(total, (X + 1).sum(1))
    close(jax.vmap(operators.add_, in_axes=(None, 0))(y, X)[0], X + 1)
    close(jax.vmap(operators.relu_)(X), jnp.maximum(X, 0))


def test_vmap_with_an_optional_argument() -> None:
    bias = jnp.arange(3, dtype=jnp.float32)[:, None]
    close(jax.vmap(operators.affine, in_axes=(None, 0))(X[0], bias), 2 * X[0] + bias)
    close(jax.vmap(lambda x: operators.affine(x))(X), 2 * X)


# Control flow.


def test_scan_carries_results_and_gradients() -> None:
    close(jax.lax.scan(lambda x, _: (operators.softclip(x), x.sum()), X, length=2)[0], softclip(softclip(X)))
    scanned = lambda x: jax.lax.scan(lambda x, _: (operators.softclip(x), None), x, length=2)[0].sum()
    close(jax.grad(scanned)(X), jax.grad(lambda x: softclip(softclip(x)).sum())(X))


def test_loops_and_conditions_call_operators() -> None:
    close(jax.lax.fori_loop(0, 2, lambda _, x: operators.add_(x, X)[0], X), 3 * X)
    close(jax.lax.cond(True, operators.softclip, lambda x: x, X), softclip(X))
    ends = jax.lax.while_loop(lambda x: operators.strided_sum(x, x) < 1000, lambda x: operators.affine(x), X)
    close(ends, X * 8)


# Devices.


DEVICES = """
import jax, jax.numpy as jnp, numpy as np, operators
from jax.sharding import PartitionSpec
assert jax.device_count() == 2
close = lambda found, wanted: np.testing.assert_allclose(np.asarray(found), np.asarray(wanted), rtol=1e-5)
mesh = jax.make_mesh((2,), ("i",), axis_types=(jax.sharding.AxisType.Auto,))
split, shared = PartitionSpec("i"), PartitionSpec()
x, y = jnp.arange(8, dtype=jnp.float32) - 3.5, jnp.arange(4, dtype=jnp.float32)
softclip, slope = lambda x: x / (1 + jnp.abs(x)), lambda x: 1 / (1 + jnp.abs(x)) ** 2
for check in (True, False):
    def sharded(f, i, o):
        return jax.jit(jax.shard_map(f, mesh=mesh, in_specs=i, out_specs=o, check_vma=check))
    close(sharded(operators.softclip, (split,), split)(x), softclip(x))
    close(sharded(operators.softclip, (shared,), shared)(y), softclip(y))
    close(sharded(lambda x, y: operators.add_(x, y)[0], (split, shared), split)(x, y), x + jnp.tile(y, 2))
    if not check: continue
    total = lambda x: jax.lax.psum(operators.softclip(x).sum(), "i")
    close(jax.grad(lambda x: sharded(total, (split,), shared)(x))(x), slope(x))
    both = lambda x, y: jax.lax.psum(operators.softclip_vjp(x, y).sum(), "i")
    of_both = jax.grad(lambda x, y: sharded(both, (split, shared), shared)(x, y), argnums=(0, 1))(x, y)
    wanted = jax.grad(lambda x, y: (jnp.tile(y, 2) * slope(x)).sum(), argnums=(0, 1))(x, y)
    close(of_both[0], wanted[0])
    close(of_both[1], wanted[1])
    close(operators.softclip(jax.device_put(x, jax.sharding.NamedSharding(mesh, split))), softclip(x))
other = jax.device_put(x, jax.devices()[1])
assert operators.softclip(other).devices() == {jax.devices()[1]}
"""


def test_shard_map_over_two_devices_computes_and_differentiates() -> None:
    flags = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=2"
    output(DEVICES, options=(), quiet=False, XLA_FLAGS=flags, JAX_PLATFORMS="cpu")


# Exported programs.


def exported(call: Any, shape: Any, *names: str) -> Any:
    allowed = [jax.export.DisabledSafetyCheck.custom_call(f"operators.{name}") for name in names]
    return jax.export.export(jax.jit(call), disabled_checks=allowed)(jax.ShapeDtypeStruct(shape, jnp.float32))


def test_exported_program_runs_after_serialisation() -> None:
    program = exported(operators.softclip, X.shape, "softclip").serialize()
    close(jax.export.deserialize(program).call(X), softclip(X))


def test_exported_program_with_symbolic_extents_runs() -> None:
    call = lambda x: operators.min_max(operators.softclip(x))[0]
    program = exported(call, jax.export.symbolic_shape("n, m"), "softclip", "min_max")
    for shape in [(3, 4), (1, 9)]:
        x = jnp.asarray(np.random.default_rng(1).normal(size=shape), jnp.float32)
        close(program.call(x), softclip(x).min(1))


def test_exported_operator_with_required_extents_refuses_unknown_ones() -> None:
    n, m = jax.export.symbolic_shape("n, m")
    x, y = (jax.ShapeDtypeStruct((extent,), jnp.float32) for extent in (n, m))
    with pytest.raises(ValueError, match=r"add_: x\[..\] == y\[..\] is required, but the extents are \[n\] and \[m\]"):
        jax.eval_shape(operators.add_, x, y)
    assert jax.eval_shape(operators.add_, x, x)[0].shape == (n,)
