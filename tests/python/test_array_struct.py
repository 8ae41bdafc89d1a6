"""Import and export by `__array_struct__`, NumPy's struct."""

import ctypes
import gc
import weakref
from typing import Any

import dlbridge
import pytest
from producers import ORDER, Memory, producer, values


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
    again = dlbridge.asdlpack(producer(__array_struct__=property(lambda _: tensor.__array_struct__)))
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
    capsule = dlbridge.asdlpack(Memory()).__array_struct__
    setattr(fields_of(capsule), name, value)
    with pytest.raises(BufferError, match=match):
        dlbridge.asdlpack(producer(__array_struct__=capsule))


def test_struct_that_is_not_an_unnamed_capsule_is_refused() -> None:
    for struct, match in [(5, "must be a capsule"), (dlbridge.empty(3).__dlpack__(), "a capsule without a name")]:
        with pytest.raises(BufferError, match=match):
            dlbridge.asdlpack(producer(__array_struct__=struct))


def test_struct_that_changes_while_it_is_read_is_safe() -> None:
    capsule = dlbridge.asdlpack(Memory()).__array_struct__
    # Opaque elements, so that the name of the dtype is looked up.
    fields_of(capsule).typekind = b"V"

    def dtype(_: object) -> Any:
        fields_of(capsule).shape[0] = 1_000_000
        return type("DType", (), {"name": "float8_e4m3fn"})

    assert dlbridge.asdlpack(producer(__array_struct__=capsule, dtype=property(dtype))).shape == (24,)
