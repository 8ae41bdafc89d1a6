"""Runs one exchange in this process, and compares values and memory of both sides."""

from __future__ import annotations

import re
from typing import Any

import dlbridge
from dlbridge_conformance.elements import flat
from dlbridge_conformance.matrix.consumer import Consumer
from dlbridge_conformance.matrix.outcome import Kind, Outcome, Spec
from dlbridge_conformance.matrix.producer import Made, Producer
from dlbridge_conformance.matrix.samples import plain, same
from dlbridge_conformance.outcome import NotApplicable

#: addresses, which differ between two runs
ADDRESS = re.compile(r"0x[0-9a-fA-F]{4,}")


def exchange(producer: Producer, consumer: Consumer, spec: Spec, through: bool) -> Outcome:
    """Runs one exchange and returns its outcome. Raises NotApplicable if the producer cannot make such an object."""
    try:
        made = producer.make(spec)
    except Exception as error:
        raise NotApplicable(f"{producer.name} cannot make such an object: {sentence(error)}") from error
    if not same(plain(made.read()), made.expected):
        raise NotApplicable(f"{producer.name} has other values: {shown(plain(made.read()))}")
    try:
        with consumer.scope():
            array = taken(made, consumer) if through else consumer.take(made.obj, made.expected)
    except Exception as error:
        return Outcome(Kind.REFUSED, sentence(error))
    return compared(made, consumer, array)


def taken(made: Made, consumer: Consumer) -> Any:
    """Passes an object to the consumer through dlbridge."""
    tensor = dlbridge.asdlpack(made.obj)
    if consumer.to is not None:
        return tensor.to(consumer.to)
    return consumer.take(tensor.numpy() if consumer.by_numpy else tensor, made.expected)


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
