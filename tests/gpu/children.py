"""Starts the processes of the checks, and collects their reports and how they ended."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from check import FAILED, SKIPPED, Check, Result
from report import Report

#: The argument that marks one of these processes.
MARK = "--child"

#: The time limit of a library's checks, in seconds.
LIMIT = 900

#: JAX would reserve most of a device's memory, and a crash would not show where it happened.
ENVIRONMENT = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false", "PYTHONFAULTHANDLER": "1", "PYTHONDONTWRITEBYTECODE": "1"}


@dataclass
class Ended:
    """How a process ended, and its reports."""

    told: list[dict[str, Any]]
    #: why it did not finish; empty if it did
    failure: str


@dataclass
class Runner:
    """Starts the processes."""

    folder: Path
    packages: Path
    stand_in: Path | None
    quick: bool
    limit: float = LIMIT

    def start(self, what: str) -> Ended:
        """Runs a process to its end."""
        events, output = self.folder / f"{what}.events", self.folder / f"{what}.output"
        order = {
            "what": what,
            "packages": str(self.packages),
            "events": str(events),
            "stand_in": None if self.stand_in is None else str(self.stand_in.resolve()),
            "quick": self.quick,
        }
        command = [sys.executable, str(Path(__file__).parent), MARK, json.dumps(order)]
        events.touch()
        with output.open("wb") as file:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, env={**os.environ, **ENVIRONMENT}
            )
            try:
                code: int | None = process.wait(self.limit)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                code = None
        told = read(events.read_text(encoding="utf-8"))
        if told and told[-1] == {"ends": True}:
            return Ended(told[:-1], "")
        return Ended(told, f"{ended(code, self.limit)}\n{tail(output)}".strip())

    def machine(self) -> dict[str, str] | str:
        """Returns the driver's description of the machine, or the reason why the device is missing."""
        answer = self.start("machine")
        for event in answer.told:
            if "machine" in event:
                return dict(event["machine"])
            if "no device" in event:
                return str(event["no device"])
        # A driver that crashes counts as no device, but the whole reason must be visible.
        raise SystemExit(f"The query of the driver failed.\n{answer.failure}")

    def check(self, library: str, report: Report) -> None:
        """Runs the checks of a library."""
        add(library, self.start(library), report)

    def measure(self, report: Report) -> None:
        """Runs the measurements."""
        answer = self.start("timings")
        report.timings += [event["table"] for event in answer.told if "table" in event]
        if answer.failure:
            sentence = "The exchange and the copies are measured."
            report.results.append(Result("timings", "timings", sentence, FAILED, answer.failure))


def read(text: str) -> list[dict[str, Any]]:
    """Parses the reports line by line, and drops an unfinished line."""
    told = []
    for line in text.splitlines():
        try:
            told.append(json.loads(line))
        except ValueError:
            break
    return told


def ended(code: int | None, limit: float) -> str:
    """Describes how a process ended."""
    if code is None:
        return f"The process did not end within {limit:g} seconds."
    if code < 0:
        try:
            return f"The process crashed: {signal.Signals(-code).name}."
        except ValueError:
            return f"The process crashed: signal {-code}."
    return f"The process exited early with code {code}."


def tail(output: Path, lines: int = 20) -> str:
    """Returns the last lines that a process wrote."""
    return "\n".join(output.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:])


def add(library: str, answer: Ended, report: Report) -> None:
    """Adds the results of a library's checks. The check that crashed failed; the checks after it did not run."""
    expected: list[dict[str, str]] = next((event["checks"] for event in answer.told if "checks" in event), [])
    checks = [Check(one["name"], one["sentence"], lambda _: None) for one in expected]
    results = {event["result"]["check"]: Result(**event["result"]) for event in answer.told if "result" in event}
    begun = next((event["begins"] for event in reversed(answer.told) if "begins" in event), None)
    missing = next((event["skipped"] for event in answer.told if "skipped" in event), None)
    for event in answer.told:
        if "version" in event:
            report.machine[library] = event["version"]
    if missing is not None and not answer.failure:
        report.machine[library] = f"skipped: {missing}"
    added = []
    for check in checks:
        if check.name in results:
            added.append(results[check.name])
        elif missing is not None:
            added.append(check.result(library, SKIPPED, missing))
        elif check.name == begun:
            added.append(check.result(library, FAILED, answer.failure))
        else:
            added.append(check.result(library, FAILED, "It was not run, because the library's process had ended."))
    if answer.failure and not any(result.outcome == FAILED for result in added):
        sentence = "The library's process exits normally."
        added.append(Result(library, "the-process", sentence, FAILED, answer.failure))
    report.results += added
