"""The rules of the C exchange API: each deliberate fault breaks the rule meant for it, and no unusual table does."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any, cast

import pytest

from dlbridge_conformance import crafter
from dlbridge_conformance.crafter import Fields
from dlbridge_conformance.fork import check
from dlbridge_conformance.result import Status
from dlbridge_conformance.registry import all_rules
from dlbridge_conformance.rule import Role
from faulty_producer import Faulty, Made, absolute, c_order, copied, turned

RULES = {id: rule for id, rule in all_rules().items() if rule.role is Role.EXCHANGE_API}

Change = Callable[[Fields], dict[str, Any]]


def tabled(change: Change = lambda _: {}, export: Callable[[Made], Any] | None = None, **table: Any) -> Faulty:
    """dlbridge under a crafted table. A function chooses the fields of its exports, or ``export`` makes them."""

    def crafted(array: Made) -> Any:
        held = crafter.take(array.inner.__dlpack__(max_version=(1, 3)))
        return copied(held.fields, held, **change(held.fields)).native

    members = {"__dlpack_c_exchange_api__": crafter.native.craft_table(**table), "_crafted": export or crafted}
    return Faulty(wrap=type("Tabled", (Made,), members))


def on_instances() -> Faulty:
    """A table on each instance, and none on the type."""

    def make(*arguments: Any) -> Made:
        made = Made(*arguments)
        made.__dict__["__dlpack_c_exchange_api__"] = crafter.native.craft_table()
        return made

    return Faulty(wrap=make)


def ever_new() -> Faulty:
    """A new table for every lookup."""

    class Meta(type):
        @property
        def __dlpack_c_exchange_api__(cls) -> Any:
            return crafter.native.craft_table()

    return Faulty(wrap=Meta("Tabled", (Made,), {}))


def failing(array: Made) -> Any:
    """Raises."""
    raise RuntimeError("no")


_SHARED: weakref.WeakKeyDictionary[Made, Any] = weakref.WeakKeyDictionary()


def shared(array: Made) -> Any:
    """Returns the same tensor every time."""
    held = crafter.take(array.inner.__dlpack__(max_version=(1, 3)))
    return _SHARED.setdefault(array, copied(held.fields, held).native)


def previous() -> Faulty:
    """A table whose older table has the same version."""
    older = crafter.native.Table(crafter.native.craft_table())
    return tabled(previous=older.address)


def is_empty(found: Fields) -> bool:
    """Returns whether a tensor is empty."""
    return 0 in (found.shape or ())


#: the status, the tensor and the reports of an allocator
Allocated = tuple[int, Any, list[tuple[str, str]]]
REFUSED: Allocated = (-1, None, [("ValueError", "no")])


def allocate(shape: tuple[int, ...], dtype: tuple[int, ...], device: tuple[int, int], gil: bool) -> Allocated:
    """An allocator that keeps all rules."""
    undefined, foreign = dtype == (17, 8, 1), device != crafter.CPU
    if undefined or foreign or min(shape, default=0) < 0 or math.prod(shape) > 1 << 30:
        return REFUSED
    return give(shape, dtype)


def give(shape: tuple[int, ...], dtype: tuple[int, ...], **fields: Any) -> Allocated:
    """Returns a tensor for every request."""
    return 0, crafter.craft(shape, dtype=cast("tuple[int, int, int]", dtype), **fields).native, []


def allocates(change: Callable[..., Allocated | None]) -> Faulty:
    """An allocator without faults, except that a function may replace its answer."""

    def changed(*asked: Any) -> Allocated:
        sound = allocate(*asked)
        return change(*asked, sound) or sound

    return tabled(allocate=changed)


def refuses(what: Callable[[Fields], bool], error: Exception) -> Faulty:
    """A table that refuses to export some arrays, or to let a caller borrow them."""

    def export(array: Made) -> Any:
        held = crafter.take(array.inner.__dlpack__(max_version=(1, 3)))
        found = held.fields
        if what(found):
            held.delete()
            raise error
        return copied(found, held).native

    return tabled(export=export)


def is_strided(found: Fields) -> bool:
    """Returns whether a tensor is not in C order."""
    return found.strides != crafter.c_strides(found.shape or ())


def in_front_of(older: tuple[int, int], version: tuple[int, int] = (2, 0), missing: Any = ()) -> Faulty:
    """A table that links to an older one."""
    behind = crafter.native.Table(crafter.native.craft_table(version=older))
    return tabled(version=version, previous=behind.address, missing=list(missing))


#: faults of a table, and the rule that must catch each
TABLE_FAULTS: dict[str, tuple[str, Callable[[], Faulty]]] = {
    "another name": ("X-TABLE-NAME", lambda: tabled(name="dlpack_table")),
    "on instances": ("X-TABLE-ON-TYPE", on_instances),
    "ever new": ("X-TABLE-STATIC", ever_new),
    "version 2": ("X-TABLE-MAJOR", lambda: tabled(version=(2, 0))),
    "version 1.2": ("X-TABLE-MINOR", lambda: tabled(version=(1, 2))),
    "previous of the same version": ("X-TABLE-PREVIOUS", previous),
    **{f"{name} missing": (f"X-TABLE-{name.upper().replace('_', '-')}", partial(tabled, missing=[name]))
       for name in ("managed_tensor_allocator", "managed_tensor_from_py_object_no_sync",
                    "managed_tensor_to_py_object_no_sync", "dltensor_from_py_object_no_sync", "current_work_stream")},
    "export fails": ("X-EXPORT-STATUS", lambda: tabled(export=failing)),
    "export of version 2": ("X-EXPORT-VERSION", lambda: tabled(lambda _: {"version": (2, 0)})),
    "export on another device": ("X-EXPORT-AGREES", lambda: tabled(lambda _: {"device": (3, 0)})),
    "export of other memory": ("X-EXPORT-ELEMENTS", lambda: tabled(lambda f: {"byte_offset": 4})),
    "export without strides": ("X-EXPORT-STRIDES-SET", lambda: tabled(lambda _: {"strides": None})),
    "export of a transposed matrix in C order": ("X-EXPORT-TRANSPOSED", lambda: tabled(c_order)),
    "export of a slice from the beginning": ("X-EXPORT-SLICED", lambda: tabled(lambda f: {"data": f.data - 8})),
    "steps lost": ("X-EXPORT-STEPPED", lambda: tabled(c_order)),
    "sign lost": ("X-EXPORT-REVERSED", lambda: tabled(absolute)),
    "scalar with an axis": ("X-EXPORT-SCALAR", lambda: tabled(lambda _: {"shape": (1,), "strides": (1,), "ndim": 1})),
    "empty shapes as (0,)": ("X-EXPORT-ZERO-SIZE", lambda: tabled(
        lambda f: {"shape": (0,), "strides": (1,), "ndim": 1} if is_empty(f) else {})),
    "bool as uint8": ("X-EXPORT-DTYPES", lambda: tabled(
        lambda f: {"dtype": (1, 8, 1)} if f.dtype == crafter.DTYPES["bool"] else {})),
    "read-only not said": ("X-EXPORT-READ-ONLY", lambda: tabled(lambda _: {"flags": 0})),
    "says copied": ("X-EXPORT-FLAGS", lambda: tabled(lambda f: {"flags": f.flags | 2})),
    "the same tensor twice": ("X-EXPORT-EACH-ITS-OWN", lambda: tabled(export=shared)),
    "struct kept": ("X-EXPORT-DELETER", tabled),
    "borrowing fails": ("X-BORROW-STATUS", lambda: tabled(export=failing)),
    "borrowed shape reversed": ("X-BORROW-SHAPE", lambda: tabled(turned)),
    "borrowed from elsewhere": ("X-BORROW-MEMORY", lambda: tabled(lambda _: {"byte_offset": 4})),
    "borrowed without strides": ("X-BORROW-STRIDES-SET", lambda: tabled(lambda _: {"strides": None})),
    "borrowed empty shapes": ("X-BORROW-ZERO-SIZE", lambda: tabled(
        lambda f: {"shape": (0,), "strides": (1,), "ndim": 1} if is_empty(f) else {})),
    "borrowing leaves a struct": ("X-BORROW-ALLOCATES-NOTHING", tabled),
    "imports become something else": ("X-IMPORT-TYPE", tabled),
    "takes version 2": ("X-IMPORT-MAJOR", tabled),
    "keeps version 2": ("X-IMPORT-MAJOR-FREES", tabled),
    "takes a float4 of 8 bits": ("X-IMPORT-REFUSAL", tabled),
    "allocates nothing": ("X-ALLOCATOR-SHAPE", tabled),
    "refuses a plain tensor": ("X-ALLOCATOR-DEVICE", tabled),
    "allocates on another device": ("X-ALLOCATOR-DEVICE", lambda: allocates(
        lambda shape, dtype, *_: give(shape, dtype, device=(3, 0)))),
    "allocates float32 only": ("X-ALLOCATOR-DTYPE", lambda: allocates(
        lambda shape, *_: give(shape, (2, 32, 1)))),
    "allocates a float4 of 8 bits": ("X-ALLOCATOR-REFUSAL", lambda: allocates(
        lambda shape, dtype, *_: give(shape, dtype))),
    "allocates negative extents": ("X-ALLOCATOR-NEGATIVE", lambda: allocates(
        lambda shape, dtype, *_: give(shape, dtype))),
    "allocates too much": ("X-ALLOCATOR-TOO-LARGE", lambda: allocates(
        lambda shape, dtype, *_: give(shape, dtype))),
    "another device instead of a foreign one": ("X-ALLOCATOR-FOREIGN-DEVICE", lambda: allocates(
        lambda shape, dtype, *_: give(shape, dtype))),
    "refuses a foreign device in silence": ("X-ALLOCATOR-FOREIGN-DEVICE", lambda: allocates(
        lambda *asked: (-1, None, []) if asked[-1] == REFUSED else None)),
    "refuses in silence": ("X-ALLOCATOR-ERROR-ONCE", lambda: allocates(
        lambda *asked: (-1, None, []) if asked[-1] == REFUSED else None)),
    "refuses a negative extent in silence": ("X-ALLOCATOR-NEGATIVE", lambda: allocates(
        lambda *asked: (-1, None, []) if asked[-1] == REFUSED else None)),
    "reports twice": ("X-ALLOCATOR-ERROR-ONCE", lambda: allocates(
        lambda *asked: (-1, None, 2 * REFUSED[2]) if asked[-1] == REFUSED else None)),
    "reports and gives a tensor": ("X-ALLOCATOR-ERROR-ONCE", lambda: allocates(
        lambda *asked: (*asked[-1][:2], REFUSED[2]))),
    "fails and gives a tensor": ("X-ALLOCATOR-ERROR-ONCE", lambda: allocates(
        lambda shape, dtype, *_: (-1, give(shape, dtype)[1], REFUSED[2]))),
    "returns 0 without a tensor": ("X-ALLOCATOR-ERROR-ONCE", lambda: allocates(
        lambda *asked: (0, None, REFUSED[2]) if asked[-1] == REFUSED else None)),
    "allocates only under the GIL": ("X-ALLOCATOR-WITHOUT-GIL", lambda: allocates(
        lambda *asked: None if asked[3] else REFUSED)),
    "reports only under the GIL": ("X-ALLOCATOR-ERROR-WITHOUT-GIL", lambda: allocates(
        lambda *asked: None if asked[3] or asked[-1] != REFUSED else (-1, None, []))),
    "borrowing fails with 5": ("X-BORROW-OTHER-OBJECT", lambda: tabled(failure=5)),
    "export fails with 0": ("X-EXPORT-OTHER-OBJECT", lambda: tabled(failure=0)),
    "an older table of a newer version": ("X-TABLE-PREVIOUS", lambda: in_front_of((2, 0), (1, 3))),
    "the CPU has a stream": ("X-STREAM-CPU-NULL", lambda: tabled(stream=4096)),
}  # fmt: skip


@pytest.mark.parametrize("fault", TABLE_FAULTS)
def test_table_fault_breaks_its_rule(fault: str) -> None:
    id, make = TABLE_FAULTS[fault]
    result = check(make(), RULES[id])
    assert result.status is Status.FAILED, result
    assert result.detail


BUFFER_ERROR = BufferError("no")
PASSED, NOT_APPLICABLE = Status.PASSED, Status.NOT_APPLICABLE

#: unusual tables that follow the header, the rule that they could break, and its outcome
ODDITIES: dict[str, tuple[str, Status, Callable[[], Faulty]]] = {
    **{f"version 2 in front of 1.3, {id}": (id, PASSED, lambda: in_front_of((1, 3)))
       for id in ("X-TABLE-MAJOR", "X-TABLE-MINOR", "X-TABLE-PREVIOUS", "X-TABLE-STATIC", "X-EXPORT-STATUS")},
    "a table of version 2 alone is not read": ("X-EXPORT-STATUS", NOT_APPLICABLE, lambda: tabled(version=(2, 0))),
    **{f"strides refused, {id}": (id, NOT_APPLICABLE, lambda: refuses(is_strided, BUFFER_ERROR))
       for id in ("X-EXPORT-TRANSPOSED", "X-EXPORT-STEPPED", "X-EXPORT-REVERSED", "X-BORROW-VIEWS")},
    "read-only refused": ("X-EXPORT-READ-ONLY", NOT_APPLICABLE, lambda: refuses(
        lambda f: bool(f.flags & 1), BUFFER_ERROR)),
    "bool refused": ("X-EXPORT-DTYPES", PASSED, lambda: refuses(lambda f: f.dtype == (6, 8, 1), BUFFER_ERROR)),
    "strides refused with another class": ("X-EXPORT-STEPPED", NOT_APPLICABLE, lambda: refuses(
        is_strided, RuntimeError("no"))),
    "export fails with 5": ("X-EXPORT-OTHER-OBJECT", PASSED, lambda: tabled(failure=5)),
    "bool not allocated": ("X-ALLOCATOR-DTYPE", PASSED, lambda: allocates(
        lambda shape, dtype, *_: REFUSED if dtype == (6, 8, 1) else None)),
    "allocator fails with 5": ("X-ALLOCATOR-ERROR-ONCE", PASSED, lambda: allocates(
        lambda *asked: (5, None, REFUSED[2]) if asked[-1] == REFUSED else None)),
    "allocates everywhere": ("X-ALLOCATOR-FOREIGN-DEVICE", PASSED, lambda: allocates(
        lambda shape, dtype, device, *_: give(shape, dtype, device=device))),
    "refuses only what is too large": ("X-ALLOCATOR-ERROR-ONCE", PASSED, lambda: allocates(
        lambda shape, dtype, *_: REFUSED if math.prod(shape) > 1 << 30 else give(shape, dtype))),
    "no 0-d tensors": ("X-ALLOCATOR-SCALAR", NOT_APPLICABLE, lambda: allocates(
        lambda shape, *_: None if shape else REFUSED)),
    "a sound allocator without the GIL": ("X-ALLOCATOR-WITHOUT-GIL", PASSED, lambda: allocates(lambda *_: None)),
    "a sound refusal without the GIL": ("X-ALLOCATOR-ERROR-WITHOUT-GIL", PASSED, lambda: allocates(lambda *_: None)),
}  # fmt: skip


@pytest.mark.parametrize("oddity", ODDITIES)
def test_unusual_table_breaks_nothing(oddity: str) -> None:
    id, status, make = ODDITIES[oddity]
    result = check(make(), RULES[id])
    assert result.status is status, result
