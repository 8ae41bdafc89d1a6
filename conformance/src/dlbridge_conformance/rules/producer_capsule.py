"""The capsule that ``__dlpack__`` returns: its name, its ABI, and its destructor."""

from __future__ import annotations

from functools import partial
from typing import Any

from dlbridge_conformance import crafter
from dlbridge_conformance.context import Context
from dlbridge_conformance.exports import abis, best, expect_elements, legacy, memory_reused, needs_no_copy
from dlbridge_conformance.memory import expect_arrays_freed, expect_let_go
from dlbridge_conformance.rule import must, should

PYTHON = "Python specification of DLPack, Implementation"
SIGNATURE = "array API standard 2024.12, __dlpack__"
MAX_VERSION = "array API standard 2024.12, __dlpack__: max_version and Notes"
DEALLOC = "CPython documentation, PyTypeObject.tp_dealloc"

MATRIX = [[0, 1, 2], [3, 4, 5]]


def _name(c: Context, array: Any, **keywords: Any) -> str | None:
    """The name of the capsule; the rule does not apply without the keyword."""
    c.needs_keywords(*keywords)
    return crafter.capsule_name(c.capsule(array, **keywords))


def _expect_legacy_name(c: Context, **keywords: Any) -> None:
    """Expects a capsule named 'dltensor', or BufferError."""
    array = c.array()
    try:
        name = _name(c, array, **keywords)
    except BufferError as error:
        c.got(f"BufferError: {error}")
        return
    c.expect(name == "dltensor", f"the capsule is named {name!r}")


def _capsules(array: Any, keywords: dict[str, Any]) -> list[Any]:
    """A capsule over an array, in a list, so that clearing the list drops it."""
    return [array.__dlpack__(**keywords)]


@must("P-CAPSULE-TYPE", "__dlpack__ returns a PyCapsule.", SIGNATURE)
def capsule_type(c: Context) -> None:
    kind = type(c.capsule(c.array(), **c.asking())).__name__
    c.expect(kind == "PyCapsule", f"__dlpack__ returned a {kind}")


must("P-CAPSULE-LEGACY-NAME",
     "Without max_version the capsule is named 'dltensor', or the export is refused with BufferError.", PYTHON,
     _expect_legacy_name)  # fmt: skip
must("P-CAPSULE-NONE-NAME",
     "max_version=None is the same as leaving it out: a capsule named 'dltensor', or BufferError.", MAX_VERSION,
     lambda c: _expect_legacy_name(c, max_version=None))  # fmt: skip


@should("P-CAPSULE-VERSIONED-NAME",
        "With max_version=(1, 0) or (1, 3), a producer returns a capsule named 'dltensor_versioned'.", MAX_VERSION)  # fmt: skip
def versioned_name(c: Context) -> None:
    array = c.array()
    for version in [(1, 0), (1, 3)]:
        name = _name(c, array, max_version=version)
        c.expect(name == "dltensor_versioned", f"max_version={version} gave a capsule named {name!r}")


@must("P-CAPSULE-KNOWN-NAME", "For every max_version, the capsule has one of the two names of unused capsules.", PYTHON)
def known_name(c: Context) -> None:
    array = c.array()
    for version in [None, (0, 8), (1, 0), (1, 3), (1, 99), (2, 0)]:
        try:
            name = _name(c, array, max_version=version)
        except BufferError as error:
            c.got(f"BufferError: {error}")
            continue
        c.expect(name in (crafter.LEGACY, crafter.VERSIONED), f"max_version={version} gave the name {name!r}")


should("P-CAPSULE-MAX-BEFORE-1", "With max_version=(0, 8), a producer returns a legacy capsule or raises BufferError.",
       MAX_VERSION, lambda c: _expect_legacy_name(c, max_version=(0, 8)))  # fmt: skip


@should("P-CAPSULE-MAX-SAME-MAJOR",
        "With an older minor version of its own major version, a producer returns its own version.", MAX_VERSION)  # fmt: skip
def max_same_major(c: Context) -> None:
    version = c.versioned(c.array()).fields.version
    assert version is not None
    major, minor = version
    older = c.export(c.array(), max_version=(major, 0)).fields.version
    c.expect(older is not None, f"max_version={(major, 0)} returned a legacy tensor")
    assert older is not None
    c.expect(older[0] == major, f"max_version={(major, 0)} gave version {older}")
    c.expect(older[1] <= minor, f"max_version={(major, 0)} gave {older}, newer than {version} for a newer consumer")


@should("P-CAPSULE-MAX-NEWER-MINOR",
        "With max_version=(1, 99), a producer returns the newest versioned tensor that it supports.", MAX_VERSION)  # fmt: skip
def max_newer_minor(c: Context) -> None:
    version = c.versioned(c.array()).fields.version
    newer = c.export(c.array(), max_version=(1, 99)).fields.version
    c.expect(newer == version, f"max_version=(1, 99) gave {newer}, and (1, 3) gave {version}")


@should("P-CAPSULE-MAX-NEWER-MAJOR",
        "With a newer major version than it supports, a producer returns its own newest version and does not refuse.",
        MAX_VERSION)  # fmt: skip
def max_newer_major(c: Context) -> None:
    version = c.versioned(c.array()).fields.version
    newer = c.export(c.array(), max_version=(99, 0)).fields.version
    c.expect(newer is not None, "max_version=(99, 0) returned a legacy tensor")
    c.expect(newer == version, f"max_version=(99, 0) gave {newer}, and (1, 3) gave {version}")


@should("P-CAPSULE-EACH-ITS-OWN", "Every call of __dlpack__ returns a capsule and a managed tensor of its own.",
        "no text; each capsule has an owner, which calls the deleter once")  # fmt: skip
def each_its_own(c: Context) -> None:
    array = c.array()
    for keywords in abis(c):
        first, second = c.capsule(array, **keywords), c.capsule(array, **keywords)
        c.expect(first is not second, "two calls returned the same capsule")
        held = [crafter.take(first), crafter.take(second)]
        c.expect(held[0].native.address != held[1].native.address, "two capsules hold the same managed tensor")
        held[0].delete()
        expect_elements(c, held[1], MATRIX)
        held[1].delete()


@must("P-CAPSULE-AFTER-USE", "An array whose capsule was consumed can be exported again.",
      "Python specification of DLPack, Semantics")  # fmt: skip
def after_use(c: Context) -> None:
    array = c.array()
    for _ in range(3):
        held = best(c, array)
        expect_elements(c, held, MATRIX)
        held.delete()


@must("P-CAPSULE-UNUSED-FREES",
      "The destructor of an unconsumed capsule calls the deleter, which gives the memory back.", PYTHON)  # fmt: skip
def unused_frees(c: Context) -> None:
    exports = {f"by {keywords}": partial(_capsules, keywords=keywords) for keywords in abis(c)}
    expect_let_go(c, exports, list.clear, "after the capsule was dropped")

    def use(array: Any) -> None:
        for export in exports.values():
            export(array).clear()

    expect_arrays_freed(c, use, "unused capsules keep the memory")


@must("P-CAPSULE-HOLDS", "A capsule keeps the memory alive when the array is dropped before the capsule is consumed.",
      "Python specification of DLPack, Semantics")  # fmt: skip
def holds(c: Context) -> None:
    for keywords in abis(c):
        array = c.array()
        capsule = c.capsule(array, **keywords)
        del array
        with memory_reused(c):
            held = crafter.take(capsule)
            expect_elements(c, held, MATRIX)
            held.delete()


@must("P-CAPSULE-USED-KEEPS", "The destructor of a consumed capsule leaves the managed tensor alone.", PYTHON)
def used_keeps(c: Context) -> None:
    for keywords in abis(c):
        array = c.array()
        capsule = c.capsule(array, **keywords)
        held = crafter.take(capsule)
        before = held.fields
        del capsule, array
        c.settle()
        others = [c.lib.array([[9.0] * 3] * 2, "float32").__dlpack__(**keywords) for _ in range(50)]
        c.expect(held.fields == before, f"the struct has changed to {held.fields}")
        expect_elements(c, held, MATRIX)
        held.delete()
        del others


@should("P-CAPSULE-PENDING", "The destructor of an unused capsule does not change a pending exception.", DEALLOC)
def pending(c: Context) -> None:
    for keywords in abis(c):
        array = c.array()
        capsules = [c.capsule(array, **keywords)]
        del array
        kept = crafter.clear_keeps(capsules, KeyError("pending"))
        c.expect(kept, "the exception is lost")


@must("P-CAPSULE-ABIS-AGREE",
      "The legacy and the versioned tensor of one array describe the same memory in the same way.", PYTHON)  # fmt: skip
def abis_agree(c: Context) -> None:
    array = c.array()
    new, old = c.versioned(array).fields, legacy(c, array).fields
    for name in ("device", "dtype", "ndim", "shape"):
        c.expect(getattr(new, name) == getattr(old, name), f"{name}: {getattr(old, name)} and {getattr(new, name)}")
    needs_no_copy(c, array)
    c.expect(new.data + new.byte_offset == old.data + old.byte_offset, "the two point to different memory")
