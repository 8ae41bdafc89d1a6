"""How a consumer consumes the capsule."""

from __future__ import annotations

from typing import Any

from dlbridge_conformance import crafter
from dlbridge_conformance.context import Context
from dlbridge_conformance.crafter import Crafted, Producer
from dlbridge_conformance.outcome import Broken
from dlbridge_conformance.rule import each, must, should
from dlbridge_conformance.rules.consumer_outcome import (
    PLAIN, PYTHON, feed, given_back, legacy, plain, right, takes, versioned,
)  # fmt: skip

IMPLEMENTATION = f"{PYTHON}, Implementation"


def consumed(c: Context, crafted: Crafted) -> tuple[Any, Any]:
    """Imports a crafted tensor. Returns the array, and the capsule, which the producer keeps."""
    capsule = crafted.capsule()
    return c.consume(Producer(capsule)), capsule


def renamed(c: Context, crafted: Crafted, expected: str) -> None:
    """Expects the name of a capsule after it was consumed."""
    array, capsule = consumed(c, crafted)
    name = crafter.capsule_name(capsule)
    c.got(f"the capsule is named {name!r}")
    del array
    if name != expected:
        needs_ownership(c, crafted)
    c.expect(name == expected, f"the capsule is named {name!r} after it was consumed, and not {expected!r}")


def needs_ownership(c: Context, crafted: Crafted) -> None:
    """Raises :class:`NotApplicable` for a library that keeps the capsule alive instead of taking the tensor."""
    c.settle()
    c.needs(crafted.record.calls, f"{c.lib.name} does not take the tensor out of the capsule")


must("C-CAPSULE-RENAMED-VERSIONED",
     "A consumer renames the versioned capsule that it takes to 'used_dltensor_versioned'.", IMPLEMENTATION,
     lambda c: renamed(c, versioned(c), "used_dltensor_versioned"))  # fmt: skip
must("C-CAPSULE-RENAMED-LEGACY", "A consumer renames the legacy capsule that it takes to 'used_dltensor'.",
     IMPLEMENTATION, lambda c: renamed(c, legacy(c), "used_dltensor"))  # fmt: skip


@must("C-CAPSULE-OUTLIVES-ARRAY",
      "The capsule's destructor frees nothing that the consumer has freed, if the capsule dies after the array.",
      IMPLEMENTATION)  # fmt: skip
def outlives_array(c: Context) -> None:
    crafted = plain(c)
    array, capsule = consumed(c, crafted)
    right(c, array, PLAIN)
    del array
    given_back(c, crafted, "after the array was gone")
    del capsule
    given_back(c, crafted, "after the capsule was gone too")


@must("C-CAPSULE-DIES-FIRST", "The array owns the memory: it stays valid when the capsule dies before it.",
      IMPLEMENTATION)  # fmt: skip
def dies_first(c: Context) -> None:
    crafted = plain(c)
    array, capsule = consumed(c, crafted)
    del capsule
    c.settle()
    right(c, array, PLAIN)
    del array
    given_back(c, crafted, "after the array was gone")


@must("C-CAPSULE-REFUSED-OWNER",
      "A consumer that refuses leaves the capsule as it was, or takes it and calls the deleter; never both.",
      IMPLEMENTATION)  # fmt: skip
def refused_owner(c: Context) -> None:
    crafted = plain(c, dtype=(99, 32, 1))
    if takes(c, True):
        crafted = c.craft((6,), versioned=True, version=(2, 0))
    capsule = crafted.capsule()
    array, said = feed(c, Producer(capsule))
    del array
    c.settle()
    c.needs(said, f"{c.lib.name} accepts the tensors that it was expected to refuse")
    name, calls = crafter.capsule_name(capsule), crafted.record.calls
    c.got(f"the capsule is named {name!r}, the deleter ran {calls} times")
    taken = (name or "").startswith("used_")
    c.expect(calls == int(taken), f"refused, the capsule is named {name!r}, and the deleter ran {calls} times")
    del capsule
    given_back(c, crafted, "after the capsule was gone too")


@must("C-CAPSULE-SECOND-USE",
      "A capsule is consumed once: a second import of it is refused and leaves the first array alone.", IMPLEMENTATION)  # fmt: skip
def second_use(c: Context) -> None:
    crafted = plain(c)
    array, capsule = consumed(c, crafted)
    again, said = feed(c, Producer(capsule))
    if said is None:
        del array, again
        needs_ownership(c, crafted)
        raise Broken("the second import is not refused")
    right(c, array, PLAIN)
    del array, capsule
    given_back(c, crafted, "after everything was gone")


@must("C-CAPSULE-USED", "A capsule whose name says that it was consumed is refused, and its tensor is not touched.",
      IMPLEMENTATION)  # fmt: skip
def used(c: Context) -> None:
    crafted = plain(c)
    name = "used_dltensor_versioned" if crafted.versioned else "used_dltensor"
    untouched(c, crafted, name)


must("C-CAPSULE-FOREIGN-NAME",
     "A capsule of another name is not a DLPack capsule: it is refused, not renamed, and its content is not touched.",
     IMPLEMENTATION, each(("arrow_array", "dltensor_versioned_2", "DLTENSOR"),
     lambda c, name: untouched(c, plain(c), name)))  # fmt: skip
should("C-CAPSULE-NO-NAME", "A capsule without a name is refused, and its content is not touched.", IMPLEMENTATION,
       lambda c: untouched(c, plain(c), None))  # fmt: skip


def untouched(c: Context, crafted: Crafted, name: str | None) -> None:
    """Expects that a capsule with this name is refused and keeps its name, and that the deleter does not run."""
    capsule = crafted.capsule(name)
    c.fed(f"in a capsule named {name!r}")
    c.refused(lambda: c.consume(Producer(capsule)))
    after = crafter.capsule_name(capsule)
    c.expect(after == name, f"the capsule named {name!r} was renamed to {after!r}")
    del capsule
    c.settle()
    calls = crafted.record.calls
    c.expect(calls == 0, f"the deleter of a tensor in a capsule named {name!r} ran {calls} times")
