"""The lifetime of a tensor's memory: with views, chains of libraries, and threads."""

from __future__ import annotations

import threading
from typing import Any

import dlbridge
from dlbridge_conformance import crafter
from dlbridge_conformance.context import Context
from dlbridge_conformance.crafter import Producer
from dlbridge_conformance.outcome import Broken, NotApplicable
from dlbridge_conformance.rule import Level, Role, rule
from dlbridge_conformance.rules.consumer_outcome import PLAIN, PYTHON, given_back, plain, right, same, unwritten

SEMANTICS = f"{PYTHON}, Semantics"
OWNER = f"{PYTHON}, Implementation"


@rule("C-LIFETIME-VIEW", Role.CONSUMER, Level.MUST,
      "A view keeps the memory after the array itself is gone, and gives it back when the view is gone.",
      OWNER)  # fmt: skip
def view(c: Context) -> None:
    crafted = plain(c)
    array = c.consume(crafted)
    part = c.lib.sliced(array)
    del array
    c.settle()
    right(c, part, PLAIN[1:])
    del part
    given_back(c, crafted, "after the view was gone")


@rule("C-LIFETIME-VIEW-OF-VIEW", Role.CONSUMER, Level.MUST,
      "A view of a view keeps the memory after the first view and the array are gone.", OWNER)  # fmt: skip
def view_of_view(c: Context) -> None:
    crafted = plain(c)
    array = c.consume(crafted)
    part = c.lib.sliced(array)
    rest = c.lib.sliced(part)
    del array, part
    c.settle()
    right(c, rest, PLAIN[2:])
    del rest
    given_back(c, crafted, "after the last view was gone")


@rule("C-LIFETIME-VIEW-FIRST", Role.CONSUMER, Level.MUST,
      "A view that is dropped before the array does not free memory that the array still needs.", OWNER)  # fmt: skip
def view_first(c: Context) -> None:
    crafted = plain(c)
    array = c.consume(crafted)
    part = c.lib.sliced(array)
    del part
    c.settle()
    right(c, array, PLAIN)
    del array
    given_back(c, crafted, "after the array was gone")


@rule("C-LIFETIME-CHAIN-OWN", Role.CONSUMER, Level.MUST,
      "An array re-exported through the library's own __dlpack__ keeps the memory when the first array is gone.",
      SEMANTICS)  # fmt: skip
def chain_own(c: Context) -> None:
    crafted = plain(c)
    first = c.consume(crafted)
    exports(c, first)
    try:
        second = c.consume(first)
    except BufferError as error:
        raise NotApplicable(f"it is not exported: {error}") from None
    del first
    c.settle()
    right(c, second, PLAIN)
    del second
    given_back(c, crafted, "after both arrays were gone")


@rule("C-LIFETIME-CHAIN-OTHER", Role.CONSUMER, Level.MUST,
      "Another library that imports the array keeps the memory when the array is gone.", SEMANTICS)  # fmt: skip
def chain_other(c: Context) -> None:
    crafted = plain(c)
    first = c.consume(crafted)
    exports(c, first)
    try:
        other = dlbridge.from_dlpack(first)
    except BufferError as error:
        raise NotApplicable(f"it is not exported: {error}") from None
    del first
    c.settle()
    found = memoryview(other).tolist()
    c.got(f"elements {found}")
    c.expect(same(c, found, PLAIN), f"the elements are {found} and not {PLAIN}")
    del other
    given_back(c, crafted, "after everything was gone")


@rule("C-LIFETIME-CHAIN-UNUSED", Role.CONSUMER, Level.MUST,
      "An unconsumed capsule that the library made from the array gives the memory back when it dies.",
      SEMANTICS)  # fmt: skip
def chain_unused(c: Context) -> None:
    crafted = plain(c)
    array = c.consume(crafted)
    exports(c, array)
    try:
        capsule = array.__dlpack__()
    except BufferError as error:
        raise NotApplicable(f"it is not exported: {error}") from None
    del capsule
    c.settle()
    right(c, array, PLAIN)
    del array
    given_back(c, crafted, "after the array was gone")


def exports(c: Context, array: Any) -> None:
    """Raises :class:`NotApplicable` if the arrays of the library lack ``__dlpack__``."""
    c.needs(c.lib.produces and hasattr(array, "__dlpack__"), f"{c.lib.name} does not produce")


@rule("C-LIFETIME-TWICE", Role.CONSUMER, Level.MUST,
      "A producer can be consumed twice: the arrays live and die on their own.", SEMANTICS)  # fmt: skip
def twice(c: Context) -> None:
    crafted = plain(c)
    producer = Producer(crafted)
    first, second = c.consume(producer), c.consume(producer)
    del first
    c.settle()
    right(c, second, PLAIN)
    del second
    given_back(c, crafted, "after both arrays were gone")


@rule("C-LIFETIME-PRODUCER-READS", Role.CONSUMER, Level.MUST,
      "The producer's memory is unchanged after it was consumed and read.", SEMANTICS)  # fmt: skip
def producer_reads(c: Context) -> None:
    crafted = plain(c)
    array = c.consume(crafted)
    right(c, array, PLAIN)
    c.needs(crafted.unreleased, "the array is a copy")
    unwritten(c, crafted, crafter.packed(PLAIN, "float32"))


@rule("C-LIFETIME-THREADS", Role.CONSUMER, Level.MUST,
      "Imports on several threads at once are correct, and each tensor is given back exactly once.", OWNER)  # fmt: skip
def threads(c: Context) -> None:
    versioned = c.abi()
    tensors = [[crafter.craft(c.padded((6,)), versioned=versioned) for _ in range(20)] for _ in range(4)]
    c.fed("20 tensors on each of 4 threads")
    wrong: list[str] = []
    lacking: list[str] = []

    def work(mine: list[crafter.Crafted]) -> None:
        for crafted in mine:
            try:
                found = c.lib.values(c.lib.from_dlpack(Producer(crafted)))
            except NotApplicable as reason:
                lacking.append(str(reason))
            except Exception as error:
                wrong.append(f"{type(error).__name__}: {error}")
            else:
                if not same(c, found, PLAIN):
                    wrong.append(f"elements {found}")

    running = [threading.Thread(target=work, args=(mine,)) for mine in tensors]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    c.needs(not lacking, "".join(lacking[:1]))
    if wrong:
        raise Broken(f"{len(wrong)} of 80 imports went wrong: {wrong[0]}")
    c.settle()
    calls = sorted({given.record.calls for mine in tensors for crafted in mine for given in crafted.all})
    c.expect(calls == [1], f"of 80 deleters, some ran {calls} times")
