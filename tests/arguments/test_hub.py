"""Objects that an extension does not read itself: it asks the package ``dlbridge``, which may be missing or broken."""

from __future__ import annotations

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
"""

REFUSED = """
try:
    typed.dtype(pl.Series([1.0, 2.0]))
except Exception as error:
    print(type(error).__name__, error, sep=": ")
"""


def with_package(body: str, code: str = REFUSED) -> str:
    """Returns what code prints with a module in place of the package."""
    return output(WITH.format(body=body) + code, options=())


def test_missing_package_is_named_and_other_objects_are_read() -> None:
    code = """
import sys
sys.modules["dlbridge"] = None
import array, numpy as np, pandas as pd, polars as pl, torch, typed_arguments as typed
for column in pl.Series([1.0]), pd.Series([1.0]), pl.Series([1.0]).to_arrow():
    try:
        print(typed.dtype(column))
    except ModuleNotFoundError as error:
        print(error, error.name, sep="; ")
for array in np.ones(2), torch.ones(2), memoryview(b"ab"), array.array("d", [1.0]):
    print(typed.dtype(array))
print(typed.try_device(pl.Series([1.0])))
"""
    lines = output(code, options=()).splitlines()
    install = "which the package dlbridge imports; install it: pip install dlbridge; dlbridge"
    assert lines[0] == f"'polars.series.series.Series' object has the Arrow PyCapsule interface, {install}"
    assert lines[1].endswith(install)
    assert lines[2:] == ["float64", "float64", "float32", "uint8", "float64", "False"]


@pytest.mark.parametrize(
    ("body", "refusal"),
    [
        ("", "AttributeError: module 'dlbridge' has no attribute 'asdlpack'"),
        ("asdlpack = lambda x: 5", "BufferError: the installed package dlbridge returned an int, not a Tensor"),
        ("def asdlpack(x): raise KeyError('broken')", "KeyError: 'broken'"),
        ("def asdlpack(x): return x", "BufferError: the installed package dlbridge returned a polars.series.series.Series, not a Tensor"),
    ],
)  # fmt: skip
def test_broken_package_is_refused(body: str, refusal: str) -> None:
    assert with_package(body).startswith(refusal)


def test_package_that_raises_the_end_of_a_program_ends_it() -> None:
    body = "def asdlpack(x): raise SystemExit(0)"
    assert with_package(body, "typed.dtype(pl.Series([1.0]))\nprint('unreachable')") == ""


def test_result_of_the_package_is_checked_as_any_tensor() -> None:
    body = """
import torch
class Tensor(torch.Tensor): protocol, copied, copy_reason = "arrow", False, None
def asdlpack(x, **options): return torch.ones(2, 3).as_subclass(Tensor)
"""
    code = """
print(typed.shape(pl.Series([1.0])))
try:
    typed.total_of_vector(pl.Series([1.0]))
except TypeError as error:
    print(error)
"""
    lines = with_package(body, code).splitlines()
    assert lines[0] == "[2, 3]"
    assert "got float32[2, 3]" in lines[1]


def test_object_that_asks_the_extension_again_is_refused() -> None:
    code = """
import sys, typed_arguments as typed
class Endless:
    @property
    def __array_interface__(self):
        typed.dtype(self)
try:
    typed.dtype(Endless())
except RecursionError:
    print("refused")
"""
    assert output(code, options=()) == "refused\n"


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
