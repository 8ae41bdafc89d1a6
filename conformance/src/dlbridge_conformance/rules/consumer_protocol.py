"""How a consumer calls the methods of a producer, and the stream that it passes."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from dlbridge_conformance.context import Context
from dlbridge_conformance.crafter import CPU, OldProducer, Producer
from dlbridge_conformance.rule import may, must, should
from dlbridge_conformance.rules.consumer_outcome import (
    PLAIN, PYTHON, STANDARD, asking, feed, given_back, legacy, right, right_or_refused,
)  # fmt: skip

METHOD = f"{STANDARD}, __dlpack__"
RECOMMENDED = f"{STANDARD}, __dlpack__, recommended logic of the consumer"
SYNTAX = f"{PYTHON}, Syntax for data interchange"
STREAM = f"{STANDARD}, __dlpack__, stream"


class DeviceType(IntEnum):
    """Device types as members of an enumeration."""

    kDLCPU = 1


@dataclass
class AnyArguments:
    """A producer that records all arguments and the order of the calls."""

    #: the tensor to export
    context: Context
    calls: list[str] = field(default_factory=list)
    positional: list[tuple[Any, ...]] = field(default_factory=list)
    keywords: list[dict[str, Any]] = field(default_factory=list)

    def __dlpack__(self, *arguments: Any, **keywords: Any) -> Any:
        """Exports in the requested ABI."""
        self.calls.append("__dlpack__")
        self.positional.append(arguments)
        self.keywords.append(keywords)
        return self.context.as_asked({key: value for key, value in keywords.items() if value is not None}).capsule()

    def __dlpack_device__(self) -> tuple[int, int]:
        """The CPU."""
        self.calls.append("__dlpack_device__")
        return CPU


class BareProducer(Producer):
    """A producer whose ``__dlpack__`` takes no arguments."""

    def __dlpack__(self) -> Any:  # type: ignore[override]
        """Exports the tensor."""
        return self.give({})


def arguments(c: Context) -> AnyArguments:
    """Imports a producer that accepts any argument, and returns the producer."""
    producer = asking(c, AnyArguments(c))
    feed(c, producer)
    c.got(f"calls {producer.calls}, positional {producer.positional}, keywords {producer.keywords}")
    c.expect(producer.keywords, "__dlpack__ was not called")
    return producer


@must("C-PROTOCOL-KEYWORDS-ONLY", "All arguments of __dlpack__ are passed by keyword.", METHOD)
def keywords_only(c: Context) -> None:
    for given in arguments(c).positional:
        c.expect(not given, f"passed by position: {given!r}")


@must("C-PROTOCOL-KNOWN-KEYWORDS",
      "__dlpack__ is called only with the keywords stream, max_version, dl_device and copy.", METHOD)  # fmt: skip
def known_keywords(c: Context) -> None:
    for given in arguments(c).keywords:
        unknown = set(given) - {"stream", "max_version", "dl_device", "copy"}
        c.expect(not unknown, f"also passed: {', '.join(sorted(unknown))}")


@should("C-PROTOCOL-NOTHING-UNASKED",
        "Without copy and device, a consumer requests neither: copy and dl_device are left out or None.", METHOD)  # fmt: skip
def nothing_unasked(c: Context) -> None:
    for given in arguments(c).keywords:
        for keyword in ("copy", "dl_device"):
            value = given.get(keyword)
            c.expect(value is None, f"called with {keyword}={value!r}")


@should("C-PROTOCOL-MAX-VERSION", "A consumer passes the newest version that it understands as max_version.",
        RECOMMENDED)  # fmt: skip
def max_version(c: Context) -> None:
    given = [keywords.get("max_version") for keywords in arguments(c).keywords]
    c.expect(any(version is not None for version in given), "max_version is not passed")


@must("C-PROTOCOL-MAX-VERSION-FORM", "max_version is a tuple of two integers.", METHOD)
def max_version_form(c: Context) -> None:
    given = [keywords["max_version"] for keywords in arguments(c).keywords if keywords.get("max_version") is not None]
    c.needs(given, f"{c.lib.name} does not pass max_version")
    for version in given:
        whole = type(version) is tuple and [type(number) for number in version] == [int, int]
        c.expect(whole, f"max_version is {version!r}")


@may("C-PROTOCOL-DEVICE-FIRST", "__dlpack_device__ is called before __dlpack__: the stream depends on it.", SYNTAX)
def device_first(c: Context) -> None:
    calls = arguments(c).calls
    c.expect(calls[0] == "__dlpack_device__", f"called {', '.join(calls)}")


@must("C-PROTOCOL-DEVICE-ENUM", "The device type that __dlpack_device__ returns may be a member of an enumeration.",
      f"{STANDARD}, __dlpack_device__")  # fmt: skip
def device_enum(c: Context) -> None:
    producer = asking(c, Producer(c.as_asked, device=(DeviceType.kDLCPU, 0)))
    right(c, c.consume(producer), PLAIN)
    c.needs(producer.asked_device, f"{c.lib.name} does not call __dlpack_device__")


@should("C-PROTOCOL-ASKS-ONCE", "A producer whose answer matches the request is called once.",
        f"{PYTHON}, Implementation")  # fmt: skip
def asks_once(c: Context) -> None:
    producer = asking(c, Producer(c.as_asked))
    right(c, c.consume(producer), PLAIN)
    c.got(f"called with {producer.asked}")
    c.expect(len(producer.asked) == 1, f"called {len(producer.asked)} times")


@must("C-PROTOCOL-CLASS-ONLY", "Any object with the two methods is accepted, whatever its class.",
      f"{STANDARD}, from_dlpack")  # fmt: skip
def class_only(c: Context) -> None:
    class Slots:
        """A producer without a dictionary, length, items or dtype."""

        __slots__ = ()

        def __dlpack__(self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None,
                       copy: Any = None) -> Any:  # fmt: skip
            return c.as_asked({} if max_version is None else {"max_version": max_version}).capsule()

        def __dlpack_device__(self) -> tuple[int, int]:
            return CPU

    right(c, c.consume(asking(c, Slots())), PLAIN)


@should("C-PROTOCOL-OLD-PRODUCER",
        "A producer that raises TypeError because it does not know max_version is called again without it.",
        RECOMMENDED)  # fmt: skip
def old_producer(c: Context) -> None:
    crafted = legacy(c)
    array = c.consume(asking(c, OldProducer(crafted)))
    right(c, array, PLAIN)
    del array
    given_back(c, crafted, "after the array was gone")


@may("C-PROTOCOL-BARE-PRODUCER", "A producer whose __dlpack__ takes no arguments is called without any.", RECOMMENDED)
def bare_producer(c: Context) -> None:
    crafted = legacy(c)
    right(c, c.consume(asking(c, BareProducer(crafted))), PLAIN)


@should("C-PROTOCOL-LEGACY-ANSWER",
        "A legacy capsule in answer to max_version is accepted: the producer may give another version than the newest.",
        METHOD)  # fmt: skip
def legacy_answer(c: Context) -> None:
    crafted = c.fitting((6,), versioned=False)
    producer = asking(c, Producer(crafted))
    array = c.consume(producer)
    c.needs(any("max_version" in keywords for keywords in producer.asked), f"{c.lib.name} does not pass max_version")
    right(c, array, PLAIN)


must("C-PROTOCOL-LEGACY-NAME",
     "The capsule's name identifies the ABI: a legacy capsule is never read as versioned, even after max_version.",
     METHOD, lambda c: right_or_refused(c, c.fitting((6,), versioned=False), PLAIN))  # fmt: skip


@must("C-PROTOCOL-VERSIONED-NAME",
      "The capsule's name identifies the ABI: an unrequested versioned capsule is never read as legacy.", METHOD)  # fmt: skip
def versioned_name(c: Context) -> None:
    crafted = c.fitting((6,), versioned=True)
    array, said = feed(c, OldProducer(crafted))
    if said is None:
        right(c, array, PLAIN)
    del array
    given_back(c, crafted, "after everything was gone")


def stream_for(c: Context, *kinds: int) -> tuple[bool, object]:
    """Returns whether a library passes a stream to a producer on its own device, and the stream.

    The producer raises when it is called, so the check needs no memory on the device.
    """
    c.needs(c.lib.device[0] in kinds, f"{c.lib.name} does not have such a device here")
    producer = asking(c, Producer(BufferError("asked only for its stream"), device=c.lib.device))
    feed(c, producer)
    c.got(f"called with {producer.asked}")
    c.expect(producer.asked, "__dlpack__ was not called")
    return "stream" in producer.asked[0], producer.asked[0].get("stream")


@must("C-STREAM-NONE-ON-CPU", "A producer on the CPU is called without a stream, or with None.", STREAM)
def none_on_cpu(c: Context) -> None:
    producer = asking(c, Producer(c.as_asked))
    c.consume(producer)
    c.got(f"called with {producer.asked}")
    for keywords in producer.asked:
        c.expect("stream" not in keywords, f"called with stream={keywords.get('stream')!r}")


@should("C-STREAM-PASSED", "A producer on CUDA or ROCm gets the stream that the consumer will use, as an integer.",
        STREAM)  # fmt: skip
def passed(c: Context) -> None:
    given, stream = stream_for(c, 2, 10)
    c.expect(given and isinstance(stream, int), f"the stream is {stream!r}")


@must("C-STREAM-CUDA-NOT-0",
      "On CUDA the stream is never 0, which could mean either default stream, and never below -1.", STREAM)  # fmt: skip
def cuda_not_0(c: Context) -> None:
    given, stream = stream_for(c, 2)
    c.expect(not given or (isinstance(stream, int) and stream >= -1 and stream != 0), f"the stream is {stream!r}")


@must("C-STREAM-ROCM-NOT-1-2", "On ROCm the stream is never 1 or 2, and never below -1.", STREAM)
def rocm_not_1_2(c: Context) -> None:
    given, stream = stream_for(c, 10)
    allowed = isinstance(stream, int) and stream >= -1 and stream not in (1, 2)
    c.expect(not given or allowed, f"the stream is {stream!r}")
