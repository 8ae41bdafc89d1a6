"""Exports arrays in either ABI, and reads the elements of the exports, as a consumer does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from dlbridge_conformance import elements
from dlbridge_conformance.context import NEWEST, Context
from dlbridge_conformance.crafter import Fields, Held, Ints, c_strides
from dlbridge_conformance.outcome import NotApplicable

#: device types whose memory the CPU can read: kDLCPU, kDLCUDAHost, kDLROCMHost, kDLCUDAManaged
HOST = (1, 3, 11, 13)


@contextmanager
def may_refuse(c: Context, what: str) -> Iterator[None]:
    """Turns BufferError into :class:`NotApplicable`: the library may refuse to export some strides or dtypes."""
    try:
        yield
    except BufferError as error:
        raise NotApplicable(f"{c.lib.name} does not export {what}: {error}") from None


def legacy(c: Context, array: Any, **keywords: Any) -> Held:
    """Exports an array without ``max_version``; the rule does not apply if the producer refuses legacy capsules."""
    c.needs_keywords(*keywords)
    try:
        return c.export(array, **keywords)
    except (BufferError, NotImplementedError) as error:
        raise NotApplicable(f"{c.lib.name} does not export it as a legacy capsule: {error}") from None


def each_abi(c: Context, array: Any, what: str = "") -> list[Held]:
    """Exports an array as a versioned and as a legacy tensor, or as the only one that the library supports.

    ``what`` describes the array, if the library may refuse it.
    """
    found = []
    exports: tuple[Callable[[], Held], ...] = (lambda: c.versioned(array), lambda: legacy(c, array))
    for export in exports:
        try:
            with may_refuse(c, what) if what else nullcontext():
                found.append(export())
        except NotApplicable as reason:
            c.got(f"not exported: {reason}")
    c.needs(found, f"{c.lib.name} does not export {what or 'it'}")
    return found


def abis(c: Context) -> list[dict[str, Any]]:
    """The keywords of ``__dlpack__`` for each ABI that the library supports."""
    found: list[dict[str, Any]] = []
    for held in each_abi(c, c.array()):
        found.append({"max_version": NEWEST} if held.fields.version else {})
        held.delete()
    return found


def best(c: Context, array: Any, **keywords: Any) -> Held:
    """Exports an array as a versioned tensor, or as a legacy one if the library supports no other.

    The rule does not apply if ``__dlpack__`` does not know one of the keywords.
    """
    c.needs_keywords(*keywords)
    return c.export(array, **{**c.asking(), **keywords})


def needs_no_copy(c: Context, array: Any) -> None:
    """Raises :class:`NotApplicable` if an export needs a copy: the producer then refuses copy=False with BufferError.

    A producer without this keyword never copies.
    """
    if c.unknown("copy") is None:
        with may_refuse(c, "this without a copy"):
            best(c, array, copy=False).delete()


def strides_of(fields: Fields) -> Ints:
    """The strides; those of C order if the pointer is NULL."""
    return c_strides(fields.shape or ()) if fields.strides is None else fields.strides


def address_of(fields: Fields) -> int:
    """The address of the element at index zero."""
    return fields.data + fields.byte_offset


def needs_host_memory(c: Context, fields: Fields) -> None:
    """Raises :class:`NotApplicable` for memory that the CPU cannot read."""
    c.needs(fields.device[0] in HOST, f"the CPU cannot read memory of device {fields.device}")


def expect_elements(c: Context, held: Held, wanted: Any) -> None:
    """Expects these elements in memory."""
    needs_host_memory(c, held.fields)
    found = elements.of(held)
    c.got(f"elements in memory {found}")
    c.expect(found == wanted, f"the elements in memory are {found}, and not {wanted}")


@contextmanager
def memory_reused(c: Context) -> Iterator[None]:
    """Lets the library make other arrays, which overwrite memory that was freed too early."""
    c.settle()
    others = [c.lib.array([[9.0] * 3] * 2, "float32") for _ in range(200)]
    yield
    del others


def expect_same_memory(c: Context, array: Any, held: Held) -> None:
    """Expects the export at the address that the library reports for the array."""
    wanted = c.lib.address(array)
    found = address_of(held.fields)
    c.expect(found == wanted, f"data + byte_offset is {found:#x}, and the array is at {wanted:#x}")
