"""The tables of the results."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from report import table

#: how much worse than the original nothing may be
LIMIT = 1.10

#: the exception that PyO3 raises for a panic
PANIC = "PanicException"

#: the compared numbers of a build: the name in the results and on the page, the unit, and the digits
BUILDS = (("seconds", "build, CPU seconds", 1, "{:.0f}"), ("bytes", "wheel, kB", 1000, "{:.0f}"))


class Worse(NamedTuple):
    """A row of the table of regressions."""

    extension: str
    what: str
    base: str
    port: str


def rendered(results: dict[str, Any]) -> str:
    """Returns all tables."""
    worse = worse_table(costs(results) + regressions(results))
    return "\n\n".join([summary(results), times(results), accepted(results), worse]) + "\n"


def worse_table(worse: list[Worse]) -> str:
    if not worse:
        return "Nothing is worse."
    return table(["worse than the original", "what", "rust-numpy", "dlbridge"], [list(row) for row in worse])


def summary(results: dict[str, Any]) -> str:
    def row(label: str, cell: Callable[[Any], str]) -> list[str]:
        return [label, *(cell(result) for result in results.values())]

    rows = [
        row("its own tests, rust-numpy", lambda r: tested(r["tests base"])),
        row("its own tests, dlbridge", lambda r: tested(r["tests port"])),
        row("lines added, removed", lambda r: f"+{r['lines'][0]} -{r['lines'][1]}"),
        row("`unsafe`", lambda r: f"{r['unsafe base']} → {r['unsafe port']}"),
        *(row(text, partial(change, what=what, unit=unit, form=form)) for what, text, unit, form in BUILDS),
        row("newly accepted", lambda r: ", ".join(now_accepted(r)) or "nothing more"),
        row("accepted only with the package dlbridge", lambda r: ", ".join(of_package(r)) or "none"),
    ]
    return table(["", *(result["package"].replace("==", " ") for result in results.values())], rows)


def tested(tests: dict[str, Any]) -> str:
    return f"{tests['passed']} passed" + (f", {len(tests['failed'])} failed" if tests["failed"] else "")


def change(result: dict[str, Any], what: str, unit: float, form: str) -> str:
    base, port = (result[f"build {version}"][what] / unit for version in ("base", "port"))
    return f"{form.format(base)} → {form.format(port)} ({port / base:.2f} x)"


def times(results: dict[str, Any]) -> str:
    rows = []
    for name, result in results.items():
        for label, base in result["times"]["base"].items():
            port = result["times"]["port"][label]
            rows.append([f"{name}: {label}", shown(base), shown(port), f"{port / base:.2f}"])
    return table(["call", "rust-numpy", "dlbridge", "ratio"], rows)


def slower(base: dict[str, float], port: dict[str, float]) -> list[str]:
    """Returns the calls of the port above the limit."""
    return [label for label, time in base.items() if port[label] / time > LIMIT]


def shown(time: float) -> str:
    return f"{time:.0f} ns" if time < 1e5 else f"{time / 1e6:.2f} ms"


def now_accepted(result: dict[str, Any]) -> list[str]:
    """Returns the objects that only the port accepts."""
    before, after = result["accepts base"], result["accepts port"]
    return [kind for kind in before if before[kind] != "yes" == after[kind]]


def of_package(result: dict[str, Any]) -> list[str]:
    """Returns the objects that the port accepts only if the package dlbridge is installed."""
    with_it, alone = result["accepts port"], result["accepts alone"]
    return [kind for kind in with_it if with_it[kind] == "yes" != alone[kind]]


def accepted(results: dict[str, Any]) -> str:
    kinds = dict.fromkeys(kind for result in results.values() for kind in result["accepts base"])
    rows = [[kind, *(outcome(result, kind) for result in results.values())] for kind in kinds]
    return table(["accepted object", *results], rows)


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
