"""The keyword ``stream`` on devices with streams: CUDA and ROCm."""

from __future__ import annotations

from functools import partial

from dlbridge_conformance.context import Context
from dlbridge_conformance.exports import best
from dlbridge_conformance.rule import may, must, should

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


@must("P-STREAM-NONE", "On CUDA and ROCm stream may be None, which means the legacy default stream.", STREAM)
def none(c: Context) -> None:
    _needs_streams(c, CUDA, ROCM)
    _taken(c, None)


@may("P-STREAM-CUDA-TAKEN", "On CUDA stream may be -1, for no synchronization, 1 or 2, for the default streams.",
     f"{STREAM}: support for other values than None is optional")  # fmt: skip
def cuda_taken(c: Context) -> None:
    _needs_streams(c, CUDA)
    _taken(c, -1, 1, 2)


@may("P-STREAM-ROCM-TAKEN", "On ROCm stream may be -1, for no synchronization, or 0, for the default stream.",
     f"{STREAM}: support for other values than None is optional")  # fmt: skip
def rocm_taken(c: Context) -> None:
    _needs_streams(c, ROCM)
    _taken(c, -1, 0)


@must("P-STREAM-CUDA-NOT-0", "On CUDA stream=0, which could mean either default stream, is refused.", STREAM)
def cuda_not_0(c: Context) -> None:
    _needs_streams(c, CUDA)
    _refused(c, 0)


@must("P-STREAM-ROCM-NOT-1-2", "On ROCm stream=1 and stream=2 are refused.", STREAM)
def rocm_not_1_2(c: Context) -> None:
    _needs_streams(c, ROCM)
    _refused(c, 1, 2)


@must("P-STREAM-NEGATIVE", "On CUDA and ROCm a stream below -1 is refused.", STREAM)
def negative(c: Context) -> None:
    _needs_streams(c, CUDA, ROCM)
    _refused(c, -2)


@should("P-STREAM-ERROR", "A refused stream is an incorrect argument, so the error is not a BufferError.", RAISES)
def stream_error(c: Context) -> None:
    _needs_streams(c, CUDA, ROCM)
    for error in _refused(c, *((0,) if c.lib.device[0] == CUDA else (1, 2))):
        c.expect(not isinstance(error, BufferError), f"BufferError: {error}")
