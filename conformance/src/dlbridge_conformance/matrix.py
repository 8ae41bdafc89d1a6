"""The matrix: imports the arrays of each library into every other, directly and through dlbridge.

``python -m dlbridge_conformance.matrix`` prints the tables of ``docs/interop.md``. Each exchange is made in two ways:

* directly: the consumer's ``from_dlpack``, called with the producer's array;
* through dlbridge: ``dlbridge.asdlpack(array).to(library)``, or ``from_dlpack(dlbridge.asdlpack(array))`` for a library that
  :meth:`dlbridge.Tensor.to` does not know.

Each pair has a process of its own. So a crash is an outcome, and no library affects the exchanges of two others.
"""

from __future__ import annotations

import argparse
import platform
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import dlbridge
from dlbridge_conformance import elements
from dlbridge_conformance.adapter import Adapter
from dlbridge_conformance.isolation import apart, described
from dlbridge_conformance.outcome import NotApplicable
from dlbridge_conformance.registry import adapter_named, installed_adapters, is_installed, version_of
from dlbridge_conformance.report import markdown
from dlbridge_conformance.search_path import search_here

#: the names of :meth:`dlbridge.Tensor.to` for libraries that adapters name the same, or with a hyphen or ``-lang``
TO = frozenset({
    "array_api_strict", "cupy", "dpnp", "jax", "mlx", "numpy", "onnxruntime", "paddle", "pyarrow", "tensorflow", "torch",
    "tvm_ffi", "warp",
})  # fmt: skip

#: the layouts of a float32 array other than C order, which are methods of adapters, with the elements of each
LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "transposed": lambda rows: [list(column) for column in zip(*rows, strict=True)],
    "stepped": lambda rows: rows[::2],
    "reversed": lambda rows: rows[::-1],
    "sliced": lambda rows: rows[1:],
    "read_only": lambda rows: rows,
}
PLAIN = "C order"

#: how an exchange ended: with the right elements at the producer's address, or elsewhere; with an exception; with other
#: elements, or with memory that is read-only and can be written; with the end of the process, or no end in time
KINDS = ("zero-copy", "copied", "refused", "wrong", "crashed")

#: the seconds for the exchanges of a pair, and for the import of its libraries
LIMIT = 120.0

#: libraries whose import crashes the process after that of a later one
IN_ORDER = {"paddle": 1, "tensorflow": 2, "dpnp": 3}

#: the dtype and the layout of an array
Array = tuple[str, str]

#: the kind, and the exception, the elements or the signal
Outcome = tuple[str, str]


@dataclass(frozen=True)
class Exchange:
    """The exchange of an array, and its outcomes."""

    dtype: str
    layout: str
    direct: Outcome
    through: Outcome

    @property
    def is_worse(self) -> bool:
        """Returns whether only the direct way has the right elements."""
        return is_right(self.direct) and not is_right(self.through)


#: the exchanges of each consumer, by producer
Rows = dict[str, dict[str, list[Exchange]]]


def is_right(outcome: Outcome) -> bool:
    """Returns whether the consumer has the right elements."""
    return outcome[0] in ("zero-copy", "copied")


# ------------------------------------------------------------------------------------------------- the exchanges


def arrays(producer: Adapter) -> list[Array]:
    """The arrays of a producer to exchange: each dtype in C order, and float32 in each layout. None if it cannot be imported."""

    def dtypes() -> list[str]:
        producer.load()
        return list(producer.dtypes)

    found = apart(dtypes, LIMIT)[0] or []
    return [(dtype, PLAIN) for dtype in found] + [("float32", layout) for layout in LAYOUTS if "float32" in found]


def shape_for(*libraries: Adapter) -> tuple[int, ...]:
    """A shape of six elements that libraries support."""
    fewest = max(library.ndims[0] for library in libraries)
    most = min(library.ndims[1] for library in libraries)
    return (6,) if most == 1 else (2, 3) + (1,) * (fewest - 2)


def aligned(producer: Adapter, values: Any, dtype: str) -> Any:
    """Makes arrays until one begins at a multiple of 64 bytes: some consumers copy others, and runs would differ."""
    others = []
    for _ in range(400):
        array = producer.array(values, dtype)
        address = address_of(producer, array)
        if address is None or address % 64 == 0:
            break
        others.append(array)
    return array


def address_of(library: Adapter, array: Any) -> int | None:
    """The address of the first element; None if the library does not report it."""
    try:
        return library.address(array)
    except NotApplicable:
        return None


def exchange(producer: Adapter, consumer: Adapter, dtype: str, layout: str, through: bool) -> Outcome | None:
    """Exchanges an array. Returns None if the producer does not make such an array."""
    values = elements.nested(elements.numbers(dtype), shape_for(producer, consumer))
    try:
        array = aligned(producer, values, dtype)
        if layout != PLAIN:
            array, values = getattr(producer, layout)(array), LAYOUTS[layout](values)
        if not same(producer, array, values):
            return None
    except Exception:
        return None
    try:
        imported = by_dlbridge(array, consumer) if through else consumer.from_dlpack(array)
    except Exception as error:
        return "refused", described(error)
    return compared(producer, array, consumer, imported, values)


def by_dlbridge(array: Any, consumer: Adapter) -> Any:
    """Imports an array through dlbridge."""
    tensor, name = dlbridge.asdlpack(array), consumer.name.removesuffix("-lang").replace("-", "_")
    return tensor.to(name) if name in TO else consumer.from_dlpack(tensor)


def compared(producer: Adapter, array: Any, consumer: Adapter, imported: Any, values: Any) -> Outcome:
    """The outcome of an import that did not raise."""
    try:
        if not same(consumer, imported, values):
            return "wrong", f"{plain(consumer.values(imported))}, not {values}"
    except Exception as error:
        return "wrong", f"its elements cannot be read: {described(error)}"
    address = address_of(producer, array)
    if address is None or address != address_of(consumer, imported):
        return "copied", ""
    try:
        if producer.is_read_only(array):
            consumer.write(imported, 2)
            if not same(producer, array, values):
                # Some libraries cache arrays, and would return this one again.
                consumer.write(imported, elements.flat(values)[0])
                return "wrong", "read-only memory can be written"
    except Exception:
        # The producer does not mark arrays as read-only, or the consumer refuses the write.
        pass
    return "zero-copy", ""


def same(library: Adapter, array: Any, values: Any) -> bool:
    """Returns whether an array has these elements, of the same Python types: a bool is not a number."""
    return repr(plain(library.values(array))) == repr(values)


def plain(values: Any) -> Any:
    """Converts nested lists to lists of Python's own numbers."""
    if isinstance(values, list | tuple):
        return [plain(value) for value in values]
    return values if type(values) in (bool, int, float, complex) else float(values)


def outcomes(producer: Adapter, consumer: Adapter, wanted: list[tuple[str, str, bool]]) -> list[Outcome | None]:
    """Runs exchanges in a fork. If it crashes or hangs, runs each half of them again, to find the one that does."""

    def load() -> None:
        for library in sorted({producer, consumer}, key=lambda library: IN_ORDER.get(library.name, 0)):
            library.load()

    def run() -> list[Outcome | None]:
        load()
        return [exchange(producer, consumer, *one) for one in wanted]

    found: list[Outcome | None]
    found, reason = apart(run, LIMIT)
    if not reason:
        return found
    half = len(wanted) // 2
    if not half or apart(load, LIMIT)[1]:
        return [("crashed", reason)] * len(wanted)
    return outcomes(producer, consumer, wanted[:half]) + outcomes(producer, consumer, wanted[half:])


def exchanges(producer: Adapter, consumer: Adapter, wanted: list[Array]) -> list[Exchange]:
    """Exchanges arrays, directly and through dlbridge."""
    found = outcomes(producer, consumer, [(*array, through) for array in wanted for through in (False, True)])
    both = zip(wanted, found[::2], found[1::2], strict=True)
    return [Exchange(*array, direct, through) for array, direct, through in both if direct and through]


# ------------------------------------------------------------------------------------------------- the tables


def chosen(names: list[str], can: Callable[[Adapter], bool]) -> dict[str, Adapter]:
    """The named libraries, or all installed ones. Raises LookupError for one that is not installed."""
    adapters = [adapter_named(name) for name in names] or [adapter for adapter in installed_adapters() if can(adapter)]
    if missing := [adapter.name for adapter in adapters if not is_installed(adapter)]:
        raise LookupError(f"not installed: {', '.join(missing)}")
    return {adapter.name: adapter for adapter in adapters}


def count(values: Iterable[tuple[Any, Any]]) -> str:
    """Two counts of true values, directly and through dlbridge; one number if they are the same, empty if they are 0."""
    direct, through = (sum(map(bool, column)) for column in zip(*values, strict=True))
    return str(direct or "") if direct == through else f"{direct} → {through}"


def square(found: list[Exchange]) -> str:
    """How many exchanges of a pair have the right elements, with ``!`` if dlbridge is worse in one of them."""
    if not found:
        return ""
    right = count((is_right(one.direct), is_right(one.through)) for one in found) or "0"
    return f"{right}/{len(found)}{' !' * any(one.is_worse for one in found)}"


def grid(rows: Rows, producers: Iterable[str]) -> str:
    """A row for each producer, and a column for each consumer."""
    lines = [[name, *(square(row[name]) for row in rows.values())] for name in producers]
    return markdown([["producer \\ consumer", *rows], *lines])


def kinds(rows: Rows) -> str:
    """How many exchanges of each consumer ended in each way."""
    lines = []
    for consumer, row in rows.items():
        found = [one for pair in row.values() for one in pair]
        counts = [count((one.direct[0] == kind, one.through[0] == kind) for one in found) if found else "" for kind in KINDS]
        lines.append([consumer, str(len(found)), *counts])
    return markdown([["consumer", "exchanges", *KINDS], *lines])


def details(found: list[Exchange]) -> str:
    """Each exchange of a pair."""

    def shown(outcome: Outcome) -> str:
        kind, detail = outcome
        return f"{kind}: {detail}" if detail else kind

    return "\n".join(
        f"{one.dtype}, {one.layout}: directly {shown(one.direct)}; through dlbridge {shown(one.through)}" for one in found
    )


def parser() -> argparse.ArgumentParser:
    """The parser of the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m dlbridge_conformance.matrix",
        description="Imports the arrays of each library into every other, directly and through dlbridge.",
        epilog="Both options may be repeated. With one producer and one consumer, each exchange is shown, with its exception.",
    )
    for side in ("producer", "consumer"):
        parser.add_argument(f"--{side}", action="append", default=[], metavar="LIBRARY", help=f"only this {side}")
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress")
    return parser


def main(words: list[str]) -> int:
    """Prints the matrix. Returns 0, or 2 for a library that is unknown or not installed."""
    search_here()
    options = parser().parse_args(words)
    try:
        producers = chosen(options.producer, lambda adapter: adapter.produces)
        # The messages of mpi4py have neither a shape nor a dtype.
        consumers = chosen(options.consumer, lambda adapter: adapter.consumes and adapter.name != "mpi4py")
    except LookupError as error:
        print(error.args[0], file=sys.stderr)
        return 2
    both = {**producers, **consumers}
    wanted = {name: arrays(producer) for name, producer in producers.items()}
    rows: Rows = {}
    for number, consumer in enumerate(consumers, 1):
        rows[consumer] = {name: exchanges(both[name], both[consumer], wanted[name]) for name in producers}
        if not options.quiet:
            print(f"{consumer}: {number} of {len(consumers)} consumers", file=sys.stderr)
    versions = ", ".join(f"{name} {version_of(adapter)}" for name, adapter in sorted(both.items()))
    python = f"Python {platform.python_version()}, {platform.system()} {platform.machine()}"
    print(f"dlbridge {dlbridge.__version__}, {python}: {versions}\n")
    pairs = [found for row in rows.values() for found in row.values()]
    print(details(pairs[0]) if len(pairs) == 1 else f"{grid(rows, producers)}\n\n{kinds(rows)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
