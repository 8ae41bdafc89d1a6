"""Reads the elements and the address of an array of any library, without exporting it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dlbridge_conformance import crafter, elements
from dlbridge_conformance.crafter import DTYPES, Ints
from dlbridge_conformance.outcome import NotApplicable

#: the letters of ``__array_interface__`` for kinds of dtypes
KINDS = {"i": "int", "u": "uint", "f": "float", "c": "complex"}


def values(array: Any) -> Any:
    """The elements as nested lists: by ``tolist``, in the memory that ``__array_interface__`` describes, or one by one."""
    if hasattr(array, "tolist"):
        return array.tolist()
    described = _described(array)
    if described is not None:
        return elements.at(*described)
    shape = tuple(array.shape)
    read = _number_of(str(array.dtype))
    return _nested(lambda index: read(array[index]), shape)


def address(array: Any) -> int:
    """The address of the element at index zero, by ``data_ptr`` or ``__array_interface__``."""
    if hasattr(array, "data_ptr"):
        return int(array.data_ptr() if callable(array.data_ptr) else array.data_ptr)
    return int(_interface(array)["data"][0])


def is_read_only(array: Any) -> bool:
    """Return true if ``__array_interface__`` marks the array as read-only."""
    return bool(_interface(array)["data"][1])


def dtype_of(array: Any) -> str:
    """The name of the array's dtype in DLPack."""
    name = str(array.dtype).rpartition(".")[2].strip("<>' ").removesuffix("_")
    if name not in DTYPES:
        raise NotApplicable(f"the kit does not know the dtype {array.dtype}")
    return name


def _interface(array: Any) -> dict[str, Any]:
    interface: dict[str, Any] | None = getattr(array, "__array_interface__", None)
    if interface is None or interface.get("data") is None:
        raise NotApplicable("the arrays lack __array_interface__")
    return interface


def _described(array: Any) -> tuple[int, str, Ints, Ints] | None:
    """The address, dtype, shape and strides in ``__array_interface__``; None without it, or for an unusual dtype."""
    try:
        interface = _interface(array)
    except NotApplicable:
        return None
    order, kind, size = interface["typestr"][0], interface["typestr"][1], int(interface["typestr"][2:])
    name = "bool" if kind == "b" else f"{KINDS.get(kind, '')}{8 * size}"
    if name not in DTYPES or order == ">":
        return None
    shape = tuple(interface["shape"])
    strides = interface.get("strides")
    in_elements = crafter.c_strides(shape) if strides is None else tuple(stride // size for stride in strides)
    return interface["data"][0], name, shape, in_elements


def _number_of(dtype: str) -> Callable[[Any], Any]:
    """The conversion of a 0-d array of this dtype to a number of Python."""
    kinds: dict[str, Callable[[Any], Any]] = {"bool": bool, "complex": complex, "int": int}
    return next((convert for kind, convert in kinds.items() if kind in dtype), float)


def _nested(read: Callable[[Ints], Any], shape: Ints, before: Ints = ()) -> Any:
    """Calls ``read`` with each index, and nests the results as lists."""
    if not shape:
        return read(before)
    return [_nested(read, shape[1:], (*before, i)) for i in range(shape[0])]
