"""What to do about objects that cannot be imported, for the messages of the compiled core. Imports no library."""

from __future__ import annotations

import sys
from contextlib import suppress
from types import ModuleType
from typing import Any

NOT_COMPUTED = (
    "it stands for elements that are not computed yet: convert it outside of the compiled function or model, or in a function called by "
    "tf.py_function"
)

#: Objects of frameworks without a protocol, by the package and the name of their class.
CLASSES = {
    ("dlbridge", "SharedTensor"): "pass its tensor: asdlpack(shared.tensor)",
    ("keras", "Variable"): "pass its value: variable.value",
    ("tensorflow", "SymbolicTensor"): NOT_COMPUTED,
    ("keras", "KerasTensor"): NOT_COMPUTED,
}

#: The pandas dtypes whose storage differs from their values: the advice for a column `s` and for an index or array `a`.
NOT_NUMBERS = {
    "PeriodDtype": ("s.astype('int64') gives the ordinals", "a.asi8 holds the ordinals"),
    "IntervalDtype": (
        "s.array.left.to_numpy() and s.array.right.to_numpy() are the ends",
        "a.left.to_numpy() and a.right.to_numpy() are the ends",
    ),
    "CategoricalDtype": (
        "s.cat.codes are the codes, s.astype(s.cat.categories.dtype) the values", "a.codes are the codes, numpy.asarray(a) the values"
    ),
    "SparseDtype": ("s.sparse.to_dense() gives all elements", "numpy.asarray(a) gives all elements"),
    "DatetimeTZDtype": ("s.astype('int64') gives the counts since 1970", "a.asi8 holds the counts since 1970"),
    "StringDtype": ("pandas.to_numeric(s) reads numbers", "numpy.asarray(pandas.to_numeric(a)) reads numbers"),
}

#: Tensors of PyTorch without strided memory: the attribute that reports the state, its usual value, and the message.
NOT_STRIDED = [
    ("is_nested", "False", "the tensor is nested: its rows have different lengths; call to_padded_tensor(padding) first"),
    ("is_meta", "False", "the tensor is on the device meta, which holds no data; make it on another device"),
    ("is_quantized", "False", "the tensor is quantised: its values are not what is in memory; call dequantize() or int_repr() first"),
    ("layout", "torch.strided", "the tensor is sparse or has another layout than torch.strided; call to_dense() first"),
]

NO_MEMORY = (
    "the tensor has elements but no memory, as a FakeTensor, a MaskedTensor and a tensor with a resized storage have; make a tensor that "
    "holds its data first"
)
TRACER = (
    "the array is a tracer of JAX, which stands for elements that are not computed yet; convert it outside of the transformed function, "
    "or in a function called by jax.pure_callback"
)

#: The advice for elements without a dtype, by the letters of their kind in NumPy.
KINDS = {
    "O": "the elements are Python objects, whose values are not in the array's memory; convert them to numbers first, for "
    "example with a.astype('float64')",
    "Mm": "the elements are dates or durations; take their counts first, with numpy.asarray(x).view('int64'), where NaT is "
    "-2**63",
    "USTa": "the elements are text; convert digits with numpy.asarray(x).astype('float64'), or pass other text to "
    "dlbridge.ragged(pyarrow.array(numpy.asarray(x).ravel())), for its bytes and offsets",
    "r": "the elements are records; take one field first, for example a['y']",
    "V": "the elements are raw bytes; view them as numbers first, for example with a.view('u1')",
    "c": "the complex numbers are wider than 128 bits, or of a width without a dtype; convert them first, for example with "
    "a.astype('complex128')",
    "fg": "the floats are wider than 64 bits, or of a width without a dtype; convert them first, for example with "
    "a.astype('float64')",
}


#: NumPy's kinds for the formats of a buffer without a dtype.
BUFFER_KINDS = {"O": "O", "s": "U", "p": "U", "w": "U", "u": "U", "g": "g", "Zg": "c", "G": "c"}

#: What to do about the elements of an Arrow format, by how it begins: for a tensor, and for offsets and values.
FORMATS = {
    "+v": ("flatten it, or cast it to fixed-size lists", "cast it to a list or a large_list"),
    "+w": ("flatten it, or cast it to fixed-size lists", ""),
    "+l": ("pass it to dlbridge.ragged, flatten it, or cast it to fixed-size lists", ""),
    "+L": ("pass it to dlbridge.ragged, flatten it, or cast it to fixed-size lists", ""),
    "+r": ("decode it, with pyarrow.compute.run_end_decode(x)", ""),
    "+m": ("take the keys or the items of its MapArray of pyarrow", ""),
    "+u": ("take one child, with field(0) of its UnionArray of pyarrow,", ""),
    "+s": ("", "take one column of it"),
    "tin": ("convert it to numbers", ""),
    "t": ("cast it to integers", ""),
    # 128 bits of polars.
    "_pl": ("cast it to integers of 64 bits", ""),
    "d": ("cast it to floats", ""),
    "n": ("fill it, since it holds only nulls,", ""),
    "v": ("convert it to numbers", "cast it to large_string or large_binary with pyarrow"),
    "": ("convert it to numbers", ""),
}


def is_a(obj: object, module: str, name: str) -> bool:
    """Return true for an object of a class, whose module is loaded then."""
    found = getattr(sys.modules.get(module), name, None)
    return isinstance(found, type) and issubclass(type(obj), found)


def refusal(obj: Any, name: str, protocols: str, selected: bool) -> str:
    """Return the message for an object of a class without a protocol, or without the selected one."""
    is_path = False
    with suppress(Exception):
        is_path = hasattr(obj, "__fspath__")
    if found := of_framework(obj, name) if selected else remedy(obj, name):
        advice = found
    elif selected:
        advice = "leave out protocol to look for the others"
    elif obj is None:
        advice = "pass a tensor"
    elif isinstance(obj, ModuleType | type):
        advice = "pass an array or tensor, not a module or a class"
    elif isinstance(obj, str):
        advice = "encode text with text.encode(), or open the file first, for example with PIL.Image.open(path)"
    elif is_path:
        advice = "open the file first, for example with PIL.Image.open(path)"
    elif isinstance(obj, list | tuple | float | int | complex):
        advice = "make an array of it first: asdlpack(numpy.asarray(obj))"
    else:
        advice = "pass an array or tensor of its elements"
    return f"'{name}' object supports no exchange protocol: looked for {protocols}; {advice}"


def remedy(obj: Any, name: str) -> str | None:
    """Return the advice for an object without a protocol, such as a variable; None for an unknown one."""
    if found := of_framework(obj, name):
        return found
    # Classes that convert themselves, such as those of awkward, zarr, h5py and Dask.
    for method, function in (("__array__", "numpy.asarray(x)"), ("__arrow_array__", "pyarrow.array(x)")):
        with suppress(Exception):
            if hasattr(type(obj), method):
                return f"let its library make an array of it: {function}"
    return None


def of_framework(obj: Any, name: str) -> str | None:
    """Return the advice for an object of a framework, also for one that lacks a selected protocol."""
    package, class_name = name.split(".")[0], name.split(".")[-1]
    if class_name == "PRNGKeyArray":
        return "pass the integers of the keys: jax.random.key_data(keys)"
    if package == "tensorflow" and class_name.endswith("Variable"):
        return "pass its value: variable.value()"
    return CLASSES.get((package, class_name)) or of_pandas(obj)


def lacks_protocols(obj: object) -> bool:
    """Return true for an index or an extension array of pandas."""
    return is_a(obj, "pandas", "Index") or is_a(obj, "pandas.api.extensions", "ExtensionArray")


def of_pandas(obj: Any) -> str | None:
    """Return the array to pass instead of an index or an extension array of pandas; None for other objects."""
    if not lacks_protocols(obj):
        return None
    if is_a(obj, "pandas", "MultiIndex"):
        return "take one level first, for example a.get_level_values(0)"
    dtype = obj.dtype
    if found := not_numbers(dtype):
        advice = found[1]
    elif getattr(dtype, "kind", None) in ("M", "m"):
        # The classes for times of NumPy's dtypes have the counts; those for Arrow's times lack the attribute.
        by_numpy = "a.to_numpy().view('int64') holds the counts, and -2**63 for each null"
        advice = "a.asi8 holds the counts" if hasattr(obj, "asi8") else by_numpy
    elif is_a(dtype, "numpy", "dtype"):
        return "pass its array of NumPy: asdlpack(a.to_numpy())"
    else:
        return "pass an array of NumPy: asdlpack(a.to_numpy()), or asdlpack(a.to_numpy(dtype, na_value=0)) if values are missing"
    return f"its dtype is {dtype}, and a tensor cannot express its values; pass numbers instead: {advice}"


def not_numbers(dtype: object) -> tuple[str, str] | None:
    """Return the advice for a column and for an array of a pandas dtype whose values are not numbers; None for others."""
    return next((advice for name, advice in NOT_NUMBERS.items() if is_a(dtype, "pandas", name)), None)


def not_exported(obj: Any, name: str) -> str | None:
    """Describe times that pandas exports by no protocol, and the array to pass instead; None for other objects."""
    if lacks_protocols(obj) and obj.dtype.kind in ("M", "m"):
        return f"{name} of {obj.dtype}, which supports no exchange protocol; pass x.to_numpy()"
    return None


def nulls(series: Any, booleans: bool) -> str:
    """Return the source of the nulls of a pandas column, and what to do."""
    if is_a(getattr(series, "dtype", None), "numpy", "dtype"):
        return "which pandas made of NaN, and a tensor cannot express; leave out protocol='arrow', or pass s.to_numpy()"
    return f"which a tensor cannot express; fill them with s.fillna({'False' if booleans else '0'}), or leave them out with s.dropna()"


def state(obj: Any, library: str) -> str | None:
    """Return why the library of an object failed to export it, if the object's state gives the reason."""
    if library == "pandas" and (found := not_numbers(obj.dtype)):
        return f"the column's dtype is {obj.dtype}, and a tensor cannot express its values; convert it first: {found[0]}"
    if library == "torch":
        for name, usual, message in NOT_STRIDED:
            with suppress(Exception):
                if str(getattr(obj, name)) != usual:
                    return message
        if obj.data_ptr() == 0 and obj.numel() > 0:
            return NO_MEMORY
    if library == "jax" and is_a(obj, "jax.core", "Tracer"):
        return TRACER
    if library == "jax" and obj.is_deleted():
        return "the array was deleted, or donated to a compiled function, so its memory is gone; convert it before that, or make a new one"
    if library == "paddle" and obj.is_sparse():
        return "the tensor is sparse: its values are not in one piece of memory; call to_dense() first"
    return None


def arrow_format(form: str, offsets: bool, times: str | None) -> str:
    """Return the message for an Arrow format without numbers, or without offsets; ``times`` is NumPy's name for its times."""
    advice, for_offsets = next(advice for begin, advice in FORMATS.items() if form.startswith(begin))
    if offsets:
        numbers = "dlbridge.asdlpack imports " + ("its fixed-size lists as a tensor" if form.startswith("+w") else "numbers")
        return f"the Arrow format '{form}' has no offsets; {for_offsets + ' first' if for_offsets else numbers}"
    if form == "+s":
        return (
            "the object is a table, or a column of records, and a tensor can express one column; pass it to dlbridge.matrix, or "
            "take one column of it first"
        )
    counts = ""
    if times:
        # pandas makes an array of Python's dates unless it is asked for the dtype.
        counts = (
            f": numpy.asarray(x, '{times}').view('int64') has the counts, and -2**63 for each null; for a column of pandas, begin "
            "with x = pyarrow.array(x)"
        )
    return f"the Arrow format '{form}' is not one of integers, floats or booleans, or of fixed-size lists of them; {advice} first{counts}"


def no_dtype(element_type: str, kind: str, obj: object) -> str:
    """Return the message for elements that tensors lack a dtype for, of a kind of NumPy or a buffer's format."""
    if element_type.startswith("the buffer"):
        letters = kind.lstrip("@=<>!").lstrip("0123456789")
        kind = "r" if letters.startswith("T{") else BUFFER_KINDS.get(letters, "?")
    advice = next((advice for letters, advice in KINDS.items() if kind in letters), None)
    if kind == "V" and (fields := getattr(getattr(obj, "dtype", None), "names", None)):
        advice = f"the elements are records; take one field first, for example a['{fields[-1]}']"
    usual = (
        "only booleans, integers, floats of 16, 32 and 64 bits, and complex numbers of 64 and 128 bits are supported; convert "
        "the elements first"
    )
    return f"{element_type} is not supported: {advice or usual}"
