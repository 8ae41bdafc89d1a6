"""One exchange, in this process: what goes in, what comes out, and whether it is the same memory."""

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

#: what differs between two runs
ADDRESS = re.compile(r"0x[0-9a-fA-F]{4,}")


def exchange(producer: Producer, consumer: Consumer, spec: Spec, way: Way) -> Outcome:
    """What becomes of one exchange. Raises NotApplicable if the producer has no such object."""
    try:
        made = producer.make(spec)
    except Exception as error:
        raise NotApplicable(f"{producer.name} makes no such object: {sentence(error)}") from error
    if not same(plain(made.read()), made.expected):
        raise NotApplicable(f"{producer.name} has other values: {shown(plain(made.read()))}")
    if (way is Way.TO and consumer.to is None) or (way is Way.CONVERTED and not consumer.conversion):
        return NOTHING
    ways: dict[Way, Callable[[], Any]] = {
        Way.DIRECT: lambda: consumer.take(made.obj, made.expected),
        Way.ASDLPACK: lambda: consumer.take(lent(made.obj, consumer), made.expected),
        Way.TO: lambda: dlbridge.asdlpack(made.obj).to(consumer.to or ""),
        Way.CONVERTED: lambda: consumer.convert(made.obj),
    }
    try:
        with consumer.scope():
            array = ways[way]()
    except Exception as error:
        return Outcome(Kind.REFUSED, sentence(error))
    return compared(made, consumer, array)


def lent(obj: Any, consumer: Consumer) -> Any:
    """An object by way of dlbridge, as the consumer is given it."""
    tensor = dlbridge.asdlpack(obj)
    return tensor.numpy() if consumer.by_numpy else tensor


def compared(made: Made, consumer: Consumer, array: Any) -> Outcome:
    """What an array of the consumer is, beside what the producer has."""
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
    # What was written must be seen if the address says so, and must not be if it says otherwise.
    seen = consumer.write(array, 2) and not same(plain(made.read()), made.expected)
    written = seen or not same(plain(consumer.values(array, made.expected)), made.expected)
    if written:
        # Some libraries keep what they made, and would give it out again.
        consumer.write(array, flat(made.expected)[0])
    if seen:
        return Outcome(Kind.UNPROTECTED, "what is written there changes the producer's data") if made.read_only else (
            Outcome(Kind.ZERO_COPY)
        )  # fmt: skip
    if shared and written:
        return Outcome(Kind.WRONG, "the address is the producer's, and what is written is not seen there")
    return Outcome(Kind.ZERO_COPY if shared else Kind.COPIED)


def sentence(error: BaseException) -> str:
    """The class of an exception, and its first line."""
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {ADDRESS.sub('0x...', lines[0])[:200]}".rstrip(": ")


def shown(nested: Any) -> str:
    """Values, as many as fit a line."""
    text = repr(nested)
    return text if len(text) <= 160 else f"{text[:157]}..."
