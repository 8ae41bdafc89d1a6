"""Producers and consumers of Arrow arrays, columns of data frames, and images."""

from __future__ import annotations

import ctypes
import importlib
import importlib.metadata
import importlib.util
from typing import Any

from dlbridge_conformance import elements
from dlbridge_conformance.crafter import FORMATS
from dlbridge_conformance.elements import flat
from dlbridge_conformance.matrix.buffers import buffer_address
from dlbridge_conformance.matrix.consumer import Consumer
from dlbridge_conformance.matrix.outcome import Spec
from dlbridge_conformance.matrix.producer import Made, Producer, aligned
from dlbridge_conformance.matrix.samples import COLUMNS, ROWS, encoded, laid_out, swapped, values
from dlbridge_conformance.outcome import NotApplicable

NUMBERS = (
    "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64",
)  # fmt: skip


class Library:
    """A module to import, with its version."""

    module: str
    distribution: str

    def version(self) -> str:
        """The version of the distribution."""
        return importlib.metadata.version(self.distribution)

    def is_installed(self) -> bool:
        """Returns whether the module is installed."""
        return importlib.util.find_spec(self.module.partition(".")[0]) is not None

    def load(self) -> None:
        """Imports the module."""
        self.lib: Any = importlib.import_module(self.module)


class ArrowArray(Library, Producer):
    """pyarrow.Array, which is one-dimensional and immutable."""

    name = "pyarrow-array"
    module = distribution = "pyarrow"
    library = "pyarrow"
    dtypes = (*NUMBERS, "bool")
    layouts = ("C order", "sliced", "zero-size")

    def make(self, spec: Spec) -> Made:
        numbers = laid_out(spec.layout, flat(values(spec.dtype)))
        sliced = int(spec.layout == "sliced")
        array = self.lib.array(flat(values(spec.dtype)), getattr(self.lib, arrow_name(spec.dtype))())
        array = array[sliced : sliced + len(numbers)]
        size = 0 if spec.dtype == "bool" else array.type.bit_width // 8
        data = array.buffers()[1]
        place = None if data is None else data.address + array.offset * size
        return Made(array, numbers, place, array.to_pylist, True)


def arrow_name(dtype: str) -> str:
    """The name of a dtype in pyarrow."""
    return {"bool": "bool_"}.get(dtype, dtype)


class PolarsSeries(Library, Producer):
    """polars.Series, which is immutable."""

    name = "polars.Series"
    module = distribution = "polars"
    library = "polars"
    dtypes = (*NUMBERS[:8], *NUMBERS[9:], "bool")
    layouts = ("C order", "sliced", "reversed", "zero-size")

    def make(self, spec: Spec) -> Made:
        lib, numbers = self.lib, flat(values(spec.dtype))
        kind = lib.Boolean if spec.dtype == "bool" else getattr(lib, spec.dtype.replace("ui", "UI").replace("i", "I", 1)
                                                                 if spec.dtype[0] != "f" else spec.dtype.title())  # fmt: skip

        def address(series: Any) -> int | None:
            return None if spec.dtype == "bool" else int(series.to_numpy(allow_copy=False).ctypes.data)

        made = aligned(lambda: lib.Series(numbers, dtype=kind), address)
        slices = {"sliced": slice(1, None), "reversed": slice(None, None, -1), "zero-size": slice(0, 0)}
        made = made[slices.get(spec.layout, slice(None))]
        return Made(made, laid_out(spec.layout, numbers), address(made), made.to_list, True)


class PandasSeries(Library, Producer):
    """pandas.Series over a NumPy array. It marks shared memory as read-only."""

    name = "pandas.Series"
    module = distribution = "pandas"
    library = "pandas"
    dtypes = (*NUMBERS, "complex64", "complex128", "bool")
    layouts = ("C order", "stepped", "reversed", "sliced", "zero-size")

    def make(self, spec: Spec) -> Made:
        numbers = flat(values(spec.dtype))
        made = aligned(lambda: self.lib.Series(numbers, dtype=spec.dtype), lambda s: int(s.to_numpy().ctypes.data))
        slices = {"stepped": slice(0, None, 2), "reversed": slice(None, None, -1), "sliced": slice(1, None)}
        made = made.iloc[slices.get(spec.layout, slice(None) if spec.layout == "C order" else slice(0, 0))]
        return Made(made, laid_out(spec.layout, numbers), made.to_numpy().ctypes.data, made.tolist, True)


class _ArrowArrayStruct(ctypes.Structure):
    pass


_ArrowArrayStruct._fields_ = [
    *((name, ctypes.c_int64) for name in ("length", "null_count", "offset", "n_buffers", "n_children")),
    ("buffers", ctypes.POINTER(ctypes.c_void_p)),
    ("children", ctypes.POINTER(ctypes.POINTER(_ArrowArrayStruct))),
]


def arrow_address(obj: Any) -> int:
    """The address of the elements, as the object's ``__arrow_c_array__`` reports it."""
    _, capsule = obj.__arrow_c_array__()
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    found = ctypes.cast(pointer(capsule, b"arrow_array"), ctypes.POINTER(_ArrowArrayStruct)).contents
    while found.n_children:
        found = found.children[0].contents
    return int(found.buffers[1] or 0)


#: the modes with one channel of whole bytes
_MODES = {"uint8": "L", "int32": "I", "float32": "F", "uint16": "I;16"}


class Picture(Library, Producer):
    """PIL.Image.Image of one channel."""

    name = "pillow"
    module, distribution = "PIL.Image", "pillow"
    library = "pillow"
    dtypes = tuple(_MODES)

    def make(self, spec: Spec) -> Made:
        rows = values(spec.dtype)
        data = encoded(flat(rows), spec.dtype)

        def build() -> Any:
            return self.lib.frombytes(_MODES[spec.dtype], (COLUMNS, ROWS), data).copy()

        made = aligned(build, arrow_address)
        return Made(made, rows, arrow_address(made), lambda: picture_rows(made), True)


def picture_rows(picture: Any) -> Any:
    """The pixels of a picture of one channel."""
    if picture.mode == "1":
        numbers: list[Any] = [byte != 0 for byte in picture.convert("L").tobytes()]
    else:
        dtype = next(dtype for dtype, mode in _MODES.items() if mode == picture.mode)
        numbers = elements.unpacked(picture.tobytes(), dtype)
    width = picture.width
    return [numbers[start : start + width] for start in range(0, len(numbers), width)]


#: dtypes by the letters of the buffer protocol
LETTERS = {letter: dtype for dtype, letter in FORMATS.items()} | {
    "l": "int64", "L": "uint64", "Zf": "complex64", "Zd": "complex128",
}  # fmt: skip


class View(Consumer):
    """memoryview."""

    name = "memoryview"
    call = "memoryview(obj)"

    def take(self, obj: Any, expected: Any) -> Any:
        return memoryview(obj)

    def values(self, array: Any, expected: Any) -> Any:
        dtype = LETTERS[array.format.lstrip("<>=@|")]
        data = array.tobytes()
        data = swapped(data, dtype) if array.format.startswith(">") else data
        return elements.nested(elements.unpacked(data, dtype), array.shape)

    def address(self, array: Any) -> int | None:
        return buffer_address(array)

    def write(self, array: Any, value: Any) -> bool:
        try:
            array[(0,) * array.ndim] = value
        except Exception:
            return False
        return True


class AsArray(Library, Consumer):
    """numpy.asarray, which tries every protocol that NumPy knows."""

    name = "numpy.asarray"
    module = distribution = "numpy"
    library = "numpy"
    call = "numpy.asarray(obj)"

    def take(self, obj: Any, expected: Any) -> Any:
        return self.lib.asarray(obj)

    def values(self, array: Any, expected: Any) -> Any:
        return array.tolist()

    def address(self, array: Any) -> int | None:
        return int(array.ctypes.data)

    def write(self, array: Any, value: Any) -> bool:
        try:
            array[(0,) * array.ndim] = value
        except ValueError:
            return False
        return True


class ToArrow(Library, Consumer):
    """pyarrow.array, which tries Arrow's protocols, NumPy's protocols, and iteration."""

    name = "pyarrow.array"
    module = distribution = "pyarrow"
    library = "pyarrow"
    call = "pyarrow.array(obj)"

    def take(self, obj: Any, expected: Any) -> Any:
        return self.lib.array(obj)

    def values(self, array: Any, expected: Any) -> Any:
        found = array.to_numpy_ndarray() if hasattr(array, "to_numpy_ndarray") else array
        return found.tolist() if found is not array else array.to_pylist()

    def address(self, array: Any) -> int | None:
        storage = getattr(array, "storage", array)
        while hasattr(storage, "flatten") and storage.type.num_fields:
            storage = storage.flatten()
        data = storage.buffers()[1]
        return None if data is None else data.address + storage.offset * storage.type.bit_width // 8


class ToPolars(Library, Consumer):
    """polars.Series, with the dtypes that it supports."""

    name = "polars.Series"
    module = distribution = "polars"
    library = "polars"
    call = "polars.Series(obj)"
    by_numpy = True
    dtypes = (*NUMBERS, "bool")

    def take(self, obj: Any, expected: Any) -> Any:
        return self.lib.Series(obj)

    def values(self, array: Any, expected: Any) -> Any:
        # A 0-d array becomes a column of one row.
        return array.to_list() if isinstance(expected, list) else array.item()

    def address(self, array: Any) -> int | None:
        try:
            return int(array.to_numpy(allow_copy=False).ctypes.data)
        except Exception:
            return None


class ToPandas(Library, Consumer):
    """pandas.Series, or pandas.DataFrame for two dimensions."""

    name = "pandas"
    module = distribution = "pandas"
    library = "pandas"
    call = "pandas.DataFrame(obj, copy=False), or pandas.Series(obj, copy=False)"
    by_numpy = True

    def take(self, obj: Any, expected: Any) -> Any:
        two = bool(expected) and isinstance(expected, list) and isinstance(expected[0], list)
        return (self.lib.DataFrame if two else self.lib.Series)(obj, copy=False)

    def values(self, array: Any, expected: Any) -> Any:
        numbers = array.to_numpy().tolist()
        # A 0-d array becomes a column of one row.
        return numbers if isinstance(expected, list) else numbers[0]

    def address(self, array: Any) -> int | None:
        return int(array.to_numpy().ctypes.data)


class ToPicture(Library, Consumer):
    """PIL.Image.fromarray, with the dtypes that have a mode."""

    name = "pillow"
    module, distribution = "PIL.Image", "pillow"
    library = "pillow"
    call = "PIL.Image.fromarray(obj)"
    dtypes = (*_MODES, "bool")
    by_numpy = True

    def take(self, obj: Any, expected: Any) -> Any:
        return self.lib.fromarray(obj)

    def values(self, array: Any, expected: Any) -> Any:
        rows = picture_rows(array)
        if not isinstance(expected, list):
            return rows[0][0]
        # A one-dimensional array becomes a column.
        return rows if array.width > 1 or not expected or isinstance(expected[0], list) else flat(rows)

    def address(self, array: Any) -> int | None:
        return arrow_address(array)


COLUMN_PRODUCERS: tuple[type[Producer], ...] = (ArrowArray, PolarsSeries, PandasSeries, Picture)
OTHER_CONSUMERS: tuple[type[Consumer], ...] = (View, AsArray, ToArrow, ToPolars, ToPandas, ToPicture)
