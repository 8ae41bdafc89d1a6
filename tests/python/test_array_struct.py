"""Import and export by `__array_struct__`, NumPy's struct."""

from __future__ import annotations

import ctypes
import gc
import weakref
from typing import Any

import dlbridge
import pytest
from array_interface import ORDER, Memory, values


class Struct:
    """A producer with only the struct of a tensor."""

    def __init__(self, tensor: dlbridge.Tensor) -> None:
        self.tensor = tensor

    @property
    def __array_struct__(self) -> Any:
        """A new capsule."""
        return self.tensor.__array_struct__


class Fields(ctypes.Structure):
    """The struct that the capsule points at."""

    _fields_ = [
        ("two", ctypes.c_int),
        ("nd", ctypes.c_int),
        ("typekind", ctypes.c_char),
        ("itemsize", ctypes.c_int),
        ("flags", ctypes.c_int),
        ("shape", ctypes.POINTER(ctypes.c_ssize_t)),
        ("strides", ctypes.POINTER(ctypes.c_ssize_t)),
        ("data", ctypes.c_void_p),
    ]


def fields_of(capsule: Any) -> Fields:
    """The struct behind a capsule."""
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return Fields.from_address(get(capsule, None))


C, F, ALIGNED, NATIVE, WRITABLE = 0x1, 0x2, 0x100, 0x200, 0x400


@pytest.mark.parametrize(
    ("fields", "flags"),
    [
        ({"shape": (6,), "typestr": f"{ORDER}f4"}, C | F | ALIGNED | NATIVE | WRITABLE),
        ({"shape": (2, 3), "typestr": f"{ORDER}f4"}, C | ALIGNED | NATIVE | WRITABLE),
        ({"shape": (2, 3), "strides": (1, 2)}, F | ALIGNED | NATIVE | WRITABLE),
        ({"shape": (2, 3), "strides": (8, 2)}, ALIGNED | NATIVE | WRITABLE),
    ],
)
def test_struct_has_the_fields_of_the_tensor(fields: dict[str, Any], flags: int) -> None:
    tensor = dlbridge.asdlpack(Memory(**fields))
    capsule = tensor.__array_struct__
    struct = fields_of(capsule)
    itemsize = tensor.nbytes // 6
    assert (struct.two, struct.nd, struct.itemsize) == (2, tensor.ndim, itemsize)
    assert struct.flags == flags
    assert struct.typekind == (b"f" if itemsize == 4 else b"u")
    assert tuple(struct.shape[: tensor.ndim]) == tensor.shape
    assert tuple(struct.strides[: tensor.ndim]) == tuple(s * itemsize for s in tensor.strides)
    assert struct.data == tensor.address


def test_exported_struct_is_imported_again() -> None:
    memory = Memory(shape=(2, 3), strides=(-3, 1))
    memory.fields["data"] = (memory.address + 3, False)
    tensor = dlbridge.asdlpack(memory)
    again = dlbridge.asdlpack(Struct(tensor))
    assert (again.protocol, again.strides, again.readonly) == ("array-struct", (-3, 1), False)
    assert values(again) == values(tensor)
    gone = weakref.ref(memory)
    del memory, tensor
    gc.collect()
    assert gone() is not None
    del again
    assert gone() is None


@pytest.mark.parametrize(
    ("name", "value", "match"),
    [("two", 3, "begins with 3"), ("nd", -1, "-1 dimensions"), ("nd", 65, "65 dimensions")],
)
def test_struct_with_a_wrong_field_is_refused(name: str, value: int, match: str) -> None:
    class Broken:
        """A producer whose struct has a wrong field."""

        def __init__(self) -> None:
            self.tensor = dlbridge.asdlpack(Memory())

        @property
        def __array_struct__(self) -> Any:
            """A capsule over a struct with one wrong field."""
            capsule = self.tensor.__array_struct__
            setattr(fields_of(capsule), name, value)
            return capsule

    with pytest.raises(BufferError, match=match):
        dlbridge.asdlpack(Broken())


def test_struct_that_is_not_a_capsule_is_refused() -> None:
    class Broken:
        """A producer with a number instead of a capsule."""

        __array_struct__ = 5

    with pytest.raises(BufferError, match="must be a capsule"):
        dlbridge.asdlpack(Broken())


def test_struct_that_changes_while_it_is_read_is_safe() -> None:
    class Changing(Struct):
        """A producer whose dtype changes the shape behind the capsule."""

        @property
        def __array_struct__(self) -> Any:
            """A capsule over opaque elements."""
            self.capsule = self.tensor.__array_struct__
            fields_of(self.capsule).typekind = b"V"
            return self.capsule

        @property
        def dtype(self) -> Any:
            """A name, and a larger shape."""
            fields_of(self.capsule).shape[0] = 1_000_000
            return type("DType", (), {"name": "float8_e4m3fn"})

    assert dlbridge.asdlpack(Changing(dlbridge.asdlpack(Memory()))).shape == (24,)


def test_capsule_with_a_name_is_refused() -> None:
    class Other:
        """A producer with a capsule that has a name."""

        __array_struct__ = dlbridge.empty(3).__dlpack__()

    with pytest.raises(BufferError, match="a capsule without a name"):
        dlbridge.asdlpack(Other())
