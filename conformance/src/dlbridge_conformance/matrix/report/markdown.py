"""The matrix as Markdown for the documentation: nothing in it changes from run to run with the same versions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from dlbridge_conformance.matrix.outcome import RANK, Cell, Change, Kind, Matrix, Outcome, Pair, Way

INTRODUCTION = """\
# Every producer into every consumer

What becomes of every exchange, directly and through dlbridge. `python -m dlbridge_conformance.matrix --markdown docs/interop.md` wrote
this page; `--html FILE` writes one with every single exchange, its error and the command that repeats it.

* *Directly* is the consumer's `from_dlpack(obj)`; for consumers without one, the function in the last table.
* *Through dlbridge* is `dlbridge.asdlpack(obj).to(library)`, and `from_dlpack(dlbridge.asdlpack(obj))` where there is no
  `to`.

Values are always compared. *Zero-copy* means the same address on both sides, and where the consumer can write, that the
producer sees it. *Unprotected* is memory that must not be written, and is: of a read-only array, or of a library whose arrays
never change. *Wrong* has other values without an exception.

Arrays have four rows of three. All dtypes of a producer are exchanged in C order; the other layouts with float32 and int64.
Arrays begin at a multiple of 64 bytes where their library has such memory. Numbers are compared as Python's, so that a wider
dtype with the same numbers counts as right."""

#: what the reader of a list is told about a change
TITLES = {
    Change.WORSE: "Where dlbridge is worse",
    Change.COPIES: "Where dlbridge copies what is shared directly",
    Change.SAFE: "Where dlbridge refuses what goes wrong directly",
}

#: why that is so, for those that have a reason in common
EXPLANATIONS = {
    Change.WORSE: (
        "A legacy producer cannot say whether its memory may be written. dlbridge lends it as read-only, and an argument\n"
        "of nanobind that may be written refuses that; `asdlpack(obj, writable=True)` gives it a copy. JAX without 64 bits\n"
        "and dpnp's own memory with negative strides are refused because other values of the same dtype, or other\n"
        "operations, would go wrong. Arrow has neither strides nor the memory of truth values."
    ),
    Change.COPIES: (
        "Memory that must not be written, or of which that is not known, is copied for libraries that would write it."
    ),
}


def document(matrix: Matrix) -> str:
    """The page."""
    parts = [INTRODUCTION, versions(matrix), grid(matrix), by_consumer(matrix), changes(matrix)]
    parts += [listed(matrix, change) for change in TITLES]
    parts += [still_bad(matrix), calls(matrix)]
    return "\n\n".join(part for part in parts if part) + "\n"


def versions(matrix: Matrix) -> str:
    """What it was run with."""
    known = {**matrix.producers, **matrix.consumers}
    named = sorted({f"{name} {version}" for name, version in known.items() if version}, key=str.lower)
    return f"Run with dlbridge {matrix.dlbridge}, Python {matrix.python}, {matrix.system}: {', '.join(named)}."


def grid(matrix: Matrix) -> str:
    """How many exchanges of each pair have the right values, directly and through dlbridge."""
    rows = [["producer \\ consumer", *matrix.consumers]]
    pairs = {(pair.producer, pair.consumer): pair for pair in matrix.pairs}
    for producer in matrix.producers:
        rows.append([producer, *(_square(pairs.get((producer, consumer))) for consumer in matrix.consumers)])
    return (
        "## The table\n\nHow many exchanges arrive with the right values: directly → through dlbridge, of all. "
        "One number stands for both if they are the same. `!` marks a pair in which dlbridge is worse somewhere.\n\n"
        + _table(rows)
    )


def _square(pair: Pair | None) -> str:
    if pair is None or not pair.cells:
        return ""
    before = sum(_right(cell.ways[Way.DIRECT]) for cell in pair.cells)
    after = sum(_right(cell.through) for cell in pair.cells)
    worse = " !" if any(cell.change is Change.WORSE for cell in pair.cells) else ""
    return f"{before}/{len(pair.cells)}{worse}" if before == after else f"{before} → {after}/{len(pair.cells)}{worse}"


def _right(outcome: Outcome) -> bool:
    return RANK[outcome.kind] >= RANK[Kind.COPIED]


def by_consumer(matrix: Matrix) -> str:
    """How many exchanges of each consumer have which outcome."""
    kinds = [kind for kind in Kind if kind is not Kind.NONE]
    rows = [["consumer", "exchanges", *(kind.value for kind in kinds)]]
    for consumer in matrix.consumers:
        cells = [cell for pair in matrix.pairs if pair.consumer == consumer for cell in pair.cells]
        before = Counter(cell.ways[Way.DIRECT].kind for cell in cells)
        after = Counter(cell.through.kind for cell in cells)
        rows.append([consumer, str(len(cells)), *(_from_to(before[kind], after[kind]) for kind in kinds)])
    return f"## Outcomes\n\nDirectly → through dlbridge.\n\n{_table(rows)}"


def _from_to(before: int, after: int) -> str:
    return f"{before} → {after}" if before or after else ""


def changes(matrix: Matrix) -> str:
    """What dlbridge changes, in one sentence each."""
    found = Counter(cell.change for pair in matrix.pairs for cell in pair.cells)
    says = {
        Change.WORKS: "have the right values through dlbridge, and have not directly",
        Change.SAFE: "are refused through dlbridge, and go wrong directly",
        Change.SHARES: "are zero-copy through dlbridge, and copied directly",
        Change.SAME: "have the same outcome",
        Change.COPIES: "are copied through dlbridge, and zero-copy directly",
        Change.WORSE: "are worse through dlbridge",
    }
    return "## What dlbridge changes\n\n" + "\n".join(f"* {found[change]} exchanges {text}." for change, text in says.items())


def listed(matrix: Matrix, change: Change) -> str:
    """All cells with a change, those of a pair with the same outcomes together."""
    groups = _groups(matrix, lambda cell: cell.change is change)
    lines = [
        f"* {producer} into {consumer} ({_specs(cells)}): directly {_text(cells[0].ways[Way.DIRECT])}; "
        f"through dlbridge {_text(cells[0].through)}"
        for (producer, consumer, *_), cells in groups.items()
    ]
    parts = [f"## {TITLES[change]}", EXPLANATIONS.get(change, "") if lines else "", "\n".join(lines) or "Nowhere."]
    return "\n\n".join(part for part in parts if part)


def still_bad(matrix: Matrix) -> str:
    """The cells that go wrong through dlbridge, whatever they do directly."""
    groups = _groups(matrix, lambda cell: RANK[cell.through.kind] < RANK[Kind.REFUSED])
    lines = [
        f"* {producer} into {consumer} ({_specs(cells)}): {_text(cells[0].through)}; directly "
        f"{_text(cells[0].ways[Way.DIRECT])}"
        for (producer, consumer, *_), cells in groups.items()
    ]
    return "## What goes wrong through dlbridge\n\n" + ("\n".join(lines) or "Nothing.")


def _groups(matrix: Matrix, wanted: Callable[[Cell], bool]) -> dict[tuple[str, ...], list[Cell]]:
    groups: dict[tuple[str, ...], list[Cell]] = {}
    for pair in matrix.pairs:
        for cell in filter(wanted, pair.cells):
            key = (pair.producer, pair.consumer, cell.ways[Way.DIRECT].kind, cell.through.kind)
            groups.setdefault(key, []).append(cell)
    return groups


def _specs(cells: Iterable[Cell]) -> str:
    """Dtypes by layout."""
    layouts: dict[str, list[str]] = {}
    for cell in cells:
        layouts.setdefault(cell.spec.layout, []).append(cell.spec.dtype)
    return "; ".join(f"{layout}: {', '.join(dtypes)}" for layout, dtypes in layouts.items())


def _text(outcome: Outcome) -> str:
    return outcome.kind.value + (f" (`{outcome.detail.replace('`', chr(39))}`)" if outcome.detail else "")


def calls(matrix: Matrix) -> str:
    """How each way is written."""
    from dlbridge_conformance.matrix.catalog import calls as all_calls

    known = all_calls()
    rows = [["consumer", "directly", "through dlbridge"]]
    for name in matrix.consumers:
        if name in known:
            rows.append([name, f"`{known[name]['direct']}`", f"`{known[name]['to'] or known[name]['asdlpack']}`"])
    return f"## How it is written\n\n{_table(rows)}"


def _table(rows: list[list[str]]) -> str:
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(rows[0]), *lines[1:]])
