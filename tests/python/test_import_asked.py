"""The keywords that dlbridge passes to ``__dlpack__``, producers that support fewer, and attributes not looked up."""

import functools
import sys
from collections.abc import Callable
from types import FrameType, SimpleNamespace
from typing import Any

import dlbridge
import native as n
import pytest
from conftest import require
from native import CPU, Kind, Native, OldProducer, Producer
from producers import Wrapper

MAX_VERSION = {"max_version": (1, 3)}
IMPORTS = pytest.mark.parametrize("imports", [dlbridge.asdlpack, dlbridge.from_dlpack])


class NoKeywords(Producer):
    """A producer of the first version of the protocol."""

    def __dlpack__(self) -> Any:  # type: ignore[override]
        return self.give({})


class Forwarding:
    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __dlpack__(self, **keywords: Any) -> Any:
        return self.inner.__dlpack__(**keywords)

    def __dlpack_device__(self) -> Any:
        return self.inner.__dlpack_device__()


@IMPORTS
@pytest.mark.parametrize("versioned", [True, False])
@pytest.mark.parametrize("wrap", [None, Forwarding])
@pytest.mark.parametrize("kind", [OldProducer, NoKeywords])
def test_producer_without_max_version_is_called_without_it(
    native: Native, imports: Any, kind: type[Producer], wrap: Any, versioned: bool
) -> None:
    producer = kind(native.craft(versioned=versioned))
    tensor = imports(wrap(producer) if wrap else producer)
    assert producer.asked == [{}]
    assert tensor.protocol == ("dlpack" if versioned else "dlpack-legacy")


def test_builtin_methods_without_keywords(native: Native) -> None:
    # A C function without keywords, which returns once.
    builtin = SimpleNamespace(__dlpack__=[native.craft(versioned=False).capsule()].pop)
    assert dlbridge.asdlpack(builtin).protocol == "dlpack-legacy"


def test_dlpack_method_that_is_a_callable_object_is_called(native: Native) -> None:
    class Partial(Producer):
        __dlpack__ = property(lambda self: functools.partial(self.give, {}))

    producer = Partial(native.craft())
    assert dlbridge.asdlpack(producer).shape == (2, 3)
    assert producer.asked == [{}]


def test_producer_without_dlpack_device_is_imported(native: Native) -> None:
    producer = Producer(native.craft(device=n.CUDA))
    tensor = dlbridge.asdlpack(SimpleNamespace(__dlpack__=producer.__dlpack__))
    assert tensor.device == "cuda:0"
    assert producer.asked == [MAX_VERSION]


@pytest.mark.parametrize("device", [(1, 0), (Kind.CPU, 0), (1, None), (Kind.CPU, None)])
def test_device_of_the_cpu_may_be_written_in_several_ways(native: Native, device: Any) -> None:
    assert dlbridge.asdlpack(Producer(native.craft(), device)).device == "cpu"


@pytest.mark.parametrize(
    ("device", "name", "stream"),
    [
        ((2, 0), "cuda:0", 1),
        ((2, 3), "cuda:3", 1),
        ((13, 0), "cuda_managed:0", 1),
        ((10, 1), "rocm:1", 0),
        ((3, 0), "cuda_host", None),
        ((4, 0), "opencl:0", None),
        ((14, 2), "oneapi:2", None),
        ((18, 0), "trn:0", None),
        ((1, 3), "cpu:3", None),
        ((0, 0), "device_type_0:0", None),
        ((99, -5), "device_type_99:-5", None),
        ((-1, 0), "device_type_-1:0", None),
    ],
)
def test_default_stream_of_each_device_is_requested(
    native: Native, device: tuple[int, int], name: str, stream: int | None
) -> None:
    asked = {} if stream is None else {"stream": stream}
    for kind, keywords in ((Producer, MAX_VERSION | asked), (OldProducer, asked)):
        producer = kind(native.craft(device=device), device)
        tensor = dlbridge.asdlpack(producer)
        assert (tensor.device, tensor.__dlpack_device__()) == (name, device)
        assert producer.asked == [keywords]


@IMPORTS
def test_copy_false_is_passed_on(native: Native, imports: Any) -> None:
    producer = Producer(native.craft())
    tensor = imports(producer, copy=False)
    assert producer.asked == [MAX_VERSION | {"copy": False}]
    assert not tensor.copied
    # A producer without the keyword shares its memory, as the standard of its time says.
    for old in (OldProducer(native.craft()), NoKeywords(native.craft())):
        assert not imports(old, copy=False).copied
        assert old.asked == [{}]


@IMPORTS
@pytest.mark.parametrize("copy", ["yes", 1.0, object()])
def test_copy_must_be_a_bool(imports: Any, copy: Any) -> None:
    producer = Producer(None)
    with pytest.raises(TypeError, match="copy"):
        imports(producer, copy=copy)
    assert producer.asked == []


def test_device_is_passed_on(native: Native) -> None:
    producer = Producer(native.craft(), n.CUDA)
    tensor = dlbridge.from_dlpack(producer, device=CPU)
    assert tensor.device == "cpu", "moved by the producer"
    assert producer.asked == [MAX_VERSION | {"dl_device": CPU}], "the CPU has no streams"

    old = OldProducer(native.craft())
    assert dlbridge.from_dlpack(old, device=CPU).device == "cpu"
    assert old.asked == [{}], "the data is already on the device"

    old = OldProducer(native.craft(deleter=False), n.CUDA)
    with pytest.raises(BufferError, match="older than the keyword dl_device, .*; leave device out, and copy or move"):
        dlbridge.from_dlpack(old, device=CPU)
    assert old.asked == []


@pytest.mark.parametrize(
    ("device", "asked"), [("cpu", CPU), ("cuda", (2, 0)), ("cuda:1", (2, 1)), ((14, 2), (14, 2))]
)
def test_device_may_have_a_name(
    native: Native, device: str | tuple[int, int], asked: tuple[int, int]
) -> None:
    producer = Producer(native.craft(device=asked), (1, 0) if asked != CPU else (3, 0))
    tensor = dlbridge.from_dlpack(producer, device=device)
    assert producer.asked[0]["dl_device"] == asked == tensor.__dlpack_device__()
    # The keyword is left out if the data is already on the device, because some producers refuse it.
    there = Producer(native.craft(device=asked), asked)
    tensor = dlbridge.from_dlpack(there, device=device)
    assert "dl_device" not in there.asked[0]
    assert tensor.__dlpack_device__() == asked
    again = dlbridge.from_dlpack(tensor, device=tensor.device)
    assert again.device == tensor.device


@pytest.mark.parametrize(
    ("device", "error", "match"),
    [
        ("gpu", ValueError, "device is 'gpu': not the name of a device"),
        ("cuda:x", ValueError, "device is 'cuda:x'"),
        (1, TypeError, "device must be None, a name like 'cpu' or .*, not 1"),
        ([1, 0, 0], TypeError, "device must be"),
        ((1, 2**33), TypeError, "device must be"),
    ],
)
def test_wrong_device_is_refused(device: Any, error: type[Exception], match: str) -> None:
    producer = Producer(None)
    with pytest.raises(error, match=match):
        dlbridge.from_dlpack(producer, device=device)
    assert producer.asked == []


def test_object_that_declines_a_protocol_is_imported_by_the_next() -> None:
    class Declines(bytearray):
        __dlpack__ = None

    assert dlbridge.asdlpack(Declines(3)).protocol == "buffer"
    with pytest.raises(TypeError, match="supports no exchange protocol"):
        dlbridge.asdlpack(Producer)


def calls_of_getattr(function: Callable[[], object]) -> int:
    """Returns how often a function calls a ``__getattr__`` written in Python."""
    count = 0

    def trace(frame: FrameType, event: str, _: Any) -> None:
        nonlocal count
        count += event == "call" and frame.f_code.co_name == "__getattr__"

    function()
    sys.setprofile(trace)
    try:
        function()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("dtype", ["float64", "int64", "bool"])
def test_attributes_that_polars_series_lacks_are_not_looked_up(dtype: str) -> None:
    np, pl = require("numpy"), require("polars")
    series = pl.Series(np.arange(3).astype(dtype))
    assert calls_of_getattr(lambda: dlbridge.asdlpack(series)) == 0
    assert calls_of_getattr(lambda: dlbridge.asdlpack(series, protocol="arrow")) == 0
    assert dlbridge.asdlpack(series).tolist() == series.to_list()


def test_attributes_that_pandas_series_lacks_are_not_looked_up() -> None:
    pa, pd = require("pyarrow"), require("pandas")
    for dtype in ["float64", pd.ArrowDtype(pa.float64())]:
        series = pd.Series([1.0, 2.0], dtype=dtype)
        numpy_dtype = dtype == "float64"
        by_pandas = calls_of_getattr(series.to_numpy if numpy_dtype else series.__arrow_c_stream__)
        assert calls_of_getattr(lambda: dlbridge.asdlpack(series)) == by_pandas
        assert dlbridge.asdlpack(series).tolist() == [1.0, 2.0]


def test_attributes_of_a_wrapper_are_looked_up_each_time() -> None:
    np = require("numpy")
    with pytest.raises(TypeError, match="supports no exchange protocol"):
        dlbridge.asdlpack(Wrapper([1.0]))
    assert dlbridge.asdlpack(Wrapper(np.array([2.0]))).tolist() == [2.0]


def test_label_named_like_a_method_is_not_called() -> None:
    pa, pd = require("pyarrow"), require("pandas")
    dtype = pd.ArrowDtype(pa.float64())
    assert dlbridge.asdlpack(pd.Series([1.0], dtype=dtype)).tolist() == [1.0]
    series = pd.Series([2.0], index=["__dlpack__"], dtype=dtype)
    assert dlbridge.asdlpack(series).tolist() == [2.0]
