"""Rules: a requirement, its source in the standard, and the check for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from dlbridge_conformance.context import Context

Check = Callable[[Context], object]


class Level(str, Enum):
    """The level of a rule, by RFC 2119."""

    MUST = "MUST"
    SHOULD = "SHOULD"
    MAY = "MAY"


class Role(str, Enum):
    """The side of an exchange that a rule is about."""

    PRODUCER = "producer"
    CONSUMER = "consumer"
    #: the C exchange API that a type offers
    EXCHANGE_API = "exchange-api"


@dataclass(frozen=True)
class Rule:
    """A rule with its check.

    ``id`` is its name, which never changes; ``says`` is the requirement in our words; ``source`` is the place in the
    standard. ``processes`` is how many processes the check starts that import the library; each extends the time limit.
    """

    id: str
    role: Role
    level: Level
    says: str
    source: str
    check: Check
    processes: int = 0


#: all rules whose modules were imported, by id
RULES: dict[str, Rule] = {}


def rule(
    id: str, role: Role, level: Level, says: str, source: str, check: Check | None = None, processes: int = 0
) -> Callable[[Check], Check]:
    """Registers a check as a rule: the argument ``check``, or the function that this decorates.

    The check returns if the library keeps the rule, and raises :class:`Broken` if it does not. Any other exception is
    an unexpected one of the library, and breaks the rule too.
    """

    def register(check: Check) -> Check:
        if id in RULES:
            raise ValueError(f"two rules have the id {id}")
        RULES[id] = Rule(id, role, level, says, source, check, processes)
        return check

    if check is not None:
        register(check)
    return register


def each(items: Iterable[Any], check: Callable[[Context, Any], object]) -> Check:
    """A check of several things, one after another."""
    kept = tuple(items)

    def check_all(c: Context) -> None:
        for item in kept:
            check(c, item)

    return check_all


#: the role of a rule of the kit, by the first letter of its id
ROLES = {"P": Role.PRODUCER, "C": Role.CONSUMER, "X": Role.EXCHANGE_API}


def must(id: str, says: str, source: str, check: Check | None = None, processes: int = 0) -> Callable[[Check], Check]:
    """Registers a rule of the level MUST."""
    return rule(id, ROLES[id[0]], Level.MUST, says, source, check, processes)


def should(id: str, says: str, source: str, check: Check | None = None, processes: int = 0) -> Callable[[Check], Check]:
    """Registers a rule of the level SHOULD."""
    return rule(id, ROLES[id[0]], Level.SHOULD, says, source, check, processes)


def may(id: str, says: str, source: str, check: Check | None = None, processes: int = 0) -> Callable[[Check], Check]:
    """Registers a rule of the level MAY."""
    return rule(id, ROLES[id[0]], Level.MAY, says, source, check, processes)
