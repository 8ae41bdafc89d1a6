"""What became of a check, and all of them together."""

from __future__ import annotations

import json
import platform
import sys
from dataclasses import asdict, dataclass, field
from enum import Enum
from typing import Any

from dlbridge_conformance.rule import Rule, all_rules


class Status(str, Enum):
    """What became of a check."""

    PASSED = "passed"
    FAILED = "failed"
    #: the process ended by a signal
    CRASHED = "crashed"
    #: the time was over
    HUNG = "hung"
    #: the library lacks what the rule is about; never counted as passed
    NOT_APPLICABLE = "not applicable"

    @property
    def is_broken(self) -> bool:
        """Whether the rule is broken."""
        return self in (Status.FAILED, Status.CRASHED, Status.HUNG)


@dataclass
class Result:
    """One rule on one library."""

    rule: str
    status: Status
    #: what was found, or why the rule does not apply; empty if it passed
    detail: str = ""
    #: what was fed and what came back, in order, as (kind, text)
    evidence: list[tuple[str, str]] = field(default_factory=list)
    #: the name of the signal that ended the process
    signal: str | None = None
    seconds: float = 0.0


@dataclass
class Library:
    """All results of one library."""

    name: str
    version: str
    results: list[Result] = field(default_factory=list)

    def count(self, status: Status) -> int:
        """How many checks ended so."""
        return sum(result.status is status for result in self.results)


#: how long a check may take, in seconds
LIMIT = 30.0


@dataclass
class Report:
    """All results, and what it takes to get them again."""

    rules: list[Rule]
    libraries: list[Library]
    dlbridge: str
    python: str = field(default_factory=platform.python_version)
    system: str = field(default_factory=lambda: f"{platform.system()} {platform.machine()}")
    limit: float = LIMIT

    def command(self, library: str, rule: str) -> str:
        """The command that repeats one cell."""
        limit = "" if self.limit == LIMIT else f" --limit {self.limit:g}"
        return f"python -m dlbridge_conformance {library} --rule {rule}{limit}"

    def to_dict(self) -> dict[str, Any]:
        """The report as plain values, as it is written to JSON."""
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


def read(text: str) -> Report:
    """A report out of the JSON that :meth:`Report.to_json` made.

    Raises ValueError for anything else, and for rules that this version of the kit does not have.
    """
    known = all_rules()
    try:
        plain = json.loads(text)
        rules = [known[rule["id"]] for rule in plain["rules"]]
        libraries = [
            Library(library["name"], library["version"], [_result(fields) for fields in library["results"]])
            for library in plain["libraries"]
        ]
        return Report(rules, libraries, plain["dlbridge"], plain["python"], plain["system"], plain["limit"])
    except (KeyError, TypeError) as error:
        raise ValueError(f"this is no report of this version of the kit: {error}") from None


def result_from(line: str) -> Result:
    """A result out of the line that :func:`line_of` made."""
    return _result(json.loads(line))


def _result(fields: dict[str, Any]) -> Result:
    fields.pop("command", None)
    fields["status"] = Status(fields["status"])
    fields["evidence"] = [tuple(entry) for entry in fields["evidence"]]
    return Result(**fields)


def line_of(result: Result) -> str:
    """A result as a line of JSON."""
    return json.dumps({**asdict(result), "status": result.status.value})


#: whether processes can be forked, which saves importing the library for each check
CAN_FORK = sys.platform != "win32"
