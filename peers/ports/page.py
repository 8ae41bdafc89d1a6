"""The page docs/ports.md, from the results."""

from __future__ import annotations

from typing import Any

#: how much worse than the original nothing may be
LIMIT = 1.10

INTRODUCTION = """\
# Extensions that moved from rust-numpy

`cargo xtask ports` fetches each extension from PyPI, moves a copy to dlbridge, builds both versions, runs the extension's own Python tests
with both, unchanged, and measures the same calls in both. `peers/ports/NAME.base.ed` moves the extension to PyO3 0.30 and rust-numpy 0.30, if it was
published with older ones; that is *rust-numpy* below. `NAME.ed` moves it from there to dlbridge. All of them keep rust-numpy for the arrays
that they return, and change the types of arguments only: [the first step](migration.md#from-rust-numpy) of a migration. Rust tests of the functions whose
arguments changed are not run.
"""

TIMES = """\
## Time of a call

The least time of a call, from processes of both versions in turn. `small` is one row or atom, which shows the cost of the arguments and the result; `large`
is 1 500 boxes or 20 000 atoms.
"""

ACCEPTED = """\
## Accepted objects

The result of a call whose argument is another object with the same elements: *yes* if it is that of the NumPy array, otherwise the exception. These
are the compiled functions; an extension's Python code may refuse or convert more.
"""


WORSE = """\
## Worse by more than 10 %
"""


def rendered(results: dict[str, Any]) -> str:
    """The whole page."""
    parts = [INTRODUCTION, *summary(results), TIMES, *times(results), ACCEPTED, *accepted(results)]
    return "\n".join([*parts, WORSE, *(f"- {fact}" for fact in costs(results) + regressions(results) or ["nothing"]), ""])


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
    row("build, CPU seconds", lambda r: change(r, lambda build: build["seconds"], "{:.0f}"))
    row("wheel, kB", lambda r: change(r, lambda build: build["bytes"] / 1000, "{:.0f}"))
    notes = [f"{result['note']}\n" for result in results.values() if result.get("note")]
    return [*rows, "", *notes]


def tested(tests: dict[str, Any]) -> str:
    return f"{tests['passed']} passed" + (f", {len(tests['failed'])} failed" if tests["failed"] else "")


def change(result: dict[str, Any], number: Any, form: str) -> str:
    base, port = (number(result[f"build {version}"]) for version in ("base", "port"))
    return f"{form.format(base)} → {form.format(port)} ({port / base:.2f} x)"


def times(results: dict[str, Any]) -> list[str]:
    rows = ["| call | rust-numpy | dlbridge | ratio |", "| --- | ---: | ---: | ---: |"]
    for name, result in results.items():
        for label, base in result["times"]["base"].items():
            port = result["times"]["port"][label]
            rows.append(f"| {name}: {label} | {shown(base)} | {shown(port)} | {port / base:.2f} |")
    return [*rows, ""]


def shown(time: float) -> str:
    return f"{time:.0f} ns" if time < 1e5 else f"{time / 1e6:.2f} ms"


def accepted(results: dict[str, Any]) -> list[str]:
    columns = [(name, version) for name in results for version in ("base", "port")]
    heads = [f"{name}, {'rust-numpy' if version == 'base' else 'dlbridge'}" for name, version in columns]
    rows = ["| | " + " | ".join(heads) + " |", "|" + " --- |" * (len(heads) + 1)]
    kinds = next(iter(results.values()))["accepts base"] if results else {}
    for kind in kinds:
        outcomes = (results[name][f"accepts {version}"][kind] for name, version in columns)
        cells = (outcome if outcome == "yes" else f"`{outcome}`" for outcome in outcomes)
        rows.append(f"| {kind} | " + " | ".join(cells) + " |")
    return [*rows, ""]


def costs(results: dict[str, Any]) -> list[str]:
    """Builds and wheels above the limit."""
    found = []
    for name, result in results.items():
        for what, text in (("seconds", "CPU seconds of the build"), ("bytes", "size of the wheel")):
            ratio = result["build port"][what] / result["build base"][what]
            if ratio > LIMIT:
                found.append(f"{name}: {text}, {ratio:.2f} times as much")
    return found


def regressions(results: dict[str, Any]) -> list[str]:
    """What the port must not change: other failed tests, a call above the limit, an object that is no longer accepted."""
    found = []
    for name, result in results.items():
        new = set(result["tests port"]["failed"]) - set(result["tests base"]["failed"])
        found += [f"{name}: {test} fails with dlbridge only" for test in sorted(new)]
        if result["tests port"]["passed"] < result["tests base"]["passed"]:
            found.append(f"{name}: fewer tests pass with dlbridge")
        for label, base in result["times"]["base"].items():
            ratio = result["times"]["port"][label] / base
            if ratio > LIMIT:
                found.append(f"{name}: {label} takes {ratio:.2f} times as long")
        for kind, outcome in result["accepts base"].items():
            if outcome == "yes" != result["accepts port"][kind]:
                found.append(f"{name}: {kind} is no longer accepted")
    return found
