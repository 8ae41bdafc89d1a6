"""Arguments with a C exchange table: which functions dlbridge calls, and how often."""

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

sys.path.append(str(Path(__file__).parents[1] / "python"))

import exchange_table as tables

CALLS: list[Any] = []


@tables.FROM_OBJECT
def lend(obj: Any, out: Any) -> int:
    """Exports the managed tensor of an array, and records the object that it was called with."""
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


DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Managed(ctypes.Structure):
    """``DLManagedTensorVersioned``."""

    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", DELETER),
        ("flags", ctypes.c_uint64),
        ("tensor", tables.DLTensor),
    ]


@DELETER
def count_deleter(_: Any) -> None:
    CALLS.append("deleter")


@tables.FROM_OBJECT
def lend_on_device(_: Any, out: Any) -> int:
    CALLS.append("table")
    out[0] = ctypes.addressof(MANAGED)
    return 0


DATA, SHAPE, STRIDES = (ctypes.c_float * 4)(), (ctypes.c_int64 * 2)(2, 2), (ctypes.c_int64 * 2)(2, 1)
# Float32 on the first CUDA device.
TENSOR = tables.DLTensor(ctypes.addressof(DATA), 2, 0, 2, 2, 32, 1, SHAPE, STRIDES, 0)
MANAGED = Managed(1, 3, None, count_deleter, 0, TENSOR)
ON_DEVICE = tables.Table(1, 3, None, NOTHING[0], lend_on_device, *NOTHING[2:])


def test_table_is_called_once_for_data_on_a_device() -> None:
    class OnDevice:
        __dlpack_c_exchange_api__ = tables.capsule_of(ctypes.addressof(ON_DEVICE))

        def __dlpack__(self, **_: Any) -> Any:
            CALLS.append("__dlpack__")
            raise BufferError("on a device")

        def __dlpack_device__(self) -> tuple[int, int]:
            return (2, 0)

    CALLS.clear()
    with pytest.raises(BufferError, match="on a device"):
        typed.mean(OnDevice())
    assert CALLS == ["table", "deleter", "__dlpack__"]


TURNS = '''
import numpy as np, typed_arguments as typed
from test_asked_once import CAPSULE
class Endless(np.ma.MaskedArray):
    __dlpack_c_exchange_api__ = CAPSULE
    @property
    def mask(self):
        typed.shape(self)
try:
    typed.shape(np.zeros(3, "f4").view(Endless))
except RecursionError:
    print("fine")
'''


def test_producer_with_a_table_that_imports_itself_is_stopped() -> None:
    path = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", TURNS],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stdout == "fine\n", done.stderr


def test_own_tensor_that_does_not_fit_is_refused_without_a_borrow() -> None:
    constants = typed.constants()
    memory = np.ctypeslib.as_array((ctypes.c_double * 3).from_address(constants.address))

    def inner() -> None:
        with pytest.raises(TypeError, match="expected"):
            typed.mean(constants)

    typed.while_writing(memory, inner)


def test_pytorch_tensors_that_require_grad_or_have_the_negative_bit_are_refused() -> None:
    torch = pytest.importorskip("torch")
    with pytest.raises(BufferError, match="requires grad"):
        typed.mean(torch.ones(2, 3, requires_grad=True))
    negated = torch.ones(2, 3, dtype=torch.complex64).conj().imag
    with pytest.raises(BufferError, match="negative bit"):
        typed.mean(negated)

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
    done = subprocess.run(
        [sys.executable, "-c", SEVERAL_CPUS.format(device=device)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stdout == "fine\n", done.stderr
