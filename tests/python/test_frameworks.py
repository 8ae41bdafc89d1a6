"""Frameworks whose behaviour dlbridge measures at first use: the measurement matches what happens."""

import json
from typing import Any

import dlbridge
import pytest
from conftest import require
from frameworks import requested
from processes import output

np = require("numpy")


def profile(name: str) -> Any:
    """The consumer profile of a framework."""
    return next(consumer for consumer in dlbridge._core._consumers() if consumer["name"] == name)


def function(name: str) -> Any:
    """The import function of a framework."""
    found = require(profile(name)["module"])
    for part in profile(name)["function"].split("."):
        found = getattr(found, part)
    return found


@pytest.mark.parametrize("name", ["numpy", "torch", "jax", "pyarrow"])
def test_profile_after_first_use_names_release_and_request(name: str) -> None:
    library = require(name)
    max_version = requested(function(name))
    dlbridge.empty((2, 3)).to(name)
    found = profile(name)
    assert found["measured"] == f"{name} {library.__version__}"
    assert found["max_version"] == max_version
    assert found["takes"] == ("versioned" if max_version else "legacy")
    verdict = dlbridge.explain(dlbridge.empty(3), to=name).verdicts[0]
    assert verdict.measured == found["measured"]
    assert f"    measured with {found['measured']}\n" in str(dlbridge.explain(b"abc", to=name))


def test_read_only_data_is_shared_with_jax_if_it_requests_versioned_capsules() -> None:
    require("jax")
    tensor = dlbridge.asdlpack(dlbridge.empty((2, 3)), writable=False)
    assert tensor.readonly
    home = tensor.jax()
    versioned = profile("jax")["max_version"] is not None
    assert (home.unsafe_buffer_pointer() == tensor.address) == versioned
    [verdict] = dlbridge.explain(tensor, to="jax").verdicts
    assert verdict.zero_copy == versioned
    if not versioned:
        with pytest.raises(BufferError, match="jax imports legacy capsules, which cannot mark that"):
            tensor.jax(copy=False)


@pytest.mark.parametrize("name", ["numpy", "torch", "jax", "pyarrow"])
def test_first_use_prints_nothing_and_keeps_nothing(name: str) -> None:
    require(name)
    code = """
import gc, importlib, sys, time, warnings, weakref
import dlbridge
class Source(bytearray):
    pass
name, module = sys.argv[1:]
importlib.import_module(module)
warnings.simplefilter("error")
source = Source(24)
gone = weakref.ref(source)
home = dlbridge.asdlpack(source).to(name)
del source, home
# JAX copies in the background.
end = time.monotonic() + 20
while gone() is not None and time.monotonic() < end:
    gc.collect()
assert gone() is None
"""
    assert output(code, name, profile(name)["module"], options=()) == ""


#: A fake framework, in place of array-api-strict.
FAKE = """
import importlib.machinery, json, sys, types
import dlbridge, numpy as np

class Array:
    pass

calls = []

def array_of(x, **changes):
    kept = np.from_dlpack(x)
    array = Array()
    array.kept = kept
    array.__array_interface__ = {**kept.__array_interface__, **changes}
    return array

def from_dlpack(x):
    calls.append(x)
    return imported(x)

fake = types.ModuleType("array_api_strict")
fake.from_dlpack = from_dlpack
fake.__version__ = "99.1"
sys.modules["array_api_strict"] = fake
to = lambda t, **k: t.to("array_api_strict", **k)
profile = lambda: {c["name"]: c for c in dlbridge._core._consumers()}["array_api_strict"]
plain = dlbridge.empty((2, 3))
marked = dlbridge.asdlpack(plain, writable=False)
numbers = np.arange(64, dtype="f4").reshape(8, 8)
strided = dlbridge.asdlpack(numbers[::-1, ::2])

def got(tensor):
    "The address that the framework got."
    to(tensor)
    return calls[-1].address

def shared(tensor):
    "Returns true if the framework gets the memory itself."
    try:
        to(tensor, copy=False)
    except BufferError:
        assert got(tensor) != tensor.address
        return False
    assert got(tensor) == tensor.address
    return True
"""


def faked(code: str) -> Any:
    """Runs code with the fake framework, and returns the JSON that it prints."""
    return json.loads(output(FAKE + code, options=(), quiet=False))


@pytest.mark.parametrize(
    ("imports", "shares_marked", "shares_strided"),
    [
        ("np.from_dlpack(x)", True, True),
        ("object()", False, False),
        ("None", False, False),
        ("int('x')", False, False),
        ("array_of(x, data=(np.from_dlpack(x).ctypes.data, False))", False, True),
        ("array_of(x, strides=(12, 4))", True, False),
        ("array_of(x, shape=(1,))", False, False),
    ],
    ids=["right", "opaque", "none", "failing", "writable", "wrong strides", "wrong shape"],
)
def test_framework_with_wrong_imports_gets_copies(
    imports: str, shares_marked: bool, shares_strided: bool
) -> None:
    # An import that fails only for probes.
    guarded = "int('x') if type(x).__name__ == 'Recorder' else None" if "int" in imports else imports
    found = faked(f"imported = lambda x: {guarded}\nprint(json.dumps([shared(marked), shared(strided)]))")
    assert found == [shares_marked, shares_strided]


def test_framework_that_copies_everything_is_detected() -> None:
    found = faked("imported = lambda x: np.from_dlpack(x).copy()\nto(plain)\nprint(json.dumps(profile()))")
    assert (found["copies"], found["measured"]) == (True, "array_api_strict 99.1")


def test_framework_is_measured_once() -> None:
    code = """
imported = np.from_dlpack
numbers = []
for tensor in (plain, plain, strided, marked, plain):
    before = len(calls)
    to(tensor)
    numbers.append(len(calls) - before)
print(json.dumps(numbers))
"""
    first, *others = faked(code)
    assert 5 < first < 13
    assert others == [1, 1, 1, 1]


def test_interrupt_while_a_framework_is_measured_is_raised_and_measured_again() -> None:
    code = """
def imported(x):
    if len(calls) == 4:
        raise KeyboardInterrupt
    return np.from_dlpack(x)
try:
    to(plain)
except KeyboardInterrupt:
    before = profile()["measured"]
    print(json.dumps([before, shared(marked), profile()["measured"]]))
"""
    assert faked(code) == [None, True, "array_api_strict 99.1"]


def test_memory_error_of_a_probe_is_raised_and_the_next_use_measures_again() -> None:
    code = """
def imported(x):
    if len(calls) == 4:
        raise ValueError("no room") from MemoryError()
    if len(calls) == 2:
        raise MemoryError
    return np.from_dlpack(x)
raised = []
for _ in range(2):
    try:
        to(plain)
    except (MemoryError, ValueError) as error:
        raised.append([type(error).__name__, profile()["measured"]])
print(json.dumps([raised, shared(marked), profile()["measured"]]))
"""
    raised = [["MemoryError", None], ["ValueError", None]]
    assert faked(code) == [raised, True, "array_api_strict 99.1"]


@pytest.mark.parametrize("on_cpu", ["raise BufferError", "return np.from_dlpack(x).copy()"])
def test_data_on_a_device_is_shared_with_a_framework_that_copies_or_refuses_data_on_the_cpu(
    on_cpu: str
) -> None:
    code = f"""
import importlib.machinery, json, sys, types
import dlbridge, numpy as np
import native as n

def from_dlpack(x):
    if x.__dlpack_device__()[0] == 14:
        return x
    {on_cpu}

sys.modules["dpnp"] = dpnp = types.ModuleType("dpnp")
dpnp.from_dlpack = from_dlpack
dpnp.__spec__ = importlib.machinery.ModuleSpec("dpnp", None)
native = n.Native()
results = []
for dtype in (n.FLOAT32, (1, 16, 1)):
    tensor, crafted = native.tensor((6,), device=(14, 1), data=0x4_0000, dtype=dtype)
    [verdict] = dlbridge.explain(tensor, to="dpnp").verdicts
    results.append([verdict.zero_copy, tensor.to("dpnp", copy=False).address == tensor.address])
print(json.dumps(results))
"""
    assert json.loads(output(code, options=(), quiet=False)) == [[True, True]] * 2


def test_first_use_in_many_threads_and_in_a_fork_measures_the_same() -> None:
    code = """
import os
from concurrently import concurrently
imported = np.from_dlpack
homes = concurrently([lambda: to(marked).ctypes.data] * 8)
assert homes == [marked.address] * 8
child = os.fork()
if child == 0:
    os._exit(0 if shared(strided) else 1)
print(json.dumps(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])))
"""
    assert faked(code) == 0
