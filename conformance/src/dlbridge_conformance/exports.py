"""What a consumer sees of an array: its exports of either ABI, and the elements behind them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from dlbridge_conformance import elements
from dlbridge_conformance.context import NEWEST, Context
from dlbridge_conformance.crafter import Fields, Held, Ints, c_strides
from dlbridge_conformance.outcome import NotApplicable

#: device types whose memory the CPU reads: kDLCPU, kDLCUDAHost, kDLROCMHost, kDLCUDAManaged
HOST = (1, 3, 11, 13)


@contextmanager
def may_refuse(c: Context, what: str) -> Iterator[None]:
    """The rule does not apply where BufferError says that this cannot be exported, as for strides or a dtype."""
    try:
        yield
    except BufferError as error:
        raise NotApplicable(f"{c.lib.name} does not export {what}: {error}") from None


def legacy(c: Context, array: Any, **keywords: Any) -> Held:
    """The export without ``max_version``; the rule does not apply to a producer that has given up legacy capsules."""
    c.needs_keywords(*keywords)
    try:
        return c.export(array, **keywords)
    except (BufferError, NotImplementedError) as error:
        raise NotApplicable(f"{c.lib.name} makes no legacy capsule of it: {error}") from None


def each_abi(c: Context, array: Any, what: str = "") -> list[Held]:
    """The exports of an array: versioned and legacy, or the one that the library has.

    ``what`` says what the array is, if the library may refuse it.
    """
    found = []
    exports: tuple[Callable[[], Held], ...] = (lambda: c.versioned(array), lambda: legacy(c, array))
    for export in exports:
        try:
            with may_refuse(c, what) if what else nullcontext():
                found.append(export())
        except NotApplicable as reason:
            c.got(f"not exported: {reason}")
    c.needs(found, f"{c.lib.name} has no export of {what or 'it'}")
    return found


def abis(c: Context) -> list[dict[str, Any]]:
    """The keywords for a capsule of each ABI that the library has."""
    found: list[dict[str, Any]] = []
    for held in each_abi(c, c.array()):
        found.append({"max_version": NEWEST} if held.fields.version else {})
        held.delete()
    return found


def best(c: Context, array: Any, **keywords: Any) -> Held:
    """The versioned export, or the legacy one of a library that has no other.

    The rule does not apply if ``__dlpack__`` does not know one of the keywords.
    """
    c.needs_keywords(*keywords)
    return c.export(array, **{**c.asking(), **keywords})


def needs_no_copy(c: Context, array: Any) -> None:
    """The rule does not apply where a copy is needed, which a producer says by refusing copy=False with BufferError.

    One that has no such keyword exports every array as it is.
    """
    if c.unknown("copy") is None:
        with may_refuse(c, "this without a copy"):
            best(c, array, copy=False).delete()


def strides_of(fields: Fields) -> Ints:
    """The strides; where the pointer is NULL, those of C order."""
    return c_strides(fields.shape or ()) if fields.strides is None else fields.strides


def address_of(fields: Fields) -> int:
    """The address of the element at index zero."""
    return fields.data + fields.byte_offset


def needs_host_memory(c: Context, fields: Fields) -> None:
    """The rule does not apply to memory that cannot be read from here."""
    c.needs(fields.device[0] in HOST, f"the memory of device {fields.device} cannot be read from here")


def expect_elements(c: Context, held: Held, wanted: Any) -> None:
    """The elements in memory are these."""
    needs_host_memory(c, held.fields)
    found = elements.of(held)
    c.got(f"elements in memory {found}")
    c.expect(found == wanted, f"the elements in memory are {found}, and not {wanted}")


def expect_same_memory(c: Context, array: Any, held: Held) -> None:
    """The export lies where the library says that the array does."""
    wanted = c.lib.address(array)
    found = address_of(held.fields)
    c.expect(found == wanted, f"data + byte_offset is {found:#x}, and the array is at {wanted:#x}")
