"""Operators called with PyTorch's tensors: results, tensors to fill, errors, memory, threads."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from cases import check, softclip
from torch_calls import BOTH, EACH, ops, results, tensors, pytestmark, torch, x  # noqa: F401

import operators


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
    with pytest.raises(RuntimeError, match="add_: x is written and shares memory with y; pass a copy"):
        f.add_(x, x)
    with pytest.raises(RuntimeError, match="shares memory with y"):
        f.add_(x[1:], x[:-1])
    with pytest.raises(RuntimeError, match="overlap"):
        f.add_(torch.ones(1).expand(4), torch.ones(4))
    f.add_(x[:6], x[6:])


def test_out_is_filled_and_returned(x):
    torch.testing.assert_close(operators.softclip(x, out=None), softclip(x))
    out, listed = torch.empty(12), torch.empty(12)
    assert operators.softclip(x, out=out) is out
    operators.softclip(x, out=[listed])
    for filled in (out, listed):
        torch.testing.assert_close(filled, softclip(x))


@BOTH
def test_output_begins_as_zeros(f):
    for size in (12, 512, 4096) * 8:
        x = torch.ones(size)
        # The allocator reuses this memory.
        del [torch.full((size,), 7.0) for _ in range(4)][:]
        for found in (*f.accumulated(x), f.accumulated_vector(x)):
            assert torch.equal(found, x)
    out = [torch.full((12,), 7.0), torch.full((12,), 7.0)]
    ops.accumulated.out(x[:12], slice=out[0], view=out[1])
    assert [one.tolist() for one in out] == [[1] * 12] * 2


def test_out_that_is_only_written_keeps_what_is_not_written(x):
    out, valid = torch.full((12,), 7.0), torch.full((12,), 7, dtype=torch.uint8)
    operators.unwritten(x, out=(out, valid.view(torch.bool)))
    assert out.tolist() == [7] * 12
    assert valid.tolist() == [0] * 12


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
        (lambda x: x, "out is written and shares memory with x"),
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
        (lambda f, x: f.planar(x), r"planar: out must have 2 dimensions, but its shape is \[12\]"),
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
    with pytest.raises((TypeError, RuntimeError), match="add_"):
        operators.add_(x.numpy().copy(), x)


# Threads


@BOTH
def test_operator_runs_without_the_gil(f, x):
    with ThreadPoolExecutor(2) as pool:
        # Each waits for the other.
        assert [met.item() for met in pool.map(f.meets, [x, x])] == [True, True]


# Unusual arguments


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
def test_input_named_out_is_an_input(f, x):
    torch.testing.assert_close(f.exponential_vjp(out=x, grad_out=x), x * x)
    x.requires_grad_()
    torch.testing.assert_close(torch.autograd.grad(f.exponential(x).sum(), [x])[0], x.exp())


def test_schema_has_the_default_text():
    assert ops.texts.default._schema.arguments[1].default_value == operators.texts.parameters[1][2]
