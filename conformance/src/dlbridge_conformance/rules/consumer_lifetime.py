"""The lifetime of a tensor's memory: with views, chains of libraries, and threads."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from dlbridge_conformance import crafter, elements
from dlbridge_conformance.context import NEWEST, Context
from dlbridge_conformance.crafter import Held, Producer
from dlbridge_conformance.exports import needs_host_memory
from dlbridge_conformance.outcome import Broken, NotApplicable
from dlbridge_conformance.rule import must
from dlbridge_conformance.rules.consumer_outcome import PLAIN, PYTHON, given_back, plain, right, same, unwritten

SEMANTICS = f"{PYTHON}, Semantics"
OWNER = f"{PYTHON}, Implementation"


def outlived(derive: Callable[[Context, Any], Any], expected: Any, when: str) -> Callable[[Context], None]:
    """A check of what a function makes from an array: it keeps the memory, and gives it back when it is gone."""

    def check(c: Context) -> None:
        crafted = plain(c)
        array = c.consume(crafted)
        derived = derive(c, array)
        del array
        c.settle()
        right(c, derived, expected)
        del derived
        given_back(c, crafted, when)

    return check


def first_dropped(c: Context, array: Any) -> Any:
    """The array, after a view of it was dropped."""
    c.lib.sliced(array)
    c.settle()
    return array


def exported(c: Context, array: Any, export: Callable[[Any], Any]) -> Any:
    """The result of an export; not applicable if the arrays lack ``__dlpack__``, or if it is refused."""
    c.needs(c.lib.produces and hasattr(array, "__dlpack__"), f"{c.lib.name} does not produce")
    try:
        return export(array)
    except BufferError as error:
        raise NotApplicable(f"it is not exported: {error}") from None


def taken(c: Context, array: Any) -> Held:
    """The tensor of an export, as a consumer of any DLPack version takes it."""
    try:
        return c.export(array, max_version=NEWEST)
    except TypeError:
        return c.export(array)


must("C-LIFETIME-VIEW", "A view keeps the memory after the array itself is gone, and gives it back when the view is gone.",
     OWNER, outlived(lambda c, array: c.lib.sliced(array), PLAIN[1:], "after the view was gone"))  # fmt: skip
must("C-LIFETIME-VIEW-OF-VIEW", "A view of a view keeps the memory after the first view and the array are gone.", OWNER,
     outlived(lambda c, array: c.lib.sliced(c.lib.sliced(array)), PLAIN[2:], "after the last view was gone"))  # fmt: skip
must("C-LIFETIME-VIEW-FIRST", "A view that is dropped before the array does not free memory that the array still needs.",
     OWNER, outlived(first_dropped, PLAIN, "after the array was gone"))  # fmt: skip
must("C-LIFETIME-CHAIN-OWN",
     "An array re-exported through the library's own __dlpack__ keeps the memory when the first array is gone.", SEMANTICS,
     outlived(lambda c, array: exported(c, array, c.consume), PLAIN, "after both arrays were gone"))  # fmt: skip


@must("C-LIFETIME-CHAIN-OTHER", "Another consumer that imports the array keeps the memory when the array is gone.", SEMANTICS)
def chain_other(c: Context) -> None:
    crafted = plain(c)
    first = c.consume(crafted)
    other = exported(c, first, partial(taken, c))
    del first
    c.settle()
    needs_host_memory(c, other.fields)
    found = elements.of(other)
    c.got(f"elements {found}")
    c.expect(same(c, found, PLAIN), f"the elements are {found} and not {PLAIN}")
    other.delete()
    given_back(c, crafted, "after everything was gone")


@must("C-LIFETIME-CHAIN-UNUSED",
      "An unconsumed capsule that the library made from the array gives the memory back when it dies.", SEMANTICS)  # fmt: skip
def chain_unused(c: Context) -> None:
    crafted = plain(c)
    array = c.consume(crafted)
    exported(c, array, lambda array: array.__dlpack__())
    c.settle()
    right(c, array, PLAIN)
    del array
    given_back(c, crafted, "after the array was gone")


@must("C-LIFETIME-TWICE", "A producer can be consumed twice: the arrays live and die on their own.", SEMANTICS)
def twice(c: Context) -> None:
    crafted = plain(c)
    producer = Producer(crafted)
    first, second = c.consume(producer), c.consume(producer)
    del first
    c.settle()
    right(c, second, PLAIN)
    del second
    given_back(c, crafted, "after both arrays were gone")


@must("C-LIFETIME-PRODUCER-READS", "The producer's memory is unchanged after it was consumed and read.", SEMANTICS)
def producer_reads(c: Context) -> None:
    crafted = plain(c)
    array = c.consume(crafted)
    right(c, array, PLAIN)
    c.needs(crafted.unreleased, "the array is a copy")
    unwritten(c, crafted, crafter.packed(PLAIN, "float32"))


@must("C-LIFETIME-THREADS",
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

    c.on_threads(partial(work, mine) for mine in tensors)
    c.needs(not lacking, "".join(lacking[:1]))
    if wrong:
        raise Broken(f"{len(wrong)} of 80 imports went wrong: {wrong[0]}")
    c.settle()
    calls = sorted({given.record.calls for mine in tensors for crafted in mine for given in crafted.all})
    c.expect(calls == [1], f"of 80 deleters, some ran {calls} times")
