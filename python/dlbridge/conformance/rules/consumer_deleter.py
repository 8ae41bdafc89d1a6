"""When a consumer calls the deleter."""

from __future__ import annotations

from dlbridge.conformance.context import Context
from dlbridge.conformance.rule import Level, Role, rule

HEADER = "dlpack.h 1.3, DLManagedTensorVersioned::deleter"


@rule("C-DELETER-ONCE", Role.CONSUMER, Level.MUST,
      "The deleter runs exactly once: not before the array is gone, and not again after.", HEADER)  # fmt: skip
def once(c: Context) -> None:
    crafted = c.fitting((2, 3))
    array = c.consume(crafted)
    copied = crafted.record.calls == 1
    if copied:
        c.got("the data was copied: the deleter has run already")
    c.expect(c.values(array) == [[0, 1, 2], [3, 4, 5]], "the elements are others")
    del array
    c.settle()
    calls = crafted.record.calls
    c.expect(calls == 1, f"the deleter ran {calls} times")
