"""Borrows shared with extensions built on rust-numpy, by the capsule that either extension makes."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
import pytest
import typed_arguments as typed
from numpy._core import multiarray
from processes import output

NAME = "_RUST_NUMPY_BORROW_CHECKING_API"
FUNCTION = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.py_object)
RELEASE = ctypes.PYFUNCTYPE(None, ctypes.c_void_p, ctypes.py_object)


class Interface(ctypes.Structure):
    """The struct of the capsule, version 1."""

    _fields_ = (
        ("version", ctypes.c_uint64),
        ("flags", ctypes.c_void_p),
        ("acquire", FUNCTION),
        ("acquire_mut", FUNCTION),
        ("release", RELEASE),
        ("release_mut", RELEASE),
    )


@pytest.fixture
def interface() -> Interface:
    """The capsule that an extension built on rust-numpy finds after one of ours has borrowed an array."""
    typed.negate(np.ones(1))
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    address = get(getattr(multiarray, NAME), NAME.encode())
    interface = Interface.from_address(address)
    assert interface.version == 1
    return interface


def test_borrows_of_dlbridge_are_seen_by_rust_numpy(interface: Interface) -> None:
    x = np.arange(3.0)
    flags = interface.flags
    assert typed.while_reading(x, lambda: interface.acquire_mut(flags, x)) == -1
    assert typed.while_writing(x, lambda: interface.acquire(flags, x)) == -1
    assert typed.while_reading(x, lambda: interface.acquire(flags, x)) == 0
    interface.release(flags, x)
    assert interface.acquire_mut(flags, np.frombuffer(bytes(8))) == -2
    # The memory decides, not the library of the object.
    assert typed.while_writing(memoryview(x), lambda: interface.acquire(flags, x)) == -1


def test_class_with_a_wrong_itemsize_is_borrowed_by_its_memory(interface: Interface) -> None:
    class Liar(np.ndarray):
        """An array whose elements are larger than its attribute says."""

        itemsize = 0  # type: ignore[assignment]

    x = np.arange(3.0)
    liar = x.view(Liar)
    assert interface.acquire(interface.flags, liar) == 0
    with pytest.raises(BufferError, match="borrowed for reading"):
        typed.negate(x)
    interface.release(interface.flags, liar)
    typed.negate(x)


@pytest.mark.filterwarnings("ignore")
def test_array_whose_strides_change_keeps_its_borrow(interface: Interface) -> None:
    x = np.arange(3.0)
    part = x[1:]
    flags = interface.flags
    assert interface.acquire(flags, x) == 0
    x.strides = (0,)
    assert interface.acquire(flags, x) == 0
    interface.release(flags, x)
    with pytest.raises(BufferError):
        typed.negate(part)
    interface.release(flags, x)
    typed.negate(part)


THEIRS = '''
import ctypes
import numpy as np
from numpy._core import multiarray
import sys
sys.path.insert(0, {folder!r})
from test_rust_numpy import FUNCTION, NAME, RELEASE, Interface

calls = []
answer = 0

def recorded(name):
    def function(flags, array):
        calls.append((name, flags, id(array)))
        return answer
    return function

interface = Interface(
    1, 7, FUNCTION(recorded("acquire")), FUNCTION(recorded("acquire_mut")),
    RELEASE(recorded("release")), RELEASE(recorded("release_mut")),
)
new = ctypes.pythonapi.PyCapsule_New
new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
name = NAME.encode()
setattr(multiarray, NAME, new(ctypes.addressof(interface), name, None))

import typed_arguments as typed
x = np.ones(3)
typed.negate(x)
typed.total_of_anything(x)
typed.total_of_anything(memoryview(x))
names = [call[0] for call in calls]
assert names == ["acquire_mut", "release_mut", "acquire", "release"], calls
assert all(call[1] == 7 for call in calls)
# The registry gets a view, which no other code can reshape.
assert calls[0][2] == calls[1][2] and calls[2][2] == calls[3][2]
assert id(x) not in [call[2] for call in calls]
class Derived(np.ndarray):
    pass
calls.clear()
derived = x.view(Derived)
typed.negate(derived)
assert [call[0] for call in calls] == ["acquire_mut", "release_mut"]
assert calls[0][2] == calls[1][2] != id(derived)
for answer, text in [(-1, "built on rust-numpy has borrowed"), (-2, "not writeable")]:
    calls.clear()
    try:
        typed.negate(x)
    except BufferError as error:
        assert text in str(error), error
    else:
        raise AssertionError
    assert {{call[0] for call in calls}} == {{"acquire_mut"}}
answer = 0
calls.clear()
try:
    typed.swap(x, x)
except BufferError:
    names = [call[0] for call in calls]
    assert names.count("acquire_mut") == names.count("release_mut") >= 2
else:
    raise AssertionError
typed.negate(x)
'''


def test_registry_of_rust_numpy_is_used_if_it_came_first() -> None:
    code = THEIRS.format(folder=str(Path(__file__).parent))
    output(code, options=())


def printed(code: str) -> str:
    """Runs code in a separate process, where no array was borrowed, and returns what it printed."""
    begin = f"""
import ctypes, sys, types
import numpy as np, numpy._core.multiarray as multiarray
import typed_arguments as typed
new = ctypes.pythonapi.PyCapsule_New
new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
def capsule(version, name):
    global table, kept
    # A capsule does not keep its name. Calls to NULL end the process.
    kept = name
    table = (ctypes.c_uint64 * 6)(version)
    return new(ctypes.addressof(table), name, None)
NAME = {NAME!r}
"""
    return output(begin + code, options=())


def test_interface_of_an_unknown_version_is_refused() -> None:
    code = """
setattr(multiarray, NAME, capsule(0, NAME.encode()))
try:
    typed.negate(np.ones(1))
except ImportError as error:
    print(error)
"""
    assert "shares borrows by version 0 of its interface; dlbridge needs version 1" in printed(code)


def test_interface_under_another_name_is_refused() -> None:
    code = """
name = b"another name"
setattr(multiarray, NAME, capsule(1, name))
try:
    typed.negate(np.ones(1))
except ValueError as error:
    print(error)
"""
    assert "name" in printed(code)


def test_class_of_a_module_that_pretends_to_be_numpy_is_not_given_to_the_interface() -> None:
    code = """
setattr(multiarray, NAME, capsule(1, NAME.encode()))
class Fake(bytearray):
    pass
fake = types.ModuleType("numpy._core.multiarray")
vars(fake).update({**vars(multiarray), "ndarray": Fake})
sys.modules[fake.__name__] = fake
print(typed.total_of_anything(Fake(b"abc")))
"""
    assert printed(code) == "(294.0, True)\n"
