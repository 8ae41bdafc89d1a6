"""PyArrow, the strictest consumer. Its arrays are always read-only."""

import itertools
from typing import Any

import dlbridge
import pytest
from conftest import require
from native import Flags, Native

np = require("numpy")
pa = require("pyarrow")

DTYPES = [
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64"),
]


def address(array: Any) -> int:
    if isinstance(array, pa.Tensor):
        return int(np.asarray(array).ctypes.data)
    return int(array.buffers()[1].address + array.offset * array.type.bit_width // 8)


@pytest.mark.parametrize("dtype", DTYPES)
def test_arrays_of_every_dtype_make_a_round_trip(dtype: str) -> None:
    source = pa.array(np.arange(5, dtype=dtype))
    tensor = dlbridge.asdlpack(source)
    assert (tensor.dtype, tensor.shape, tensor.strides) == (dtype, (5,), (1,))
    assert (tensor.protocol, tensor.readonly, tensor.copied) == ("dlpack", True, False)
    back = pa.Array.from_dlpack(tensor)
    assert back.type == source.type
    assert address(source) == tensor.address == address(back)
    assert back.equals(source)


@pytest.mark.parametrize("dtype", DTYPES)
def test_tensors_of_every_dtype_make_a_round_trip(dtype: str) -> None:
    source = pa.Tensor.from_numpy(np.arange(6, dtype=dtype).reshape(2, 3))
    tensor = dlbridge.asdlpack(source)
    assert (tensor.dtype, tensor.shape, tensor.strides) == (dtype, (2, 3), (3, 1))
    assert tensor.protocol == "dlpack"
    assert tensor.readonly != source.is_mutable
    back = pa.Tensor.from_dlpack(tensor)
    assert address(source) == tensor.address == address(back)
    assert back.equals(source)


@pytest.mark.parametrize(
    "layout",
    [
        lambda a: a,
        lambda a: a.T,
        lambda a: a[:, 1:3],
        lambda a: a[::2, ::2],
        lambda a: a[:1],
        lambda a: np.lib.stride_tricks.as_strided(a, (3, 3), (0, 4)),
    ],
)
def test_tensors_of_any_layout(layout: Any) -> None:
    array = layout(np.arange(12, dtype=np.float32).reshape(3, 4))
    tensor = dlbridge.asdlpack(array)
    back = pa.Tensor.from_dlpack(tensor)
    assert tensor.address == address(back) == array.ctypes.data
    assert back.shape == array.shape
    assert back.to_numpy().tolist() == array.tolist()
    again = dlbridge.asdlpack(back)
    assert (again.address, again.strides) == (tensor.address, tensor.strides)


def test_slices_and_tensors_without_dimensions_or_elements() -> None:
    source = pa.array(np.arange(10.0))[3:7]
    tensor = dlbridge.asdlpack(source)
    assert (tensor.address, tensor.shape) == (address(source), (4,))
    assert np.from_dlpack(tensor).tolist() == [3, 4, 5, 6]
    assert dlbridge.asdlpack(pa.array([], "float32")).shape == (0,)
    scalar = pa.Tensor.from_dlpack(dlbridge.asdlpack(np.array(5.0)))
    assert scalar.shape == ()
    assert dlbridge.asdlpack(scalar).shape == ()


def test_pyarrow_keeps_the_read_only_mark(native: Native) -> None:
    for flags, mutable in ((Flags.READ_ONLY, False), (0, True)):
        tensor, crafted = native.tensor((2, 3), flags=flags)
        back = pa.Tensor.from_dlpack(tensor)
        assert back.is_mutable == mutable
        assert address(back) == crafted.fields.data
        assert dlbridge.asdlpack(back).readonly != mutable


@pytest.mark.parametrize("copy", [None, True, False])
def test_keywords_of_pyarrow_are_accepted(copy: bool | None) -> None:
    tensor = dlbridge.asdlpack(np.arange(6.0))
    back = pa.Tensor.from_dlpack(tensor, copy=copy)
    assert (address(back) != tensor.address) == bool(copy)
    assert back.to_numpy().tolist() == [0, 1, 2, 3, 4, 5]
    source = pa.array(np.arange(6.0))
    imported = dlbridge.asdlpack(source, copy=copy)
    assert (imported.address != address(source)) == imported.copied == bool(copy)
    assert imported.readonly != bool(copy)
    if copy:
        assert imported.address % 256 == 0


@pytest.mark.parametrize("kind", ["Array", "Tensor"])
@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_last_of_many_holders_frees(native: Native, kind: str, order: tuple[int, ...]) -> None:
    first, crafted = native.tensor((6,))
    middle = getattr(pa, kind).from_dlpack(first)
    last = dlbridge.asdlpack(middle)
    assert first.address == address(middle) == last.address
    holders = [[first], [middle], [last]]
    del first, middle, last
    for which in order:
        assert crafted.record.calls == 0
        holders[which].clear()
    assert crafted.record.calls == 1


@pytest.mark.parametrize(
    "source",
    [
        lambda: pa.array([1, None, 3]),
        lambda: pa.array([True, False]),
        lambda: pa.array(["text"]),
        lambda: pa.array([[1], [2]]),
        lambda: pa.array([0], "timestamp[s]"),
        lambda: pa.array(["a"]).dictionary_encode(),
    ],
)
def test_array_that_pyarrow_cannot_export_is_refused_with_the_cause(source: Any) -> None:
    """pyarrow raises a TypeError that is not about an unknown keyword."""
    with pytest.raises(BufferError, match="the producer cannot export the data: .*convert it to a plain") as caught:
        dlbridge.asdlpack(source(), protocol="dlpack")
    assert isinstance(caught.value.__cause__, pa.ArrowTypeError)


def test_buffers() -> None:
    memory = bytearray(b"abc")
    buffer = pa.py_buffer(memory)
    tensor = dlbridge.asdlpack(buffer)
    assert (tensor.protocol, tensor.dtype, tensor.shape) == ("buffer", "int8", (3,))
    assert tensor.address == buffer.address
    assert not tensor.readonly
    assert dlbridge.asdlpack(pa.py_buffer(b"abc")).readonly
