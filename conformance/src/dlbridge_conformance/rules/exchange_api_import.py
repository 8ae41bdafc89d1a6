"""``managed_tensor_to_py_object_no_sync``: a managed tensor as an array."""

from __future__ import annotations

from dlbridge_conformance.context import Context
from dlbridge_conformance.crafter import Flags
from dlbridge_conformance.exchange import IMPORT as IMPORT_FUNCTION
from dlbridge_conformance.exchange import exported, imported, refused_import, table_of
from dlbridge_conformance.rule import may, must, should

IMPORT = "dlpack.h 1.3, DLPackManagedTensorToPyObjectNoSync"
VERSION = "dlpack.h 1.3, DLPackVersion"

MATRIX = [[0, 1, 2], [3, 4, 5]]
#: float4_e2m1fn, which has 4 bits, with 8
UNDEFINED = (17, 8, 1)


must("X-IMPORT-STATUS", "It returns 0 for a valid tensor, writes an object and does not set an exception.", IMPORT,
     lambda c: imported(c, c.craft()))  # fmt: skip


@must("X-IMPORT-TYPE", "The object is an array of the library, of the type that has the table.", IMPORT)
def result_type(c: Context) -> None:
    found, wanted = type(imported(c, c.craft())), type(c.array())
    c.expect(issubclass(found, wanted), f"it is a {found.__module__}.{found.__qualname__}")


must("X-IMPORT-ELEMENTS", "The array has the elements of the tensor.", IMPORT,
     lambda c: c.expect(c.values(imported(c, c.craft())) == MATRIX, "the elements differ"))  # fmt: skip


@must("X-IMPORT-STRIDES", "The elements are read by the strides.", "dlpack.h 1.3, DLTensor::strides")
def strides(c: Context) -> None:
    array = imported(c, c.craft((3, 2), strides=(1, 3), values=[0, 1, 2, 3, 4, 5]))
    c.expect(c.values(array) == [[0, 3], [1, 4], [2, 5]], "the elements differ")


@must("X-IMPORT-BYTE-OFFSET", "The first element is byte_offset bytes after data.",
      "dlpack.h 1.3, DLTensor::byte_offset")  # fmt: skip
def byte_offset(c: Context) -> None:
    array = imported(c, c.craft((4,), byte_offset=8, values=[0, 1, 2, 3, 4, 5]))
    c.expect(c.values(array) == [2, 3, 4, 5], "the elements differ")


@must("X-IMPORT-SCALAR", "A 0-d tensor may have NULL for shape and strides.", "dlpack.h 1.3, DLTensor::shape")
def scalar(c: Context) -> None:
    array = imported(c, c.craft(None, strides=None, values=[7]))
    c.expect(c.values(array) == 7, "the element differs")


@must("X-IMPORT-ZERO-SIZE", "A tensor without elements may have NULL for data.", "dlpack.h 1.3, DLTensor::data")
def zero_size(c: Context) -> None:
    array = imported(c, c.craft((2, 0), data=0))
    c.expect(c.values(array) == [[], []], "the array has elements")


@must("X-IMPORT-DELETER-ONCE", "The array owns the tensor afterwards: the deleter runs once, when the array is gone.",
      IMPORT)  # fmt: skip
def deleter_once(c: Context) -> None:
    crafted = c.craft()
    array = imported(c, crafted)
    c.settle()
    if crafted.record.calls:
        c.got("the deleter has run already: the data was copied")
    c.expect(c.values(array) == MATRIX, "the elements differ")
    del array
    c.settle()
    c.expect(crafted.record.calls == 1, f"the deleter ran {crafted.record.calls} times")


@must("X-IMPORT-NULL-DELETER", "The deleter of a tensor may be NULL.",
      "dlpack.h 1.3, DLManagedTensorVersioned::deleter")  # fmt: skip
def null_deleter(c: Context) -> None:
    array = imported(c, c.craft(deleter=False))
    c.expect(c.values(array) == MATRIX, "the elements differ")
    del array
    c.settle()


@must("X-IMPORT-NULL-CONTEXT", "A tensor may have NULL for manager_ctx, and its deleter still runs.",
      "dlpack.h 1.3, DLManagedTensorVersioned::manager_ctx")  # fmt: skip
def null_context(c: Context) -> None:
    crafted = c.craft(manager_ctx=0)
    array = imported(c, crafted)
    del array
    c.settle()
    c.expect(crafted.record.calls == 1, f"the deleter ran {crafted.record.calls} times")


@should("X-IMPORT-READ-ONLY", "A library with read-only arrays makes one from a read-only tensor.",
        "dlpack.h 1.3, DLPACK_FLAG_BITMASK_READ_ONLY")  # fmt: skip
def read_only(c: Context) -> None:
    array = imported(c, c.craft(flags=Flags.READ_ONLY))
    c.expect(c.lib.is_read_only(array), "the array is writable")


@should("X-IMPORT-NEWER-MINOR", "A tensor of a newer minor version is accepted if its fields are known.", VERSION)
def newer_minor(c: Context) -> None:
    array = imported(c, c.craft(version=(1, 99)))
    c.expect(c.values(array) == MATRIX, "the elements differ")


must("X-IMPORT-MAJOR", "A tensor of another major version is refused, with an exception.", VERSION,
     lambda c: refused_import(c, c.craft(version=(2, 0))))  # fmt: skip


@must("X-IMPORT-MAJOR-FREES", "The deleter of a tensor of another major version is called, once.", VERSION)
def major_frees(c: Context) -> None:
    crafted = c.craft(version=(2, 0))
    refused_import(c, crafted)
    c.settle()
    c.expect(crafted.record.calls == 1, f"the deleter ran {crafted.record.calls} times")


must("X-IMPORT-REFUSAL", "A tensor of float4_e2m1fn with 8 bits, an undefined width, returns -1 with an exception set.",
     "dlpack.h 1.3, DLDataTypeCode: FP4 data types", lambda c: refused_import(c, c.craft(dtype=UNDEFINED)))  # fmt: skip


@must("X-IMPORT-LANES", "A dtype of several lanes is refused with an exception, or kept.",
      "dlpack.h 1.3, DLDataType::lanes")  # fmt: skip
def lanes(c: Context) -> None:
    crafted = c.craft(dtype=(2, 32, 2))
    table = table_of(c, c.array(), IMPORT_FUNCTION)
    status, array, error = table.imported(crafted.native)
    c.got(f"status {status}, exception {error!r}")
    if status:
        c.expect(error is not None, f"it returned {status} and set no exception")
        return
    found = exported(c, array).fields.dtype
    c.expect(found == (2, 32, 2), f"the dtype has become {found}")


@must("X-IMPORT-REFUSAL-ONCE", "The deleter of a refused tensor is not called more than once.",
      "dlpack.h 1.3, DLManagedTensorVersioned::deleter")  # fmt: skip
def refusal_once(c: Context) -> None:
    crafted = c.craft(dtype=UNDEFINED)
    refused_import(c, crafted)
    c.settle()
    c.expect(crafted.record.calls <= 1, f"the deleter ran {crafted.record.calls} times")


@may("X-IMPORT-REFUSAL-FREES", "The library frees a refused tensor, because it took ownership.", IMPORT)
def refusal_frees(c: Context) -> None:
    crafted = c.craft(dtype=UNDEFINED)
    refused_import(c, crafted)
    c.settle()
    c.expect(crafted.record.calls == 1, f"the deleter ran {crafted.record.calls} times")
