"""What became of an exchange, and which of two outcomes is the better one."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Kind(str, Enum):
    """What became of an exchange."""

    #: right values at the producer's address
    ZERO_COPY = "zero-copy"
    #: right values elsewhere
    COPIED = "copied"
    #: an exception
    REFUSED = "refused"
    #: zero-copy, and the consumer writes what must not be written
    UNPROTECTED = "unprotected"
    #: values that differ, without an exception
    WRONG = "wrong"
    #: the process ended
    CRASHED = "crashed"
    #: the time was over
    HUNG = "hung"
    #: there is no such way
    NONE = "none"


#: How good an outcome is. What is refused loudly is better than what goes wrong without a word.
RANK = {
    Kind.ZERO_COPY: 4,
    Kind.COPIED: 3,
    Kind.REFUSED: 2,
    Kind.UNPROTECTED: 1,
    Kind.WRONG: 1,
    Kind.CRASHED: 0,
    Kind.HUNG: 0,
}


class Way(str, Enum):
    """How an object goes from its library to another."""

    #: the consumer's ``from_dlpack``, or what it has in its place, of the producer's object
    DIRECT = "direct"
    #: the same function, of ``dlbridge.asdlpack(object)``
    ASDLPACK = "asdlpack"
    #: ``dlbridge.asdlpack(object).to(consumer)``
    TO = "to"
    #: the consumer's function that makes an array of anything, of the producer's object
    CONVERTED = "converted"


class Change(str, Enum):
    """What dlbridge changes, compared with the direct way."""

    WORKS = "works"
    SAFE = "safe"
    SHARES = "shares"
    SAME = "same"
    COPIES = "copies"
    WORSE = "worse"


@dataclass(frozen=True)
class Outcome:
    """What became of one exchange, in one way."""

    kind: Kind
    #: the exception, the values, the signal
    detail: str = ""


NOTHING = Outcome(Kind.NONE)


def change(direct: Outcome, through: Outcome) -> Change:
    """What dlbridge changes in one cell.

    It WORKS where the direct way has no right result and dlbridge has one; it is SAFE where both have none, and
    dlbridge refuses what goes wrong directly; it SHARES what is copied directly, or COPIES what is shared directly;
    and it is WORSE where the direct way has the right result, or the refusal, and dlbridge has not.
    """
    before, after = RANK[direct.kind], RANK[through.kind]
    right = RANK[Kind.COPIED]
    if before == after:
        return Change.SAME
    if after > before:
        return Change.SHARES if before >= right else Change.WORKS if after >= right else Change.SAFE
    return Change.COPIES if after >= right else Change.WORSE


@dataclass(frozen=True)
class Spec:
    """A cell of one pair: what is exchanged."""

    dtype: str
    layout: str

    def __str__(self) -> str:
        return f"{self.dtype}, {self.layout}"


@dataclass
class Cell:
    """What became of one exchange, in every way."""

    spec: Spec
    ways: dict[Way, Outcome]

    @property
    def through(self) -> Outcome:
        """The way through dlbridge that its users are told to go."""
        to = self.ways.get(Way.TO, NOTHING)
        return self.ways.get(Way.ASDLPACK, NOTHING) if to.kind is Kind.NONE else to

    @property
    def change(self) -> Change:
        """What dlbridge changes."""
        return change(self.ways[Way.DIRECT], self.through)


@dataclass
class Pair:
    """All cells of a producer and a consumer."""

    producer: str
    consumer: str
    cells: list[Cell]


@dataclass
class Matrix:
    """All pairs, and what it takes to get them again."""

    #: names to versions; an empty version for what comes with Python
    producers: dict[str, str]
    consumers: dict[str, str]
    pairs: list[Pair]
    dlbridge: str
    python: str
    system: str

    def command(self, pair: Pair, cell: Cell) -> str:
        """The command that repeats one cell."""
        return repeat(pair.producer, pair.consumer, cell.spec)


def repeat(producer: str, consumer: str, spec: Spec) -> str:
    """The command that repeats one cell."""
    options = {"producer": producer, "consumer": consumer, "dtype": spec.dtype, "layout": spec.layout}
    quoted = (f'--{name} "{value}"' if " " in value else f"--{name} {value}" for name, value in options.items())
    return f"python -m dlbridge_conformance.matrix {' '.join(quoted)}"
