"""Operators called with PyTorch's tensors: eager, compiled, exported, differentiated, batched.

Most tests call both the function of the module and the operator in `torch.ops`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from cases import CASES, check, growth, several, softclip

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


# Values


@BOTH
@EACH
def test_operator_on_tensors_returns_tensors(f, case):
    arguments = tensors(case)
    found = results(f, case, arguments, getattr(f, case.operator)(*arguments))
    assert {type(one) for one in found} == {torch.Tensor}
    check(case, found)
    for argument, one in zip(arguments, found[: case.changed]):
        assert argument is one
        assert one.data_ptr() == argument.data_ptr()


@BOTH
def test_bfloat16_is_doubled(f):
    x = torch.arange(6.0).bfloat16()
    assert torch.equal(f.twice(x), x + x)


@BOTH
def test_input_arrives_at_its_own_address(f, x):
    assert f.address(x).item() == x.data_ptr()
    assert f.address(x[3:]).item() == x[3:].data_ptr()


@BOTH
def test_attributes_by_name_arrive(f):
    x = torch.arange(4.0, dtype=torch.float64)
    found = f.mixed(x, label="", widths=[], weights=(), bias=x)
    torch.testing.assert_close(found, x * 2.5 + 3 + x)


@BOTH
def test_conjugated_and_negated_views_are_resolved(f):
    z = torch.randn(4, dtype=torch.complex64)
    torch.testing.assert_close(f.twice(z.conj()), 2 * z.conj())
    torch.testing.assert_close(f.softclip(z.conj().imag), softclip(-z.imag))
    torch.testing.assert_close(f.softclip(torch._neg_view(z.real.clone())), softclip(-z.real))


@BOTH
def test_lazy_clone_is_read_and_changed_alone(f, x):
    y = torch._lazy_clone(x)
    assert f.address(y).item() == f.address(x).item()
    expected = x.clone()
    f.relu_(y)
    torch.testing.assert_close(y, expected.clamp(min=0))
    torch.testing.assert_close(x, expected)


def test_parameter_is_a_tensor(x):
    parameter = torch.nn.Parameter(x)
    torch.testing.assert_close(operators.softclip(parameter), softclip(parameter))


# In place and out


@BOTH
def test_in_place_view_changes_its_tensor(f):
    x = torch.randn(3, 4)
    expected = x.clone()
    expected[:, 1].clamp_(min=0)
    f.relu_(x[:, 1])
    torch.testing.assert_close(x, expected)


@BOTH
def test_in_place_negated_view_changes_the_tensor(f, x):
    y = x.clone()
    f.relu_(torch._neg_view(y))
    torch.testing.assert_close(y, x.clamp(max=0))


@BOTH
def test_in_place_overlap_is_refused(f, x):
    with pytest.raises(RuntimeError, match="add_: x is written, but shares memory with y; pass a copy"):
        f.add_(x, x)
    with pytest.raises(RuntimeError, match="shares memory with y"):
        f.add_(x[1:], x[:-1])
    with pytest.raises(RuntimeError, match="overlap"):
        f.add_(torch.ones(1).expand(4), torch.ones(4))
    f.add_(x[:6], x[6:])


def test_out_is_filled_and_returned(x):
    out = torch.empty(12)
    assert operators.softclip(x, out=out) is out
    torch.testing.assert_close(out, softclip(x))


def test_out_of_the_dispatcher_is_filled_and_not_returned(x):
    out = torch.empty(12)
    assert ops.softclip(x, out=out) is None
    torch.testing.assert_close(out, softclip(x))


def test_several_outs_are_filled(x):
    x = x.view(3, 4)
    low, high = torch.empty(3), torch.empty(3)
    for call, is_returned in (
        (lambda: operators.min_max(x, out=(low, high)), True),
        (lambda: operators.min_max(x, out=[low, high]), True),
        (lambda: ops.min_max.out(x, low=low, high=high), False),
    ):
        low.zero_()
        high.zero_()
        found = call()
        if is_returned:
            assert isinstance(found, tuple) and len(found) == 2
            assert found[0] is low and found[1] is high
        else:
            assert found is None
        assert low.tolist() == x.amin(1).tolist()
        assert high.tolist() == x.amax(1).tolist()


@BOTH
@pytest.mark.parametrize(
    ("out", "message"),
    [
        (lambda x: x, "out is written, but shares memory with x"),
        (lambda x: torch.empty(3), r"out must have the shape \[12\], but has \[3\]"),
        (lambda x: torch.empty(12, dtype=torch.float64), "out must be float32, but is float64"),
        (lambda x: torch.empty(24)[::2], "out must be contiguous"),
        (lambda x: torch.empty(1).expand(12), "out must be contiguous"),
    ],
    ids=["overlap", "shape", "dtype", "strided", "expanded"],
)
def test_unsuitable_out_is_refused(f, x, out, message):
    with pytest.raises(RuntimeError, match=message):
        f.softclip(x, out=out(x))


def test_unsuitable_outs_are_refused(x):
    x, out = x.view(3, 4), torch.empty(3)
    with pytest.raises(RuntimeError, match="shares memory with"):
        ops.min_max.out(x, low=out, high=out)
    with pytest.raises(RuntimeError, match="shares memory with"):
        operators.min_max(x, out=(out, out))
    with pytest.raises(TypeError, match="min_max: out must have 2 tensors, but has 3"):
        operators.min_max(x, out=(out, out, out))


# Errors


@BOTH
@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda f, x: f.fails(x), "fails: x has the element -3; it must not be negative"),
        (lambda f, x: f.panics(x), "panics: panicked: element 0 is negative"),
        (lambda f, x: f.unallocated(x), "did not (make|allocate)"),
        (lambda f, x: f.divmod(x.long(), 0), "divmod: by is 0; pass another number"),
        (lambda f, x: f.negative(x.int()), "negative: x must be float32 or float64, but is int32; convert it"),
        (lambda f, x: f.softclip(x.bfloat16()), "softclip: x must be float32, but is bfloat16"),
        (lambda f, x: f.min_max(x), "min_max: x must have 2 dimensions, but has 1"),
        (lambda f, x: f.softclip_vjp(x, x[1:]), "is required, but the extents are"),
        (lambda f, x: f.strided_sum(x, x.double()), "the dtypes must agree"),
        (lambda f, x: f.described(x, n=-1), "described: an extent of the result would be -1"),
        (lambda f, x: f.softclip(x.to_sparse()), "SparseCPU"),
    ],
)
def test_wrong_call_is_refused(f, x, call, message):
    with pytest.raises(RuntimeError, match=message):
        call(f, x)


@BOTH
def test_errors_drop_the_values_of_the_function(f, x):
    with pytest.raises(RuntimeError, match="^alive: x begins with -3"):
        f.alive(x)
    with pytest.raises(RuntimeError, match="^alive: panicked: x begins with NaN"):
        f.alive(x * torch.nan)
    assert f.alive(-x).item() == 1


def test_array_beside_a_tensor_is_refused(x):
    with pytest.raises((TypeError, RuntimeError), match="softclip_vjp"):
        operators.softclip_vjp(x, x.numpy())


# Memory and threads


@BOTH
def test_calls_leak_nothing(f, x):
    d, matrix, big = x.double(), torch.randn(2_000, 2), torch.randn(20_000)
    text, ints, floats = "a long text" * 1_000, [1] * 1_000, [0.5] * 1_000

    def step():
        f.mixed(d, d, 1.5, 2, True, text, ints, floats)
        f.min_max(matrix)
        f.softclip(big, out=torch.empty_like(big))
        f.nonzero(x)
        f.relu_(big)

    # A leak of 8000 bytes in each call would be 4 MB.
    assert growth(step, 500) < 3 << 20


@BOTH
def test_errors_leak_nothing(f, x):
    d, big = x.double(), torch.randn(20_000)
    text, ints = "a long text" * 1_000, [1] * 2_000
    calls = [
        lambda: f.fails(big),
        lambda: f.min_max(x),
        lambda: f.mixed(d, x, label=text, widths=ints),
        lambda: f.softclip(x, out=x),
    ]

    def step():
        for call in calls:
            with pytest.raises(RuntimeError):
                call()

    assert growth(step, 500) < 4 << 20


def test_gradients_leak_nothing():
    x = torch.randn(20_000, requires_grad=True)

    def step():
        (gradient,) = torch.autograd.grad(operators.softclip(x).sum(), x, create_graph=True)
        torch.autograd.grad(gradient.sum(), x)

    assert growth(step, 300) < 4 << 20


@BOTH
def test_operator_runs_without_the_gil(f, x):
    with ThreadPoolExecutor(2) as pool:
        # Each waits for the other.
        assert [met.item() for met in pool.map(f.meets, [x, x])] == [True, True]


# Gradients


@BOTH
def test_gradient_matches_autograd(f, x):
    a, b = x.clone().requires_grad_(), x.clone().requires_grad_()
    (f.softclip(a) * 3).sum().backward()
    (softclip(b) * 3).sum().backward()
    torch.testing.assert_close(a.grad, b.grad)


@BOTH
def test_gradients_of_several_outputs_match_autograd(f):
    a = torch.randn(3, 4, requires_grad=True)
    b = a.detach().clone().requires_grad_()
    low, high = f.min_max(a)
    (low.sum() + 2 * high.sum()).backward()
    (b.amin(1).sum() + 2 * b.amax(1).sum()).backward()
    torch.testing.assert_close(a.grad, b.grad)


def double(*shape):
    return torch.randn(shape, dtype=torch.float64, requires_grad=True)


@BOTH
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("multiply", lambda: (double(5), double(5))),
        ("outer", lambda: (double(3), double(4))),
        ("strided_sum", lambda: (double(3, 4), double(3, 4))),
        ("strided_sum", lambda: (double(3, 4).t(), double(4, 3))),
        ("mixed", lambda: (double(5), double(5), 1.5, 2, True)),
        ("mixed", lambda: (double(5),)),
    ],
)
def test_gradcheck_passes(f, name, arguments):
    assert torch.autograd.gradcheck(getattr(f, name), arguments())


@BOTH
def test_gradgradcheck_passes_with_a_vjp_of_the_vjp(f):
    assert torch.autograd.gradgradcheck(f.multiply, (double(5), double(5)))


@BOTH
def test_second_gradient_matches_autograd(f, x):
    found = []
    for function in (f.softclip, softclip):
        a = x.clone().requires_grad_()
        (gradient,) = torch.autograd.grad((function(a) ** 2).sum(), a, create_graph=True)
        found.extend(torch.autograd.grad((gradient**3).sum(), a))
    torch.testing.assert_close(*found)


@BOTH
def test_second_gradient_without_a_vjp_of_the_vjp_is_refused(f):
    x, y = double(3), double(4)
    (gradient,) = torch.autograd.grad((f.outer(x, y) ** 2).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="outer has no second gradient, because outer_vjp has no vjp"):
        gradient.sum().backward()


@BOTH
def test_undefined_gradient_is_zero(f):
    x = torch.arange(12.0).view(3, 4).requires_grad_()
    for index, column in ((0, 0), (1, 3)):
        (gradient,) = torch.autograd.grad(f.min_max(x)[index].sum(), x)
        assert gradient[:, column].tolist() == [1, 1, 1]
        assert gradient.sum() == 3


@BOTH
def test_input_without_requires_grad_gets_no_gradient(f, x):
    y = x.clone().requires_grad_()
    f.multiply(x, y).sum().backward()
    assert x.grad is None
    torch.testing.assert_close(y.grad, x)


@BOTH
def test_no_grad_records_nothing(f, x):
    x.requires_grad_()
    with torch.no_grad():
        assert not f.softclip(x).requires_grad
    with torch.inference_mode():
        torch.testing.assert_close(f.softclip(x.detach()), softclip(x.detach()))
    assert f.softclip(x).requires_grad


# Forward mode


def derivatives(function, *arguments):
    from torch.autograd import forward_ad

    with forward_ad.dual_level():
        return function(*[forward_ad.make_dual(one, torch.ones_like(one)) for one in arguments])


FORWARD_MODE = pytest.mark.parametrize(
    "derive",
    [
        derivatives,
        lambda f, x: torch.func.jvp(f, (x,), (x,)),
        lambda f, x: torch.func.jacfwd(f)(x),
        lambda f, x: torch.func.linearize(f, x)[1](x),
        lambda f, x: torch.func.hessian(lambda x: f(x).sum())(x),
        lambda f, x: torch.func.jvp(torch.func.grad(lambda x: f(x).sum()), (x,), (x,)),
        lambda f, x: torch.func.jvp(lambda x: torch.func.vjp(f, x)[1](x), (x,), (x,)),
        lambda f, x: torch.func.jvp(lambda y: torch.func.vjp(f, x)[1](y), (x,), (x,)),
        lambda f, x: torch.func.grad(lambda x: torch.func.jvp(f, (x,), (x,))[1].sum())(x),
        lambda f, x: torch.vmap(lambda x: torch.func.jvp(f, (x,), (x,)))(x.view(3, 4)),
        lambda f, x: torch.autograd.functional.jacobian(f, x, strategy="forward-mode", vectorize=True),
    ],
    ids=[
        "make_dual",
        "jvp",
        "jacfwd",
        "linearize",
        "hessian",
        "jvp-grad",
        "jvp-vjp",
        "jvp-vjp-cotangent",
        "grad-jvp",
        "vmap-jvp",
        "jacobian",
    ],
)


@BOTH
@FORWARD_MODE
def test_forward_mode_is_refused_with_advice(f, x, derive):
    refused = r"softclip(_vjp)?: forward-mode derivatives .* are not supported, .* use reverse mode, .*func.vjp .*jacrev"
    with pytest.raises(NotImplementedError, match=refused):
        derive(f.softclip, x)
    with torch.no_grad(), pytest.raises(NotImplementedError, match=refused):
        derive(f.softclip, x)


@BOTH
def test_compiled_forward_mode_is_refused(f, x):
    with pytest.raises(Exception, match="softclip: forward-mode derivatives"):
        compiled(lambda x: torch.func.jvp(f.softclip, (x,), (x,)), backend="aot_eager")(x)


@BOTH
def test_forward_mode_gradcheck_is_refused(f):
    x, y = double(3), double(3)
    with pytest.raises(NotImplementedError, match="^multiply: forward-mode derivatives"):
        torch.autograd.gradcheck(f.multiply, (x, y), check_forward_ad=True)
    with pytest.raises(NotImplementedError, match="^outer: forward-mode derivatives"):
        torch.autograd.gradgradcheck(
            f.outer, (x, y), check_fwd_over_rev=True, check_rev_over_rev=False, check_undefined_grad=False
        )


@BOTH
def test_forward_mode_in_the_backward_pass_is_refused(f):
    x, y = double(3), double(4)
    out = f.outer(x, y)
    with pytest.raises(NotImplementedError, match="^outer_vjp: forward-mode derivatives"):
        derivatives(lambda gradient: torch.autograd.grad(out, x, gradient), torch.ones(3, 4, dtype=torch.float64))


@BOTH
def test_forward_mode_of_changed_tensors_is_refused(f, x):
    with pytest.raises(NotImplementedError, match="^relu_: forward-mode .*; call it on detached tensors"):
        derivatives(f.relu_, x)
    with pytest.raises(NotImplementedError, match="^add_: forward-mode .*; call it on detached tensors"):
        derivatives(lambda y: f.add_(x, y), x.clone())
    with pytest.raises(NotImplementedError, match="^softclip: forward-mode .*; call it without `out`, and use reverse"):
        derivatives(lambda x: f.softclip(x, out=torch.empty(12)), x)
    with pytest.raises(NotImplementedError, match="^softclip: forward-mode"):
        derivatives(lambda out: f.softclip(x, out=out), torch.empty(12))
    with pytest.raises(NotImplementedError, match="^twice: forward-mode .*; call it on detached tensors"):
        derivatives(lambda x: f.twice(x, out=torch.empty(12)), x)


@BOTH
def test_constants_in_forward_mode_are_accepted(f, x):
    index = torch.tensor([1, 2], dtype=torch.int32)
    found = derivatives(lambda y: f.softclip(x) + f.softclip(y.detach()) + f.pick(y.detach(), index).sum(), x)
    torch.testing.assert_close(found, 2 * softclip(x) + x[1:3].sum())
    value, tangent = torch.func.jvp(lambda y: f.softclip(x) * y, (x,), (torch.ones(12),))
    torch.testing.assert_close((value, tangent), (softclip(x) * x, softclip(x)))


@BOTH
def test_forward_mode_of_operators_without_a_gradient_is_zero(f, x):
    assert not torch.func.jvp(f.twice, (x,), (x,))[1].any()


# Tracing


@pytest.mark.parametrize(
    "call",
    [
        lambda x: (ops.softclip.default, (x,), {}),
        lambda x: (ops.softclip.default, (x.clone().requires_grad_(),), {}),
        lambda x: (ops.softclip.default, (x.view(3, 4).t(),), {}),
        lambda x: (ops.multiply.default, (x.clone().requires_grad_(), x.clone().requires_grad_()), {}),
        lambda x: (ops.min_max.default, (x.view(3, 4).clone().requires_grad_(),), {}),
        lambda x: (ops.mixed.default, (x.double(),), {}),
        lambda x: (
            ops.mixed.default,
            (x.double().requires_grad_(), x.double().requires_grad_(), 2.0, 1, True, "s", [1], [2.0]),
            {},
        ),
        lambda x: (ops.relu_.default, (x.clone(),), {}),
        lambda x: (ops.add_.default, (x.clone(), x.clone()), {}),
        lambda x: (ops.nonzero.default, (x,), {}),
        lambda x: (ops.ragged.default, (x,), {}),
        lambda x: (ops.negative.default, (x,), {}),
        lambda x: (ops.halves.default, (x,), {}),
        lambda x: (ops.described.default, (x, "é", True, 3), {}),
        lambda x: (ops.softclip.out, (x,), {"out": torch.empty(12)}),
        lambda x: (ops.min_max.out, (x.view(3, 4),), {"low": torch.empty(3), "high": torch.empty(3)}),
        lambda x: (ops.mixed.out, (x.double(), None, 1.5), {"out": torch.empty(12, dtype=torch.float64)}),
    ],
)
# opcheck reads the attribute of tensors that it made itself.
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor")
def test_opcheck_passes(x, call):
    operator, arguments, keywords = call(x)
    found = torch.library.opcheck(operator, arguments, keywords)
    assert set(found.values()) == {"SUCCESS"}


def compiled(function, **options):
    torch._dynamo.reset()
    return torch.compile(function, fullgraph=True, **options)


@BOTH
@EACH
def test_traced_call_matches_the_case(f, case):
    function = getattr(f, case.operator)
    arguments = tensors(case)
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        result = compiled(lambda *arguments: function(*arguments), backend="aot_eager")(*arguments)
    check(case, results(f, case, arguments, result))


@BOTH
@pytest.mark.parametrize("dynamic", [False, True])
def test_compiled_gradients_match_eager(f, x, dynamic):
    def model(x, y):
        z = f.softclip(x * 2).sin() + f.multiply(x, y)
        return z + f.mixed(x.double(), label="ab", widths=[1, 2]).float()

    fast = compiled(model, dynamic=dynamic)
    for count in (12, 20) if dynamic else (12,):
        x = torch.randn(count)
        a, b = x.clone().requires_grad_(), x.clone().requires_grad_()
        torch.testing.assert_close(fast(a, x), model(b, x))
        fast(a, x).sum().backward()
        model(b, x).sum().backward()
        torch.testing.assert_close(a.grad, b.grad)


@BOTH
def test_compiled_in_place_matches_eager(f, x):
    def model(x, y):
        z = x * 2
        f.relu_(z)
        f.relu_(y)
        return z + y

    a, b = x.clone(), x.clone()
    torch.testing.assert_close(compiled(model)(x, a), model(x, b))
    torch.testing.assert_close(a, b)


def test_compiled_in_place_returns_the_tensor(x):
    def model(x):
        y, total = operators.add_(operators.relu_(x * 2), x)
        return y + total

    torch.testing.assert_close(compiled(model)(x), model(x))


@BOTH
@pytest.mark.parametrize("dynamic", [False, True])
def test_compiled_out_matches_eager(f, x, dynamic):
    def model(x, out):
        inner = torch.empty_like(x)
        f.softclip(x * 2, out=inner)
        f.softclip(inner, out=out)
        return inner + out

    a, b = torch.empty(12), torch.empty(12)
    torch.testing.assert_close(compiled(model, dynamic=dynamic)(x, a), model(x, b))
    torch.testing.assert_close(a, b)


def test_compiled_out_returns_the_tensors(x):
    def model(x, out):
        return operators.softclip(x, out=out), operators.min_max(x.view(3, 4), out=(x.new_empty(3), x.new_empty(3)))

    out = torch.empty(12)
    found, (low, high) = compiled(model)(x, out)
    assert found.data_ptr() == out.data_ptr()
    torch.testing.assert_close(out, softclip(x))
    torch.testing.assert_close((low, high), operators.min_max(x.view(3, 4)))


@BOTH
def test_compiled_out_of_another_dtype_is_refused(f, x):
    with pytest.raises(Exception, match="softclip: out must be torch.float32 of 1 dimensions, but is torch.float64"):
        compiled(lambda x, out: f.softclip(x, out=out), backend="aot_eager")(x, torch.empty(12, dtype=torch.float64))


@BOTH
def test_compiled_dynamic_output_matches_eager(f):
    def model(x):
        return f.nonzero(x) + 1

    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        fast = compiled(model)
        for x in (torch.tensor([0.0, 1, 2, 0, 3]), torch.tensor([1.0, 1, 0, 0, 0])):
            torch.testing.assert_close(fast(x), model(x))


@BOTH
def test_exported_program_round_trip(f, tmp_path, x):
    class Model(torch.nn.Module):
        def forward(self, x):
            return f.min_max(f.softclip(x))[0] + 1

    rows = torch.export.Dim("rows", min=2, max=100)
    program = torch.export.export(Model(), (x.view(3, 4),), dynamic_shapes={"x": {0: rows}})
    torch.export.save(program, tmp_path / "model.pt2")
    loaded = torch.export.load(tmp_path / "model.pt2").module()
    for count in (3, 7):
        y = torch.randn(count, 4)
        torch.testing.assert_close(loaded(y), Model()(y))


WRONG_WHILE_TRACING = pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda f, x: f.softclip(x.int()), TypeError, "softclip: x must be float32, but is int32"),
        (lambda f, x: f.strided_sum(x, x.double()), TypeError, "strided_sum: the dtypes must agree"),
        (lambda f, x: f.min_max(x), ValueError, "min_max: x must have 2 dimensions, but has 1"),
        (lambda f, x: f.multiply(x, x[1:]), ValueError, "is required"),
        (lambda f, x: f.described(x, n=-1), ValueError, "an extent of the result would be -1"),
    ],
)


@BOTH
@WRONG_WHILE_TRACING
def test_wrong_call_of_fake_tensors_raises_its_class(f, call, error, message):
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode(), pytest.raises(error, match=message):
        call(f, torch.empty(12))


@BOTH
@WRONG_WHILE_TRACING
def test_wrong_call_of_meta_tensors_raises_its_class(f, call, error, message):
    with pytest.raises(error, match=message):
        call(f, torch.empty(12, device="meta"))


@BOTH
@WRONG_WHILE_TRACING
def test_wrong_call_while_compiling_is_refused(f, x, call, error, message):
    with pytest.raises(Exception, match=message) as raised:
        compiled(lambda x: call(f, x), backend="aot_eager")(x)
    assert error.__name__ in str(raised.value) or isinstance(raised.value, error)


@BOTH
def test_meta_tensors_have_shapes(f):
    found = f.min_max(torch.empty(3, 4, device="meta"))
    assert [(one.shape, one.dtype, one.device.type) for one in found] == [((3,), torch.float32, "meta")] * 2


# Batches


@BOTH
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_vmap_of_elementwise_matches_a_call(f, dim):
    x = torch.randn(3, 4, 5)
    torch.testing.assert_close(torch.vmap(f.softclip, in_dims=dim, out_dims=dim)(x), softclip(x))
    y = torch.randn(x.select(dim, 0).shape)
    found = torch.vmap(f.multiply, in_dims=(dim, None))(x, y)
    torch.testing.assert_close(found, x.movedim(dim, 0) * y)


@BOTH
def test_vmap_of_others_matches_a_loop(f):
    x = torch.randn(4, 3, 5)
    low, high = torch.vmap(f.min_max)(x)
    torch.testing.assert_close(low, x.amin(2))
    torch.testing.assert_close(high, x.amax(2))
    x = torch.randn(4, 5, dtype=torch.float64)
    found = torch.vmap(lambda x, y: f.mixed(x, y, 2.0), in_dims=(0, None))(x, x[0])
    torch.testing.assert_close(found[1], f.mixed(x[1], x[0], 2.0))


@BOTH
def test_transforms_of_gradients_match_formulas(f):
    x = torch.randn(4, 5)
    gradient = torch.func.grad(lambda x: f.softclip(x).sum())
    torch.testing.assert_close(gradient(x), 1 / (1 + x.abs()) ** 2)
    torch.testing.assert_close(torch.vmap(gradient)(x), 1 / (1 + x.abs()) ** 2)
    second = torch.func.grad(lambda x: gradient(x).sum())
    torch.testing.assert_close(second(x), -2 * x.sign() / (1 + x.abs()) ** 3)
    low, high = torch.func.jacrev(f.min_max)(x)
    assert low.shape == high.shape == (4, 4, 5)
    assert (low + high).sum() == 8


@BOTH
def test_transforms_of_gradients_without_a_second_one_match_formulas(f):
    x, y = torch.randn(3, dtype=torch.float64), torch.randn(2, 4, dtype=torch.float64)
    gradient = torch.func.grad(lambda x, y: f.outer(x, y).sum())
    torch.testing.assert_close(gradient(x, y[0]), y[0].sum().expand(3))
    torch.testing.assert_close(torch.vmap(gradient, (None, 0))(x, y), y.sum(1, keepdim=True).expand(2, 3))
    with pytest.raises(RuntimeError, match="outer has no second gradient"):
        torch.func.grad(lambda y: gradient(x, y).sum())(y[0])


@BOTH
def test_vmap_in_place_changes_each_element(f):
    x = torch.randn(3, 4)
    expected = x.clamp(min=0)
    torch.vmap(lambda x: (f.relu_(x), x)[1])(x)
    torch.testing.assert_close(x, expected)


# Programs of their own


def run(program, *arguments):
    environment = {**os.environ, "PYTHONWARNINGS": "error,ignore:::torch"}
    command = [sys.executable, "-c", program, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    assert not done.stderr


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
    command = [sys.executable, "-c", TWICE, str(copy), torch_is]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_torch_computes_shapes_for_fake_tensors_on_cuda() -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    operators.softclip(torch.ones(1))
    meta = operators.cuda_scale(torch.empty(2, 3, device="meta"))
    assert (meta.device.type, meta.shape) == ("meta", (2, 3))
    with FakeTensorMode(allow_non_fake_inputs=True):
        result = torch.ops.operators.cuda_scale(torch.empty(2, 3, device="cuda"), 2.0)
        assert (result.device.type, result.shape, result.dtype) == ("cuda", (2, 3), torch.float32)


def test_in_place_operator_refuses_tensors_that_need_gradients() -> None:
    x = torch.ones(3, requires_grad=True)
    for call in (operators.relu_, torch.ops.operators.relu_):
        with pytest.raises(RuntimeError, match=r"^relu_: x changes in place, which has no gradient; call it under "):
            call(x * 2)
        with torch.no_grad():
            call(x)


@pytest.mark.parametrize("change", [lambda t: operators.relu_(t), lambda t: operators.softclip(torch.zeros(3), out=t)])
def test_change_in_inference_mode_invalidates_recorded_gradients(change) -> None:
    x = torch.linspace(-1, 1, 3, requires_grad=True)
    t = x * 1
    y = operators.softclip(t)
    with torch.inference_mode():
        change(t)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()
    with torch.inference_mode():
        assert change(torch.ones(3)).shape == (3,)


def test_in_place_operator_invalidates_recorded_gradients() -> None:
    w = torch.ones(3, requires_grad=True)
    y = w.exp()
    with torch.no_grad():
        operators.relu_(y)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_out_refuses_tensors_that_need_gradients() -> None:
    x = torch.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError, match="^softclip: `out` does not support gradients"):
        operators.softclip(x, out=torch.empty(3))
    out = torch.empty(3)
    version = out._version
    with torch.no_grad():
        operators.softclip(x, out=out)
    assert out._version > version


def test_out_accepts_none_and_a_list() -> None:
    x, out = torch.ones(3), torch.empty(3)
    assert operators.softclip(x, out=None).tolist() == [0.5, 0.5, 0.5]
    operators.softclip(x, out=[out])
    assert out.tolist() == [0.5, 0.5, 0.5]


def test_tensors_on_several_devices_are_refused() -> None:
    with pytest.raises(RuntimeError, match="^add_: all tensors must be on one device, but are on cpu and meta"):
        operators.add_(torch.ones(3), torch.ones(3, device="meta"))


def test_object_that_pretends_to_be_a_tensor_is_refused() -> None:
    class Pretends:
        @property
        def __class__(self) -> type:
            return torch.Tensor

    with pytest.raises(TypeError, match="^softclip: x: "):
        operators.softclip(Pretends())


def test_argument_before_a_required_one_is_omitted_by_name(x):
    d = x.double()
    torch.testing.assert_close(operators.late(x=x), 2 * x + 1)
    torch.testing.assert_close(operators.late(x=x, shift=3), 2 * x + 3)
    torch.testing.assert_close(operators.biased(x=d), d)
    out = torch.empty_like(d)
    assert operators.biased(x=d, out=out) is out
    torch.testing.assert_close(out, d)
    with pytest.raises(RuntimeError, match="by"):
        ops.late(x=x)


@BOTH
def test_gradient_with_an_optional_input_in_front_matches_autograd(f):
    bias, x = (torch.linspace(1, 3, 4, dtype=torch.float64, requires_grad=True) for _ in range(2))
    expected = torch.autograd.grad((bias * x).sum(), [bias, x])
    torch.testing.assert_close(torch.autograd.grad(f.biased(bias, x).sum(), [bias, x]), expected)
    assert torch.autograd.grad(f.biased(None, x).sum(), [x])[0].tolist() == [1, 1, 1, 1]


@BOTH
def test_input_named_out_is_an_input(f, x):
    torch.testing.assert_close(f.exponential_vjp(out=x, grad_out=x), x * x)
    x.requires_grad_()
    torch.testing.assert_close(torch.autograd.grad(f.exponential(x).sum(), [x])[0], x.exp())


def test_compiled_argument_before_a_required_one_is_omitted_by_name(x):
    compiled = torch.compile(lambda x: operators.late(x=x), fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x), 2 * x + 1)


def test_schema_has_the_default_text():
    assert ops.texts.default._schema.arguments[1].default_value == operators.texts.parameters[1][2]


def test_extent_divided_by_zero_is_refused_while_tracing(x):
    message = "parted: an extent is divided by 0; divide by a positive number"
    with pytest.raises(RuntimeError, match=message):
        operators.parted(x, 0)
    with torch._subclasses.fake_tensor.FakeTensorMode(), pytest.raises(ValueError, match=message):
        operators.parted(torch.empty(8), 0)


def test_array_in_place_beside_a_tensor_is_refused(x):
    array = x.numpy().copy()
    with pytest.raises((TypeError, RuntimeError), match="add_"):
        operators.add_(array, x)


def test_second_extension_of_the_same_names_is_refused(tmp_path):
    copy = shutil.copy(operators.softclip.path, tmp_path)
    code = """
import importlib.util, sys, torch, operators
spec = importlib.util.spec_from_file_location("operators", sys.argv[1])
try:
    spec.loader.exec_module(importlib.util.module_from_spec(spec))
except RuntimeError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code, copy], capture_output=True, text=True, timeout=120)
    assert "If another extension has an operator operators::softclip, rename the operator" in done.stdout, done.stderr
