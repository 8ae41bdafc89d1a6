"""``current_work_stream``: the stream that the library uses."""

from __future__ import annotations

from dlbridge_conformance.context import Context
from dlbridge_conformance.crafter import CPU
from dlbridge_conformance.exchange import work_stream
from dlbridge_conformance.rule import must, should

STREAM = "dlpack.h 1.3, DLPackCurrentWorkStream"


@must("X-STREAM-CPU", "For the CPU it returns 0 and does not set an exception.", STREAM)
def cpu(c: Context) -> None:
    status, _, error = work_stream(c, CPU)
    c.expect(status == 0, f"it returned {status}: {error!r}")
    c.expect(error is None, f"it set {error!r}")


@should("X-STREAM-CPU-NULL", "The stream of the CPU is NULL.", STREAM)
def cpu_null(c: Context) -> None:
    _, stream, _ = work_stream(c, CPU)
    c.expect(stream == 0, f"the stream is {stream:#x}")


@must("X-STREAM-OWN-DEVICE", "For the device of its arrays it returns 0 and does not set an exception.", STREAM)
def own_device(c: Context) -> None:
    status, _, error = work_stream(c, c.lib.device)
    c.expect(status == 0, f"it returned {status}: {error!r}")
    c.expect(error is None, f"it set {error!r}")


@must("X-STREAM-FOREIGN-DEVICE", "For a device that it does not support it returns 0, or -1 with an exception set.",
      STREAM)  # fmt: skip
def foreign_device(c: Context) -> None:
    status, _, error = work_stream(c, (9, 0))
    if status == 0:
        c.expect(error is None, f"it returned 0 and set {error!r}")
        return
    c.expect(status == -1, f"it returned {status}")
    c.expect(error is not None, "it returned -1 and set no exception")
