"""Operators that PyTorch traces: fake and meta tensors, `torch.compile`, `torch.export`."""

import pytest
from cases import check, softclip
from torch_calls import BOTH, EACH, ops, results, tensors, pytestmark as warnings, torch, x  # noqa: F401

import operators

# Other files import the operators before PyTorch, which then registers them at their first call.
pytestmark = [*warnings, pytest.mark.alone]


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
def test_compiled_output_begins_as_zeros(f):
    fast = compiled(lambda x: f.accumulated(x))

    def filled(x, slice, view):
        f.accumulated.out(x, slice=slice, view=view)

    for _ in range(20):
        x = torch.ones(512)
        outs = [torch.full((512,), 7.0) for _ in range(2)]
        if f is ops:
            compiled(filled, backend="aot_eager")(x, *outs)
            assert all(torch.equal(one, x) for one in outs)
        del outs
        for found in fast(x):
            assert torch.equal(found, x)


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


@BOTH
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda f, x: f.softclip(x, out=x), "softclip: out is written and shares memory with x; pass a copy"),
        (lambda f, x: f.softclip(x[1:], out=x[:-1]), "softclip: out is written and shares memory with x; pass a copy"),
        (lambda f, x: f.add_(x, x), "add_: x is written and shares memory with y; pass a copy"),
        (lambda f, x: f.softclip(x, out=x.new_empty(3)), r"softclip: out must have the shape \[12\], but has \[3\]"),
        (lambda f, x: f.softclip(x, out=x.new_empty(3, 4)), r"softclip: out must have the shape \[12\], but has \[3, 4\]"),
        (lambda f, x: f.softclip(x, out=x.double()), "softclip: out must be float32, but is float64; pass a tensor of float32"),
    ],
)
def test_compiled_call_refuses_what_an_eager_call_refuses(f, x, backend, call, message):
    with pytest.raises(RuntimeError, match=message):
        call(f, x.clone())
    with pytest.raises(RuntimeError, match=message):
        compiled(lambda x: call(f, x), backend=backend)(x.clone())


@BOTH
def test_compiled_out_beside_an_input_is_filled(f, x):
    def model(x):
        f.softclip(x[:6], out=x[6:])
        return x + 1

    a, b = x.clone(), x.clone()
    torch.testing.assert_close(compiled(model)(a), model(b))
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
def test_compiled_dynamic_output_matches_eager(f):
    def model(x):
        return f.nonzero(x) + 1

    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        fast = compiled(model)
        for x in (torch.tensor([0.0, 1, 2, 0, 3]), torch.tensor([1.0, 1, 0, 0, 0])):
            torch.testing.assert_close(fast(x), model(x))


@BOTH
def test_compiled_out_and_overlap_of_sizes_that_only_the_call_knows(f):
    def model(x):
        positions, out = f.nonzero(x).float().flatten(), torch.empty(3)
        f.softclip(positions, out=out)
        f.add_(positions, torch.cat([positions, positions])[: positions.shape[0]])
        return positions, out

    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        x = torch.tensor([1.0, 0, 2, 3])
        torch.testing.assert_close(compiled(model)(x), model(x))


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
        (lambda f, x: f.planar(x), ValueError, "planar: out must have 2 dimensions, but its shape is"),
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


def test_torch_computes_shapes_for_fake_tensors_on_cuda() -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    operators.softclip(torch.ones(1))
    meta = operators.cuda_scale(torch.empty(2, 3, device="meta"))
    assert (meta.device.type, meta.shape) == ("meta", (2, 3))
    with FakeTensorMode(allow_non_fake_inputs=True):
        result = torch.ops.operators.cuda_scale(torch.empty(2, 3, device="cuda"), 2.0)
        assert (result.device.type, result.shape, result.dtype) == ("cuda", (2, 3), torch.float32)


def test_compiled_argument_before_a_required_one_is_omitted_by_name(x):
    compiled = torch.compile(lambda x: operators.late(x=x), fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x), 2 * x + 1)


def test_extent_divided_by_zero_is_refused_while_tracing(x):
    message = "parted: an extent is divided by 0; divide by a positive number"
    with pytest.raises(RuntimeError, match=message):
        operators.parted(x, 0)
    with torch._subclasses.fake_tensor.FakeTensorMode(), pytest.raises(ValueError, match=message):
        operators.parted(torch.empty(8), 0)


@BOTH
def test_compiled_forward_mode_is_refused(f, x):
    with pytest.raises(Exception, match="softclip: forward-mode derivatives"):
        compiled(lambda x: torch.func.jvp(f.softclip, (x,), (x,)), backend="aot_eager")(x)
