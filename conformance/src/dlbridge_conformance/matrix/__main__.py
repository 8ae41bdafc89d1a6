"""``python -m dlbridge_conformance.matrix``."""

from __future__ import annotations

import argparse
import platform
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

import dlbridge
from dlbridge_conformance.matrix import report
from dlbridge_conformance.matrix.consumer import Consumer, consumers
from dlbridge_conformance.matrix.outcome import Matrix
from dlbridge_conformance.matrix.producer import Producer, producers
from dlbridge_conformance.matrix.run import LIMIT, Job, run
from dlbridge_conformance.matrix.samples import LAYOUTS


def parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m dlbridge_conformance.matrix",
        description="Passes tensors from every producer to every consumer, directly and through dlbridge.",
        epilog="The options that select may be repeated. The report has the command that repeats each cell.",
    )
    for name, what in [("producer", "producer"), ("consumer", "consumer"), ("dtype", "dtype"), ("layout", "layout")]:
        parser.add_argument(f"--{name}", action="append", default=[], metavar="NAME", help=f"only this {what}")
    parser.add_argument("--list", action="store_true", help="show all names, and exchange nothing")
    parser.add_argument("--limit", type=float, default=LIMIT, help="stop an exchange after this many seconds")
    parser.add_argument("--jobs", type=int, default=2, help="run this many processes at once")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the matrix as a table for the documentation")
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress")
    return parser


def show_all(makers: Mapping[str, Producer], takers: Mapping[str, Consumer]) -> None:
    """Prints all producers, consumers, dtypes and layouts, with versions."""
    for title, things in (("producers", makers), ("consumers", takers)):
        print(f"{title}:")
        for name, thing in things.items():
            print(f"  {name} {thing.version() if thing.is_installed() else '(not installed)'}".rstrip())
    dtypes = {dtype for producer in makers.values() for dtype in producer.dtypes}
    print(f"dtypes: {', '.join(sorted(dtypes))}")
    print("layouts:")
    for layout, what in LAYOUTS.items():
        print(f"  {layout}: {what}")


def chosen(asked: list[str], known: Iterable[str], what: str) -> list[str]:
    """The selected names; all if none are selected. Raises ValueError for an unknown name."""
    names = list(known)
    if unknown := [name for name in asked if name not in names]:
        raise ValueError(f"unknown {what} {', '.join(map(repr, unknown))}; --list shows all")
    return [name for name in names if not asked or name in asked]


def jobs(options: argparse.Namespace) -> list[Job]:
    """The selected exchanges. Raises ValueError for a name that is not known or not installed."""
    makers, takers = producers(), consumers()
    some = [makers[name] for name in chosen(options.producer, makers, "producer")]
    others = [takers[name] for name in chosen(options.consumer, takers, "consumer")]
    dtypes = chosen(options.dtype, sorted({dtype for p in makers.values() for dtype in p.dtypes}), "dtype")
    layouts = chosen(options.layout, LAYOUTS, "layout")
    for names, things in ((options.producer, some), (options.consumer, others)):
        if missing := [thing.name for thing in things if thing.name in names and not thing.is_installed()]:
            raise ValueError(f"not installed: {', '.join(missing)}")
    return [
        (p, c, [s for s in p.specs() if s.dtype in (c.dtypes or dtypes) and s.dtype in dtypes and s.layout in layouts])
        for p in some if p.is_installed()
        for c in others if c.is_installed()
    ]  # fmt: skip


def measure(options: argparse.Namespace) -> Matrix:
    """Runs the selected exchanges."""
    wanted = jobs(options)
    pairs = run(wanted, at_once=options.jobs, limit=options.limit, quiet=options.quiet)
    return Matrix(
        {producer.name: producer.version() for producer, _, _ in wanted},
        {consumer.name: consumer.version() for _, consumer, _ in wanted},
        pairs,
        dlbridge.__version__,
        platform.python_version(),
        f"{platform.system()} {platform.machine()}",
    )


def main(arguments: list[str] | None = None) -> int:
    """Runs the matrix. Returns 0, or 2 for wrong arguments."""
    options = parser().parse_args(arguments)
    if options.list:
        show_all(producers(), consumers())
        return 0
    try:
        matrix = measure(options)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    if options.markdown:
        options.markdown.write_text(report.document(matrix), encoding="utf-8")
    cells = sum(len(pair.cells) for pair in matrix.pairs)
    print(report.details(matrix) if cells <= report.FEW else report.table(matrix))
    if worse := report.worse(matrix):
        print(worse)
    return 0


if __name__ == "__main__":
    sys.exit(main())
