"""When a consumer calls the deleter, and how often."""

from __future__ import annotations

from typing import Any

from dlbridge_conformance import crafter
from dlbridge_conformance.context import Context
from dlbridge_conformance.crafter import Crafted, Producer
from dlbridge_conformance.rule import each, may, must, should
from dlbridge_conformance.rules.consumer_outcome import (
    PLAIN, PYTHON, REFUSED, accepted, feed, first_refused, given_back, harmless, legacy, plain, right, versioned,
)  # fmt: skip

HEADER = "dlpack.h 1.3, DLManagedTensorVersioned::deleter"
LEGACY = "dlpack.h 1.3, DLManagedTensor::deleter"
OWNER = f"{PYTHON}, Implementation"


must("C-DELETER-ONCE", "The deleter of a versioned tensor runs exactly once.", HEADER,
     lambda c: accepted(c, versioned(c), PLAIN))  # fmt: skip
must("C-DELETER-ONCE-LEGACY", "The deleter of a legacy tensor runs exactly once.", LEGACY,
     lambda c: accepted(c, legacy(c), PLAIN))  # fmt: skip


@must("C-DELETER-NOT-BEFORE", "The deleter does not run while an array is over the memory.", OWNER)
def not_before(c: Context) -> None:
    crafted = plain(c)
    array = c.consume(crafted)
    c.settle()
    right(c, array, PLAIN)
    for given in crafted.all:
        calls = given.record.calls
        c.got(f"the deleter ran {calls} times while the array lives")
        if calls:
            c.expect(calls == 1, f"the deleter ran {calls} times while the array lives")
            begin = given.fields.data
            c.expect(c.lib.address(array) != begin, "the deleter ran while the array uses the memory")


@must("C-DELETER-REFUSED", "A refused tensor is given back exactly once, whatever the reason.", OWNER)
def refused(c: Context) -> None:
    taken = 0
    for fields in (*REFUSED, dict(device=(99, 0))):
        crafted = plain(c, **fields)
        array, said = feed(c, crafted)
        taken += said is None
        del array
        given_back(c, crafted, "after everything was gone")
    c.needs(taken <= len(REFUSED), f"{c.lib.name} accepts all tensors that were tried")


must("C-DELETER-REFUSED-LEGACY", "A refused legacy tensor is given back exactly once.", LEGACY,
     lambda c: given_back(c, first_refused(c, lambda **fields: legacy(c, **fields)), "after everything was gone"))  # fmt: skip
should("C-DELETER-REFUSED-AT-ONCE",
       "A refused tensor is not kept: it is given back as soon as its capsule and the exception are gone.", OWNER,
       lambda c: before_collection(c, first_refused(c, lambda **fields: plain(c, **fields))))  # fmt: skip


@should("C-DELETER-AT-ONCE",
        "The deleter runs when the last reference to the array goes, without waiting for a garbage collection.", OWNER)  # fmt: skip
def at_once(c: Context) -> None:
    crafted = plain(c)
    array = c.consume(crafted)
    right(c, array, PLAIN)
    del array
    before_collection(c, crafted)


def before_collection(c: Context, crafted: Crafted) -> None:
    """Expects that every exported tensor was given back before a garbage collection."""
    for given in crafted.all:
        calls = given.record.calls
        c.expect(calls == 1, f"the deleter ran {calls} times before the garbage was collected")


must("C-DELETER-0-D", "The deleter of a tensor without dimensions runs exactly once.", HEADER,
     lambda c: harmless(c, c.craft((), versioned=c.abi(), values=[7])))  # fmt: skip
must("C-DELETER-ZERO-SIZE", "The deleter of a tensor without elements runs exactly once.", HEADER, each((0, None),
     lambda c, data: harmless(c, c.fitting((0,), data=data))))  # fmt: skip
must("C-DELETER-NULL-CONTEXT", "The deleter runs even if manager_ctx, which only the producer uses, is NULL.",
     "dlpack.h 1.3, DLManagedTensorVersioned::manager_ctx", lambda c: accepted(c, plain(c, manager_ctx=0), PLAIN))  # fmt: skip


@must("C-DELETER-PRODUCER-GONE", "The producer object may go before the array, which stays valid.", OWNER)
def producer_gone(c: Context) -> None:
    crafted = plain(c)
    producer = Producer(crafted)
    array = c.consume(producer)
    del producer
    c.settle()
    right(c, array, PLAIN)
    del array
    given_back(c, crafted, "after the array was gone")


@must("C-DELETER-OTHER-THREAD",
      "The deleter runs exactly once if the last reference to the array goes on another thread.", HEADER)  # fmt: skip
def other_thread(c: Context) -> None:
    crafted = plain(c)
    arrays = [c.consume(crafted)]
    right(c, arrays[0], PLAIN)
    c.on_threads([arrays.clear])
    given_back(c, crafted, "after another thread dropped the array")


@must("C-DELETER-MADE-ON-THREAD", "The deleter runs exactly once if the array was made on a thread that has ended.",
      HEADER)  # fmt: skip
def made_on_thread(c: Context) -> None:
    crafted = plain(c)
    arrays: list[Any] = []
    c.on_threads([lambda: arrays.append(c.consume(crafted))])
    c.expect(arrays, "no array was made on the thread")
    right(c, arrays[0], PLAIN)
    arrays.clear()
    given_back(c, crafted, "after the array was gone")


@must("C-DELETER-CYCLE", "The deleter runs exactly once if the array is part of a cycle of references.", HEADER)
def cycle(c: Context) -> None:
    crafted = plain(c)
    ring: list[Any] = [c.consume(crafted)]
    right(c, ring[0], PLAIN)
    ring.append(ring)
    del ring
    given_back(c, crafted, "after the cycle was collected")


@should("C-DELETER-PENDING-KEPT", "Dropping the array while an exception is pending leaves the exception alone.", OWNER)
def pending_kept(c: Context) -> None:
    crafted = plain(c)
    arrays = [c.consume(crafted)]
    kept = crafter.clear_keeps(arrays, ValueError("on its way"))
    c.expect(kept, "the exception was lost")
    given_back(c, crafted, "after the array was gone")


@must("C-DELETER-MANY", "Each of many imported and dropped tensors is given back exactly once.", HEADER)
def many(c: Context) -> None:
    is_versioned = c.abi()
    tensors = [crafter.craft(c.padded((6,)), versioned=is_versioned) for _ in range(100)]
    c.fed("100 tensors, dropped out of order")
    arrays = [c.lib.from_dlpack(Producer(crafted)) for crafted in tensors]
    while arrays:
        del arrays[len(arrays) // 2]
    c.settle()
    wrong = sorted({given.record.calls for crafted in tensors for given in crafted.all} - {1})
    c.expect(not wrong, f"of 100 deleters, some ran {wrong} times")


def at_exit(c: Context) -> tuple[int, str]:
    """Ends a process with a live array. Returns its exit status, and the counts of the crafter."""
    done = c.script(
        f"array = lib.from_dlpack(crafter.Producer(crafter.craft({c.padded((6,))}, versioned={c.abi()})))\n"
        "crafter.native.report_at_exit()\n"
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("owed ")]
    return done.returncode, lines[-1] if lines else ""


@must("C-DELETER-EXIT-CLEAN", "A process with a live array ends normally, and no deleter runs twice.", HEADER,
      processes=1)  # fmt: skip
def exit_clean(c: Context) -> None:
    status, counted = at_exit(c)
    c.expect(status == 0, f"the process ended with {status}")
    c.expect(counted.endswith("repeated 0"), f"the crafter counted: {counted or 'nothing'}")


@may("C-DELETER-EXIT-CALLED", "At the end of the process the deleter of a live array runs.", OWNER, processes=1)
def exit_called(c: Context) -> None:
    _, counted = at_exit(c)
    c.expect(counted.startswith("owed 0 "), f"the crafter counted: {counted or 'nothing'}")
