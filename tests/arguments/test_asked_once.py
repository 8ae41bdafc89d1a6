"""Arguments with a C exchange table: which functions dlbridge calls, and how often."""

from typing import Any

import numpy as np
import pytest
import typed_arguments as typed
from dlbridge_conformance import crafter

from exchange_table import BORROW, STREAM
from processes import output

CALLS: list[Any] = []
CAPSULE = crafter.native.craft_table(missing=[BORROW, STREAM])


class Lender:
    __dlpack_c_exchange_api__ = CAPSULE
    flags = 0

    def _crafted(self) -> Any:
        CALLS.append(self)
        return crafter.craft((3,), flags=self.flags).native


class Copier(Lender):
    flags = crafter.Flags.IS_COPIED


class Masked(np.ma.MaskedArray):
    __dlpack_c_exchange_api__ = CAPSULE


@pytest.mark.parametrize(
    ("function", "argument"),
    [
        (typed.shape, Lender),
        (typed.shape, Copier),
        (typed.total_of_anything, Lender),
        (typed.trace, Lender),
        (typed.negate, Copier),
    ],
)
def test_table_is_called_once_also_if_the_argument_is_refused(function: Any, argument: type) -> None:
    CALLS.clear()
    try:
        function(argument())
    except TypeError:
        assert function in (typed.trace, typed.negate)
    assert len(CALLS) == 1


def test_mask_is_checked_before_the_table_is_called() -> None:
    array = np.ma.array([1.0, 2.0], mask=[True, False]).view(Masked)
    CALLS.clear()
    with pytest.raises(BufferError, match="masked"):
        typed.shape(array)
    assert not CALLS


def test_table_is_called_once_for_data_on_a_device() -> None:
    crafted = crafter.craft((2, 2), device=crafter.CUDA)

    class OnDevice:
        __dlpack_c_exchange_api__ = CAPSULE

        def _crafted(self) -> Any:
            CALLS.append("table")
            return crafted.native

        def __dlpack__(self, **_: Any) -> Any:
            CALLS.append(("__dlpack__", crafted.record.calls))
            raise BufferError("on a device")

        def __dlpack_device__(self) -> tuple[int, int]:
            return (2, 0)

    CALLS.clear()
    with pytest.raises(TypeError, match="got float32\\[2, 2\\] on cuda:0"):
        typed.mean(OnDevice())
    assert CALLS == ["table"]
    assert crafted.record.calls == 1


def test_producer_with_a_table_that_imports_itself_is_stopped() -> None:
    class Endless(Masked):
        mask = property(typed.shape)

    with pytest.raises(RecursionError):
        typed.shape(np.zeros(3, "f4").view(Endless))


def test_attribute_that_a_class_of_pytorch_tensors_gets_later_is_seen() -> None:
    torch = pytest.importorskip("torch")

    class Later(torch.Tensor):
        """A class whose attribute changes after dlbridge has seen its first object."""

    tensor = torch.ones(2, 3).as_subclass(Later)
    assert typed.mean(tensor) == 1.0
    Later.requires_grad = property(lambda self: True)
    with pytest.raises(BufferError, match="requires grad"):
        typed.mean(tensor)


SEVERAL_CPUS = """
import jax, jax.numpy as jnp, typed_arguments as typed
x = jax.device_put(jnp.ones((2, 3), "float32"), jax.devices()[{device}])
assert typed.mean(x) == 1.0
for refused in (lambda: typed.negate(x[0]), lambda: typed.trace(x)):
    try:
        refused()
    except TypeError:
        continue
    raise SystemExit("not refused")
assert typed.count(jnp.array([True, False, True])) == 2
x.delete()
try:
    typed.mean(x)
except Exception:
    print("fine")
"""


@pytest.mark.parametrize(("count", "device"), [(1, 0), (4, 2)])
def test_arrays_of_jax_on_one_cpu_or_several(count: int, device: int) -> None:
    pytest.importorskip("jax")
    environment = {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": f"--xla_force_host_platform_device_count={count}"}
    assert output(SEVERAL_CPUS.format(device=device), options=(), quiet=False, **environment) == "fine\n"
