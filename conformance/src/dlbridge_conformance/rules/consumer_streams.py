"""The stream that a consumer passes to the producer."""

from __future__ import annotations

from dlbridge_conformance.context import Context
from dlbridge_conformance.crafter import Producer
from dlbridge_conformance.rule import must, should
from dlbridge_conformance.rules.consumer_outcome import STANDARD, asking, feed

STREAM = f"{STANDARD}, __dlpack__, stream"


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
