"""The result of a check, and the report of all checks."""

from __future__ import annotations

import json
import platform
from dataclasses import asdict, dataclass, field
from enum import Enum
from functools import cached_property
from typing import Any

from dlbridge_conformance.rule import Level, Rule


class Status(str, Enum):
    """How a check ended."""

    PASSED = "passed"
    FAILED = "failed"
    #: the process died
    CRASHED = "crashed"
    #: the check exceeded its time limit
    HUNG = "hung"
    #: the library lacks the feature; never counted as passed
    NOT_APPLICABLE = "not applicable"

    @property
    def is_broken(self) -> bool:
        """True if the rule is broken."""
        return self in (Status.FAILED, Status.CRASHED, Status.HUNG)


@dataclass
class Result:
    """The result of one rule for one library."""

    rule: str
    status: Status
    #: the finding, or why the rule does not apply; empty if the check passed
    detail: str = ""
    #: inputs and results in order, as (kind, text)
    evidence: list[tuple[str, str]] = field(default_factory=list)
    #: the name of the signal that ended the process
    signal: str | None = None
    seconds: float = 0.0


#: how the finding begins if a library could not be imported, or not in time
NOT_IMPORTED = ("the library could not be imported: ", "the library was not imported after ")


@dataclass
class Library:
    """The results of one library."""

    name: str
    version: str
    results: list[Result] = field(default_factory=list)

    def count(self, status: Status) -> int:
        """How many checks ended with this status."""
        return sum(result.status is status for result in self.results)

    @property
    def import_failure(self) -> str:
        """The finding that says that the library could not be imported; empty if it was imported."""
        broken = {result.detail: None for result in self.results if result.status.is_broken}
        return next((detail for detail in broken if detail.startswith(NOT_IMPORTED)), "")


#: the time limit of a check, in seconds
LIMIT = 30.0

#: the command that runs the kit, in texts that say how to repeat a check
PROGRAM = "dlbridge-conformance"

@dataclass
class Report:
    """All results, with the versions and settings that reproduce them."""

    rules: list[Rule]
    libraries: list[Library]
    dlbridge: str
    python: str = field(default_factory=platform.python_version)
    system: str = field(default_factory=lambda: f"{platform.system()} {platform.machine()}")
    limit: float = LIMIT
    #: the ids of rules whose breaks are known and do not fail, each with a comment
    known: dict[str, str] = field(default_factory=dict)

    def level(self, result: Result) -> Level:
        """The level of the rule of a result."""
        return self._levels[result.rule]

    @cached_property
    def _levels(self) -> dict[str, Level]:
        return {rule.id: rule.level for rule in self.rules}

    def counts(self, library: Library) -> list[int]:
        """How many rules a library keeps; breaks, by level; crashed or hung in; and how many do not apply."""
        broken = [self.level(result) for result in library.results if result.status.is_broken]
        crashed = library.count(Status.CRASHED) + library.count(Status.HUNG)
        by_level = [broken.count(level) for level in Level]
        return [library.count(Status.PASSED), *by_level, crashed, library.count(Status.NOT_APPLICABLE)]

    def fails(self, result: Result) -> bool:
        """Returns whether a result makes the run fail: a broken MUST or SHOULD that is not a known failure."""
        return result.status.is_broken and result.rule not in self.known and self.level(result) is not Level.MAY

    def command(self, library: str, rule: str) -> str:
        """The command that repeats one cell."""
        limit = "" if self.limit == LIMIT else f" --limit {self.limit:g}"
        return f"{PROGRAM} {library} --rule {rule}{limit}"

    def to_dict(self) -> dict[str, Any]:
        """The report as plain values for JSON."""
        return {
            "schema": 1,
            "dlbridge": self.dlbridge,
            "python": self.python,
            "system": self.system,
            "limit": self.limit,
            "rules": [
                {"id": r.id, "role": r.role.value, "level": r.level.value, "says": r.says, "source": r.source}
                for r in self.rules
            ],
            "libraries": [
                {
                    "name": library.name,
                    "version": library.version,
                    "results": [
                        {**asdict(result), "status": result.status.value,
                         "command": self.command(library.name, result.rule)}
                        for result in library.results
                    ],
                }
                for library in self.libraries
            ],
        }  # fmt: skip

    def to_json(self) -> str:
        """The report as JSON."""
        return json.dumps(self.to_dict(), indent=1)


def result_from(line: str) -> Result:
    """Reads a result from the line that :func:`line_of` made."""
    fields = json.loads(line)
    fields["status"] = Status(fields["status"])
    fields["evidence"] = [tuple(entry) for entry in fields["evidence"]]
    return Result(**fields)


def line_of(result: Result) -> str:
    """A result as a line of JSON."""
    return json.dumps({**asdict(result), "status": result.status.value})

