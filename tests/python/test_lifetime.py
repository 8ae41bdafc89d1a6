"""The lifetime of shared memory: released in any order, on any thread, also after the interpreter has ended."""

import gc
import itertools
import sys
import textwrap
import tracemalloc
import weakref
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import dlbridge
import pytest
from concurrently import concurrently
from conftest import require
from processes import output
from native import Native, Producer, Way, floats

np = require("numpy")

VERSIONED = {"max_version": (1, 3)}


@pytest.mark.parametrize("order", list(itertools.permutations(range(5))))
def test_array_lives_as_long_as_the_last_of_its_holders(order: tuple[int, ...]) -> None:
    array = np.arange(6, dtype=np.float32)
    gone: list[bool] = []
    weakref.finalize(array, gone.append, True)
    address = array.ctypes.data
    tensor = dlbridge.asdlpack(array)
    view = np.from_dlpack(tensor)
    capsule = tensor.__dlpack__()
    again = dlbridge.asdlpack(view)
    assert address == tensor.address == view.ctypes.data == again.address
    holders = [[array], [tensor], [view], [capsule], [again]]
    del array, tensor, view, capsule, again
    for which in order:
        assert not gone
        assert floats(address, 6) == [0, 1, 2, 3, 4, 5]
        holders[which].clear()
    assert gone == [True]


@pytest.mark.parametrize("versioned", [True, False])
@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
def test_native_owner_is_deleted_by_the_last_of_its_holders(
    native: Native, versioned: bool, order: tuple[int, ...]
) -> None:
    tensor, crafted = native.tensor((6,), versioned=versioned)
    view = np.from_dlpack(tensor)
    held = native.export(view, **VERSIONED)
    again = dlbridge.asdlpack(view[::2])
    assert held.fields.data == again.address == crafted.fields.data
    holders: list[Any] = [[tensor], [view], [again]]
    drops = [*(holder.clear for holder in holders), held.delete]
    del tensor, view, again
    for which in order:
        assert crafted.record.calls == 0
        drops[which]()
    assert crafted.record.calls == 1


def test_weak_references(native: Native) -> None:
    tensor, crafted = native.tensor()
    seen: list[bool] = []
    reference = weakref.ref(tensor, lambda _: seen.append(True))
    assert reference() is tensor
    assert weakref.WeakSet([tensor]).pop() is tensor
    del tensor
    assert reference() is None
    assert seen == [True]
    assert crafted.record.calls == 1


#: Objects that are alive when the interpreter ends, made by the code of `exit_with`.
KINDS = {
    "a tensor": "native.tensor()[0]",
    "a legacy tensor": "native.tensor(versioned=False)[0]",
    "a copy": "dlbridge.asdlpack(b'abc', copy=True)",
    "a legacy capsule": "native.tensor()[0].__dlpack__()",
    "a versioned capsule": "native.tensor()[0].__dlpack__(max_version=(1, 0))",
    "a capsule of a copy": "native.tensor()[0].__dlpack__(copy=True)",
    "an array over a tensor": "np.from_dlpack(native.tensor()[0])",
    "an array over a copy": "np.from_dlpack(dlbridge.asdlpack(b'abc', copy=True))",
    "a tensor over an array": "dlbridge.asdlpack(np.zeros(3))",
    "a capsule over an array": "dlbridge.asdlpack(np.zeros(3)).__dlpack__()",
    "a tensor over bytes": "dlbridge.asdlpack(b'abc')",
    "a tensor over a bytearray": "dlbridge.asdlpack(bytearray(3))",
    "a tensor over an exporter": "dlbridge.asdlpack(native.exporter(on_release=list))",
    "an array over a bytearray": "np.from_dlpack(dlbridge.asdlpack(bytearray(3)))",
    "a cycle": "(cycle := [native.tensor()[0]], cycle.append(cycle))",
}
#: Places that keep them. Later places live longer.
KEPT = {
    "in a module": "kept = {}",
    "in another module": "sys.modules['kept'] = types.SimpleNamespace(kept={})",
    "in builtins": "builtins.kept = {}",
    "by a thread": "threading.current_thread().kept = {}",
    "by a class": "Kept = type('Kept', (), dict(kept={}))",
}


def exit_with(code: str) -> str:
    """Runs code in an interpreter that then ends. Asserts that stderr is empty, and returns stdout."""
    prologue = (
        "import atexit, builtins, gc, sys, threading, types\n"
        "import dlbridge, numpy as np\n"
        "from native import Native, Way, crafter\n"
        "native = Native()\n"
        "crafter.native.report_at_exit()\n"
    )
    return output(prologue + code)


@pytest.mark.parametrize("where", KEPT)
def test_exit_with_live_objects_of_every_kind(where: str) -> None:
    objects = ", ".join(KINDS.values())
    out = exit_with(KEPT[where].format(f"[{objects}]"))
    # Objects that outlive the interpreter may stay undeleted. No object is deleted twice.
    owed, repeated = map(int, out.split()[1::2])
    assert repeated == 0
    assert owed == 0 or where == "in builtins"


@pytest.mark.parametrize("kind", KINDS)
def test_exit_with_a_live_object(kind: str) -> None:
    assert exit_with(f"kept = {KINDS[kind]}") == "owed 0 repeated 0\n"


OWNERS = {
    "a crafted tensor": "native.tensor()[0]",
    "a copy": "dlbridge.asdlpack(b'abc', copy=True)",
    "an array": "dlbridge.asdlpack(np.zeros(3))",
    "a buffer": "dlbridge.asdlpack(native.exporter(on_release=list))",
}


#: Exports an owner, whose deleter runs at the end or in another deleter.
DELETIONS = {
    "after the end of the interpreter": """
for keywords in ({}, {'max_version': (1, 0)}):
    native.export(OWNER, **keywords).delete(Way.AT_EXIT)
""",
    "while it waits for the GIL and the interpreter ends": """
held = native.export(OWNER)
atexit.register(held.delete, Way.NOT_WAITED_FOR)
""",
    "in a deleter of a producer that releases the GIL": """
for versioned in (True, False):
    tensor, crafted = native.tensor(versioned=versioned)
    crafted.native.own(native.export(OWNER).native)
    del tensor
""",
}


@pytest.mark.parametrize("owner", OWNERS)
@pytest.mark.parametrize("way", DELETIONS)
def test_deleter_at_the_end_of_the_interpreter_runs_once(way: str, owner: str) -> None:
    assert exit_with(DELETIONS[way].replace("OWNER", OWNERS[owner])) == "owed 0 repeated 0\n"


def test_many_threads_at_once(native: Native) -> None:
    tensor, crafted = native.tensor((6,))
    shared = [tensor]
    exporter = native.exporter()

    def work(number: int) -> None:
        ways = (Way.WITH_GIL, Way.WITHOUT_GIL, Way.NATIVE_THREAD)
        for i in range(150):
            way = ways[(i + number) % 3]
            mine, _ = native.tensor((6,), versioned=i % 2 == 0)
            for tensor in (shared[0], mine, dlbridge.asdlpack(exporter)):
                held = native.export(tensor, **(VERSIONED if i % 3 else {}))
                copy = native.export(tensor, copy=True)
                del tensor
                assert floats(held.fields.data, 6) == [0, 1, 2, 3, 4, 5]
                assert floats(copy.fields.data, 6) == [0, 1, 2, 3, 4, 5]
                held.delete(way)
                copy.delete(way)
            del mine

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        assert concurrently([partial(work, number) for number in range(8)]) == [None] * 8
    finally:
        sys.setswitchinterval(interval)
    assert crafted.record.calls == 0
    del tensor
    shared.clear()
    assert native.all_deleted()
    assert native.released(exporter).calls == exporter.exports == 8 * 150


def all_paths(native: Native) -> Callable[[], None]:
    """Returns a function that runs imports, exports and refusals of all kinds once."""
    array, memory = np.arange(6, dtype=np.float32), bytearray(24)
    readonly = np.arange(3)
    readonly.flags.writeable = False
    exporter, unfit = native.exporter(), native.exporter(format="O")
    tensor = dlbridge.asdlpack(array)
    producers = [Producer(ValueError), Producer(TypeError), Producer(None)]

    def refuse(call: Callable[..., Any], *arguments: Any, **keywords: Any) -> None:
        try:
            call(*arguments, **keywords)
        except (AttributeError, BufferError, TypeError, ValueError):
            return
        raise AssertionError("not refused")

    def go() -> None:
        for owner in (array, readonly, memory, exporter, b"abc"):
            for copy in (None, True, False):
                one = dlbridge.asdlpack(owner, copy=copy)
                one.__dlpack__()
                native.export(one, **VERSIONED).delete()
                native.export(one, copy=True).delete(Way.WITHOUT_GIL)
                repr(one), one.shape, one.strides, one.dtype, one.device, one.__dlpack_device__()
        np.from_dlpack(tensor)
        dlbridge.from_dlpack(tensor, device=(1, 0), copy=False)
        for producer in producers:
            refuse(dlbridge.asdlpack, producer)
            producer.asked.clear()
        refuse(dlbridge.asdlpack, unfit)
        refuse(dlbridge.asdlpack, None)
        refuse(dlbridge.from_dlpack, b"abc")
        refuse(dlbridge.asdlpack(readonly).__dlpack__, copy=False)
        refuse(tensor.__dlpack__, stream=5)
        refuse(tensor.__dlpack__, dl_device=(2, 0))
        refuse(tensor.__dlpack__, max_version=5)
        refuse(dlbridge.asdlpack, native.tensor()[0].__dlpack__)

    return go


def resident() -> int:
    """The resident memory of this process in bytes, or 0 if it is not known."""
    statm = Path("/proc/self/statm")
    return int(statm.read_text().split()[1]) * 4096 if statm.exists() else 0


def test_references_and_memory_are_not_leaked(native: Native) -> None:
    go = all_paths(native)
    watched: list[Any] = [None, True, False, (), dlbridge.Tensor, BufferError, TypeError]
    watched += [type(native.tensor()[0].__dlpack__()), "max_version", (1, 3)]

    def counts() -> list[int]:
        return [sys.getrefcount(thing) for thing in watched]

    def loop(times: int) -> None:
        for _ in range(times):
            go()
            assert native.all_deleted()
            native.made.clear()

    loop(100)
    gc.collect()
    before, resident_before = counts(), resident()
    grown = []
    tracemalloc.start()
    try:
        loop(10)
        # A leak grows in both rounds; the caches and threads of other libraries allocate in one.
        for _ in range(2):
            traced = tracemalloc.get_traced_memory()[0]
            loop(1000)
            gc.collect()
            grown.append(tracemalloc.get_traced_memory()[0] - traced)
    finally:
        tracemalloc.stop()
    assert all(abs(now - then) < 50 for now, then in zip(counts(), before, strict=True))
    assert min(grown) < 20_000, grown
    # A leak would be far larger: 1000 times more than 30 tensors of more than 100 bytes each.
    assert resident() - resident_before < 3_000_000


def test_import_holds_its_source_once(native: Native) -> None:
    array, memory, exporter = np.zeros(3), bytearray(3), native.exporter()
    for source in (array, memory, exporter):
        count = sys.getrefcount(source)
        tensors = [dlbridge.asdlpack(source) for _ in range(10)]
        held = sys.getrefcount(source) - count
        assert held <= 10
        for tensor in tensors:
            for _ in range(100):
                tensor.__dlpack__()
        assert sys.getrefcount(source) - count == held
        del tensors, tensor
        assert sys.getrefcount(source) == count


def test_subinterpreter_is_refused() -> None:
    code = """
        try:
            import _interpreters as interpreters
        except ModuleNotFoundError:
            import _xxsubinterpreters as interpreters
        there = interpreters.create()
        script = "try:\\n import dlbridge\\nexcept ImportError as e: print(e)"
        interpreters.run_string(there, script)
        interpreters.destroy(there)
    """
    assert "subinterpreter" in output(textwrap.dedent(code))
