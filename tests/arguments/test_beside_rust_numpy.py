"""Borrows beside a real extension built on rust-numpy: `bench/peers/rust-numpy`.

The extension that borrows first makes the registry that both use. So each test starts a process of its own, and runs
with both orders.
"""

import os
from pathlib import Path

import pytest

from frameworks import missing
from processes import output

#: The folder with the extension. `cargo xtask ci` builds it and sets the variable.
FOLDER = os.environ.get("DLBRIDGE_RUST_NUMPY", "")

BEGIN = """
import sys, threading
sys.path.insert(0, {folder!r})
import numpy as np
import typed_arguments as ours
import with_rust_numpy as theirs

def refused(function):
    try:
        function()
    except (BufferError, TypeError) as error:
        assert "borrow" in str(error), error
        return
    raise AssertionError("not refused")

x = np.arange(8.0)
"""

OURS_FIRST = "ours.negate(np.ones(2))\n"
THEIRS_FIRST = "theirs.hold_readonly(np.ones(2), list)\n"


@pytest.fixture(params=[OURS_FIRST, THEIRS_FIRST], ids=["ours first", "theirs first"])
def first(request: pytest.FixtureRequest) -> str:
    """Code that makes one of the extensions borrow first."""
    first: str = request.param
    return first


def run(first: str, code: str) -> None:
    """Runs code in a separate process."""
    if not FOLDER:
        missing("rust-numpy's extension is not in the folder that DLBRIDGE_RUST_NUMPY names")
    assert Path(FOLDER, "with_rust_numpy.so").exists(), "the extension built on rust-numpy is missing"
    begin = BEGIN.format(folder=FOLDER) + first
    output(begin + code, options=())


#: Programs that do the same whichever extension borrows first.
PROGRAMS = {
    "readers_share": """
ours.while_reading(x, lambda: theirs.hold_readonly(x, lambda: ours.total_of_anything(x)))
theirs.hold_readonly(x, lambda: ours.while_reading(x, lambda: theirs.hold_readonly(x, list)))
""",
    "writer_keeps_the_others_out": """
for held in [
    lambda f: ours.while_writing(x, f), lambda f: theirs.hold_readwrite(x, f),
]:
    for other in [
        lambda: ours.total_of_anything(x), lambda: ours.negate(x),
        lambda: theirs.hold_readonly(x, list), lambda: theirs.hold_readwrite(x, list),
        lambda: ours.negate(x[2:5]), lambda: theirs.hold_readwrite(x[2:5], list),
    ]:
        held(lambda: refused(other))
        other()
""",
    "readers_keep_a_writer_out": """
ours.while_reading(x, lambda: refused(lambda: theirs.hold_readwrite(x, list)))
theirs.hold_readonly(x, lambda: refused(lambda: ours.negate(x)))
theirs.hold_readwrite(x, list)
ours.negate(x)
""",
    "columns_without_a_byte_in_common": """
even, odd = x[::2], x[1::2]
ours.while_writing(even, lambda: theirs.hold_readwrite(odd, list))
theirs.hold_readwrite(even, lambda: ours.negate(odd))
""",
    "arrays_of_other_classes": """
class Derived(np.ndarray):
    pass

for part in [x.view(Derived), x.view(Derived)[2:].view(np.ndarray), np.frombuffer(bytearray(64)), x.view(">f8")]:
    held = ours.while_reading if part.dtype.byteorder == ">" else ours.while_writing
    if held is ours.while_writing:
        held(part, lambda: refused(lambda: theirs.hold_readwrite(np.asarray(part), list)))
    plain = np.asarray(part)
    if plain.dtype == np.float64 and plain.dtype.isnative:
        theirs.hold_readwrite(plain, list)
        theirs.hold_readwrite(plain, lambda: refused(lambda: ours.negate(part)))
""",
    "view_that_gets_another_owner_gives_its_borrow_back": """
state = np.arange(6.0).__reduce__()[2]
for held in [ours.while_reading, ours.while_writing]:
    x = np.arange(8.0)
    view = x[2:]
    held(view, lambda: view.__setstate__(state))
    ours.negate(x)
    theirs.hold_readwrite(x, list)
""",
    "conflict_of_two_dlbridge_arguments_is_not_reported_as_rust_numpys": """
def message(function):
    try:
        function()
    except BufferError as error:
        return str(error)
    raise AssertionError("not refused")

for held, purpose in [(ours.while_reading, "reading"), (ours.while_writing, "writing")]:
    text = message(lambda: held(x, lambda: ours.negate(x)))
    assert f"overlaps that of a numpy.ndarray, borrowed for {purpose}" in text, text
text = message(lambda: theirs.hold_readonly(x, lambda: ours.negate(x)))
assert "numpy.ndarray" in text, text
ours.negate(x)
theirs.hold_readwrite(x, list)
""",
    "threads": """
inside, wait = threading.Event(), threading.Event()
def hold():
    inside.set()
    assert wait.wait(60)

for held, other in [
    (theirs.hold_readwrite, lambda: ours.total_detached(x)),
    (ours.while_writing, lambda: theirs.hold_readonly(x, list)),
]:
    inside.clear(), wait.clear()
    thread = threading.Thread(target=held, args=(x, hold))
    thread.start()
    assert inside.wait(60)
    refused(other)
    wait.set()
    thread.join()
    other()
""",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_program_with_either_extension_first_succeeds(first: str, name: str) -> None:
    run(first, PROGRAMS[name])


def test_same_memory_as_another_object_conflicts() -> None:
    code = """
ours.while_writing(memoryview(x), lambda: refused(lambda: theirs.hold_readonly(x, list)))
theirs.hold_readwrite(x, lambda: refused(lambda: ours.total_of_anything(memoryview(x))))
again = np.from_dlpack(x)
ours.while_writing(again, lambda: refused(lambda: theirs.hold_readonly(x, list)))
"""
    run(OURS_FIRST, code)


@pytest.mark.parametrize("count", [1, 3])
def test_several_views_of_one_array(first: str, count: int) -> None:
    code = f"""
parts = [x[i::{count}] for i in range({count})] + [x[::-1][::{count}], x.reshape(2, 4)[1], x.reshape(2, 4)[:, 2]]
for part in parts:
    ours.while_writing(part, lambda: refused(lambda: theirs.hold_readwrite(part, list)))
    theirs.hold_readwrite(part, lambda: refused(lambda: ours.negate(part)))
    ours.while_writing(part, lambda: refused(lambda: theirs.hold_readwrite(x, list)))
    theirs.hold_readwrite(part, list)
    theirs.hold_readwrite(x, list)
"""
    run(first, code)


def test_memory_that_gets_another_owner_stays_borrowed() -> None:
    # No array leads to the borrow any more. A call to release it would make rust-numpy end the process.
    code = """
part = x[2:]
state = np.arange(8.0).__reduce__()[2]
ours.while_writing(x, lambda: x.__setstate__(state))
ours.negate(x)
theirs.hold_readwrite(x, list)
"""
    run(THEIRS_FIRST, code)


CHANGES = [
    "x.shape = (2, 4)",
    "x.dtype = 'f4'",
    "x.strides = (0,)",
    "x.flags.writeable = False",
    "x.shape = (2, 2, 2, 1, 1)",
]


@pytest.mark.parametrize("change", CHANGES)
def test_array_that_changes_while_it_is_borrowed_is_released(first: str, change: str) -> None:
    # rust-numpy's own registry ends the process when a borrowed array changes its dtype.
    held = "ours.while_reading, ours.while_writing"
    if first == OURS_FIRST:
        held += ", theirs.hold_readonly, theirs.hold_readwrite"
    code = f"""
def changed():
    {change}

import warnings
warnings.simplefilter("ignore")
for held in [{held}]:
    x = np.arange(8.0)
    part = x[2:]
    held(x, changed)
    assert x.flags.writeable or part.flags.writeable
    ours.negate(part)
    theirs.hold_readwrite(part, list)
"""
    run(first, code)


def test_share_borrows_keeps_one_registry_whoever_borrows_first() -> None:
    code = """
from numpy._core import multiarray
assert not hasattr(multiarray, "_RUST_NUMPY_BORROW_CHECKING_API")
ours.share_borrows()
shared = multiarray._RUST_NUMPY_BORROW_CHECKING_API
theirs.hold_readonly(x, lambda: refused(lambda: ours.negate(x)))
assert multiarray._RUST_NUMPY_BORROW_CHECKING_API is shared
# rust-numpy's own registry compares owners, and this array has another owner.
alias = np.frombuffer(memoryview(x))
theirs.hold_readonly(x, lambda: refused(lambda: ours.negate(alias)))
"""
    run("", code)


def test_share_borrows_after_rust_numpy_keeps_both_registries() -> None:
    code = """
ours.share_borrows()
ours.share_borrows()
theirs.hold_readonly(x, lambda: refused(lambda: ours.negate(x)))
ours.while_reading(x, lambda: refused(lambda: theirs.hold_readwrite(x, list)))
ours.negate(x)
"""
    run(THEIRS_FIRST, code)


def test_share_borrows_without_numpy_changes_nothing() -> None:
    code = """
import sys
import typed_arguments
assert "numpy" not in sys.modules
typed_arguments.share_borrows()
assert "numpy" not in sys.modules
import numpy as np
x = np.arange(8.0)
typed_arguments.negate(x)
assert x[1] == -1
"""
    output(code, options=())
