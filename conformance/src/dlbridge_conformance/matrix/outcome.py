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
    """The outcome of one exchange."""

    kind: Kind
    #: the exception, the values, the signal
    detail: str = ""


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
    """The outcomes of one exchange: directly, and through dlbridge."""

    spec: Spec
    direct: Outcome
    through: Outcome

    @property
    def change(self) -> Change:
        """How dlbridge compares with the direct way."""
        return change(self.direct, self.through)


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


def repeat(producer: str, consumer: str, spec: Spec) -> str:
    """The command that repeats one cell."""
    options = {"producer": producer, "consumer": consumer, "dtype": spec.dtype, "layout": spec.layout}
    quoted = (f'--{name} "{value}"' if " " in value else f"--{name} {value}" for name, value in options.items())
    return f"python -m dlbridge_conformance.matrix {' '.join(quoted)}"
