"""The semantics of an export: both sides share memory, and the array stays usable."""

from __future__ import annotations

import struct

from dlbridge_conformance import crafter
from dlbridge_conformance.context import Context
from dlbridge_conformance.crafter import Flags
from dlbridge_conformance.exports import best, each_abi, expect_elements, needs_host_memory, needs_no_copy
from dlbridge_conformance.rule import must

SEMANTICS = "Python specification of DLPack, Semantics"
SYNTAX = "Python specification of DLPack, Syntax for data interchange with DLPack"

MATRIX = [[0, 1, 2], [3, 4, 5]]


@must("P-SEMANTICS-METHODS", "An array has both methods: __dlpack__ and __dlpack_device__.", SYNTAX)
def methods(c: Context) -> None:
    array = c.array()
    for name in ("__dlpack__", "__dlpack_device__"):
        c.expect(callable(getattr(array, name, None)), f"{name} is missing")


@must("P-SEMANTICS-UNCHANGED", "An export does not change the array, while it lives or afterwards.", SEMANTICS)
def unchanged(c: Context) -> None:
    array = c.array()
    held = best(c, array)
    c.expect(c.values(array) == MATRIX, "the elements have changed with the export")
    held.delete()
    c.settle()
    c.expect(c.values(array) == MATRIX, "the elements have changed with the deleter")


@must("P-SEMANTICS-CONSUMER-WRITES",
      "A consumer's writes to a tensor that is neither copied nor read-only appear in the array.", SEMANTICS)  # fmt: skip
def consumer_writes(c: Context) -> None:
    array = c.array()
    held = c.versioned(array)
    needs_host_memory(c, held.fields)
    c.needs(not held.fields.flags & (Flags.READ_ONLY | Flags.IS_COPIED), f"the flags are {held.fields.flags}")
    held.write(struct.pack("<f", 7), 0)
    c.expect(c.values(array) == [[7, 1, 2], [3, 4, 5]], "the write does not appear in the array")


@must("P-SEMANTICS-PRODUCER-WRITES", "Writes to the array appear in the tensor.", SEMANTICS)
def producer_writes(c: Context) -> None:
    array = c.array()
    needs_no_copy(c, array)
    exports = each_abi(c, array)
    c.lib.write(array, 7)
    for held in exports:
        expect_elements(c, held, [[7, 1, 2], [3, 4, 5]])


@must("P-SEMANTICS-MANY", "A thousand exports of one array may be held at once, and deleted in any order.", SEMANTICS)
def many(c: Context) -> None:
    array = c.array()
    keywords = c.asking()
    c.fed(f"1000 times __dlpack__ with {keywords}")
    held = [crafter.take(array.__dlpack__(**keywords)) for _ in range(1000)]
    del array
    for start in (1, 0):
        for one in held[start::2]:
            one.delete()
        c.settle()
        if start:
            expect_elements(c, held[0], MATRIX)


@must("P-SEMANTICS-THREADS", "Several threads may export one array at once.", SEMANTICS)
def threads(c: Context) -> None:
    array = c.array()
    best(c, array).delete()
    keywords = c.asking()
    failed: list[BaseException] = []

    def export() -> None:
        try:
            for _ in range(200):
                held = crafter.take(array.__dlpack__(**keywords))
                if held.fields.shape != (2, 3):
                    raise ValueError(f"the shape is {held.fields.shape}")
                held.delete(crafter.Way.WITHOUT_GIL)
        except BaseException as error:
            failed.append(error)

    c.on_threads([export] * 8)
    c.expect(not failed, f"{len(failed)} threads failed: {failed[:1]!r}")
    c.expect(c.values(array) == MATRIX, "the elements have changed")


@must("P-SEMANTICS-ROUND-TRIP", "The library's own from_dlpack returns an array of the same elements.", SYNTAX)
def round_trip(c: Context) -> None:
    back = c.consume(c.array())
    c.expect(c.values(back) == MATRIX, "the elements differ")


@must("P-SEMANTICS-ROUND-TRIP-MEMORY", "The library's own from_dlpack takes its own arrays without a copy.", SEMANTICS)
def round_trip_memory(c: Context) -> None:
    array = c.array()
    needs_no_copy(c, array)
    back = c.consume(array)
    c.expect(c.lib.address(back) == c.lib.address(array), "the memory differs")
