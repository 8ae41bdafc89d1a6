"""The keyword ``stream`` on devices with streams: CUDA and ROCm."""

from __future__ import annotations

from functools import partial

from dlbridge_conformance.context import Context
from dlbridge_conformance.exports import best
from dlbridge_conformance.rule import Level, Role, rule

STREAM = "array API standard 2024.12, __dlpack__: stream"
RAISES = "array API standard 2024.12, __dlpack__: Raises"

CUDA, ROCM = 2, 10


def _needs_streams(c: Context, *kinds: int) -> None:
    """Raises :class:`NotApplicable` without the keyword, or if the arrays are on another type of device."""
    c.needs(c.lib.device[0] in kinds, f"the arrays are on {c.lib.device}")
    c.needs_keywords("stream")


def _taken(c: Context, *streams: int | None) -> None:
    """Exports with each of these streams."""
    array = c.array()
    for stream in streams:
        best(c, array, stream=stream).delete()


def _refused(c: Context, *streams: int) -> list[BaseException]:
    """Expects that each of these streams is refused, and returns the exceptions."""
    array = c.array()
    return [c.refused(partial(best, c, array, stream=stream)) for stream in streams]


@rule("P-STREAM-NONE", Role.PRODUCER, Level.MUST,
      "On CUDA and ROCm stream may be None, which means the legacy default stream.", STREAM)  # fmt: skip
def none(c: Context) -> None:
    _needs_streams(c, CUDA, ROCM)
    _taken(c, None)


@rule("P-STREAM-CUDA-TAKEN", Role.PRODUCER, Level.MAY,
      "On CUDA stream may be -1, for no synchronization, 1 or 2, for the default streams.",
      f"{STREAM}: support for other values than None is optional")  # fmt: skip
def cuda_taken(c: Context) -> None:
    _needs_streams(c, CUDA)
    _taken(c, -1, 1, 2)


@rule("P-STREAM-ROCM-TAKEN", Role.PRODUCER, Level.MAY,
      "On ROCm stream may be -1, for no synchronization, or 0, for the default stream.",
      f"{STREAM}: support for other values than None is optional")  # fmt: skip
def rocm_taken(c: Context) -> None:
    _needs_streams(c, ROCM)
    _taken(c, -1, 0)


@rule("P-STREAM-CUDA-NOT-0", Role.PRODUCER, Level.MUST,
      "On CUDA stream=0, which could mean either default stream, is refused.", STREAM)  # fmt: skip
def cuda_not_0(c: Context) -> None:
    _needs_streams(c, CUDA)
    _refused(c, 0)


@rule("P-STREAM-ROCM-NOT-1-2", Role.PRODUCER, Level.MUST,
      "On ROCm stream=1 and stream=2 are refused.", STREAM)  # fmt: skip
def rocm_not_1_2(c: Context) -> None:
    _needs_streams(c, ROCM)
    _refused(c, 1, 2)


@rule("P-STREAM-NEGATIVE", Role.PRODUCER, Level.MUST,
      "On CUDA and ROCm a stream below -1 is refused.", STREAM)  # fmt: skip
def negative(c: Context) -> None:
    _needs_streams(c, CUDA, ROCM)
    _refused(c, -2)


@rule("P-STREAM-ERROR", Role.PRODUCER, Level.SHOULD,
      "A refused stream is an incorrect argument, so the error is not a BufferError.", RAISES)  # fmt: skip
def stream_error(c: Context) -> None:
    _needs_streams(c, CUDA, ROCM)
    for error in _refused(c, *((0,) if c.lib.device[0] == CUDA else (1, 2))):
        c.expect(not isinstance(error, BufferError), f"BufferError: {error}")
