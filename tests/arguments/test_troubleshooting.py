"""docs/troubleshooting.md quotes messages of dlbridge: the page has the same messages as the cases here, which raise each one."""

import array
import functools
import re
import sys
import textwrap
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import dlbridge
import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from processes import output
import torch
import typed_arguments

PAGE = Path(__file__).resolve().parents[2] / "docs/troubleshooting.md"

asdlpack = dlbridge.asdlpack


def used_capsule() -> None:
    capsule = np.arange(3).__dlpack__()
    asdlpack(capsule)
    asdlpack(capsule)


def deleted() -> None:
    x = jnp.ones(3)
    x.delete()
    asdlpack(x)


def array_of_a_shared_tensor() -> None:
    with dlbridge.share_memory(VECTOR) as shared:
        np.asarray(shared)


def locked() -> None:
    memory = bytearray(3)
    t = asdlpack(memory)
    memory.append(1)
    del t


@functools.cache
def message_of_a_copy_to_cuda() -> str:
    """The message of a copy to CUDA, empty if it succeeds. A separate process, because other tests load a stand-in for the driver."""
    program = """
import dlbridge, numpy
try:
    dlbridge.asdlpack(numpy.ones(3), device="cuda:0")
except BufferError as error:
    print(error)
"""
    return output(program, options=(), quiet=False).strip()


def without_driver() -> None:
    raise BufferError(message_of_a_copy_to_cuda())


def without_pyarrow() -> None:
    column = pd.Series([1], dtype="Int64")
    with pytest.MonkeyPatch.context() as patch:
        # An import of a module that is None fails.
        patch.setitem(sys.modules, "pyarrow", None)
        asdlpack(column)


def written() -> None:
    asdlpack(b"abc").numpy()[0] = 1


def made_twice() -> None:
    with dlbridge.share_memory(VECTOR) as shared:
        dlbridge.share_memory(VECTOR, name=shared.name)


def closed() -> None:
    with dlbridge.share_memory(VECTOR) as shared:
        pass
    shared.tensor.numpy()


def assigned() -> None:
    t: Any = asdlpack(bytearray(3))
    t[0] = 1


def read_only_image() -> np.ndarray[Any, Any]:
    image = np.ones((2, 2, 3), "uint8")
    image.flags.writeable = False
    return image


MATRIX = np.ones((2, 3), "float32")
VECTOR = np.ones(3)
BIG_ENDIAN = np.arange(3, dtype=">i4")
ANYTHING: Any = dlbridge

def with_tangent() -> None:
    with torch.autograd.forward_ad.dual_level():
        asdlpack(torch.autograd.forward_ad.make_dual(torch.ones(2), torch.ones(2)))


#: For each heading of the page, a function that raises the message below it.
CASES: dict[str, Callable[[], object]] = {
    "The object is not an array": lambda: ANYTHING.asdlpack([1, 2]),
    "The object lacks `__dlpack__`": lambda: ANYTHING.from_dlpack(b"abc"),
    "The tensor requires grad": lambda: asdlpack(torch.ones(2, requires_grad=True)),
    "The tensor has a tangent": with_tangent,
    "The conjugate bit is set": lambda: asdlpack(torch.ones(2, dtype=torch.complex64).conj()),
    "The tensor is sparse": lambda: asdlpack(torch.eye(2).to_sparse()),
    "The tensor is on the device `meta`": lambda: asdlpack(torch.ones(2, device="meta")),
    "The array was deleted or donated": deleted,
    "The array is a tracer": lambda: jax.jit(asdlpack)(jnp.ones(2)),
    "The elements are Python objects": lambda: asdlpack(np.array([1, None])),
    "The elements are dates": lambda: asdlpack(np.array(["2020-01-01"], "datetime64[D]")),
    "Masked elements": lambda: asdlpack(np.ma.array([1, 2], mask=[False, True])),
    "Nulls": lambda: asdlpack(pa.array([1, None])),
    "Several chunks": lambda: asdlpack(pa.chunked_array([[1], [2]])),
    "Lists of different lengths": lambda: asdlpack(pa.array([[1, 2], [3]])),
    "A whole table": lambda: asdlpack(pd.DataFrame({"a": [1]})),
    "A column of a table": lambda: dlbridge.matrix(pa.table({"a": [1, None]})),
    "pandas needs pyarrow": without_pyarrow,
    "`copy=False` forbids a copy that is needed": lambda: asdlpack(BIG_ENDIAN, copy=False),
    "Read-only data, and `writable=True` with `copy=False`": lambda: asdlpack(b"a", writable=True, copy=False),
    "The capsule was used before": used_capsule,
    "No CUDA driver": without_driver,
    "PyTorch and read-only data": lambda: asdlpack(b"abc").torch(copy=False),
    "PyTorch and negative strides": lambda: asdlpack(VECTOR[::-1]).torch(copy=False),
    "PyTorch's own `from_dlpack` and an object without DLPack": lambda: torch.from_dlpack(array.array("f", [1])),
    "PyTorch's own `from_dlpack` and a reversed array": lambda: torch.from_dlpack(asdlpack(VECTOR[::-1])),
    "A read-only result of `t.numpy()`": written,
    "JAX and 64 bits": lambda: asdlpack(VECTOR).jax(),
    "JAX and alignment": lambda: asdlpack(dlbridge.empty(9)[1:]).jax(copy=False),
    "A function of JAX refuses a tensor": lambda: jnp.sum(asdlpack(VECTOR.astype("float32"))),
    "The library is not installed": lambda: asdlpack(b"abc").to("cupy"),
    "The library is unknown": lambda: asdlpack(b"abc").to("nonumpy"),
    "The name is not there": lambda: dlbridge.attach("no_such_name"),
    "The name is taken": made_twice,
    "The shared tensor is closed": closed,
    "The shared tensor is not an array": array_of_a_shared_tensor,
    "Comparison": lambda: asdlpack(b"abc") == 1,
    "Assignment": assigned,
    "A shape that needs a copy": lambda: asdlpack(MATRIX).T.reshape(6),
    "A `bytearray` or `array.array` cannot be resized": locked,
    "Another dtype": lambda: typed_arguments.mean(MATRIX.astype("float64")),
    "Another number of dimensions": lambda: typed_arguments.mean(MATRIX[0]),
    "Another order": lambda: typed_arguments.total(MATRIX.T),
    "Other extents": lambda: typed_arguments.brightest(np.ones((2, 2, 4), "uint8")),
    "A list": lambda: typed_arguments.mean([[1, 2]]),
    "Another byte order": lambda: typed_arguments.trace(np.ones((2, 2), ">f8")),
    "No alignment": lambda: typed_arguments.trace(np.ndarray((2, 2), buffer=bytearray(33), offset=1)),
    "Read-only data": lambda: typed_arguments.invert(read_only_image()),
    "Two indices lead to one element": lambda: typed_arguments.scale(torch.ones((3, 1), dtype=torch.float64).expand(3, 2), 2),
    "One array twice": lambda: typed_arguments.swap(VECTOR, VECTOR),
    "Bytes that are not booleans": lambda: typed_arguments.count(np.array([2, 3], "uint8").view(bool)),
}


def messages() -> dict[str, str]:
    """The messages of the page by heading, without compiler errors."""
    text = PAGE.read_text(encoding="utf-8")
    found = re.findall(r"^### ([^\n]+)\n\n```text\n(.*?)^```$", text, re.M | re.S)
    return {heading: " ".join(message.split()) for heading, message in found if not message.startswith("error")}


def matches(message: str, pattern: str) -> bool:
    """Compares a message with one on the page, where three dots stand for any text."""
    expected = ".*".join(map(re.escape, pattern.split("...")))
    return re.fullmatch(expected, " ".join(message.split())) is not None


def test_page_and_cases_are_the_same() -> None:
    assert messages().keys() == CASES.keys()


def has_driver() -> bool:
    """Returns true if a copy to a GPU succeeds, or fails for another reason than a missing driver."""
    return "no CUDA driver" not in message_of_a_copy_to_cuda()


#: Headings about something that is missing, and functions that detect whether this machine has it.
ABSENT = {"No CUDA driver": has_driver, "The library is not installed": lambda: find_spec("cupy") is not None}


@pytest.mark.filterwarnings("ignore::FutureWarning:torch")
@pytest.mark.parametrize("heading", [h for h in CASES if h not in ABSENT or not ABSENT[h]()])
def test_message_is_that_of_the_page(heading: str) -> None:
    kinds = (TypeError, ValueError, BufferError, AttributeError, ImportError, OSError, RuntimeError)
    with pytest.raises(kinds) as raised:
        CASES[heading]()
    kind = {"TensorMismatchError": "TypeError", "TensorBorrowError": "BufferError"}
    name = kind.get(raised.type.__name__, raised.type.__name__)
    message = f"{name}: {raised.value}"
    assert matches(message, messages()[heading]), "\n".join(textwrap.wrap(message, 140))


def test_core_errors_have_the_exception_classes_of_the_page() -> None:
    rows = re.findall(r"^\| `(\w+)` \| .* \| `(\w+Error)` \|$", PAGE.read_text(encoding="utf-8"), re.M)
    assert dict(rows) == dict(typed_arguments.core_error_classes())


def test_another_message_does_not_match() -> None:
    assert matches("a 1 b", "a ... b")
    assert not matches("a 1 c", "a ... b")
    assert not matches("a b.", "a b")


def test_torch_asarray_reads_a_plain_buffer() -> None:
    assert torch.asarray(asdlpack(MATRIX)).shape == (6,)
