"""The matrix as Markdown for the documentation. Two runs with the same versions write the same page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from dlbridge_conformance.matrix.outcome import RANK, Cell, Change, Kind, Matrix, Outcome, Pair, Way

INTRODUCTION = """\
# Every producer/consumer pair

This page shows the result for every producer/consumer pair, directly and through dlbridge.
`python -m dlbridge_conformance.matrix --markdown docs/interop.md` wrote it; `--html FILE` writes a page with every single
exchange, its error and the command that repeats it.

* *Directly* is the consumer's `from_dlpack(obj)`; for consumers without one, the function in the last table.
* *Through dlbridge* is `dlbridge.asdlpack(obj).to(library)`, or `from_dlpack(dlbridge.asdlpack(obj))` if dlbridge has no
  `to` for the library.

Values are always compared. *Zero-copy* means the same address on both sides; if the consumer can write, the producer also
sees the writes. *Unprotected* means that the consumer can write read-only memory: of a read-only array, or of a library with
immutable arrays. *Wrong* means other values, without an exception.

Arrays have four rows of three. All dtypes of a producer are exchanged in C order; the other layouts with float32 and int64.
Arrays begin at a multiple of 64 bytes if their library has such memory. Values are compared as Python numbers, so a wider
dtype with the same numbers counts as right."""

#: the headings of the lists
TITLES = {
    Change.WORSE: "Worse through dlbridge",
    Change.COPIES: "Copied by dlbridge, shared directly",
    Change.SAFE: "Refused by dlbridge, wrong directly",
}

#: the common reasons for the cells of a list
EXPLANATIONS = {
    Change.WORSE: (
        "A legacy producer cannot mark its memory as read-only or writable, so dlbridge exports it as read-only. A writable\n"
        "argument of nanobind refuses that; `asdlpack(obj, writable=True)` makes a copy for it. dlbridge refuses 64-bit\n"
        "dtypes for JAX without 64 bits, and negative strides for dpnp's own memory, because other values of the same\n"
        "dtype, or other operations, would go wrong. Arrow has neither strides nor a plain type for booleans of one byte."
    ),
    Change.COPIES: (
        "dlbridge copies memory that is read-only, or not known to be writable, for libraries that would write it."
    ),
}


def document(matrix: Matrix) -> str:
    """The page."""
    parts = [INTRODUCTION, versions(matrix), grid(matrix), by_consumer(matrix), changes(matrix)]
    parts += [listed(matrix, change) for change in TITLES]
    parts += [still_bad(matrix), calls(matrix)]
    return "\n\n".join(part for part in parts if part) + "\n"


def versions(matrix: Matrix) -> str:
    """The versions of the run."""
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
        "A single number means that both are the same. `!` marks a pair in which dlbridge is worse in some exchange.\n\n"
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
    """The counts of the changes, in one sentence each."""
    found = Counter(cell.change for pair in matrix.pairs for cell in pair.cells)
    says = {
        Change.WORKS: "have the right values only through dlbridge",
        Change.SAFE: "are refused through dlbridge, and go wrong directly",
        Change.SHARES: "are zero-copy through dlbridge, and copied directly",
        Change.SAME: "have the same outcome",
        Change.COPIES: "are copied through dlbridge, and zero-copy directly",
        Change.WORSE: "are worse through dlbridge",
    }
    return "## Effect of dlbridge\n\n" + "\n".join(f"* {found[change]} exchanges {text}." for change, text in says.items())


def listed(matrix: Matrix, change: Change) -> str:
    """The cells with a change, grouped by pair and outcomes."""
    groups = _groups(matrix, lambda cell: cell.change is change)
    lines = [
        f"* {producer} into {consumer} ({_specs(cells)}): directly {_text(cells[0].ways[Way.DIRECT])}; "
        f"through dlbridge {_text(cells[0].through)}"
        for (producer, consumer, *_), cells in groups.items()
    ]
    parts = [f"## {TITLES[change]}", EXPLANATIONS.get(change, "") if lines else "", "\n".join(lines) or "None."]
    return "\n\n".join(part for part in parts if part)


def still_bad(matrix: Matrix) -> str:
    """The cells that go wrong through dlbridge."""
    groups = _groups(matrix, lambda cell: RANK[cell.through.kind] < RANK[Kind.REFUSED])
    lines = [
        f"* {producer} into {consumer} ({_specs(cells)}): {_text(cells[0].through)}; directly "
        f"{_text(cells[0].ways[Way.DIRECT])}"
        for (producer, consumer, *_), cells in groups.items()
    ]
    return "## Errors through dlbridge\n\n" + ("\n".join(lines) or "None.")


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
    """The code of each way."""
    from dlbridge_conformance.matrix.catalog import calls as all_calls

    known = all_calls()
    rows = [["consumer", "directly", "through dlbridge"]]
    for name in matrix.consumers:
        if name in known:
            rows.append([name, f"`{known[name]['direct']}`", f"`{known[name]['to'] or known[name]['asdlpack']}`"])
    return f"## The code of each exchange\n\n{_table(rows)}"


def _table(rows: list[list[str]]) -> str:
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(rows[0]), *lines[1:]])
