"""Operators: tensors do not compute, and other operands compute with their own methods."""

from __future__ import annotations

import copy
import math
import operator
import weakref
from typing import Any

import dlbridge
import pytest
from conftest import require
from test_carrier import grid

np = pytest.importorskip("numpy")


REFUSED: list[Any] = [
    lambda t: t == copy.copy(t), lambda t: t != 1, lambda t: t == [1, 2], lambda t: t == b"abc", lambda t: 1 in t[0, 0],
    lambda t: bool(t), lambda t: float(t), lambda t: int(t), lambda t: complex(t), lambda t: t.__setitem__(0, 1),
    lambda t: t.__delitem__(0),
]  # fmt: skip


@pytest.mark.parametrize("operation", REFUSED)
def test_computing_is_refused_with_the_way_to_compute(operation: Any) -> None:
    with pytest.raises(TypeError, match=r"\.numpy\(\).*\.torch\(\)"):
        operation(grid()[1])


WITHOUT_METHOD: list[Any] = [
    lambda t: t + 1, lambda t: 1 + t, lambda t: t - t, lambda t: [1] * t, lambda t: t / 2.0, lambda t: t**2, lambda t: 2 @ t,
    lambda t: -t, lambda t: ~t, lambda t: abs(t), lambda t: divmod(t, 2), lambda t: divmod(2, t), lambda t: round(t),
    lambda t: math.trunc(t), lambda t: t < 1, lambda t: 1 >= t, lambda t: t < t, lambda t: t & True,
]  # fmt: skip


@pytest.mark.parametrize("operation", WITHOUT_METHOD)
def test_arithmetic_is_refused_by_python(operation: Any) -> None:
    with pytest.raises(TypeError):
        operation(grid()[1])


def test_operand_of_numpy_computes_by_its_own_operator() -> None:
    array, tensor = grid()
    assert np.array_equal(tensor + np.ones(4), array + 1)
    assert np.array_equal(np.ones(4) + tensor, array + 1)
    assert np.array_equal(np.add(tensor, 1), array + 1)
    assert np.array_equal(tensor * np.float64(2), array * 2)
    assert np.array_equal(tensor == array, array == array)
    assert np.array_equal(tensor != array + 1, array != array + 1)
    assert np.array_equal(tensor < array + 1, array < array + 1)


@pytest.mark.parametrize("compute", [operator.add, operator.matmul, operator.and_, operator.pow, operator.lt, operator.ge])
def test_arithmetic_with_torch_is_refused_on_both_sides(compute: Any) -> None:
    torch = require("torch")
    _, tensor = grid()
    for operands in ((tensor, torch.ones(4)), (torch.ones(4), tensor)):
        with pytest.raises(TypeError):
            compute(*operands)


@pytest.mark.parametrize("compute", [operator.eq, operator.ne])
def test_comparison_with_torch_is_refused_on_both_sides(compute: Any) -> None:
    torch = require("torch")
    _, tensor = grid()
    for operands in ((tensor, torch.ones(4)), (torch.ones(4), tensor)):
        with pytest.raises(TypeError, match=r"\.torch\(\)"):
            compute(*operands)


@pytest.mark.parametrize("error", [TypeError, ZeroDivisionError])
def test_exception_of_the_other_operand_is_passed_on(error: type[Exception]) -> None:
    class Other:
        """A number that cannot be compared."""

        def refuse(self, other: Any) -> Any:
            raise error("not with a tensor")

        __radd__ = __eq__ = refuse
        __hash__ = None  # type: ignore[assignment]

        def __float__(self) -> float:
            return 1.0

    for compute in (operator.add, operator.eq):
        with pytest.raises(error, match="not with a tensor"):
            compute(grid()[1], Other())


def test_comparison_by_identity_keeps_containers_working() -> None:
    _, tensor = grid()
    assert tensor in [tensor]
    assert {tensor: 1}[tensor] == 1
    assert weakref.WeakKeyDictionary({tensor: 1})[tensor] == 1
    same = tensor
    assert (tensor == same, tensor != same) == (True, False)
    assert tensor in weakref.WeakSet([tensor])
    assert (tensor == None, tensor != None, tensor == object()) == (False, True, False)  # noqa: E711
    assert len({tensor, copy.copy(tensor)}) == 2


def test_one_element_is_a_number() -> None:
    one = dlbridge.asdlpack(np.array([2.5]))
    assert (float(one), int(one), complex(one), bool(one), one.item()) == (2.5, 2, 2.5 + 0j, True, 2.5)
    assert not dlbridge.asdlpack(np.array(0))
    assert "abcd"[dlbridge.asdlpack(np.array(3))] == "d"
    assert bytes(dlbridge.asdlpack(np.array(7, "uint8"))) == b"\x07"
    assert bytearray(dlbridge.asdlpack(np.array([7], "uint8"))) == b"\x07"
    with pytest.raises(ValueError, match=r"tolist\(\)"):
        dlbridge.asdlpack(b"ab").item()
