"""The deleter of an export: what it gives back, and where and when it may be called."""

from __future__ import annotations

import threading
from typing import Any

from dlbridge.conformance import crafter
from dlbridge.conformance.context import Context
from dlbridge.conformance.crafter import Held, Way
from dlbridge.conformance.exports import best, each_abi, expect_elements
from dlbridge.conformance.memory import expect_arrays_freed, expect_bounded, watch
from dlbridge.conformance.rule import Level, Role, rule

DELETER = "dlpack.h 1.3, DLManagedTensorVersioned::deleter"
PYTHON = "Python specification of DLPack, Implementation"
SEMANTICS = "Python specification of DLPack, Semantics"
DEALLOC = "CPython documentation, PyTypeObject.tp_dealloc"

MATRIX = [[0, 1, 2], [3, 4, 5]]


def _abis(c: Context) -> list[dict[str, Any]]:
    """The keywords for a tensor of each ABI that the library has."""
    found: list[dict[str, Any]] = []
    for held in each_abi(c, c.array()):
        found.append({"max_version": (1, 3)} if held.fields.version else {})
        held.delete()
    return found


def _expect_freed(c: Context, way: Way) -> None:
    """A deleter that is called so lets the array go, in the end."""
    for keywords in _abis(c):
        array = c.array()
        is_gone = watch(array)
        held = c.export(array, **keywords)
        del array
        c.fed(f"the deleter, called {way.name}")
        held.delete(way)
        c.settle()
        c.expect(is_gone is None or is_gone(), "the array lives on after the deleter ran")


def _owner(held: Held) -> crafter.Crafted:
    """A tensor of somebody else over the same memory, whose deleter calls the one of this."""
    fields = held.fields
    outer = crafter.craft(
        fields.shape, dtype=fields.dtype, strides=fields.strides, device=fields.device,
        data=fields.data, byte_offset=fields.byte_offset,
    )  # fmt: skip
    held.deleted = True
    outer.native.own(held.native)
    return outer


@rule("P-DELETER-FREES-ARRAY", Role.PRODUCER, Level.MUST,
      "When the array is dropped and the deleter has run, the memory of the elements is given back.",
      DELETER)  # fmt: skip
def frees_array(c: Context) -> None:
    for keywords in _abis(c):

        def use(array: Any, keywords: dict[str, Any] = keywords) -> None:
            crafter.take(array.__dlpack__(**keywords)).delete()

        expect_arrays_freed(c, use, "the memory is kept after the deleter ran")


@rule("P-DELETER-FREES-STRUCT", Role.PRODUCER, Level.MUST,
      "The deleter frees the struct itself too, with its shape and strides.", DELETER)  # fmt: skip
def frees_struct(c: Context) -> None:
    array = c.array()
    for keywords in _abis(c):

        def step(keywords: dict[str, Any] = keywords) -> None:
            for _ in range(1000):
                crafter.take(array.__dlpack__(**keywords)).delete()

        expect_bounded(c, step, 60, 1000 * 80, "a struct is kept after each deleter ran")


@rule("P-DELETER-OBJECT", Role.PRODUCER, Level.MUST,
      "The deleter drops the reference to the array, which dies with it.", PYTHON)  # fmt: skip
def frees_object(c: Context) -> None:
    c.needs(watch(c.array()), f"arrays of {c.lib.name} have no weak references")
    _expect_freed(c, Way.WITH_GIL)


@rule("P-DELETER-HOLDS", Role.PRODUCER, Level.MUST,
      "Until the deleter is called the memory stays, though the array is gone and others are made.",
      SEMANTICS)  # fmt: skip
def holds(c: Context) -> None:
    for keywords in _abis(c):
        array = c.array()
        held = c.export(array, **keywords)
        del array
        c.settle()
        others = [c.lib.array([[9.0] * 3] * 2, "float32") for _ in range(200)]
        expect_elements(c, held, MATRIX)
        held.delete()
        del others


@rule("P-DELETER-HOLDS-STRUCT", Role.PRODUCER, Level.MUST,
      "Until the deleter is called shape, strides and every other field stay, though the array is gone.",
      DELETER)  # fmt: skip
def holds_struct(c: Context) -> None:
    for keywords in _abis(c):
        array = c.array()
        held = c.export(array, **keywords)
        before = held.fields
        del array
        c.settle()
        others = [crafter.take(c.lib.array([9.0] * 2, "float32").__dlpack__()) for _ in range(50)]
        after = held.fields
        c.expect(after == before, f"the fields are {after}")
        for other in others:
            other.delete()


@rule("P-DELETER-WITHOUT-GIL", Role.PRODUCER, Level.MUST,
      "The deleter may be called without the GIL: it takes the GIL if it needs it.", PYTHON)  # fmt: skip
def without_gil(c: Context) -> None:
    _expect_freed(c, Way.WITHOUT_GIL)


@rule("P-DELETER-NATIVE-THREAD", Role.PRODUCER, Level.MUST,
      "The deleter may be called on a thread that Python does not know.", PYTHON)  # fmt: skip
def native_thread(c: Context) -> None:
    _expect_freed(c, Way.NATIVE_THREAD)


@rule("P-DELETER-GIL-TAKEN", Role.PRODUCER, Level.MUST,
      "The deleter on another thread waits for a GIL that is held elsewhere, and runs then.", PYTHON)  # fmt: skip
def gil_taken(c: Context) -> None:
    for keywords in _abis(c):
        array = c.array()
        is_gone = watch(array)
        held = c.export(array, **keywords)
        del array
        held.delete(Way.NOT_WAITED_FOR)
        if is_gone is None:
            continue
        for _ in range(100):
            if is_gone():
                break
            threading.Event().wait(0.02)
        c.expect(is_gone(), "the array lives on two seconds after the deleter was called")


@rule("P-DELETER-PYTHON-THREAD", Role.PRODUCER, Level.MUST,
      "The deleter may be called on another thread of Python than the export.", PYTHON)  # fmt: skip
def python_thread(c: Context) -> None:
    for keywords in _abis(c):
        array = c.array()
        is_gone = watch(array)
        held = c.export(array, **keywords)
        del array
        thread = threading.Thread(target=held.delete)
        thread.start()
        thread.join()
        del thread
        c.settle()
        c.expect(is_gone is None or is_gone(), "the array lives on after the deleter ran")


@rule("P-DELETER-AT-ONCE", Role.PRODUCER, Level.MUST,
      "The deleters of several exports of one array may run at once on several threads.", PYTHON)  # fmt: skip
def at_once(c: Context) -> None:
    array = c.array()
    is_gone = watch(array)
    best(c, array).delete()
    batches = [[crafter.take(array.__dlpack__()) for _ in range(100)] for _ in range(8)]
    del array

    def delete(batch: list[Held]) -> None:
        for held in batch:
            held.delete(Way.WITHOUT_GIL)

    running = [threading.Thread(target=delete, args=(batch,)) for batch in batches]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    c.settle()
    c.expect(is_gone is None or is_gone(), "the array lives on after all deleters ran")


@rule("P-DELETER-PENDING", Role.PRODUCER, Level.SHOULD,
      "An exception that is pending when the deleter is called is pending afterwards.", DEALLOC)  # fmt: skip
def pending(c: Context) -> None:
    for keywords in _abis(c):
        array = c.array()
        held = c.export(array, **keywords)
        del array
        c.expect(held.delete_keeps(KeyError("pending")), "the exception is lost")


@rule("P-DELETER-ORDER", Role.PRODUCER, Level.MUST,
      "Of two exports of one array each keeps the memory by itself, in whatever order they end.",
      SEMANTICS)  # fmt: skip
def order(c: Context) -> None:
    for first in (0, 1):
        array = c.array()
        pair = [best(c, array), best(c, array)]
        del array
        pair[first].delete()
        c.settle()
        others = [c.lib.array([[9.0] * 3] * 2, "float32") for _ in range(50)]
        expect_elements(c, pair[1 - first], MATRIX)
        pair[1 - first].delete()
        del others


@rule("P-DELETER-ARRAY-STAYS", Role.PRODUCER, Level.MUST,
      "The deleter leaves the array alone for as long as somebody has it.", SEMANTICS)  # fmt: skip
def array_stays(c: Context) -> None:
    array = c.array()
    for _ in range(3):
        for held in each_abi(c, array):
            held.delete()
    c.settle()
    others = [c.lib.array([[9.0] * 3] * 2, "float32") for _ in range(50)]
    c.expect(c.values(array) == MATRIX, "the elements of the array have changed")
    del others


@rule("P-DELETER-CHAIN", Role.PRODUCER, Level.MUST,
      "A consumer may pass the memory on under a struct of its own, and call the deleter at the end of the chain.",
      PYTHON)  # fmt: skip
def chain(c: Context) -> None:
    for keywords in _abis(c):
        array = c.array()
        is_gone = watch(array)
        outer = _owner(c.export(array, **keywords))
        del array
        c.settle()
        last = crafter.take(_owner(crafter.take(outer.capsule())).capsule())
        expect_elements(c, last, MATRIX)
        last.delete()
        c.settle()
        c.expect(is_gone is None or is_gone(), "the array lives on at the end of the chain")
        c.expect(outer.record.calls == 1, f"the deleter in between ran {outer.record.calls} times")


@rule("P-DELETER-CHAIN-OWN", Role.PRODUCER, Level.MUST,
      "An array that the library made of its own export can be exported in turn, and keeps the memory.",
      SEMANTICS)  # fmt: skip
def chain_own(c: Context) -> None:
    array = c.array()
    is_gone = watch(array)
    again = c.consume(array)
    del array
    held = best(c, again)
    del again
    c.settle()
    others = [c.lib.array([[9.0] * 3] * 2, "float32") for _ in range(50)]
    expect_elements(c, held, MATRIX)
    held.delete()
    del others
    c.settle()
    c.expect(is_gone is None or is_gone(), "the array lives on at the end of the chain")


def _expect_calm_end(c: Context, code: str) -> None:
    """A script ends as if nothing were the matter."""
    done = c.script(code)
    c.expect(done.returncode >= 0, f"the process died of signal {-done.returncode}")
    c.expect(done.returncode == 0, f"the process ended with {done.returncode}: {done.stderr[-300:].strip()}")


EXPORT = """
def export():
    array = lib.array([[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]], "float32")
    try:
        return array, array.__dlpack__(max_version=(1, 3))
    except TypeError:
        return array, array.__dlpack__()

array, capsule = export()
"""


@rule("P-DELETER-AT-EXIT", Role.PRODUCER, Level.SHOULD,
      "The deleter may be called after the interpreter has ended, whether the array was dropped before or not.",
      PYTHON, processes=1)  # fmt: skip
def at_exit(c: Context) -> None:
    c.array()
    late = "crafter.take(capsule).delete(crafter.Way.AT_EXIT)\n"
    _expect_calm_end(c, f"{EXPORT}{late}_, capsule = export()\n{late}del _\n")


@rule("P-DELETER-AT-EXIT-CAPSULE", Role.PRODUCER, Level.SHOULD,
      "A capsule that nobody consumed may live until the interpreter ends.", PYTHON, processes=1)  # fmt: skip
def at_exit_capsule(c: Context) -> None:
    c.array()
    _expect_calm_end(c, f"{EXPORT}import sys\nsys.kept = capsule\n")
