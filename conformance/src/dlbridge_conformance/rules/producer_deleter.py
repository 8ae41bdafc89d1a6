"""The deleter of an export: its effect, and where and when it may be called."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from dlbridge_conformance import crafter
from dlbridge_conformance.context import Context
from dlbridge_conformance.crafter import Held, Way
from dlbridge_conformance.exports import abis, best, each_abi, expect_elements, memory_reused
from dlbridge_conformance.memory import expect_arrays_freed, expect_bounded, expect_let_go, watch
from dlbridge_conformance.rule import must, should

DELETER = "dlpack.h 1.3, DLManagedTensorVersioned::deleter"
PYTHON = "Python specification of DLPack, Implementation"
SEMANTICS = "Python specification of DLPack, Semantics"
DEALLOC = "CPython documentation, PyTypeObject.tp_dealloc"

MATRIX = [[0, 1, 2], [3, 4, 5]]


def _exports(c: Context) -> dict[str, Callable[[Any], Held]]:
    """The library's exports of an array by name: in each ABI, and of a slice and of a copy if it supports them."""
    asking = c.asking()

    def slice_of(array: Any) -> Held:
        return _taken(c.lib.sliced(array), asking)

    found: dict[str, Callable[[Any], Held]] = _plain_exports(c)
    others: dict[str, Callable[[Any], Held]] = {
        "a slice": slice_of,
        "a copy": partial(_taken, keywords={**asking, "copy": True}),
    }
    for name, export in others.items():
        try:
            export(c.array()).delete()
        except Exception as error:
            c.got(f"no export of {name}: {error}")
        else:
            found[name] = export
    c.fed(f"arrays, exported: {', '.join(found)}")
    return found


def _plain_exports(c: Context) -> dict[str, Callable[[Any], Held]]:
    """The library's exports of an array in each ABI."""
    return {"versioned" if keywords else "legacy": partial(_taken, keywords=keywords) for keywords in abis(c)}


def _taken(array: Any, keywords: dict[str, Any]) -> Held:
    """The managed tensor of an export."""
    return crafter.take(array.__dlpack__(**keywords))


def _owner(held: Held) -> crafter.Crafted:
    """A tensor of another owner over the same memory, whose deleter calls the deleter of this one."""
    fields = held.fields
    outer = crafter.craft(
        fields.shape, dtype=fields.dtype, strides=fields.strides, device=fields.device,
        data=fields.data, byte_offset=fields.byte_offset,
    )  # fmt: skip
    held.deleted = True
    outer.native.own(held.native)
    return outer


@must("P-DELETER-FREES-ARRAY",
      "When the array is dropped and the deleter has run, the memory of the elements is given back.", DELETER)  # fmt: skip
def frees_array(c: Context) -> None:
    exports = _plain_exports(c)

    def use(array: Any) -> None:
        for export in exports.values():
            export(array).delete()

    expect_arrays_freed(c, use, "the memory is kept after the deleter ran")


@must("P-DELETER-FREES-STRUCT", "The deleter frees the struct itself too, with its shape and strides.", DELETER)
def frees_struct(c: Context) -> None:
    array = c.array()
    for keywords in abis(c):

        def step(keywords: dict[str, Any] = keywords) -> None:
            for _ in range(1000):
                crafter.take(array.__dlpack__(**keywords)).delete()

        expect_bounded(c, step, 16, 1000 * 16, "something is kept after each deleter ran")


must("P-DELETER-OBJECT", "The deleter drops the reference to the array, which dies with it.", PYTHON,
     lambda c: expect_let_go(c, _exports(c), Held.delete, "after the deleter ran"))  # fmt: skip


@must("P-DELETER-HOLDS", "The memory stays until the deleter is called, even if the array is gone and others are made.",
      SEMANTICS)  # fmt: skip
def holds(c: Context) -> None:
    for keywords in abis(c):
        array = c.array()
        held = c.export(array, **keywords)
        del array
        with memory_reused(c):
            expect_elements(c, held, MATRIX)
            held.delete()


@must("P-DELETER-HOLDS-STRUCT",
      "Shape, strides and every other field stay until the deleter is called, even if the array is gone.", DELETER)  # fmt: skip
def holds_struct(c: Context) -> None:
    for keywords in abis(c):
        array = c.array()
        held = c.export(array, **keywords)
        before = held.fields
        del array
        c.settle()
        others = [_taken(c.lib.array([9.0] * 2, "float32"), keywords) for _ in range(50)]
        after = held.fields
        c.expect(after == before, f"the fields are {after}")
        for other in others:
            other.delete()


@must("P-DELETER-WITHOUT-GIL", "The deleter may be called without the GIL: it takes the GIL if it needs it.", PYTHON)
def without_gil(c: Context) -> None:
    expect_let_go(c, _exports(c), partial(Held.delete, way=Way.WITHOUT_GIL), "after the deleter ran without the GIL")


@must("P-DELETER-NATIVE-THREAD", "The deleter may be called on a thread that Python does not know.", PYTHON)
def native_thread(c: Context) -> None:
    delete = partial(Held.delete, way=Way.NATIVE_THREAD)
    expect_let_go(c, _exports(c), delete, "after the deleter ran on a thread that Python does not know")


@must("P-DELETER-GIL-TAKEN",
      "The deleter on another thread frees no array while another thread holds the GIL, and finishes afterwards.",
      PYTHON)  # fmt: skip
def gil_taken(c: Context) -> None:
    def delete(is_gone: Callable[[], bool] | None, held: Held) -> None:
        if is_gone is None or is_gone():
            held.delete(Way.NOT_WAITED_FOR)
            return
        held.delete(Way.NOT_WAITED_FOR)
        early = crafter.finished_with_gil_held() and is_gone()
        c.expect(not early, "the deleter freed the array while another thread held the GIL")
        for _ in range(100):
            if is_gone():
                break
            threading.Event().wait(0.02)

    def export(array: Any, by: Callable[[Any], Held]) -> Callable[[], None]:
        return partial(delete, watch(array), by(array))

    exports = {name: partial(export, by=by) for name, by in _plain_exports(c).items()}
    expect_let_go(c, exports, _call, "after the deleter was called")


def _call(what: Callable[[], None]) -> None:
    """Calls something."""
    what()


@must("P-DELETER-PYTHON-THREAD", "The deleter may be called on another Python thread than the export.", PYTHON)
def python_thread(c: Context) -> None:
    def delete(held: Held) -> None:
        c.on_threads([held.delete])

    expect_let_go(c, _exports(c), delete, "after the deleter ran on another thread")


@must("P-DELETER-AT-ONCE", "The deleters of several exports of one array may run at once on several threads.", PYTHON)
def at_once(c: Context) -> None:
    keywords = c.asking()

    def export(array: Any) -> list[list[Held]]:
        return [[_taken(array, keywords) for _ in range(100)] for _ in range(8)]

    def delete_batch(batch: list[Held]) -> None:
        for held in batch:
            held.delete(Way.WITHOUT_GIL)

    def delete(batches: list[list[Held]]) -> None:
        c.on_threads(partial(delete_batch, batch) for batch in batches)

    c.fed(f"800 exports of one array by {keywords}, deleted by 8 threads")
    expect_let_go(c, {"800 times": export}, delete, "after all deleters ran")


@should("P-DELETER-PENDING", "An exception that is pending when the deleter is called is pending afterwards.", DEALLOC)
def pending(c: Context) -> None:
    for keywords in abis(c):
        array = c.array()
        held = c.export(array, **keywords)
        del array
        c.expect(held.delete_keeps(KeyError("pending")), "the exception is lost")


@must("P-DELETER-ORDER", "Each of two exports of one array keeps the memory by itself, in any order of deletion.",
      SEMANTICS)  # fmt: skip
def order(c: Context) -> None:
    for first in (0, 1):
        array = c.array()
        pair = [best(c, array), best(c, array)]
        del array
        pair[first].delete()
        with memory_reused(c):
            expect_elements(c, pair[1 - first], MATRIX)
            pair[1 - first].delete()


@must("P-DELETER-ARRAY-STAYS", "The deleter does not change an array that is still referenced.", SEMANTICS)
def array_stays(c: Context) -> None:
    array = c.array()
    for _ in range(3):
        for held in each_abi(c, array):
            held.delete()
    with memory_reused(c):
        c.expect(c.values(array) == MATRIX, "the elements of the array have changed")


@must("P-DELETER-CHAIN",
      "A consumer may re-export the memory in a struct of its own, and call the deleter at the end of the chain.",
      PYTHON)  # fmt: skip
def chain(c: Context) -> None:
    outer: list[crafter.Crafted] = []

    def passed_on(array: Any, export: Callable[[Any], Held]) -> Held:
        outer.append(_owner(export(array)))
        return crafter.take(_owner(crafter.take(outer[-1].capsule())).capsule())

    exports = {name: partial(passed_on, export=export) for name, export in _exports(c).items()}
    for name, export in exports.items():
        last = export(c.array())
        expect_elements(c, last, MATRIX[1:] if name == "a slice" else MATRIX)
        last.delete()
        c.expect(outer[-1].record.calls == 1, f"the deleter in between ran {outer[-1].record.calls} times")
    expect_let_go(c, exports, Held.delete, "at the end of a chain")


@must("P-DELETER-CHAIN-OWN",
      "An array that the library made from its own export can be exported too; it keeps the memory, and frees it.",
      SEMANTICS)  # fmt: skip
def chain_own(c: Context) -> None:
    keywords = c.asking()
    held = best(c, c.consume(c.array()))
    with memory_reused(c):
        expect_elements(c, held, MATRIX)
        held.delete()

    def again(array: Any) -> Held:
        return _taken(c.lib.from_dlpack(array), keywords)

    expect_let_go(c, {"an array of its own": again}, Held.delete, "at the end of the chain")


def _expect_calm_end(c: Context, code: str) -> None:
    """Expects that a script ends normally after all remaining deleters have run."""
    done = c.script(f"{EXPORT.format(keywords=c.asking())}crafter.native.report_at_exit()\n{code}")
    c.expect(done.returncode >= 0, f"the process died of signal {-done.returncode}")
    c.expect(done.returncode == 0, f"the process ended with {done.returncode}: {done.stderr[-300:].strip()}")
    c.expect("owed 0 repeated 0" in done.stdout.splitlines(), "the process ended before the deleters had run")


EXPORT = """
def export():
    array = lib.array([[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]], "float32")
    return array, array.__dlpack__(**{keywords!r})

array, capsule = export()
"""

LATE = """
def delete_late(capsule):
    outer = crafter.craft((1,))
    outer.native.own(crafter.take(capsule).native)
    crafter.take(outer.capsule()).delete(crafter.Way.AT_EXIT)

delete_late(capsule)
_, capsule = export()
delete_late(capsule)
del _
"""


@should("P-DELETER-AT-EXIT",
        "The deleter may be called after the interpreter has ended, whether or not the array was dropped before.",
        PYTHON, processes=1)  # fmt: skip
def at_exit(c: Context) -> None:
    c.array()
    _expect_calm_end(c, LATE)


@should("P-DELETER-AT-EXIT-CAPSULE", "An unconsumed capsule may live until the interpreter ends.", PYTHON, processes=1)
def at_exit_capsule(c: Context) -> None:
    c.array()
    _expect_calm_end(c, "import sys\nsys.kept = capsule\n")
