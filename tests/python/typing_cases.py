"""Code that type checkers must accept, and lines with "error:" comments that they must refuse."""

import array
import ctypes
import io
import mmap
import pathlib
from typing import Any, Literal, assert_type

import dlbridge
from dlbridge.compat.dlpack import asdlpack
from dlbridge.files import Quantization
from dlbridge.typing import (
    ProtocolName,
    SupportsArrayInterface,
    SupportsArrayStruct,
    SupportsArrowArray,
    SupportsCudaArrayInterface,
    SupportsDLPack,
    SupportsExchangeAPI,
)

tensor = dlbridge.asdlpack(b"abc", copy=None, device=(1, 0), align=64, contiguous="F", writable=True)
assert_type(tensor, dlbridge.Tensor)
assert_type(dlbridge.from_dlpack(tensor, device="cpu", copy=False), dlbridge.Tensor)
assert_type(dlbridge.empty((2, 3), "float16"), dlbridge.Tensor)
assert_type(dlbridge.empty([2]), dlbridge.Tensor)
assert_type(asdlpack(b"abc"), dlbridge.Tensor)
assert_type(tensor.shape, tuple[int, ...])
assert_type(tensor.strides, tuple[int, ...])
dtype_name: str = tensor.dtype
assert_type(tensor.readonly, bool)
assert_type(tensor.protocol, ProtocolName | Literal["dlpack-legacy, assumed writable"] | None)
assert_type(tensor.copy_reason, str | None)
assert_type(tensor.__dlpack_device__(), tuple[int, int])
assert_type(dlbridge.explain(tensor, to=["numpy"]), dlbridge.Explanation)
assert_type(dlbridge.explain(tensor, to=array), dlbridge.Explanation)
assert_type(dlbridge.explain(tensor, to=[array, "numpy"]), dlbridge.Explanation)
assert_type(dlbridge.explain(tensor).verdicts[0].zero_copy, bool)
assert_type(dlbridge.explain(tensor).verdicts[0].refused, bool)
with dlbridge.share_memory(tensor) as shared:
    assert_type(shared.tensor, dlbridge.Tensor)
    assert_type(dlbridge.attach(shared.name), dlbridge.SharedTensor)
with dlbridge.SharedScope() as scope:
    assert_type(scope.share_memory(b"abc"), dlbridge.SharedTensor)
    assert_type(scope.empty((2, 3), "bfloat16"), dlbridge.SharedTensor)

dlpack: SupportsDLPack = tensor
table: SupportsExchangeAPI = tensor
interface: SupportsArrayInterface = tensor
struct: SupportsArrayStruct = tensor
cuda: SupportsCudaArrayInterface = tensor
arrow: SupportsArrowArray = tensor


class Producer:
    """An object that speaks DLPack."""

    def __dlpack__(self, *, stream: int | None = None, **keywords: Any) -> Any:
        return tensor.__dlpack__(stream=stream)


dlbridge.from_dlpack(Producer())

for exporter in (b"abc", bytearray(3), memoryview(b""), array.array("f"), mmap.mmap(-1, 8), (ctypes.c_float * 2)()):
    dlbridge.asdlpack(exporter)
dlbridge.asdlpack(tensor.__dlpack__())
dlbridge.asdlpack(tensor)
assert_type(dlbridge.like(b"", tensor), Any)
dlbridge.explain([1, 2, 3])
for chunk in dlbridge.chunks(b"abc"):
    assert_type(chunk, dlbridge.Tensor)
dlbridge.save("x.npy", tensor)
dlbridge.save("x.safetensors", {"x": b"abc", "y": tensor}, metadata={"a": "b"}, max_shard_bytes=1)
opened: dlbridge.TensorFile = dlbridge.load("x.safetensors", to="torch")
with opened as file:
    assert_type(file.info("x").shape, tuple[int, ...])
assert_type(dlbridge.load("x.npy", writable=True), Any)
frame = {"a": tensor, "b": b"abc"}
assert_type(dlbridge.matrix(frame), dlbridge.Tensor)
assert_type(dlbridge.matrix(frame, ["a"], dtype="float32", nulls=0, order="F", copy=True), dlbridge.Tensor)
assert_type(dlbridge.matrix(frame, ("a", 1.5, None), nulls="raise"), dlbridge.Tensor)
assert_type(tensor.to("polars", columns=["a", "b"]), Any)
assert_type(dlbridge.asdlpack(b"abc", assume_writable=True), dlbridge.Tensor)
with tensor.dltensor(writable=True) as address:
    assert_type(address, int)
assert_type(dlbridge.from_managed(address, legacy=True), dlbridge.Tensor)
assert_type(dlbridge.load(b"bytes"), Any)
assert_type(dlbridge.load(open("x.npy", "rb")), Any)  # noqa: SIM115
for source in (bytearray(3), memoryview(b""), mmap.mmap(-1, 8), io.BytesIO(), tensor, pathlib.Path("folder")):
    dlbridge.load(source, device="cpu", dequantize="float16")
assert_type(opened.dequantize("x", "bfloat16"), Any)
assert_type(opened.refused, dict[str, str])
assert_type(opened.metadata, dict[str, Any])
assert_type(opened.path, str | None)
assert_type(opened.info("x").quantization, Quantization | None)

dlbridge.asdlpack([1, 2, 3])  # error: a list supports no protocol
dlbridge.asdlpack((1, 2, 3))  # error: nor does a tuple
dlbridge.asdlpack("cat.png")  # error: nor does a string
dlbridge.asdlpack(3.0)  # error: nor does a float
dlbridge.asdlpack(None)  # error: nor does None
dlbridge.like(b"", [1, 2, 3])  # error: a list supports no protocol
dlbridge.share_memory([1, 2, 3])  # error: a list supports no protocol
asdlpack([1, 2, 3])  # error: a list supports no protocol
dlbridge.from_dlpack(b"abc")  # error: no __dlpack__
dlbridge.save("x.npz", {1: tensor})  # error: a name is text
dlbridge.save("x.npz", {"x": [1, 2, 3]})  # error: a list supports no protocol
dlbridge.load(3)  # error: not a path
dlbridge.load(None)  # error: nor is None
dlbridge.load(["x.npy"])  # error: nor is a list
opened.dequantize(3)  # error: a name is text
opened.refused = {}  # error: cannot be set
dlbridge.load("x.npy", writable="yes")  # error: not a bool
dlbridge.explain(tensor, to=3)  # error: neither a name nor a module
shared.numpy()  # error: a method of its tensor
dlbridge.asdlpack(shared)  # error: supports no protocol
dlbridge.asdlpack(b"abc", protocol="buffers")  # error: unknown protocol
dlbridge.asdlpack(b"abc", contiguous="K")  # error: no such order
dlbridge.asdlpack(b"abc", assume_writable="yes")  # error: not a bool
dlbridge.matrix(frame, order="K")  # error: no such order
dlbridge.matrix(frame, nulls="drop")  # error: neither 'raise' nor a number
dlbridge.matrix(frame, ["a"], "float32")  # error: by keyword
dlbridge.matrix(frame, copy="no")  # error: not a bool
tensor.to("polars", columns=2)  # error: not names
tensor.dltensor(True)  # error: by keyword
tensor.dltensor(writable="yes")  # error: not a bool
dlbridge.from_managed("8")  # error: not an address
dlbridge.asdlpack(obj=b"abc")  # error: by position
tensor.shape = (3,)  # error: cannot be set
dlbridge.empty(2.5)  # error: not an integer
dlbridge.Tensor.numpy(tensor, True)  # error: by keyword


class Own(dlbridge.Tensor):  # error: final
    """A subclass."""
