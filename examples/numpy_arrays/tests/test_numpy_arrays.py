"""rust-numpy arrays as tensors, and back: addresses, strides, elements, and borrows."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import numpy_arrays as arrays
import pytest

ml_dtypes, torch = pytest.importorskip("ml_dtypes"), pytest.importorskip("torch")

sys.path.append(str(Path(__file__).parents[3] / "tests/python"))

from native import OnDevice, crafter

VIEWS: dict[str, Any] = {
    "whole": lambda x: x,
    "transposed": lambda x: x.T,
    "backwards": lambda x: x[::-1, ::-1],
    "steps": lambda x: x[::2, 1::2],
    "one stride of 0": lambda x: np.broadcast_to(x[0], (5, 4)),
    "empty": lambda x: x[:, :0],
    "no dimension": lambda x: x[1, 2, ...],
}

DTYPES = ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16", ml_dtypes.bfloat16]


@pytest.mark.parametrize("view", VIEWS.values(), ids=list(VIEWS))
def test_array_becomes_a_tensor_over_its_memory(view: Any) -> None:
    x = view(np.arange(12.0).reshape(3, 4))
    for describe in (arrays.describe, arrays.describe_borrowed):
        address, shape, strides, dtype, read_only = describe(x)
        assert (tuple(shape), dtype) == (x.shape, "float64")
        assert read_only == (not x.flags.writeable)
        if x.size:
            assert address == x.ctypes.data
            assert [8 * stride for stride in strides] == list(x.strides)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_element_type_round_trips(dtype: Any) -> None:
    x = np.arange(6).astype(dtype).reshape(2, 3)
    words, back = arrays.there_and_back(x)
    assert words[0] == x.ctypes.data == back.ctypes.data
    assert words[3] == np.dtype(dtype).name
    assert back.dtype == x.dtype
    assert np.array_equal(back, x)
    assert not back.flags.writeable, "the tensor borrowed the first array"


def test_elements_that_tensors_lack_are_refused() -> None:
    for x in (np.array(["a"]), np.array([b"a"]), np.array([object()]), np.array(["2026-01-01"], "M8[D]")):
        with pytest.raises(BufferError, match="is not supported"):
            arrays.describe_others(x)
    with pytest.raises(BufferError, match="mask"):
        arrays.describe(np.ma.masked_array([1.0, 2.0], [True, False]))


def test_data_of_other_libraries_becomes_an_array() -> None:
    tensor = torch.arange(6.0).reshape(2, 3)
    for x in (tensor, tensor.T, tensor[:, ::2], tensor[:0], tensor[1, 2]):
        array = arrays.array_of(x)
        assert (array.shape, array.tolist()) == (tuple(x.shape), x.tolist())
        if x.numel():
            assert array.ctypes.data == x.data_ptr()
            assert [stride // 4 for stride in array.strides] == list(x.stride())
    # A float on the first CUDA device; only its description exists.
    on_device = OnDevice(crafter.craft((1,), device=crafter.CUDA))
    with pytest.raises(BufferError, match="cuda:0"):
        arrays.array_of(on_device)


def test_conversion_without_numpy_raises() -> None:
    code = """
import sys
sys.modules["numpy"] = None
import numpy_arrays
try:
    numpy_arrays.made()
except ModuleNotFoundError as error:
    print(error)
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "numpy is not installed" in result.stdout


def test_rust_owner_is_dropped_with_the_last_array() -> None:
    first, second = arrays.sharing(), arrays.sharing()
    part = first[1:]
    assert (first.ctypes.data, first.tolist()) == (second.ctypes.data, [1, 2, 3])
    assert arrays.holders() == 2
    del first
    assert arrays.holders() == 2
    del part
    assert arrays.holders() == 1
    del second
    assert arrays.holders() == 0


def test_tensor_becomes_an_array_over_its_memory() -> None:
    x, address = arrays.made()
    assert (x.ctypes.data, x.flags.writeable, x.tolist()) == (address, True, [[1, 2], [3, 4]])
    x[0, 0] = 9
    assert arrays.describe(x)[0] == address
    fixed = arrays.made_read_only()
    assert not fixed.flags.writeable
    number = arrays.number()
    assert (number.shape, number[()]) == ((), 7)


def test_slice_keeps_the_array() -> None:
    class Array(np.ndarray):
        """An array class with weak references."""

    x = np.arange(6.0).reshape(2, 3).view(Array)
    gone = weakref.ref(x)
    t = arrays.transposed(x)
    assert (t.ctypes.data, t.shape) == (x.ctypes.data, (3, 2))
    x[0, 1] = 8
    assert t[1, 0] == 8
    del x
    gc.collect()
    assert gone() is not None
    del t
    gc.collect()
    assert gone() is None


def test_wrong_dtype_or_dimensions_are_refused() -> None:
    for dtype in (True, False):
        with pytest.raises(TypeError):
            arrays.mistaken(dtype)


def test_borrows_of_rust_numpy_and_dlbridge_conflict() -> None:
    x = np.ones((2, 2))
    assert arrays.while_there_is_a_tensor(x) == (False, True, True)
    with pytest.raises(BufferError, match="borrowed for writing"):
        arrays.while_it_is_written(x)
    assert arrays.while_it_is_read(x) == 2
    assert arrays.while_there_is_a_tensor(x) == (False, True, True), "no borrow remains"


ORDERS = {
    "rust-numpy's registry": "arrays.while_it_is_read(np.ones((2, 2)))",
    "dlbridge's registry": "arrays.made(); arrays.describe(np.ones((2, 2)))",
}


@pytest.mark.parametrize("first", ORDERS.values(), ids=list(ORDERS))
def test_array_made_from_a_borrow_cannot_bypass_it(first: str) -> None:
    code = f"""
import numpy as np
import numpy_arrays as arrays
{first}
assert arrays.while_there_is_its_tensors_array(np.ones((2, 2))) == (False, False, True)
assert arrays.while_there_is_a_tensor(np.ones((2, 2))) == (False, True, True)
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100)
    assert (result.returncode, result.stderr) == (0, "")


def test_times_keep_unit_and_nat_through_a_tensor() -> None:
    days = np.array(["2024-02-28", "NaT"], "M8[D]")
    result = arrays.next_days(days)
    assert result.dtype == "M8[D]"
    assert result.astype(str).tolist() == ["2024-02-29", "NaT"]
