"""What a consumer makes of the version in a versioned managed tensor."""

from __future__ import annotations

from dlbridge.conformance.context import Context
from dlbridge.conformance.crafter import CPU
from dlbridge.conformance.rule import Level, Role, rule
from dlbridge.conformance.rules.consumer_outcome import HEADER, PLAIN, accepted, refused, versioned

VERSION = f"{HEADER}, DLPackVersion"


@rule("C-VERSION-1-0", Role.CONSUMER, Level.MUST,
      "A consumer of versioned tensors accepts one of version 1.0.", VERSION)  # fmt: skip
def first(c: Context) -> None:
    accepted(c, versioned(c, version=(1, 0)), PLAIN)


@rule("C-VERSION-1-3", Role.CONSUMER, Level.MUST,
      "A consumer of versioned tensors accepts one of version 1.3: a newer minor version has the same layout.",
      VERSION)  # fmt: skip
def newest(c: Context) -> None:
    accepted(c, versioned(c, version=(1, 3)), PLAIN)


@rule("C-VERSION-MINOR-LATER", Role.CONSUMER, Level.SHOULD,
      "A minor version that does not exist yet is no reason to refuse a tensor whose fields are all known.",
      VERSION)  # fmt: skip
def later_minor(c: Context) -> None:
    for minor in (4, 99, 2**32 - 1):
        accepted(c, versioned(c, version=(1, minor)), PLAIN)


@rule("C-VERSION-MAJOR-REFUSED", Role.CONSUMER, Level.MUST,
      "A tensor of another major version is refused.", VERSION)  # fmt: skip
def other_major(c: Context) -> None:
    crafted = versioned(c, version=(2, 0))
    c.refused(lambda: c.consume(crafted))


@rule("C-VERSION-MAJOR-FREED", Role.CONSUMER, Level.MUST,
      "The deleter of a tensor of another major version is called, exactly once.", VERSION)  # fmt: skip
def other_major_freed(c: Context) -> None:
    refused(c, versioned(c, version=(2, 0)))


@rule("C-VERSION-MAJOR-HUGE", Role.CONSUMER, Level.MUST,
      "The whole number is compared: a major version that is 1 in its low bits only is another one.",
      VERSION)  # fmt: skip
def huge_major(c: Context) -> None:
    for major in (2**32 - 1, 2**16 + 1, 257):
        refused(c, versioned(c, version=(major, 0)))


@rule("C-VERSION-MAJOR-0", Role.CONSUMER, Level.MUST,
      "A versioned struct that says 0.8 is one of another major version: it is refused and given back.",
      VERSION)  # fmt: skip
def major_0(c: Context) -> None:
    refused(c, versioned(c, version=(0, 8)))


@rule("C-VERSION-MAJOR-UNREAD", Role.CONSUMER, Level.MUST,
      "Of a tensor of another major version, nothing is read that comes after the flags.", VERSION)  # fmt: skip
def unread(c: Context) -> None:
    crafted = versioned(
        c, None, version=(2, 0), ndim=2, strides=None, data=8, device=(99, -1), dtype=(255, 255, 65535),
        byte_offset=2**63, flags=2**64 - 1,
    )  # fmt: skip
    refused(c, crafted, says=CPU)
    refused(c, versioned(c, None, version=(2, 0), ndim=2, strides=None, data=8))


@rule("C-VERSION-MAJOR-BUFFER-ERROR", Role.CONSUMER, Level.MAY,
      "The exception for another major version is a BufferError, as for all data that cannot be exchanged.",
      "array API standard 2024.12, from_dlpack, Raises")  # fmt: skip
def buffer_error(c: Context) -> None:
    crafted = versioned(c, version=(2, 0))
    c.refused(lambda: c.consume(crafted), BufferError)
