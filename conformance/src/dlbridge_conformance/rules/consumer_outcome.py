"""Feeds crafted tensors to a consumer and checks the outcome, for the rules about consumers.

The docstring of the package says which outcomes keep a rule.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from dlbridge_conformance import crafter
from dlbridge_conformance.context import Context
from dlbridge_conformance.crafter import CPU, Crafted, Held, Producer
from dlbridge_conformance.outcome import Broken, NotApplicable

HEADER = "dlpack.h 1.3"
PYTHON = "Python specification of DLPack"
STANDARD = "array API standard 2024.12"

#: the elements of a plain tensor
PLAIN = [0, 1, 2, 3, 4, 5]

#: fields that most libraries refuse: a dtype that does not exist, lanes, and strides beyond all memory
REFUSED: tuple[dict[str, Any], ...] = (dict(dtype=(99, 32, 1)), dict(dtype=(2, 32, 3)), dict(strides=(2**62,)))

AnyProducer = TypeVar("AnyProducer")


def feed(c: Context, producer: Any, **keywords: Any) -> tuple[Any, str | None]:
    """Imports a producer. Returns (array, None), or (None, the class and text of the exception)."""
    try:
        return c.consume(producer, **keywords), None
    except (Broken, NotApplicable):
        raise
    except Exception as error:
        lines = str(error).strip().splitlines() or [""]
        said = f"{type(error).__name__}: {lines[0][:300]}"
    c.got(f"refused with {said}")
    return None, said


def given_back(c: Context, crafted: Crafted, when: str) -> None:
    """Expects that the deleter of each exported tensor ran exactly once, and that no other deleter ran."""
    c.settle()
    for given in crafted.all:
        calls, owed = given.record.calls, int(given.has_deleter and given.given_away > 0)
        c.got(f"the deleter ran {calls} times {when}")
        c.expect(calls == owed, f"the deleter ran {calls} times {when}")


def refused(c: Context, crafted: Crafted, says: tuple[int, int] | None = None) -> None:
    """Expects that a library refuses a tensor and gives it back. The producer reports ``says`` as its device."""
    array, said = feed(c, Producer(crafted, says or crafted.device))
    if said is None:
        raise Broken(f"not refused: it returned a {type(array).__module__}.{type(array).__qualname__}")
    given_back(c, crafted, "after the refusal")


def first_refused(c: Context, make: Callable[..., Crafted]) -> Crafted:
    """The first tensor that the library refuses, among those that ``make`` crafts with one field of ``REFUSED``."""
    for fields in REFUSED:
        crafted = make(**fields)
        array, said = feed(c, crafted)
        del array
        if said:
            return crafted
    raise NotApplicable(f"{c.lib.name} accepts all tensors that were tried")


def same(c: Context, found: Any, expected: Any) -> bool:
    """Returns whether elements are the expected ones, with or without the axes that the library needs at the end."""
    return bool(found == expected or found == _padded(expected, c.lib.ndims[0]))


def _padded(elements: Any, ndim: int) -> Any:
    """Nested lists with ``ndim`` levels: wraps each element in lists of one."""
    if isinstance(elements, list):
        return [_padded(element, ndim - 1) for element in elements]
    for _ in range(ndim):
        elements = [elements]
    return elements


def right(c: Context, array: Any, expected: Any) -> None:
    """Expects that an array has these elements."""
    found = c.values(array)
    c.expect(same(c, found, expected), f"the elements are {found} and not {expected}")


def accepted(c: Context, crafted: Crafted, expected: Any) -> None:
    """Expects that a library imports a tensor, reads it correctly, and gives it back after the array is gone."""
    array = c.consume(crafted)
    right(c, array, expected)
    del array
    given_back(c, crafted, "after the array was gone")


def right_or_refused(c: Context, crafted: Crafted, expected: Any, says: Any = CPU) -> None:
    """Expects that a library reads a crafted tensor correctly or refuses it, and gives it back in both cases.

    The producer reports the device ``says``, if it is not that of the CPU.
    """
    array, said = feed(c, crafted if says == CPU else Producer(crafted, says))
    if said is None:
        right(c, array, expected)
        del array
        given_back(c, crafted, "after the array was gone")
    else:
        given_back(c, crafted, "after the refusal")


def harmless(c: Context, crafted: Crafted, says: tuple[int, int] | None = None) -> None:
    """Expects that a library refuses a crafted tensor, or makes an array that can be dropped. The array is not read.

    The producer reports the device ``says``, if it is set.
    """
    array, said = feed(c, Producer(crafted, says or crafted.device))
    when = "after the array was gone" if said is None else "after the refusal"
    del array
    given_back(c, crafted, when)


def takes(c: Context, versioned: bool) -> bool:
    """Returns whether a library imports a plain tensor of an ABI from a producer that exports only this ABI.

    A library that passes max_version but refuses a versioned capsule breaks the rule.
    """
    c.needs_consumer()
    producer = Producer(crafter.craft(c.padded((6,)), versioned=versioned))
    try:
        c.lib.from_dlpack(producer)
    except (Broken, NotApplicable):
        raise
    except Exception as error:
        if versioned and any("max_version" in keywords for keywords in producer.asked):
            asked = f"it calls __dlpack__ with {producer.asked}, and refuses a versioned capsule"
            raise Broken(f"{asked}: {type(error).__name__}: {error}") from None
        return False
    return True


def plain(c: Context, **fields: Any) -> Crafted:
    """A one-dimensional tensor of the ABI that a library takes, with the elements ``PLAIN``."""
    return c.fitting((6,), **fields)


def versioned(c: Context, shape: tuple[int, ...] | None = (6,), **fields: Any) -> Crafted:
    """A crafted versioned tensor; the rule does not apply to a library that refuses versioned capsules."""
    c.needs(takes(c, True), f"{c.lib.name} does not take versioned capsules")
    return c.fitting(shape, versioned=True, **fields)


def legacy(c: Context, shape: tuple[int, ...] | None = (6,), **fields: Any) -> Crafted:
    """A crafted legacy tensor; the rule does not apply to a library that refuses legacy capsules."""
    c.needs(takes(c, False), f"{c.lib.name} does not take legacy capsules")
    return c.fitting(shape, versioned=False, **fields)


def asking(c: Context, producer: AnyProducer) -> AnyProducer:
    """Returns the producer, for a rule about how it is called. Not applicable if the adapter calls ``__dlpack__``."""
    c.needs(c.lib.asks, f"{c.lib.name} takes capsules, and does not call __dlpack__ itself")
    return producer


def unwritten(c: Context, crafted: Crafted, expected: bytes) -> None:
    """Expects the first bytes in each tensor that the library still holds."""
    for struct in crafted.unreleased:
        try:
            found = struct.read(len(expected))
        except ValueError as error:
            c.got(f"the memory is not read: {error}")
        else:
            c.expect(found == expected, "the producer's memory was written")


def shares(c: Context, array: Any, crafted: Crafted) -> bool:
    """Returns whether an array of float32 shares the memory of a crafted tensor.

    It compares the addresses. If the library does not report one, it writes to the producer's first element and reads the
    array. Some libraries copy after ``from_dlpack`` has returned; they finish the copy before they report an address.
    """
    try:
        address = c.lib.address(array)
        if any(address == struct.fields.data + struct.fields.byte_offset for struct in crafted.unreleased):
            c.got("the array begins at the producer's first element")
            return True
    except NotApplicable as reason:
        c.got(str(reason))
    for struct in crafted.unreleased:
        try:
            Held(struct.native.held()).write(crafter.packed([77], "float32"))
        except ValueError as error:
            c.got(f"the memory is not written: {error}")
    if not crafted.unreleased:
        c.got("the memory was given back: the array is a copy")
        return False
    first = c.values(array)
    while isinstance(first, list):
        first = first[0]
    return bool(first == 77)
