"""The report, printed and as JSON: the machine, the result of every check, the timings."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from check import FAILED, PASSED, SKIPPED, Result

STAND_IN = "These results are from a stand-in for the driver over host memory. They are NOT GPU RESULTS."


@dataclass
class Report:
    """The results of all checks."""

    hardware: bool
    machine: dict[str, str] = field(default_factory=dict)
    results: list[Result] = field(default_factory=list)
    #: the times of exchanges and the bandwidths of copies, as the tables of the report
    timings: list[dict[str, Any]] = field(default_factory=list)

    def count(self, outcome: str) -> int:
        """Returns the number of checks with this outcome."""
        return sum(result.outcome == outcome for result in self.results)

    @property
    def exit_code(self) -> int:
        """1 if a check failed, or if none passed."""
        return 1 if self.count(FAILED) or not self.count(PASSED) else 0

    def as_json(self) -> dict[str, Any]:
        """Converts the report for the JSON file."""
        return {
            "ran": True,
            "hardware": self.hardware,
            "machine": self.machine,
            "counts": {outcome: self.count(outcome) for outcome in (PASSED, FAILED, SKIPPED)},
            "checks": [result.as_json() for result in self.results],
            "timings": self.timings if self.hardware else [],
        }

    def text(self) -> str:
        """Formats the report for printing."""
        lines = [] if self.hardware else [STAND_IN, ""]
        lines += [f"{name}: {value}" for name, value in self.machine.items()]
        for library in dict.fromkeys(result.library for result in self.results):
            lines += ["", library, *_of(library, self.results)]
        if self.hardware:
            for table in self.timings:
                lines += ["", *_table(table)]
        lines += ["", self.summary()]
        if not self.hardware:
            lines += ["Times and bandwidths are not measured on the stand-in.", "", STAND_IN]
        return "\n".join(lines)

    def summary(self) -> str:
        """Returns the closing line."""
        counts = ", ".join(f"{self.count(outcome)} {outcome}" for outcome in (PASSED, FAILED, SKIPPED))
        where = "on this machine's GPU" if self.hardware else "on the stand-in"
        nothing = "" if self.count(PASSED) or self.count(FAILED) else "; no check ran, which counts as a failure"
        return f"{where}: {counts}{nothing}"


def _of(library: str, results: list[Result]) -> list[str]:
    """Returns the lines of a library; one line if all its checks were skipped for one reason."""
    own = [result for result in results if result.library == library]
    reasons = Counter(result.reason for result in own if result.outcome == SKIPPED)
    if len(own) > 1 and max(reasons.values(), default=0) == len(own):
        return [f"  {SKIPPED}  all {len(own)} checks: {own[0].reason}"]
    lines = []
    for result in own:
        lines.append(f"  {result.outcome:7}  {result.check}: {result.sentence}")
        lines += [f"           {line}" for line in result.reason.splitlines()]
    return lines


def _table(table: dict[str, Any]) -> list[str]:
    """Formats a table with a heading; each row is a list of texts."""
    rows = [table["columns"], *table["rows"]]
    widths = [max(len(str(row[i])) for row in rows) for i in range(len(table["columns"]))]
    lines = [
        "  ".join(str(cell).ljust(width) if i == 0 else str(cell).rjust(width)
                  for i, (cell, width) in enumerate(zip(row, widths, strict=True))).rstrip()
        for row in rows
    ]  # fmt: skip
    return [table["heading"], *(f"  {line}" for line in lines)]


def nothing_ran(reason: str) -> tuple[str, dict[str, Any]]:
    """Returns the text and the JSON content for a machine without a device."""
    sentence = f"No CUDA device here: {reason}. Nothing was run on hardware."
    return sentence, {"ran": False, "hardware": False, "reason": reason}
