"""PyTorch: round trips at the same address, the chain with NumPy, and refusals."""

import gc
import itertools
import weakref
from typing import Any

import dlbridge
import native as n
import pytest
from conftest import require
from processes import output
from native import Native
from producers import raises

np = require("numpy")
torch = require("torch")

DTYPES = [
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "bfloat16", "float32", "float64", "complex64", "complex128"),
    *("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"),
]
LAYOUTS: dict[str, Any] = {
    "C order": lambda t: t,
    "transposed": lambda t: t.permute(2, 1, 0),
    "steps": lambda t: t[::2, ::3, 1::2],
    "part": lambda t: t[1:, 1:3, 2:],
    "expanded": lambda t: t[:1].expand(3, 4, 5),
    "windows": lambda t: t.as_strided((3, 4), (1, 1), 2),
    "unsqueezed": lambda t: t[:, None, :, None],
    "no dimension": lambda t: t[1, 2, 3],
    "nothing": lambda t: t[:, 2:2],
    "channels last": lambda t: t[None].contiguous(memory_format=torch.channels_last),
}


def filled(dtype: str) -> Any:
    return (torch.arange(40).reshape(2, 4, 5) % 2).to(torch.float32).to(getattr(torch, dtype))


def equal(one: Any, other: Any) -> bool:
    one, other = one.contiguous(), other.contiguous()
    return bool(torch.equal(one.view(torch.uint8), other.view(torch.uint8)))


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_makes_a_round_trip(dtype: str) -> None:
    source = filled(dtype)
    tensor = dlbridge.asdlpack(source)
    assert (tensor.dtype, tensor.shape) == (dtype, (2, 4, 5))
    assert (tensor.protocol, tensor.copied) == ("exchange-api", False)
    back = torch.from_dlpack(tensor)
    assert back.dtype == source.dtype
    assert dlbridge.empty(2, source.dtype).dtype == dtype
    assert source.data_ptr() == tensor.address == back.data_ptr()
    assert equal(back, source)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_makes_a_round_trip(layout: str) -> None:
    source = LAYOUTS[layout](torch.arange(40.0).reshape(2, 4, 5))
    tensor = dlbridge.asdlpack(source)
    back = torch.from_dlpack(tensor)
    assert tensor.shape == tuple(source.shape) == tuple(back.shape)
    assert source.data_ptr() == tensor.address == back.data_ptr()
    if source.numel():
        assert tensor.strides == source.stride() == back.stride()
    assert torch.equal(back, source)
    copy = dlbridge.asdlpack(source, copy=True)
    assert (copy.copied, copy.address % 256) == (True, 0)
    assert torch.equal(torch.from_dlpack(copy), source)


@pytest.mark.parametrize("copy", [None, False])
def test_keywords_of_torch_are_accepted(copy: bool | None) -> None:
    tensor = dlbridge.asdlpack(torch.arange(3))
    assert torch.from_dlpack(tensor, copy=copy).data_ptr() == tensor.address
    assert torch.from_dlpack(tensor, device="cpu", copy=copy).data_ptr() == tensor.address
    assert torch.from_dlpack(tensor, copy=True).data_ptr() != tensor.address


def test_raw_capsules_of_both_kinds(native: Native) -> None:
    for max_version in (None, (1, 0)):
        tensor, crafted = native.tensor((6,))
        result = torch.from_dlpack(tensor.__dlpack__(max_version=max_version))
        del tensor
        assert result.data_ptr() == crafted.fields.data
        assert result.tolist() == [0, 1, 2, 3, 4, 5]
        del result
        assert crafted.record.calls == 1


@pytest.mark.parametrize("order", list(itertools.permutations(range(5))))
def test_chain_from_numpy_and_back_is_one_memory(order: tuple[int, ...]) -> None:
    array = np.arange(6.0)
    gone: list[bool] = []
    weakref.finalize(array, gone.append, True)
    address = array.ctypes.data
    first = dlbridge.asdlpack(array)
    middle = torch.from_dlpack(first)
    second = dlbridge.asdlpack(middle)
    last = np.from_dlpack(second)
    assert address == first.address == middle.data_ptr() == second.address == last.ctypes.data
    middle[0] = 9
    assert array[0] == last[0] == 9
    holders = [[array], [first], [middle], [second], [last]]
    del array, first, middle, second, last
    for which in order:
        assert not gone
        holders[which].clear()
    assert gone == [True], "freed once, by the last holder"


WITHOUT_THE_GIL = """
import itertools
import dlbridge, torch
from native import Native
native = Native()
for order in itertools.permutations(range(3)):
    exporter = native.exporter(on_release=list)
    first = dlbridge.asdlpack(exporter)
    middle = torch.from_dlpack(first)
    last = dlbridge.asdlpack(middle)
    assert middle.data_ptr() == first.address == last.address
    holders = [[first], [middle], [last]]
    del first, middle, last
    for which in order:
        assert native.released(exporter).calls == 0
        holders[which].clear()
    released = native.released(exporter)
    assert released.calls == exporter.exports == 1
    assert released.gil, "a buffer is released with the GIL"
"""


def test_torch_deletes_without_the_gil() -> None:
    """The holders are dropped in every order. The last one may be our tensor, whose deallocation calls torch, which
    releases the GIL and calls our deleter."""
    output(WITHOUT_THE_GIL, options=["-X", "faulthandler"])


def test_exception_of_torch_is_kept_while_a_buffer_is_released(native: Native) -> None:
    exporter = native.exporter(shape=(6,), strides=(-4,), origin=20, on_release=raises(KeyError("lost")))
    # Only the capsule holds the tensor, so the tensor is freed while torch's exception is pending.
    with pytest.raises((RuntimeError, BufferError, ValueError)) as caught:
        torch.from_dlpack(dlbridge.asdlpack(exporter).__dlpack__())
    assert not isinstance(caught.value, SystemError)
    del caught
    gc.collect()
    assert native.released(exporter).calls == exporter.exports == 1


def test_tensor_without_memory_is_refused_with_the_reason() -> None:
    resized = torch.ones(3)
    resized.untyped_storage().resize_(0)
    for source in (torch._efficientzerotensor(2), resized):
        with pytest.raises(BufferError, match="has elements but no memory.*holds its data first") as caught:
            dlbridge.asdlpack(source)
        assert caught.value.__cause__ is not None


def test_read_only_data(native: Native) -> None:
    tensor, crafted = native.tensor((6,), flags=n.Flags.READ_ONLY)
    result = torch.from_dlpack(tensor)
    assert result.data_ptr() == crafted.fields.data, "torch drops the mark, not the memory"
    # A legacy capsule cannot mark data as read-only, so torch gets a copy, which it may write.
    result = torch.from_dlpack(tensor.__dlpack__())
    assert result.data_ptr() != crafted.fields.data
    assert result.tolist() == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda torch: torch.eye(3).to_sparse(), r"sparse or has another layout than torch.strided; .*to_dense\(\)"),
        (lambda torch: torch.eye(3).to_sparse_csr(), r"sparse or has another layout than torch.strided; .*to_dense\(\)"),
        (
            lambda torch: torch.quantize_per_tensor(torch.eye(3), 0.1, 0, torch.qint8),
            r"quantised.*dequantize\(\) or int_repr\(\)",
        ),
        (lambda torch: torch.empty(3, device="meta"), "on the device meta, which holds no data"),
        (
            lambda torch: torch.nested.nested_tensor([torch.zeros(3), torch.zeros(2)]),
            r"nested.*to_padded_tensor\(padding\)",
        ),
    ],
)
@pytest.mark.parametrize("protocol", [None, "exchange-api", "dlpack"])
@pytest.mark.filterwarnings("ignore")
def test_tensors_without_strided_memory_are_refused(make: Any, match: str, protocol: Any) -> None:
    with pytest.raises(BufferError, match=match) as refusal:
        dlbridge.asdlpack(make(torch), protocol=protocol)
    assert refusal.value.__cause__ is not None


def test_other_error_of_a_subclass_is_raised() -> None:
    class Failing(torch.Tensor):  # type: ignore[name-defined,misc]
        def __dlpack__(self, **_: Any) -> Any:
            raise RuntimeError("not today")

    with pytest.raises(RuntimeError, match="not today"):
        dlbridge.asdlpack(torch.zeros(3).as_subclass(Failing))


def test_tensor_inside_vmap_is_refused() -> None:
    def look(row: Any) -> Any:
        with pytest.raises(BufferError, match="the producer cannot export the data"):
            dlbridge.asdlpack(row)
        return row

    torch.func.vmap(look)(torch.ones(3))


OPTIONS: dict[str, dict[str, Any]] = {
    "none": {},
    "no copy": {"copy": False},
    "a copy": {"copy": True},
    "writable": {"writable": True},
    "read-only": {"writable": False},
    "C order": {"order": "C"},
    "C order, no copy": {"order": "C", "copy": False},
    "aligned": {"align": 4096},
    "on the CPU": {"device": "cpu"},
}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_import_by_the_table_at_once_equals_that_of_the_protocol(layout: str, options: dict[str, Any]) -> None:
    """Without a protocol the table is called before any search, with one after it."""
    source = LAYOUTS[layout](torch.arange(40.0).reshape(2, 4, 5))

    def imported(**more: Any) -> Any:
        try:
            tensor = dlbridge.asdlpack(source, **options, **more)
        except Exception as error:
            return type(error), str(error)
        facts = tensor.protocol, tensor.copied, tensor.copy_reason, tensor.readonly, str(tensor)
        shared = tensor.address == source.data_ptr()
        return *facts, tensor.shape, tensor.strides, str(tensor.device), shared, tensor.tolist()

    assert imported() == imported(protocol="exchange-api")


STATES: dict[str, Any] = {
    "requires grad": lambda x: x.requires_grad_(),
    "negative bit": lambda x: torch._C._set_neg(x, True) or x,
    "conjugate bit": lambda x: x.to(torch.complex64).conj(),
    "sparse": lambda x: x.to_sparse(),
    "meta": lambda x: x.to("meta"),
    "nested": lambda x: torch.nested.nested_tensor([x[0], x[1, :2]]),
}


@pytest.mark.parametrize("state", STATES)
def test_refusal_by_the_table_at_once_equals_that_of_the_protocol(state: str) -> None:
    refusals = []
    for more in ({}, {"protocol": "exchange-api"}):
        x = STATES[state](torch.arange(6.0).reshape(2, 3))
        with pytest.raises(BufferError) as refusal:
            dlbridge.asdlpack(x, **more)
        refusals.append((str(refusal.value), type(refusal.value.__cause__)))
    assert refusals[0] == refusals[1]
