"""A report with every outcome, for the tests of its formats."""

from __future__ import annotations

from dlbridge_conformance import Level, Library, Report, Result, Role, Rule, Status

HOSTILE = "</script><!-- <img src=x onerror='document.title=1'> & \x00\x1b[31m\ud800\u202e]]> \"'"
COMMAND = "dlbridge-conformance"


def check(c: object) -> None:
    """A placeholder for a check; reports do not run it."""


#: the outcome of each rule in two libraries
RULES = {
    "P-ONE": (Role.PRODUCER, Level.MUST, Status.PASSED, Status.PASSED),
    "P-TWO": (Role.PRODUCER, Level.MUST, Status.FAILED, Status.PASSED),
    "P-THREE": (Role.PRODUCER, Level.SHOULD, Status.FAILED, Status.NOT_APPLICABLE),
    "C-ONE": (Role.CONSUMER, Level.MUST, Status.CRASHED, Status.PASSED),
    "C-TWO": (Role.CONSUMER, Level.MAY, Status.FAILED, Status.PASSED),
    "E-ONE": (Role.EXCHANGE_API, Level.SHOULD, Status.HUNG, Status.NOT_APPLICABLE),
}


def crafted_report() -> Report:
    """A report with every outcome, and with text that every format must escape."""
    rules = [
        Rule(id, role, level, f"What {id} says.", "dlpack.h 1.3", check) for id, (role, level, *_) in RULES.items()
    ]
    libraries = [Library("mylib:Adapter", "1.0+cpu"), Library("other", "2")]
    for number, library in enumerate(libraries):
        for id, (_, _, *statuses) in RULES.items():
            status = statuses[number]
            evidence = [("fed", HOSTILE), ("got", "two\nlines")]
            signal = "SIGSEGV" if status is Status.CRASHED else None
            detail = "" if status is Status.PASSED else HOSTILE
            library.results.append(Result(id, status, detail, evidence, signal, 0.5))
    return Report(rules, libraries, "0.1.0")
