"""An import keeps the source of the memory alive if dlbridge knows it, and otherwise the imported object."""

import ctypes
import sys
from collections.abc import Callable
from typing import Any

import dlbridge
import pytest
from conftest import require

np = require("numpy")

ARRAY_NEW, SET_BASE_OBJECT = 93, 282
"""The positions of `PyArray_New` and `PyArray_SetBaseObject` in NumPy's table of C functions, in all versions since 1.7."""


def c_function(place: int, *types: Any) -> Any:
    """A function of NumPy's C API."""
    multiarray = (getattr(np, "_core", None) or np.core).multiarray
    pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
    pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    table = ctypes.cast(pointer_of(multiarray._ARRAY_API, None), ctypes.POINTER(ctypes.c_void_p))
    address = table[place]
    assert address
    return ctypes.PYFUNCTYPE(*types)(address)


def array_over(address: int, extent: int, base: object) -> Any:
    """An array of bytes with any object as its base, like `pybind11::array(extent, address, base)` in C++."""
    integer, pointer, instance = ctypes.c_int, ctypes.c_void_p, ctypes.py_object
    types = (instance, instance, integer, pointer, integer, pointer, pointer, integer, integer, pointer)
    uint8, carray = 2, 0x0001 | 0x0100 | 0x0400
    extents = ctypes.pointer(ctypes.c_ssize_t(extent))
    new = c_function(ARRAY_NEW, *types)
    array = new(np.ndarray, 1, ctypes.cast(extents, pointer), uint8, None, address, 0, carray, None)
    ctypes.pythonapi.Py_IncRef(instance(base))  # The function takes over a reference.
    assert c_function(SET_BASE_OBJECT, integer, instance, pointer)(array, id(base)) == 0
    assert array.base is base
    return array


BASES: dict[str, Callable[[Any], Any]] = {
    "array": lambda inner: dlbridge.like(inner, inner),
    "array of a tensor": lambda inner: dlbridge.asdlpack(memoryview(inner)).numpy(),
    "tensor": dlbridge.asdlpack,
    "memoryview": lambda inner: memoryview(dlbridge.asdlpack(inner)),
    "capsule": lambda inner: dlbridge.like(inner, inner).base,
}
"""Our exports, each with an array as its source."""

PROTOCOLS = (None, "buffer", "array-interface", "array-struct")

SOURCE = range(16, 48)

OUTSIDE = (range(0, 16), range(15, 20), range(44, 49), range(48, 64), range(0, 64))


def kept(kind: str, protocol: str | None, where: range) -> int:
    """Imports an array whose base is an export, drops the array, and returns how many references to the export remain."""
    outer = np.arange(64, dtype=np.uint8)
    base = BASES[kind](outer[SOURCE.start : SOURCE.stop])
    before = sys.getrefcount(base)
    array = array_over(outer.ctypes.data + where.start, len(where), base)
    tensor = dlbridge.asdlpack(array, protocol=protocol)
    assert (tensor.address, tensor.shape) == (array.ctypes.data, array.shape)
    del array
    references = sys.getrefcount(base) - before
    assert tensor.numpy().tolist() == list(where)
    del tensor
    assert sys.getrefcount(base) == before
    return references


@pytest.mark.parametrize("where", OUTSIDE, ids=str)
@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("kind", BASES)
def test_array_with_memory_outside_of_the_source_keeps_its_base(kind: str, protocol: str | None, where: range) -> None:
    """The base may keep memory alive that does not belong to the source, so the tensor must keep the base."""
    assert kept(kind, protocol, where) == 1


@pytest.mark.parametrize("where", (SOURCE, SOURCE[3:-1]), ids=str)
@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("kind", BASES)
def test_array_with_memory_of_the_source_keeps_the_source_alone(kind: str, protocol: str | None, where: range) -> None:
    assert kept(kind, protocol, where) == 0
