"""Gradients of operators in PyTorch: autograd, forward mode, batches, and tensors that change."""

import pytest
from cases import softclip
from torch_calls import BOTH, pytestmark, torch, x  # noqa: F401

import operators


# Gradients


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


FORWARD_MODE = {
    "make_dual": derivatives,
    "jvp": lambda f, x: torch.func.jvp(f, (x,), (x,)),
    "jacfwd": lambda f, x: torch.func.jacfwd(f)(x),
    "linearize": lambda f, x: torch.func.linearize(f, x)[1](x),
    "hessian": lambda f, x: torch.func.hessian(lambda x: f(x).sum())(x),
    "jvp-grad": lambda f, x: torch.func.jvp(torch.func.grad(lambda x: f(x).sum()), (x,), (x,)),
    "jvp-vjp": lambda f, x: torch.func.jvp(lambda x: torch.func.vjp(f, x)[1](x), (x,), (x,)),
    "jvp-vjp-cotangent": lambda f, x: torch.func.jvp(lambda y: torch.func.vjp(f, x)[1](y), (x,), (x,)),
    "grad-jvp": lambda f, x: torch.func.grad(lambda x: torch.func.jvp(f, (x,), (x,))[1].sum())(x),
    "vmap-jvp": lambda f, x: torch.vmap(lambda x: torch.func.jvp(f, (x,), (x,)))(x.view(3, 4)),
    "jacobian": lambda f, x: torch.autograd.functional.jacobian(f, x, strategy="forward-mode", vectorize=True),
}


@BOTH
@pytest.mark.parametrize("derive", FORWARD_MODE.values(), ids=FORWARD_MODE)
def test_forward_mode_is_refused_with_advice(f, x, derive):
    refused = r"softclip(_vjp)?: forward-mode derivatives .* are not supported, .* use reverse mode, .*func.vjp .*jacrev"
    with pytest.raises(NotImplementedError, match=refused):
        derive(f.softclip, x)
    with torch.no_grad(), pytest.raises(NotImplementedError, match=refused):
        derive(f.softclip, x)


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


# Changed tensors, and inputs in front


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


@BOTH
def test_gradient_with_an_optional_input_in_front_matches_autograd(f):
    bias, x = (torch.linspace(1, 3, 4, dtype=torch.float64, requires_grad=True) for _ in range(2))
    expected = torch.autograd.grad((bias * x).sum(), [bias, x])
    torch.testing.assert_close(torch.autograd.grad(f.biased(bias, x).sum(), [bias, x]), expected)
    assert torch.autograd.grad(f.biased(None, x).sum(), [x])[0].tolist() == [1, 1, 1, 1]
