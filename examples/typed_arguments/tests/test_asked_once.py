"""What is asked of an argument that tells what it is by a function of C, and how often."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typed_arguments as typed

sys.path.append(str(Path(__file__).parents[3] / "python/dlbridge/tests"))

import exchange_table as tables

CALLS: list[Any] = []


@tables.FROM_OBJECT
def lend(obj: Any, out: Any) -> int:
    """The managed tensor of an array, and who it was asked of."""
    CALLS.append(obj)
    capsule = np.arange(3, dtype="f4").__dlpack__(max_version=(1, 3), copy=getattr(obj, "copies", None))
    get, rename = ctypes.pythonapi.PyCapsule_GetPointer, ctypes.pythonapi.PyCapsule_SetName
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    rename.argtypes = [ctypes.py_object, ctypes.c_char_p]
    out[0] = get(capsule, b"dltensor_versioned")
    rename(capsule, USED)
    return 0


USED = b"used_dltensor_versioned"
NOTHING = [tables.ALLOCATE(), lend, tables.TO_OBJECT(lambda *_: -1), tables.BORROW(), tables.STREAM()]
TABLE = tables.Table(1, 3, None, *NOTHING)
CAPSULE = tables.capsule_of(ctypes.addressof(TABLE))


class Lender:
    __dlpack_c_exchange_api__ = CAPSULE


class Copier(Lender):
    copies = True


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
def test_a_table_is_asked_once_whatever_comes_of_it(function: Any, argument: type) -> None:
    CALLS.clear()
    try:
        function(argument())
    except TypeError:
        assert function in (typed.trace, typed.negate)
    assert len(CALLS) == 1


def test_what_its_bytes_do_not_show_is_asked_before_the_table() -> None:
    array = np.ma.array([1.0, 2.0], mask=[True, False]).view(Masked)
    CALLS.clear()
    with pytest.raises(BufferError, match="masked"):
        typed.shape(array)
    assert not CALLS


def test_tensors_of_pytorch_in_states_that_must_not_be_lent() -> None:
    torch = pytest.importorskip("torch")
    with pytest.raises(BufferError, match="requires grad"):
        typed.mean(torch.ones(2, 3, requires_grad=True))
    negated = torch.ones(2, 3, dtype=torch.complex64).conj().imag
    with pytest.raises(BufferError, match="negative bit"):
        typed.mean(negated)

    class Later(torch.Tensor):
        """A class whose objects say something else once it has been seen."""

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
    done = subprocess.run(
        [sys.executable, "-c", SEVERAL_CPUS.format(device=device)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stdout == "fine\n", done.stderr
