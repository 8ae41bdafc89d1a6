"""Tables of C functions under false names: dlbridge does not call them, and imports without them."""

from collections.abc import Callable
from typing import Any

import dlbridge
import pytest
from conftest import require
from processes import output
from producers import producer

np = require("numpy")

BEGIN = """
import sys, types
import dlbridge
import numpy, numpy._core._multiarray_umath as real

class New(bytearray):
    pass

# No import before this line: the first import looks at NumPy.
tensor = dlbridge.empty(64, "uint8")

class Fake:
    def __getitem__(self, _):
        return tensor

def imports():
    assert dlbridge.asdlpack(New(b"abc")).shape == (3,)
    for array in [numpy.arange(6.0).reshape(2, 3).T, numpy.zeros((0, 3)), numpy.array(5)]:
        again = dlbridge.asdlpack(array)
        assert again.shape == array.shape
        assert memoryview(again).tolist() == array.tolist()
"""

#: Modules that pretend to be NumPy's, and the code that installs them.
PRETENDERS = {
    "a struct of dlbridge as the table": """
m = types.ModuleType("numpy._core.multiarray")
m._ARRAY_API = tensor.__array_struct__
m.empty = lambda n: Fake()
m.ndarray = numpy.ndarray
sys.modules[m.__name__] = m
""",
    "a struct of NumPy as the table, and a class of Python's own": """
m = types.ModuleType("numpy._core.multiarray")
m._ARRAY_API = numpy.zeros(3).__array_struct__
m.empty = lambda n: Fake()
m.ndarray = bytearray
sys.modules[m.__name__] = m
""",
    "another table of NumPy": """
m = types.ModuleType("numpy._core.multiarray")
m.__file__, m.__spec__ = real.__file__, real.__spec__
m._ARRAY_API, m.ndarray, m.empty = real._UFUNC_API, numpy.ndarray, numpy.empty
sys.modules[m.__name__] = m
""",
    "another table in NumPy's own modules": """
import numpy._core.multiarray
numpy._core.multiarray._ARRAY_API = real._ARRAY_API = real._UFUNC_API
""",
    "a class with NumPy's name": """
class ndarray(bytearray):
    pass
ndarray.__module__ = "numpy"
m = types.ModuleType("numpy._core.multiarray")
m._ARRAY_API, m.ndarray, m.empty = tensor.__array_struct__, ndarray, lambda n: Fake()
sys.modules[m.__name__] = m
New = ndarray
""",
    "a class of a metaclass that lies": """
class Meta(type(memoryview)):
    __name__, __module__, __flags__ = "ndarray", "numpy", 0
class Liar(bytearray, metaclass=Meta):
    pass
m = types.ModuleType("numpy._core.multiarray")
m._ARRAY_API, m.ndarray, m.empty = tensor.__array_struct__, Liar, lambda n: Fake()
sys.modules[m.__name__] = m
New = Liar
""",
    "nothing that could be a module": """
sys.modules["numpy._core.multiarray"] = 5
""",
}


@pytest.mark.parametrize("pretender", PRETENDERS)
def test_module_that_pretends_to_be_numpy_is_not_called(pretender: str) -> None:
    output(BEGIN + PRETENDERS[pretender] + "imports()\n", options=())


def test_struct_that_begins_with_another_number_is_refused() -> None:
    from numpy._core import _multiarray_umath as real

    with pytest.raises(BufferError, match=r"__array_struct__ begins with -?\d+; it must begin with 2"):
        dlbridge.asdlpack(producer(__array_struct__=real._ARRAY_API))


@pytest.mark.parametrize(
    ("library", "error"),
    [(lambda: require("torch").Tensor, RuntimeError), (lambda: dlbridge.Tensor, TypeError)],
    ids=["torch", "dlbridge"],
)
def test_exchange_table_on_a_class_of_another_library_is_refused(
    library: Callable[[], Any], error: type[Exception]
) -> None:
    """The library of the table raises the exception."""
    thief = type("Thief", (bytearray,), {"__dlpack_c_exchange_api__": library().__dlpack_c_exchange_api__})
    with pytest.raises(error, match="Thief"):
        dlbridge.asdlpack(thief(8), protocol="exchange-api")


@pytest.mark.parametrize(("version", "size"), [(0, 64), (2, 8)])
def test_borrows_of_another_layout_are_not_called(version: int, size: int) -> None:
    """Another extension left a table under the name of ours: an import raises, and calls no function of the table."""
    code = f"""
import ctypes
import dlbridge

api = ctypes.pythonapi
api.PyInterpreterState_Get.restype = ctypes.c_void_p
api.PyInterpreterState_GetDict.restype = ctypes.py_object
api.PyInterpreterState_GetDict.argtypes = [ctypes.c_void_p]
api.PyCapsule_New.restype = ctypes.py_object
api.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]

class Table(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint32), ("size", ctypes.c_size_t), ("rest", ctypes.c_uint8 * 64)]

table = Table({version}, {size})
name = b"dlbridge.borrow.3"
shared = api.PyInterpreterState_GetDict(api.PyInterpreterState_Get())
shared[name.decode()] = api.PyCapsule_New(ctypes.addressof(table), name, None)
try:
    dlbridge.asdlpack(b"abc", copy=True)
except ImportError as error:
    print(error)
"""
    ended = output(code)
    assert f"shares borrows by version {version} of {size} bytes" in ended
