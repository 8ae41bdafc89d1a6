"""The rules of the C exchange API: dlbridge keeps them, and each deliberate fault breaks the rule meant for it."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from dlbridge.conformance import crafter
from dlbridge.conformance.adapter import known_adapters
from dlbridge.conformance.crafter import Fields
from dlbridge.conformance.process import check
from dlbridge.conformance.result import Status
from dlbridge.conformance.rule import Role, all_rules
from faulty_producer import Faulty, Made, absolute, c_order, copied, elsewhere, fields, turned, without

RULES = {id: rule for id, rule in all_rules().items() if rule.role is Role.EXCHANGE_API}

Change = Callable[[Fields], dict[str, Any]]


def tabled(change: Change = lambda _: {}, lend: Callable[[Made], Any] | None = None, **table: Any) -> Faulty:
    """dlbridge under a crafted table, whose exports have the fields that a function gives, or are what ``lend`` says."""

    def crafted(array: Made) -> Any:
        held = crafter.take(array.inner.__dlpack__(max_version=(1, 3)))
        return copied(held.fields, held, **change(held.fields)).native

    members = {"__dlpack_c_exchange_api__": crafter.native.craft_table(**table), "_crafted": lend or crafted}
    return Faulty(wrap=type("Tabled", (Made,), members))


def on_instances() -> Faulty:
    """A table on each instance, and none on the type."""

    def make(*arguments: Any) -> Made:
        made = Made(*arguments)
        made.__dict__["__dlpack_c_exchange_api__"] = crafter.native.craft_table()
        return made

    return Faulty(wrap=make)


def ever_new() -> Faulty:
    """Another table whenever one is asked for."""

    class Meta(type):
        @property
        def __dlpack_c_exchange_api__(cls) -> Any:
            return crafter.native.craft_table()

    return Faulty(wrap=Meta("Tabled", (Made,), {}))


def failing(array: Made) -> Any:
    """Fails."""
    raise RuntimeError("no")


_SHARED: weakref.WeakKeyDictionary[Made, Any] = weakref.WeakKeyDictionary()


def shared(array: Made) -> Any:
    """Gives the same tensor every time."""
    held = crafter.take(array.inner.__dlpack__(max_version=(1, 3)))
    return _SHARED.setdefault(array, copied(held.fields, held).native)


def previous() -> Faulty:
    """The table before is of the same version."""
    older = crafter.native.Table(crafter.native.craft_table())
    return tabled(previous=older.address)


def is_empty(found: Fields) -> bool:
    """Whether a tensor has no elements."""
    return 0 in (found.shape or ())


#: what a table does wrong, and the rule that has to notice
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
    "export fails": ("X-EXPORT-STATUS", lambda: tabled(lend=failing)),
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
    "the same tensor twice": ("X-EXPORT-EACH-ITS-OWN", lambda: tabled(lend=shared)),
    "struct kept": ("X-EXPORT-DELETER", tabled),
    "borrowing fails": ("X-BORROW-STATUS", lambda: tabled(lend=failing)),
    "borrowed shape turned round": ("X-BORROW-SHAPE", lambda: tabled(turned)),
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
    "the CPU has a stream": ("X-STREAM-CPU-NULL", lambda: tabled(stream=4096)),
}  # fmt: skip


@pytest.mark.parametrize("fault", TABLE_FAULTS)
def test_a_fault_of_a_table_breaks_its_rule(fault: str) -> None:
    id, make = TABLE_FAULTS[fault]
    result = check(make(), RULES[id])
    assert result.status is Status.FAILED, result
    assert result.detail


@pytest.mark.parametrize("id", RULES)
def test_dlbridge_keeps_the_rules_of_the_exchange_api(id: str) -> None:
    library = known_adapters()["dlbridge"]
    library.load()
    assert check(library, RULES[id]).status is Status.PASSED
