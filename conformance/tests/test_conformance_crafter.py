"""The native crafter: it does not read deleted tensors, refuses impossible ones, and records deleters."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from typing import Any

import pytest
from dlbridge_conformance import crafter
from dlbridge_conformance.crafter import Held, Way

import dlbridge


#: the offset of the deleter in a versioned struct
DELETER_AT = 16


def deleted() -> Held:
    """A managed tensor of dlbridge whose deleter was called."""
    held = crafter.take(dlbridge.from_dlpack(crafter.Producer(crafter.craft())).__dlpack__())
    held.delete()
    return held


def given_back(**fields: Any) -> crafter.Crafted:
    """A crafted tensor whose deleter was called by a consumer."""
    crafted = crafter.craft(**fields)
    crafter.take(crafted.capsule()).delete()
    return crafted


def owned() -> Held:
    """A managed tensor that a crafted one owns."""
    held = crafter.take(crafter.craft().capsule())
    crafter.craft().native.own(held.native)
    return held


REFUSED: dict[str, Callable[[], Any]] = {
    "fields of what was deleted": lambda: deleted().fields,
    "bytes of what was deleted": lambda: deleted().read(4),
    "a second deletion": lambda: deleted().delete(),
    "fields of what another deletes": lambda: owned().fields,
    "bytes of a crafted tensor that was given back": lambda: given_back().read(4),
    "writing to it": lambda: Held(given_back().native.held()).write(b"\0"),
    "a skew beyond all memory": lambda: crafter.craft(skew=2**64 - 1),
    "bytes beyond all memory": lambda: crafter.craft(byte_offset=2**63).read(1),
    "a sum beyond all memory": lambda: crafter.craft(byte_offset=2**63 - 1).read(1, 1),
}


@pytest.mark.parametrize("call", REFUSED)
def test_crafter_deleted_or_impossible_access_is_refused(call: str) -> None:
    with pytest.raises(ValueError):
        REFUSED[call]()


def test_deletion_keeps_the_fields_and_overwrites_the_data() -> None:
    crafted = given_back(ndim=40)
    fields = crafted.fields
    assert (fields.ndim, fields.shape, fields.strides) == (40, (2, 3), (3, 1))
    assert ctypes.string_at(fields.data, 24) == b"\xdd" * 24


def test_crafted_tensor_deleted_twice_counts_it() -> None:
    crafted = crafter.craft()
    held = Held(crafted.native.held())
    held.delete()
    held.delete()
    assert crafted.record.calls == 2


def test_deleter_without_gil_finishes_while_it_is_held() -> None:
    crafter.take(crafter.craft().capsule()).delete(Way.NOT_WAITED_FOR)
    assert crafter.finished_with_gil_held()


def test_deleter_waiting_for_the_gil_does_not_finish_while_it_is_held() -> None:
    crafted, ran = crafter.craft(), threading.Event()
    deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: ran.set())
    ctypes.c_void_p.from_address(crafted.native.address + DELETER_AT).value = ctypes.cast(deleter, ctypes.c_void_p).value
    crafter.take(crafted.capsule()).delete(Way.NOT_WAITED_FOR)
    assert not crafter.finished_with_gil_held()
    assert ran.wait(5)


def test_table_legacy_struct_is_refused() -> None:
    table = crafter.native.Table(crafter.native.craft_table())
    with pytest.raises(ValueError):
        table.imported(crafter.craft(versioned=False).native)
    lender = type("Lender", (), {"_crafted": lambda _: crafter.craft(versioned=False).native})()
    status, made, error = table.exported(lender)
    assert (status, made, type(error)) == (-1, None, ValueError)
