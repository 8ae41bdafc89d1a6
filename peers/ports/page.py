"""The page docs/ports.md, from the results."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

#: how much worse than the original nothing may be
LIMIT = 1.10

#: the exception that PyO3 raises for a panic
PANIC = "PanicException"

#: the compared numbers of a build: the name in the results and on the page, the unit, and the digits
BUILDS = (("seconds", "build, CPU seconds", 1, "{:.0f}"), ("bytes", "wheel, kB", 1000, "{:.0f}"))

INTRODUCTION = """\
# Extensions that moved from rust-numpy

`cargo xtask ports` downloads each extension from PyPI, ports a copy to dlbridge, builds both versions, runs the extension's own Python tests
with both, unchanged, and measures the same calls in both. `peers/ports/NAME.base.ed` moves the extension to PyO3 0.30 and rust-numpy 0.30, if it was
published with older versions; the tables call this version *rust-numpy*. `NAME.ed` ports it from there to dlbridge, [altogether](migration.md#all-of-it): arguments
and results. Each port disables the [features](wheel-size.md#features) that it does not need. Rust tests of functions whose arguments changed are not run.
"""

TIMES = """\
## Time of a call

The least time of a call. A round is one process of each version. The rounds end when 5 in a row did not lower any least time of
either version by more than 2 %, or after 20. `small` is 1 to 100 elements, which shows the cost of the arguments and the result; `large`
is 1 500 boxes, 20 000 atoms, 200 000 directions, or about a million samples.
"""

ACCEPTED = """\
## Accepted objects

The outcome of a call with another object of the same elements: *yes* if the result equals that of the NumPy array, otherwise the exception. A cell
with an arrow has the outcomes with rust-numpy and with dlbridge. The calls are those of compiled functions; an extension's Python code may refuse or
convert more.
"""


WORSE = """\
## Worse than the original

Numbers that are worse by more than 10 %, more `unsafe`, tests that pass only with rust-numpy, objects that only rust-numpy accepts, and panics of
the port. `cargo xtask ports` fails for each of these, except the build and the wheel.
"""


class Worse(NamedTuple):
    """A row of the table of regressions."""

    extension: str
    what: str
    base: str
    port: str


def rendered(results: dict[str, Any]) -> str:
    """Returns the whole page."""
    parts = [INTRODUCTION, *summary(results), TIMES, *times(results), ACCEPTED, *accepted(results)]
    return "\n".join([*parts, WORSE, *table(costs(results) + regressions(results)), ""])


def table(worse: list[Worse]) -> list[str]:
    rows = ["| | what | rust-numpy | dlbridge |", "| --- | --- | ---: | ---: |"]
    return [*rows, *("| " + " | ".join(row) + " |" for row in worse)] if worse else ["Nothing."]


def summary(results: dict[str, Any]) -> list[str]:
    rows = [
        "| | " + " | ".join(result["package"].replace("==", " ") for result in results.values()) + " |",
        "| --- |" + " ---: |" * len(results),
    ]

    def row(label: str, cell: Any) -> None:
        rows.append(f"| {label} | " + " | ".join(cell(result) for result in results.values()) + " |")

    row("its own tests, rust-numpy", lambda r: tested(r["tests base"]))
    row("its own tests, dlbridge", lambda r: tested(r["tests port"]))
    row("lines added, removed", lambda r: f"+{r['lines'][0]} -{r['lines'][1]}")
    row("`unsafe`", lambda r: f"{r['unsafe base']} → {r['unsafe port']}")
    for what, text, unit, form in BUILDS:
        row(text, partial(change, what=what, unit=unit, form=form))
    row("newly accepted", lambda r: ", ".join(now_accepted(r)) or "nothing more")
    notes = [f"*{name}*: {result['note']}\n" for name, result in results.items() if result.get("note")]
    return [*rows, "", *notes]


def tested(tests: dict[str, Any]) -> str:
    return f"{tests['passed']} passed" + (f", {len(tests['failed'])} failed" if tests["failed"] else "")


def change(result: dict[str, Any], what: str, unit: float, form: str) -> str:
    base, port = (result[f"build {version}"][what] / unit for version in ("base", "port"))
    return f"{form.format(base)} → {form.format(port)} ({port / base:.2f} x)"


def times(results: dict[str, Any]) -> list[str]:
    rows = ["| call | rust-numpy | dlbridge | ratio |", "| --- | ---: | ---: | ---: |"]
    for name, result in results.items():
        for label, base in result["times"]["base"].items():
            port = result["times"]["port"][label]
            rows.append(f"| {name}: {label} | {shown(base)} | {shown(port)} | {port / base:.2f} |")
    return [*rows, ""]


def slower(base: dict[str, float], port: dict[str, float]) -> list[str]:
    """Returns the calls of the port above the limit."""
    return [label for label, time in base.items() if port[label] / time > LIMIT]


def shown(time: float) -> str:
    return f"{time:.0f} ns" if time < 1e5 else f"{time / 1e6:.2f} ms"


def now_accepted(result: dict[str, Any]) -> list[str]:
    """Returns the objects that only the port accepts."""
    before, after = result["accepts base"], result["accepts port"]
    return [kind for kind in before if before[kind] != "yes" == after[kind]]


def accepted(results: dict[str, Any]) -> list[str]:
    rows = ["| | " + " | ".join(results) + " |", "|" + " --- |" * (len(results) + 1)]
    kinds = dict.fromkeys(kind for result in results.values() for kind in result["accepts base"])
    for kind in kinds:
        cells = (outcome(result, kind) for result in results.values())
        rows.append(f"| {kind} | " + " | ".join(cells) + " |")
    return [*rows, ""]


def outcome(result: dict[str, Any], kind: str) -> str:
    """Returns the results of both versions, or an empty text if the object was not tried."""
    both = dict.fromkeys(result[f"accepts {version}"].get(kind, "") for version in ("base", "port"))
    return " → ".join(word if word in ("yes", "") else f"`{word}`" for word in both)


def costs(results: dict[str, Any]) -> list[Worse]:
    """Returns the builds and wheels above the limit."""
    found = []
    for name, result in results.items():
        for what, text, unit, form in BUILDS:
            base, port = (result[f"build {version}"][what] / unit for version in ("base", "port"))
            if port / base > LIMIT:
                found.append(Worse(name, text, form.format(base), f"{form.format(port)} ({port / base:.2f} x)"))
    return found


def regressions(results: dict[str, Any]) -> list[Worse]:
    """Returns the regressions of the ports.

    A port must not fail other tests, exceed the limit of time, refuse an object that was accepted, panic, or need more
    `unsafe`.
    """
    found = []
    for name, result in results.items():
        base, port = (result[f"tests {version}"] for version in ("base", "port"))
        new = sorted(set(port["failed"]) - set(base["failed"]))
        found += [Worse(name, f"the test `{test}`", "passes", "fails") for test in new]
        if port["passed"] < base["passed"]:
            found.append(Worse(name, "its own tests", tested(base), tested(port)))
        if result["unsafe port"] > result["unsafe base"]:
            found.append(Worse(name, "`unsafe`", str(result["unsafe base"]), str(result["unsafe port"])))
        times = result["times"]
        for label in slower(times["base"], times["port"]):
            least, time = times["base"][label], times["port"][label]
            found.append(Worse(name, label, shown(least), f"{shown(time)} ({time / least:.2f} x)"))
        for kind, before in result["accepts base"].items():
            after = result["accepts port"][kind]
            if after == PANIC or (before == "yes" != after):
                found.append(Worse(name, f"argument: {kind}", before, after))
    return found
