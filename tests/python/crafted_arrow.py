"""Hand-made Arrow structs, which may be wrong and which count how often they are released."""

import ctypes
from typing import Any

RELEASE = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Schema(ctypes.Structure):
    """``ArrowSchema``."""


Schema._fields_ = [
    ("format", ctypes.c_char_p),
    ("name", ctypes.c_char_p),
    ("metadata", ctypes.c_char_p),
    ("flags", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("children", ctypes.POINTER(ctypes.POINTER(Schema))),
    ("dictionary", ctypes.POINTER(Schema)),
    ("release", RELEASE),
    ("private_data", ctypes.c_void_p),
]


class Array(ctypes.Structure):
    """``ArrowArray``."""


Array._fields_ = [
    ("length", ctypes.c_int64),
    ("null_count", ctypes.c_int64),
    ("offset", ctypes.c_int64),
    ("n_buffers", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("buffers", ctypes.POINTER(ctypes.c_void_p)),
    ("children", ctypes.POINTER(ctypes.POINTER(Array))),
    ("dictionary", ctypes.POINTER(Array)),
    ("release", RELEASE),
    ("private_data", ctypes.c_void_p),
]


def new_capsule(struct: Any, name: bytes) -> Any:
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    return new(ctypes.addressof(struct), name, None)


class Crafted:
    """An array of six int16, with fields that can be replaced; it counts how often each struct was released."""

    def __init__(self, format: bytes = b"s", items: int | None = None, **fields: Any) -> None:
        self.released = {"schema": 0, "array": 0}
        self.numbers = (ctypes.c_int16 * 6)(*range(6))
        self.buffers = (ctypes.c_void_p * 2)(None, ctypes.addressof(self.numbers))
        self.schema = self.make_schema(format)
        self.array = self.make_array(length=6, n_buffers=2, buffers=self.buffers)
        if items is not None:
            self.inner = (self.schema, self.array)
            self.children = [
                (ctypes.POINTER(kind) * 1)(ctypes.pointer(child))
                for kind, child in zip((Schema, Array), self.inner)
            ]
            self.schema = self.make_schema(b"+w:%d" % items)
            self.schema.n_children, self.schema.children = 1, self.children[0]
            self.array = self.make_array(length=6 // max(items, 1), n_buffers=1, buffers=self.buffers)
            self.array.n_children, self.array.children = 1, self.children[1]
        for name, value in fields.items():
            setattr(self.array, name, value)
        self.names = (b"arrow_schema", b"arrow_array")

    def make_schema(self, format: bytes) -> Schema:
        schema = Schema(format=format, name=b"", flags=2)
        schema.release = self.counting("schema", Schema)
        return schema

    def make_array(self, **fields: Any) -> Array:
        array = Array(**fields)
        array.release = self.counting("array", Array)
        return array

    def counting(self, name: str, kind: Any) -> Any:
        """A release function that follows the interface and counts its calls."""

        def release(address: int) -> None:
            self.released[name] += 1
            struct = kind.from_address(address)
            struct.release = RELEASE()

        return RELEASE(release)

    def __arrow_c_array__(self, requested_schema: Any = None) -> tuple[Any, Any]:
        return new_capsule(self.schema, self.names[0]), new_capsule(self.array, self.names[1])


class Pair:
    """An object with the same Arrow capsules in each export."""

    def __init__(self, capsules: Any) -> None:
        self.capsules = capsules

    def __arrow_c_array__(self, requested_schema: Any = None) -> Any:
        return self.capsules


def extension(metadata: bytes | None) -> Any:
    """A fixed-shape tensor of lists of two, with other metadata."""
    pairs = [(b"ARROW:extension:name", b"arrow.fixed_shape_tensor")]
    if metadata is not None:
        pairs.append((b"ARROW:extension:metadata", metadata))
    raw = len(pairs).to_bytes(4, "little")
    for text in (text for pair in pairs for text in pair):
        raw += len(text).to_bytes(4, "little") + text
    crafted = Crafted(items=2)
    crafted.raw = ctypes.create_string_buffer(raw, len(raw))  # type: ignore[attr-defined]
    crafted.schema.metadata = ctypes.cast(crafted.raw, ctypes.c_char_p)  # type: ignore[attr-defined]
    return crafted


def lists_of_three(format: bytes = b"+l", **fields: Any) -> Any:
    """Three crafted lists of six int16 together, or three texts of six bytes."""
    crafted: Any = Crafted(items=2)
    kind = ctypes.c_int64 if format in (b"+L", b"U", b"Z") else ctypes.c_int32
    # More than the lists need, for a wrong length or offset that no consumer can detect.
    crafted.offsets = (kind * 8)(*fields.pop("offsets", (0, 2, 2, 6)), 6, 6, 6, 6)
    crafted.list_buffers = (ctypes.c_void_p * 3)(None, ctypes.addressof(crafted.offsets), ctypes.addressof(crafted.numbers))
    crafted.schema.format = format
    crafted.array.length, crafted.array.n_buffers, crafted.array.buffers = 3, 2, crafted.list_buffers
    if not format.startswith(b"+"):
        crafted.schema.n_children = crafted.array.n_children = 0
        crafted.array.n_buffers = 3
    for name, value in fields.items():
        setattr(crafted.array, name, value)
    return crafted
