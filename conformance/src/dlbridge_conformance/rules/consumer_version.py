"""How a consumer treats the version in a versioned managed tensor."""

from __future__ import annotations

import re
from typing import Any

from dlbridge_conformance.context import Context
from dlbridge_conformance.crafter import CPU, Producer
from dlbridge_conformance.rule import each, may, must, should
from dlbridge_conformance.rules.consumer_outcome import (
    HEADER, PLAIN, accepted, feed, given_back, refused, takes, versioned,
)  # fmt: skip

VERSION = f"{HEADER}, DLPackVersion"

#: wrong values for the fields after the flags
WRONG: tuple[dict[str, Any], ...] = (
    dict(data=8), dict(device=(99, -1)), dict(device=(2, 0)), dict(ndim=-1), dict(ndim=0), dict(dtype=(255, 32, 1)),
    dict(dtype=(2, 0, 1)), dict(dtype=(2, 32, 65535)), dict(shape=None), dict(shape=(-1,)), dict(strides=None),
    dict(strides=(2**62,)), dict(byte_offset=2**63),
)  # fmt: skip


must("C-VERSION-1-0", "A consumer of versioned tensors accepts one of version 1.0.", VERSION,
     lambda c: accepted(c, versioned(c, version=(1, 0)), PLAIN))  # fmt: skip
must("C-VERSION-1-3",
     "A consumer of versioned tensors accepts one of version 1.3: a newer minor version has the same layout.", VERSION,
     lambda c: accepted(c, versioned(c, version=(1, 3)), PLAIN))  # fmt: skip
should("C-VERSION-MINOR-LATER",
       "A tensor of a minor version that does not exist yet is not refused if all its fields are known.", VERSION,
       each((4, 99, 2**32 - 1), lambda c, minor: accepted(c, versioned(c, version=(1, minor)), PLAIN)))  # fmt: skip


@must("C-VERSION-MAJOR-REFUSED", "A tensor of another major version is refused.", VERSION)
def other_major(c: Context) -> None:
    crafted = versioned(c, version=(2, 0))
    c.refused(lambda: c.consume(crafted))


must("C-VERSION-MAJOR-FREED", "The deleter of a tensor of another major version is called, exactly once.", VERSION,
     lambda c: refused(c, versioned(c, version=(2, 0))))  # fmt: skip
must("C-VERSION-MAJOR-HUGE",
     "The whole major version is compared: a number with only its low bits equal to 1 is another version.", VERSION,
     each((2**32 - 1, 2**16 + 1, 257), lambda c, major: refused(c, versioned(c, version=(major, 0)))))  # fmt: skip
must("C-VERSION-MAJOR-0", "A versioned struct of version 0.8 has another major version: it is refused and given back.",
     VERSION, lambda c: refused(c, versioned(c, version=(0, 8))))  # fmt: skip


def said_of(c: Context, **fields: Any) -> str:
    """The exception for a tensor of another major version with some fields wrong, without the addresses in it."""
    crafted = c.craft(**{"shape": c.padded((6,)), "ndim": len(c.padded((6,))), "version": (2, 0), **fields})
    array, said = feed(c, Producer(crafted, CPU))
    del array
    c.expect(said is not None, "not refused")
    given_back(c, crafted, "after the refusal")
    return re.sub("0x[0-9a-fA-F]+", "0x", said or "")


@must("C-VERSION-MAJOR-UNREAD",
      "A consumer does not read the fields after the flags of a tensor of another major version: they do not change the " "exception.",
      VERSION)  # fmt: skip
def unread(c: Context) -> None:
    c.needs(takes(c, True), f"{c.lib.name} does not take versioned capsules")
    plain = said_of(c)
    c.needs(said_of(c) == plain, f"the exceptions of {c.lib.name} differ for the same tensor")
    for fields in WRONG:
        said = said_of(c, **fields)
        c.expect(said == plain, f"with {fields}, the exception differs: {said}")
    everything = dict(shape=None, ndim=2, strides=None, data=8, device=(99, -1), dtype=(255, 255, 65535))
    said = said_of(c, **everything, byte_offset=2**63)
    c.expect(said == plain, f"with all fields wrong, the exception differs: {said}")


@may("C-VERSION-MAJOR-BUFFER-ERROR",
     "The exception for another major version is a BufferError, as for all data that cannot be exchanged.",
     "array API standard 2024.12, from_dlpack, Raises")  # fmt: skip
def buffer_error(c: Context) -> None:
    crafted = versioned(c, version=(2, 0))
    c.refused(lambda: c.consume(crafted), BufferError)
