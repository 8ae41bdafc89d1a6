"""Rules: a requirement, its source in the standard, and the check for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from dlbridge_conformance.context import Context

Check = Callable[[Context], None]


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
    id: str, role: Role, level: Level, says: str, source: str, processes: int = 0
) -> Callable[[Check], Check]:
    """Registers a check as a rule.

    The check returns if the library keeps the rule, and raises :class:`Broken` if it does not. Any other exception is
    an unexpected one of the library, and breaks the rule too.
    """

    def register(check: Check) -> Check:
        if id in RULES:
            raise ValueError(f"two rules have the id {id}")
        RULES[id] = Rule(id, role, level, says, source, check, processes)
        return check

    return register
