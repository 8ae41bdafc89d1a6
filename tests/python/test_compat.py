"""The replacement for pydlpack, and the checks that users can run from the package."""

import array
import ctypes
import doctest
import inspect
import mmap
from typing import Any

import dlbridge
import dlbridge.tests
import pytest
from conftest import require
from dlbridge.compat import dlpack
from dlbridge.compat.dlpack import DLPackObject, asdlpack
from processes import output, run

np = require("numpy")


def test_module_has_the_documented_names() -> None:
    assert {"asdlpack", "__version__"} <= set(dlpack.__all__)
    assert list(inspect.signature(asdlpack).parameters) == ["obj", "impl_cls"]
    failed, tried = doctest.testmod(dlpack)
    assert (failed, tried > 0) == (0, True)


@pytest.mark.parametrize(
    ("make", "dtype"),
    [
        (lambda: np.arange(4.0), "float64"),
        (lambda: bytes(4), "uint8"),
        (lambda: bytearray(4), "uint8"),
        (lambda: array.array("f", range(4)), "float32"),
        (lambda: mmap.mmap(-1, 4), "uint8"),
    ],
)
@pytest.mark.parametrize("impl_cls", [None, object])
def test_objects_that_pydlpack_imports_are_imported(make: Any, dtype: str, impl_cls: Any) -> None:
    source = make()
    result = asdlpack(source, impl_cls=impl_cls)
    assert isinstance(result, DLPackObject)
    assert result.__dlpack_device__() == (1, 0)
    first, second = np.from_dlpack(result), np.from_dlpack(result)
    assert (first.dtype.name, first.shape) == (dtype, (4,))
    assert first.ctypes.data == second.ctypes.data
    assert type(result.__dlpack__()).__name__ == "PyCapsule"


def test_values_that_pydlpack_gets_wrong_are_right_or_refused() -> None:
    swapped = np.arange(4, dtype=np.dtype("i4").newbyteorder())
    assert np.from_dlpack(asdlpack(swapped)).tolist() == [0, 1, 2, 3]
    field = np.zeros(3, [("a", "u1"), ("b", "f4")])["b"]
    assert np.from_dlpack(asdlpack(field)).tolist() == [0, 0, 0]
    with pytest.raises(BufferError, match="masked"):
        asdlpack(np.ma.array([1, 2], mask=[0, 1]))


def test_check_of_an_installed_library_passes() -> None:
    code = "import dlbridge.tests as t, sys; sys.exit(t.run('numpy'))"
    assert output(code, quiet=False) == f"numpy {np.__version__}: passed\n"


def test_check_that_fails_names_the_values() -> None:
    code = "import dlbridge.tests as t; t.VALUES = [1.0] * 6; import array; t.array = lambda *_: array.array('f', range(6)); "
    result = run(code + "t.check('numpy')")
    assert result.returncode == dlbridge.tests.DIFFERENT
    assert "came back instead of" in result.stderr


def test_check_of_an_unknown_library_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown library nonsense; known: numpy, "):
        dlbridge.tests.run("nonsense")


def test_structs_match_the_capsules() -> None:
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    tensor = dlpack.asdlpack(bytearray(b"Hello!"), dlpack.DLManagedTensorVersioned)
    for keywords, name, struct in [
        ({}, b"dltensor", dlpack.DLManagedTensor),
        ({"max_version": (1, 0)}, b"dltensor_versioned", dlpack.DLManagedTensorVersioned),
    ]:
        capsule = tensor.__dlpack__(**keywords)
        managed = struct.from_address(get(capsule, name))
        assert ctypes.string_at(managed.dl_tensor.data, managed.dl_tensor.shape[0]) == b"Hello!"
        assert (managed.dl_tensor.code, managed.dl_tensor.bits, managed.dl_tensor.lanes) == (1, 8, 1)
    assert managed.version[0] == 1
