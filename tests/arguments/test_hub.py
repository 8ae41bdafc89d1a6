"""Objects that an extension does not read itself: it asks the package ``dlbridge``, which may be missing or broken."""

import copy
import pickle
import shutil
from pathlib import Path

import dlbridge
import numpy as np
import polars as pl
import pytest
import typed_arguments as typed
from processes import output

# A module in place of the package: `{body}` is its code.
WITH = """
import sys, types
package = types.ModuleType("dlbridge")
exec({body!r}, package.__dict__)
sys.modules["dlbridge"] = package
import numpy as np, polars as pl, typed_arguments as typed
def refused(call):
    try:
        call()
    except Exception as error:
        print(type(error).__name__, error, sep=": ")
"""

REFUSED = "refused(lambda: typed.dtype(pl.Series([1.0, 2.0])))"


def with_package(body: str, code: str = REFUSED) -> str:
    """Returns what code prints with a module in place of the package."""
    return output(WITH.format(body=body) + code, options=())


def test_missing_package_is_named_and_other_objects_are_read() -> None:
    code = """
import sys
sys.modules["dlbridge"] = None
import array, numpy as np, pandas as pd, polars as pl, torch, typed_arguments as typed
swapped = np.ones(2, ">f8")
for column in pl.Series([1.0]), pd.Series([1.0]), pl.Series([1.0]).to_arrow(), swapped, memoryview(b"a").cast("?"):
    try:
        print(typed.dtype(column))
    except (TypeError, ModuleNotFoundError) as error:
        print(error, getattr(error, "name", type(error)), sep="; ")
for array in np.ones(2), torch.ones(2), memoryview(b"ab"), array.array("d", [1.0]):
    print(typed.dtype(array))
print(typed.try_device(pl.Series([1.0])))
"""
    lines = output(code, options=()).splitlines()
    install = "which the package dlbridge imports; install it: pip install dlbridge; dlbridge"
    assert lines[0] == f"'polars.series.series.Series' object has the Arrow PyCapsule interface, {install}"
    assert lines[1].endswith(install)
    install = "install it: pip install dlbridge; dlbridge"
    assert lines[2] == "float64"
    assert lines[3].endswith("; convert it first, with x.astype(x.dtype.newbyteorder('=')); <class 'TypeError'>")
    assert lines[4] == f"only the package dlbridge imports this 'memoryview' object, or says what it lacks; {install}"
    assert lines[5:] == ["float64", "float32", "uint8", "float64", "False"]


def test_first_array_of_a_process_is_converted_without_the_package() -> None:
    code = """
import sys
sys.modules["dlbridge"] = None
import numpy as np, typed_arguments as typed
print(typed.cast_to_float64(np.ones(2, ">f8")))
"""
    assert output(code, options=()) == "[1. 1.]\n"


@pytest.mark.parametrize(
    ("body", "refusal"),
    [
        ("", "AttributeError: module 'dlbridge' has no attribute 'asdlpack'"),
        ("asdlpack = lambda x: 5", "BufferError: the installed package dlbridge returned an int, not a Tensor"),
        ("def asdlpack(x): raise KeyError('broken')", "KeyError: 'broken'"),
        ("def asdlpack(x): return x", "BufferError: the installed package dlbridge returned a polars.series.series.Series, not a Tensor"),
        ("def asdlpack(x):\n import torch\n return torch.ones(1)", "ImportError: the installed package dlbridge lacks _record, which this extension needs; "),
    ],
)  # fmt: skip
def test_broken_package_is_refused(body: str, refusal: str) -> None:
    assert with_package(body).startswith(refusal)


def test_package_that_raises_the_end_of_a_program_ends_it() -> None:
    body = "def asdlpack(x): raise SystemExit(0)"
    assert with_package(body, "typed.dtype(pl.Series([1.0]))\nprint('unreachable')") == ""


@pytest.mark.parametrize("record", [1, 0xFFFF])
def test_result_of_the_package_is_checked_as_any_tensor(record: int) -> None:
    # A later release may have facts that this one does not know.
    body = """
import torch
class Tensor(torch.Tensor): _record = RECORD
def asdlpack(x, **options): return torch.ones(2, 3).as_subclass(Tensor)
""".replace("RECORD", str(record))
    code = "print(typed.shape(pl.Series([1.0])))\nrefused(lambda: typed.total_of_vector(pl.Series([1.0])))"
    lines = with_package(body, code).splitlines()
    assert lines[0] == "[2, 3]"
    assert lines[1].startswith("TypeError: ") and "got float32[2, 3]" in lines[1]


def test_object_that_asks_the_extension_again_is_refused() -> None:
    class Endless:
        __array_interface__ = property(typed.dtype)

    with pytest.raises(RecursionError, match="nested too deeply"):
        typed.dtype(Endless())


def test_package_is_imported_at_the_first_object_that_needs_it() -> None:
    code = """
import sys, numpy as np, polars as pl, typed_arguments as typed
typed.dtype(np.ones(2))
assert "dlbridge" not in sys.modules
typed.dtype(pl.Series([1.0]))
assert "dlbridge" in sys.modules
"""
    assert output(code, options=()) == ""


def test_memory_of_a_column_is_shared_and_only_read() -> None:
    series = pl.Series([1.0, 2.0, 3.0])
    assert typed.on_work_stream(series)[1] == series.to_numpy().ctypes.data
    with pytest.raises(TypeError, match="read-only"):
        typed.negate(series)


def test_result_is_a_tensor_of_the_package() -> None:
    made = typed.zeros(2), typed.kept(pl.Series([1.0, 2.0]).to_numpy())
    for tensor in made:
        assert type(tensor) is dlbridge.Tensor
        assert copy.deepcopy(tensor).tolist() == pickle.loads(pickle.dumps(tensor)).tolist() == tensor.tolist()
    assert type(copy.copy(typed.Sound(2, 1)).__reduce__()[1][0]) is dlbridge.Tensor


def test_result_without_the_package_is_exported() -> None:
    code = """
import sys
sys.modules["dlbridge"] = None
import numpy as np, torch, jax, typed_arguments as typed
x = typed.zeros(2)
print(type(x).__name__, hasattr(x, "__array_interface__"), x.__dlpack_device__())
addresses = {np.from_dlpack(x).ctypes.data, np.asarray(x).ctypes.data, torch.from_dlpack(x).data_ptr()}
assert len(addresses) == 1, addresses
assert jax.numpy.from_dlpack(x).tolist() == memoryview(x).tolist() == [0, 0]
typed.negate(x)
print(type(typed.twice(np.ones(1, "f4"))), type(typed.twice(torch.ones(1))), type(typed.returned.zeros_like(bytearray(2))))
print(type(typed.ramp(1, "torch")))
sound = typed.Sound(2, 1)
assert np.asarray(sound).ctypes.data == np.from_dlpack(sound).ctypes.data
print(typed.returned.Histogram([1, 2]).kept, hasattr(sound, "__array_struct__"))
assert (bytes(sound), bytes(typed.Lent(np.array(5, "u1")))) == (bytes(8), b"\\5")
copies = np.from_dlpack(sound, copy=True), torch.from_dlpack(sound, copy=True), torch.from_dlpack(typed.Scale([0]).__dlpack__())
sound.amplify(1)
np.asarray(sound)[:] = 1
assert not any(copy.any() for copy in copies)
refused = (
    lambda: typed.twice(jax.numpy.ones(1, "f4")),
    lambda: typed.ramp(1, "jax"),
    lambda: sound.__arrow_c_array__(),
    lambda: sound.__dlpack__(stream=1),
    lambda: sound.__dlpack__(dl_device=(2, 0), copy=True),
)
for make in refused:
    try:
        make()
    except ModuleNotFoundError as error:
        print(error, error.name, sep="; ")
"""
    lines = output(code, options=()).splitlines()
    assert lines[0] == "ndarray True (1, 0)"
    assert lines[1] == "<class 'numpy.ndarray'> <class 'torch.Tensor'> <class 'memoryview'>"
    assert lines[2:4] == ["<class 'torch.Tensor'>", "[1 2] True"]
    assert len(lines) == 9
    assert all(line.endswith("; install it: pip install dlbridge; dlbridge") for line in lines[5:])


@pytest.mark.parametrize(
    ("body", "refusal"),
    [
        ("", "AttributeError: module 'dlbridge' has no attribute 'Tensor'"),
        ("Tensor = int", "BufferError: the installed package dlbridge returned no class, not a Tensor"),
        ("import torch; Tensor = torch.Tensor", "ImportError: the installed package dlbridge lacks _like, which this extension needs; "),
    ],
)  # fmt: skip
def test_package_that_makes_no_results_is_refused(body: str, refusal: str) -> None:
    code = """
package._core = types.ModuleType("_core")
refused(lambda: typed.twice(pl.Series([1.0], dtype=pl.Float32)))
"""
    body += "\ndef asdlpack(x):\n import torch, types\n class Tensor(torch.Tensor): _record = 1\n return torch.ones(1).as_subclass(Tensor)"
    assert with_package(body, code).startswith(refusal)


def test_records_are_those_of_other_releases() -> None:
    swapped = dlbridge.asdlpack(np.ones(2, ">f4"))
    assert [dlbridge.empty(2)._record, swapped._record] == [0x1, 0x9000B]
    # A reason that this release does not know is one all the same: writes to a copy would be lost.
    body = """
import torch
class Tensor(torch.Tensor): _record = 200 << 16 | 1
def asdlpack(x, **options): return torch.ones(2).as_subclass(Tensor)
"""
    code = "refused(lambda: typed.negate_dict({'x': pl.Series([1.0], dtype=pl.Float32)}))"
    assert "which needs a copy" in with_package(body, code)


@pytest.mark.parametrize("version", [b"0.0.9", b"9.1.0"])
def test_package_of_another_version_is_used(version: bytes, tmp_path: Path) -> None:
    package = tmp_path / "dlbridge"
    shutil.copytree(Path(dlbridge.__file__).parent, package)
    core = package / Path(dlbridge._core.__file__).name
    core.write_bytes(core.read_bytes().replace(dlbridge.__version__.encode(), version))
    code = f"""
import sys
sys.path.insert(0, {str(tmp_path)!r})
import dlbridge, numpy as np, pandas as pd, polars as pl, typed_arguments as typed
assert dlbridge._core.__version__ == {version.decode()!r}, dlbridge._core.__version__
assert type(typed.zeros(2)) is dlbridge.Tensor
print(typed.dtype(pl.Series([1.0])), typed.dtype(dlbridge.empty(2)), type(typed.returned.zeros_like(pl.Series([1.0]))).__name__)
print(typed.nanoseconds(pd.Series(np.zeros(2, "M8[ns]"))))
"""
    lines = output(code, options=()).splitlines()
    assert lines[0] == "float64 float32 Series"
    assert len(lines) == 2


def test_package_that_is_installed_later_makes_results() -> None:
    code = """
import sys
sys.modules["dlbridge"] = None
import numpy as np, typed_arguments as typed
sound = typed.Sound(2, 1)
assert type(typed.zeros(2)) is np.ndarray
del sys.modules["dlbridge"]
assert sound.__array__().shape == (2, 1)
print(type(typed.zeros(2)).__module__, type(typed.ramp(1, "polars")).__name__, type(typed.returned.zeros_like([1])).__name__)
print(sound.__array_interface__["shape"])
"""
    assert output(code, options=()) == "dlbridge Series Tensor\n(2, 1)\n"


def test_package_that_is_installed_later_and_broken_is_refused() -> None:
    code = """
import sys, types
sys.modules["dlbridge"] = None
import typed_arguments as typed
sound = typed.Sound(2, 1)
sys.modules["dlbridge"] = types.ModuleType("dlbridge")
for export in lambda: sound.__dlpack__(copy=True), lambda: typed.zeros(2):
    try:
        export()
    except AttributeError as error:
        print(error)
"""
    assert output(code, options=()) == "module 'dlbridge' has no attribute 'Tensor'\n" * 2


def test_table_that_makes_no_object_is_refused() -> None:
    body = """
import ctypes
@ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
def no_object(managed, out):
    ctypes.c_void_p.from_address(out).value = None
    return 0
address = ctypes.cast(no_object, ctypes.c_void_p).value
table = (ctypes.c_uint64 * 8)(1 | 3 << 32, 0, 0, address, address)
name, capsule = b"dlpack_exchange_api", ctypes.pythonapi.PyCapsule_New
capsule.restype, capsule.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
class Tensor:
    __dlpack_c_exchange_api__ = capsule(ctypes.addressof(table), name, None)
"""
    failed = "BufferError: the exchange API's managed_tensor_to_py_object_no_sync failed without a reason\n"
    assert with_package(body, "refused(lambda: typed.zeros(2))") == failed


def test_folder_with_the_name_of_the_package_is_not_the_package() -> None:
    code = "print(type(typed.zeros(2)).__name__)"
    assert with_package("__path__ = ['dlbridge']", code) == "ndarray\n"
