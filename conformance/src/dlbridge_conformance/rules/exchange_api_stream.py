"""``current_work_stream``: the stream that the library uses."""

from __future__ import annotations

from dlbridge_conformance.context import Context
from dlbridge_conformance.crafter import CPU
from dlbridge_conformance.exchange import work_stream
from dlbridge_conformance.rule import Level, Role, rule

STREAM = "dlpack.h 1.3, DLPackCurrentWorkStream"


@rule("X-STREAM-CPU", Role.EXCHANGE_API, Level.MUST,
      "For the CPU it returns 0 and does not set an exception.", STREAM)  # fmt: skip
def cpu(c: Context) -> None:
    status, _, error = work_stream(c, CPU)
    c.expect(status == 0, f"it returned {status}: {error!r}")
    c.expect(error is None, f"it set {error!r}")


@rule("X-STREAM-CPU-NULL", Role.EXCHANGE_API, Level.SHOULD,
      "The stream of the CPU is NULL.", STREAM)  # fmt: skip
def cpu_null(c: Context) -> None:
    _, stream, _ = work_stream(c, CPU)
    c.expect(stream == 0, f"the stream is {stream:#x}")


@rule("X-STREAM-OWN-DEVICE", Role.EXCHANGE_API, Level.MUST,
      "For the device of its arrays it returns 0 and does not set an exception.", STREAM)  # fmt: skip
def own_device(c: Context) -> None:
    status, _, error = work_stream(c, c.lib.device)
    c.expect(status == 0, f"it returned {status}: {error!r}")
    c.expect(error is None, f"it set {error!r}")


@rule("X-STREAM-FOREIGN-DEVICE", Role.EXCHANGE_API, Level.MUST,
      "For a device that it does not support it returns 0, or -1 with an exception set.", STREAM)  # fmt: skip
def foreign_device(c: Context) -> None:
    status, _, error = work_stream(c, (9, 0))
    if status == 0:
        c.expect(error is None, f"it returned 0 and set {error!r}")
        return
    c.expect(status == -1, f"it returned {status}")
    c.expect(error is not None, "it returned -1 and set no exception")
