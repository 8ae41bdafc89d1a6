"""Runs one exchange in this process, and compares values and memory of both sides."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import dlbridge
from dlbridge_conformance.elements import flat
from dlbridge_conformance.matrix.consumer import Consumer
from dlbridge_conformance.matrix.outcome import NOTHING, Kind, Outcome, Spec, Way
from dlbridge_conformance.matrix.producer import Made, Producer
from dlbridge_conformance.matrix.samples import plain, same
from dlbridge_conformance.outcome import NotApplicable

#: addresses, which differ between two runs
ADDRESS = re.compile(r"0x[0-9a-fA-F]{4,}")


def exchange(producer: Producer, consumer: Consumer, spec: Spec, way: Way) -> Outcome:
    """Runs one exchange and returns its outcome. Raises NotApplicable if the producer cannot make such an object."""
    try:
        made = producer.make(spec)
    except Exception as error:
        raise NotApplicable(f"{producer.name} cannot make such an object: {sentence(error)}") from error
    if not same(plain(made.read()), made.expected):
        raise NotApplicable(f"{producer.name} has other values: {shown(plain(made.read()))}")
    if (way is Way.TO and consumer.to is None) or (way is Way.CONVERTED and not consumer.conversion):
        return NOTHING
    ways: dict[Way, Callable[[], Any]] = {
        Way.DIRECT: lambda: consumer.take(made.obj, made.expected),
        Way.ASDLPACK: lambda: consumer.take(wrapped(made.obj, consumer), made.expected),
        Way.TO: lambda: dlbridge.asdlpack(made.obj).to(consumer.to or ""),
        Way.CONVERTED: lambda: consumer.convert(made.obj),
    }
    try:
        with consumer.scope():
            array = ways[way]()
    except Exception as error:
        return Outcome(Kind.REFUSED, sentence(error))
    return compared(made, consumer, array)


def wrapped(obj: Any, consumer: Consumer) -> Any:
    """Wraps an object with dlbridge, in the form that the consumer accepts."""
    tensor = dlbridge.asdlpack(obj)
    return tensor.numpy() if consumer.by_numpy else tensor


def compared(made: Made, consumer: Consumer, array: Any) -> Outcome:
    """Compares the consumer's array with the producer's object."""
    try:
        found = plain(consumer.values(array, made.expected))
    except Exception as error:
        return Outcome(Kind.WRONG, f"its values cannot be read: {sentence(error)}")
    if not same(found, made.expected):
        return Outcome(Kind.WRONG, f"{shown(found)}, not {shown(made.expected)}")
    if not flat(made.expected):
        return Outcome(Kind.ZERO_COPY, "there is nothing to copy")
    place = consumer.address(array)
    shared = place == made.address if None not in (place, made.address) else None
    # The producer must see a write if both report the same address, and must not see it otherwise.
    seen = consumer.write(array, 2) and not same(plain(made.read()), made.expected)
    written = seen or not same(plain(consumer.values(array, made.expected)), made.expected)
    if written:
        # Restore the value, because some libraries cache their objects and reuse them.
        consumer.write(array, flat(made.expected)[0])
    if seen:
        return Outcome(Kind.UNPROTECTED, "what is written there changes the producer's data") if made.read_only else (
            Outcome(Kind.ZERO_COPY)
        )  # fmt: skip
    if shared and written:
        return Outcome(Kind.WRONG, "the address is the producer's, and what is written is not seen there")
    return Outcome(Kind.ZERO_COPY if shared else Kind.COPIED)


def sentence(error: BaseException) -> str:
    """The class of an exception, and the first line of its text."""
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {ADDRESS.sub('0x...', lines[0])[:200]}".rstrip(": ")


def shown(nested: Any) -> str:
    """Values as text, cut to fit a line."""
    text = repr(nested)
    return text if len(text) <= 160 else f"{text[:157]}..."
