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

np = pytest.importorskip("numpy")


def grid() -> tuple[Any, dlbridge.Tensor]:
    array = np.arange(24, dtype="int32").reshape(2, 3, 4)
    return array, dlbridge.asdlpack(array)


OPERATIONS: list[Any] = [
    lambda t: t + 1, lambda t: 1 + t, lambda t: t - t, lambda t: [1] * t, lambda t: t / 2.0, lambda t: t**2, lambda t: 2 @ t,
    lambda t: -t, lambda t: ~t, lambda t: abs(t), lambda t: divmod(t, 2), lambda t: divmod(2, t), lambda t: round(t),
    lambda t: round(t, 1), lambda t: math.trunc(t), lambda t: t < 1, lambda t: 1 >= t, lambda t: t == copy.copy(t),
    lambda t: t != 1, lambda t: t == [1, 2], lambda t: 1 in t, lambda t: bool(t), lambda t: float(t), lambda t: int(t),
    lambda t: complex(t), lambda t: t.astype("float32"), lambda t: t.__setitem__(0, 1), lambda t: t.__delitem__(0),
    lambda t: t == b"abc", lambda t: t & True,
]  # fmt: skip


@pytest.mark.parametrize("operation", OPERATIONS)
def test_computing_is_refused_with_the_way_to_compute(operation: Any) -> None:
    with pytest.raises(TypeError, match=r"\.numpy\(\).*\.torch\(\)"):
        operation(grid()[1])


def test_operand_of_numpy_computes_by_its_own_operator() -> None:
    array, tensor = grid()
    assert np.array_equal(tensor + np.ones(4), array + 1)
    assert np.array_equal(np.ones(4) + tensor, array + 1)
    assert np.array_equal(np.add(tensor, 1), array + 1)
    assert np.array_equal(tensor * np.float64(2), array * 2)
    assert np.array_equal(tensor == array, array == array)
    assert np.array_equal(tensor < array + 1, array < array + 1)


OPERATORS = [operator.add, operator.matmul, operator.and_, operator.pow, operator.lt, operator.ge, operator.eq, operator.ne]


@pytest.mark.parametrize("compute", OPERATORS)
def test_operand_of_torch_is_refused_on_both_sides(compute: Any) -> None:
    torch = require("torch")
    _, tensor = grid()
    for operands in ((tensor, torch.ones(4)), (torch.ones(4), tensor)):
        with pytest.raises(TypeError, match=r"\.torch\(\)") as refused:
            compute(*operands)
        assert refused.value.__cause__ is None, "PyTorch returns NotImplemented"


@pytest.mark.parametrize("compute", OPERATORS)
def test_type_error_of_the_other_operand_is_the_cause(compute: Any) -> None:
    class Other:
        """A number that refuses to compute."""

        def refuse(self, other: Any) -> Any:
            raise TypeError("not with a tensor")

        __radd__ = __rmatmul__ = __rand__ = __rpow__ = __gt__ = __le__ = __eq__ = __ne__ = refuse
        __hash__ = None  # type: ignore[assignment]

        def __float__(self) -> float:
            return 1.0

    with pytest.raises(TypeError, match=r"does not compute.*\.torch\(\)") as refused:
        compute(grid()[1], Other())
    assert repr(refused.value.__cause__) == "TypeError('not with a tensor')"


class Meta(type):
    """A metaclass with a method that its classes' objects do not have."""

    def __radd__(cls, *arguments: Any) -> str:
        return "metaclass"


class OfMeta(metaclass=Meta):
    """An object without arithmetic."""


class Static:
    """A class with a static method."""

    __radd__ = staticmethod(lambda *arguments: len(arguments))


class Computed:
    """A class with a property that returns a method."""

    @property
    def __radd__(self) -> Any:
        return lambda other: "property"


class Unsupported:
    """A class that declines addition."""

    __radd__ = None


def test_method_of_the_other_operand_is_looked_up_as_by_python() -> None:
    tensor = grid()[1]
    assert (tensor + Static(), tensor + Computed()) == (1, "property")
    for compute in (lambda: tensor + OfMeta(), lambda: tensor | OfMeta(), lambda: tensor + Unsupported()):
        with pytest.raises(TypeError, match="does not compute") as refused:
            compute()
        assert refused.value.__cause__ is None


def test_other_exception_of_the_other_operand_is_passed_on() -> None:
    class Other:
        """A number whose arithmetic fails."""

        def __radd__(self, other: Any) -> Any:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        grid()[1] + Other()


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
