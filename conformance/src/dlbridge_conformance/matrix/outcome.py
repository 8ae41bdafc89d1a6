"""The outcome of an exchange, and the order of outcomes from bad to good."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Kind(str, Enum):
    """How an exchange ended."""

    #: right values at the producer's address
    ZERO_COPY = "zero-copy"
    #: right values elsewhere
    COPIED = "copied"
    #: an exception
    REFUSED = "refused"
    #: zero-copy, and the consumer can write read-only memory
    UNPROTECTED = "unprotected"
    #: wrong values without an exception
    WRONG = "wrong"
    #: the process died
    CRASHED = "crashed"
    #: the exchange exceeded its time limit
    HUNG = "hung"
    #: the consumer does not have this way
    NONE = "none"


#: How good an outcome is. An exception is better than a silent error.
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
    """How an object is passed from its library to another."""

    #: the consumer's ``from_dlpack``, or its closest function, called with the producer's object
    DIRECT = "direct"
    #: the same function, called with ``dlbridge.asdlpack(object)``
    ASDLPACK = "asdlpack"
    #: ``dlbridge.asdlpack(object).to(consumer)``
    TO = "to"
    #: the consumer's function that converts any object to an array, called with the producer's object
    CONVERTED = "converted"


class Change(str, Enum):
    """How dlbridge compares with the direct way."""

    WORKS = "works"
    SAFE = "safe"
    SHARES = "shares"
    SAME = "same"
    COPIES = "copies"
    WORSE = "worse"


@dataclass(frozen=True)
class Outcome:
    """The outcome of one exchange in one way."""

    kind: Kind
    #: the exception, the values, the signal
    detail: str = ""


NOTHING = Outcome(Kind.NONE)


def change(direct: Outcome, through: Outcome) -> Change:
    """Compares dlbridge with the direct way.

    * WORKS: only dlbridge gives the right result.
    * SAFE: dlbridge refuses, and the direct way goes wrong.
    * SHARES: dlbridge shares memory, and the direct way copies.
    * COPIES: dlbridge copies, and the direct way shares memory.
    * WORSE: the direct way gives the right result or refuses, and dlbridge does not.
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
    """The dtype and layout of an exchange."""

    dtype: str
    layout: str

    def __str__(self) -> str:
        return f"{self.dtype}, {self.layout}"


@dataclass
class Cell:
    """The outcomes of one exchange, in every way."""

    spec: Spec
    ways: dict[Way, Outcome]

    @property
    def through(self) -> Outcome:
        """The outcome of the recommended way through dlbridge."""
        to = self.ways.get(Way.TO, NOTHING)
        return self.ways.get(Way.ASDLPACK, NOTHING) if to.kind is Kind.NONE else to

    @property
    def change(self) -> Change:
        """How dlbridge compares with the direct way."""
        return change(self.ways[Way.DIRECT], self.through)


@dataclass
class Pair:
    """All cells of a producer and a consumer."""

    producer: str
    consumer: str
    cells: list[Cell]


@dataclass
class Matrix:
    """All pairs, with the versions that reproduce them."""

    #: names to versions; the version is empty for parts of Python
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
