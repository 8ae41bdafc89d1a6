"""The fields of the struct: version, shape, strides, data and byte offset."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from dlbridge_conformance.context import Context
from dlbridge_conformance.crafter import Fields, Ints, c_strides
from dlbridge_conformance.exports import (
    HOST, address_of, best, each_abi, expect_elements, expect_same_memory, legacy, may_refuse, needs_no_copy,
    strides_of,
)  # fmt: skip
from dlbridge_conformance.outcome import NotApplicable
from dlbridge_conformance.rule import may, must, should

DATA = "dlpack.h 1.3, DLTensor::data"
SHAPE = "dlpack.h 1.3, DLTensor::shape"
STRIDES = "dlpack.h 1.3, DLTensor::strides"
VERSION = "dlpack.h 1.3, DLPackVersion"
PYTHON = "Python specification of DLPack, Implementation"

#: arrays of every rank, by shape
BY_SHAPE: dict[Ints, Any] = {
    (): 5,
    (3,): [0, 1, 2],
    (2, 3): [[0, 1, 2], [3, 4, 5]],
    (2, 1, 3): [[[0, 1, 2]], [[3, 4, 5]]],
    (1, 2, 2, 2): [[[[0, 1], [2, 3]], [[4, 5], [6, 7]]]],
}


def _of_ranks(c: Context, *shapes: Ints) -> list[tuple[Ints, Any]]:
    """Arrays of those shapes that the library can make."""
    found = []
    for shape in shapes:
        try:
            found.append((shape, c.array(BY_SHAPE[shape])))
        except NotApplicable as reason:
            c.got(f"cannot make shape {shape}: {reason}")
    c.needs(found, f"{c.lib.name} cannot make an array of these ranks")
    return found


def _each(shapes: Iterable[Ints], fault: Callable[[Fields, Ints], str]) -> Callable[[Context], None]:
    """A check of every export of arrays of these shapes. ``fault`` says what is wrong with the fields, if anything."""

    def check(c: Context) -> None:
        for shape, array in _of_ranks(c, *shapes):
            for held in each_abi(c, array):
                said = fault(held.fields, shape)
                c.expect(not said, said)

    return check


@must("P-STRUCT-VERSION", "The version in the struct has major version 1, which has this layout.", VERSION)
def version(c: Context) -> None:
    found = c.versioned(c.array()).fields.version
    c.expect(found is not None and found[0] == 1, f"the version is {found}")


must("P-STRUCT-NDIM", "ndim is the number of axes, 0 for a scalar.", "dlpack.h 1.3, DLTensor::ndim",
     _each(BY_SHAPE, lambda f, shape: f"ndim of {shape} is {f.ndim}" * (f.ndim != len(shape))))  # fmt: skip
must("P-STRUCT-SHAPE", "shape points to the extents of the axes, in their order.", SHAPE,
     _each(BY_SHAPE, lambda f, shape: f"the shape of {shape} is {f.shape}" * ((f.shape or ()) != shape)))  # fmt: skip
must("P-STRUCT-SHAPE-SET", "shape is not NULL unless ndim is 0.", SHAPE,
     _each([(3,), (2, 3), (2, 1, 3)], lambda f, _: "shape is NULL" * (f.shape is None)))  # fmt: skip


def _strides_set(c: Context, array: Any) -> None:
    """Expects strides in a struct of a version that requires them."""
    fields = c.versioned(array).fields
    c.needs((fields.version or (0, 0)) >= (1, 2), f"the struct is of version {fields.version}")
    c.expect(fields.strides is not None, "strides are NULL")


@must("P-STRUCT-STRIDES-SET",
      "In a struct of version 1.2 or later strides are not NULL unless ndim is 0, even in C order.", STRIDES)  # fmt: skip
def strides_set(c: Context) -> None:
    for _, array in _of_ranks(c, (3,), (2, 3), (2, 1, 3)):
        _strides_set(c, array)


must("P-STRUCT-STRIDES-SET-ZERO-SIZE",
     "In a struct of version 1.2 or later strides are not NULL, even without elements.", STRIDES,
     lambda c: _strides_set(c, c.array([])))  # fmt: skip
must("P-STRUCT-STRIDES-C-ORDER", "The strides of an array in C order count elements, and the last axis has stride 1.",
     STRIDES, _each([(3,), (2, 3)],
                    lambda f, shape: f"the strides of {shape} are {f.strides}" * (strides_of(f) != c_strides(shape))))  # fmt: skip


@must("P-STRUCT-STRIDES-NULL",
      "NULL strides, if a producer still writes them, mean C order: a transposed array has strides.", PYTHON)  # fmt: skip
def strides_null(c: Context) -> None:
    view = c.lib.transposed(c.array())
    held = legacy(c, view)
    if held.fields.strides is None:
        expect_elements(c, held, [[0, 3], [1, 4], [2, 5]])
        return
    c.expect(len(held.fields.strides) == held.fields.ndim, f"the strides are {held.fields.strides}")


@must("P-STRUCT-ELEMENTS", "The element at every index is at data + byte_offset + the strides times the index.",
      STRIDES)  # fmt: skip
def elements_of_ranks(c: Context) -> None:
    for shape, array in _of_ranks(c, *BY_SHAPE):
        for held in each_abi(c, array):
            expect_elements(c, held, BY_SHAPE[shape])


@must("P-STRUCT-SAME-MEMORY", "The export of a plain array shares the array's memory.",
      "Python specification of DLPack, Semantics")  # fmt: skip
def same_memory(c: Context) -> None:
    array = c.array()
    needs_no_copy(c, array)
    for held in each_abi(c, array):
        expect_same_memory(c, array, held)


@must("P-STRUCT-SCALAR", "A 0-d array has ndim 0 and one element; shape and strides may be NULL.", SHAPE)
def scalar(c: Context) -> None:
    for held in each_abi(c, c.array(5)):
        c.expect(held.fields.ndim == 0, f"ndim is {held.fields.ndim}")
        expect_elements(c, held, 5)


@must("P-STRUCT-SIZE-ONE", "Axes of extent 1 stay in the shape, wherever they are.", SHAPE)
def size_one(c: Context) -> None:
    for values, wanted in [([[0, 1, 2]], (1, 3)), ([[0], [1], [2]], (3, 1)), ([[[7]]], (1, 1, 1))]:
        for held in each_abi(c, c.array(values)):
            c.expect(held.fields.shape == wanted, f"the shape of {wanted} is {held.fields.shape}")
            expect_elements(c, held, values)


@must("P-STRUCT-ZERO-SIZE", "An array without elements is exported with its shape, including the extent of 0.", SHAPE)
def zero_size(c: Context) -> None:
    empty: list[tuple[Ints, list[Any]]] = [((0,), []), ((2, 0), [[], []])]
    for wanted, values in empty:
        for held in each_abi(c, c.array(values)):
            c.expect(held.fields.shape == wanted, f"the shape of {wanted} is {held.fields.shape}")


@should("P-STRUCT-ZERO-SIZE-NULL", "data is NULL if the array does not have elements.", DATA)
def zero_size_null(c: Context) -> None:
    for held in each_abi(c, c.array([])):
        c.expect(held.fields.data == 0, f"data is {held.fields.data:#x}")


must("P-STRUCT-DATA-SET", "data is not NULL if the array has elements.", DATA,
     _each([(), (3,), (2, 3)], lambda f, _: "data is NULL" * (f.data == 0)))  # fmt: skip


@should("P-STRUCT-ALIGNED",
        "data of a new array is a multiple of 256; an array that begins elsewhere has a byte_offset.", DATA)  # fmt: skip
def aligned(c: Context) -> None:
    arrays = [c.array([[float(i)] * 3] * 2) for i in range(16)]
    for array in arrays:
        fields = best(c, array).fields
        c.expect(fields.data % 256 == 0, f"data is {fields.data:#x}, a multiple of {fields.data & -fields.data}")


@may("P-STRUCT-ALIGNED-ELEMENTS",
     "The first element of an array and of its slices is at a multiple of the size of an element.",
     "no text; most consumers assume it")  # fmt: skip
def aligned_elements(c: Context) -> None:
    dtype = "float64" if "float64" in c.lib.dtypes else "float32"
    array = c.array(dtype=dtype)
    for candidate in (array, c.lib.sliced(array)):
        with may_refuse(c, "a slice"):
            fields = best(c, candidate).fields
        size = fields.dtype[1] // 8
        c.expect(address_of(fields) % size == 0, f"the first element is at {address_of(fields):#x}")


may("P-STRUCT-DELETER", "The struct has a deleter: without one, no consumer can free the tensor.",
    "dlpack.h 1.3, DLManagedTensorVersioned::deleter",
    _each([(2, 3)], lambda f, _: "the deleter is NULL" * (not f.deleter)))  # fmt: skip


@must("P-STRUCT-REPEATABLE", "Two exports of an unchanged array describe the same tensor.",
      "Python specification of DLPack, Semantics")  # fmt: skip
def repeatable(c: Context) -> None:
    array = c.array()
    first, second = best(c, array).fields, best(c, array).fields
    for name in ("version", "flags", "device", "dtype", "ndim", "shape", "strides"):
        c.expect(getattr(first, name) == getattr(second, name), f"{name} differs")
    needs_no_copy(c, array)
    c.expect(address_of(first) == address_of(second), "the two point to different memory")


@must("P-STRUCT-HOST", "The CPU can write memory of the CPU device, unless it is read-only.",
      "dlpack.h 1.3, DLDeviceType")  # fmt: skip
def host(c: Context) -> None:
    array = c.array()
    held = c.versioned(array)
    c.needs(held.fields.device[0] in HOST, f"the tensor is on {held.fields.device}")
    c.needs(not held.fields.flags & 1, "the tensor is read-only")
    held.write(b"\0\0\x80\x3f", 4)
    expect_elements(c, held, [[0, 1, 2], [3, 4, 5]])
    held.write(b"\0\0\0\x40", 0)
    expect_elements(c, held, [[2, 1, 2], [3, 4, 5]])
