"""The promised limits, and whether the results meet them: computed, never written by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Run = dict[str, Any]
"""One run of everything: `benches/results.json` has two."""


def nanoseconds(run: Run, work: str, library: str) -> float | None:
    """Returns the time of a call, minus that of its source, or None if the library cannot run it."""
    if work in RUST:
        rust = run["rust"]
        row, source = rust.get(f"{work}/{library}"), rust[f"{work}/source"]
        return None if row is None else row["ns"] - source["ns"]
    found = by_library(run, work).get(library)
    return found if isinstance(found, (int, float)) else None


def by_library(run: Run, work: str) -> dict[str, Any]:
    """Returns the results of a work from Python: numbers, or the reason why one is missing."""
    scale = run.get("scale", {})
    if work in STATE:
        tensors = scale.get("tensors", {})
        return {library: counts[LARGEST_STATE][STATE[work]] for library, counts in tensors.items() if LARGEST_STATE in counts}
    if work in MANY:
        collection, count = MANY[work]
        return {library: counts.get(count) for library, counts in scale.get("many", {}).get(collection, {}).items()}
    if work in AT_ONCE:
        kind, count = AT_ONCE[work]
        return {library: 1000 / rates[count] for library, rates in scale.get(kind, {}).items() if count in rates}
    found: dict[str, Any] = run["python"].get(work, {})
    return found


STATE = {"state dict, there": "there", "state dict, back": "back"}
"""The works of a state dict, and their names in its results."""

LARGEST_STATE = "10000"

ENTRIES = "dlbridge: `Entries`"

COLLECTIONS = ("list", "list, written", "dict", "tree", "list of PyTorch tensors")

MANY = {
    f"{count} in a {collection}": (collection, count)
    for collection in COLLECTIONS
    for count in ("1", "10", "1000", "100000")
}
"""The works of many arrays in one argument: nanoseconds per array."""

AT_ONCE = {"16 threads": ("threads", "16"), "4 processes": ("processes", "4")}
"""The works of several threads or processes: nanoseconds of all together for each call."""

IN_OTHER_TABLES = {*STATE, *MANY, *AT_ONCE, "import dlbridge", "copies"}
"""The works with a goal that are not among the rows of `benches/python/rows.py`."""


RUST = {
    "vec": "`Vec<f32>` -> versioned tensor -> deleter",
    "four": "four-dimensional owned buffer, same",
    "array": "`ndarray::Array3` -> tensor -> view -> drop",
}


def allocations(run: Run, work: str, library: str) -> float | None:
    row = run["rust"].get(f"{work}/{library}")
    return None if row is None else row["allocations"] - run["rust"][f"{work}/source"]["allocations"]


def instructions(run: Run, work: str, library: str) -> float | None:
    counted = run["instructions"]
    row = counted.get(f"{work}/{library}")
    return None if row is None else row - counted[f"{work}/source"]


def milliseconds(run: Run, work: str, library: str) -> float | None:
    """Returns the time of a new process with an import beyond that of a bare interpreter."""
    return run.get("startup", {}).get(library)


BEHIND = 0.95
"""Below this share of the faster library's speed a copy is behind: two runs of one copy differ by less than the rest."""


def copies_behind(run: Run, work: str, library: str) -> float | None:
    """Returns the number of copies that NumPy or PyTorch makes faster."""
    rows = run.get("copies")
    if not rows:
        return None
    return sum(copy_ratio(row) < BEHIND for row in rows)


def copy_ratio(row: dict[str, Any]) -> float:
    """Returns dlbridge's speed as a multiple of the faster of NumPy and PyTorch."""
    fastest: float = row["dlbridge"] / max(row.get(other) or 0 for other in ("numpy", "torch"))
    return fastest


QUANTITIES: dict[str, Callable[[Run, str, str], float | None]] = {
    "ns": nanoseconds,
    "ms": milliseconds,
    "cases": copies_behind,
    "allocations": allocations,
    "instructions": instructions,
}


@dataclass(frozen=True)
class Target:
    """A number of dlbridge that must not exceed a limit, or a multiple of another library's number."""

    work: str
    """The work's name in the results."""
    title: str
    limit: float
    reference: str | None = None
    """The library whose number the limit multiplies, or `BEST`; without one, the limit is the number itself."""
    reference_work: str | None = None
    """The work of the reference, if it differs."""
    quantity: str = "ns"
    ours: str = "dlbridge"
    subtract: str | None = None
    """A row whose number is subtracted from dlbridge's."""
    subtracted_work: str | None = None
    """The work of the subtracted row, if it differs."""

    def own(self, run: Run) -> float | None:
        read = QUANTITIES[self.quantity]
        value = read(run, self.work, self.ours)
        if value is None or self.subtract is None:
            return value
        less = read(run, self.subtracted_work or self.work, self.subtract)
        return None if less is None else value - less

    def measured(self, run: Run) -> float | None:
        """Returns the number to compare with the limit: a ratio, or the number itself."""
        value = self.own(run)
        if value is None or self.reference is None:
            return value
        work = self.reference_work or self.work
        if self.reference in (BEST, BEST_CHECKED):
            wanted = is_peer if self.reference == BEST else is_checked
            found = best(run, work, wanted, self.quantity)
            return None if found is None else value / found[1]
        beside = QUANTITIES[self.quantity](run, work, self.reference)
        return None if beside is None else value / beside

    def is_refused(self, run: Run) -> bool:
        """Returns True if dlbridge could not run the row; the result is the reason."""
        return isinstance(by_library(run, self.work).get(self.ours), str)

    def reached(self, runs: list[Run]) -> bool:
        """Returns True if the limit holds in every run."""
        values = [self.measured(run) for run in runs]
        return all(value is not None and value <= self.limit for value in values)


BEST = "the best peer"
"""As a reference: the fastest peer of each run."""

BEST_CHECKED = "the best peer with every check"
"""As a reference: the fastest row of a peer with the checks of `benches/python/rows.py`."""

CHECKED_SUFFIX = ", with dlbridge's checks in Python"
"""The end of the names of such rows."""

BARE = "dlbridge, `import` alone"

COPIED = {
    "10 floats in a list -> no-op": "list of 10 floats -> argument",
    "1000 floats in a list -> no-op": "list of 1000 floats -> argument",
    "1000 integers in a list -> no-op": "list of 1000 integers -> argument",
    "10 x 10 floats in lists -> no-op": "10 lists of 10 floats -> argument",
    "4 x 6 int64 as float64 -> no-op": "4 x 6 int64 -> argument of float64",
    "1000 x 10 int64 as float64 -> no-op": "1000 x 10 int64 -> argument of float64",
    "100 x 100 uint8 as float64 -> no-op": "100 x 100 uint8 -> argument of float64",
    "100 x 100 bool as float64 -> no-op": "100 x 100 bool -> argument of float64",
    "100 x 100 float32, transposed, as float64 -> no-op": "100 x 100 float32, transposed -> argument of float64",
    "4 x 6 float64 in the other byte order -> no-op": "4 x 6 float64 in the other byte order -> argument",
    "100 arrays without dimensions in a list -> no-op": "list of 100 arrays without dimensions -> argument",
}

REFUSED = ("array of another dtype", "matrix for a vector", "list for an array")

TRIED = "dlbridge: `try_extract`"

COLUMNS = {
    "polars -> no-op": "Series of polars",
    "pandas -> no-op": "Series of pandas in NumPy's memory",
    "pandas of Arrow -> no-op": "Series of pandas in Arrow's memory",
}

CHUNKED = "pyarrow's own `chunked_array`"

FIRST = "numpy -> no-op, {} borrowed first"

TARGETS = (
    Target("vec", RUST["vec"], 1.15, "floor"),
    Target("vec", RUST["vec"], 1, quantity="allocations"),
    Target("vec", RUST["vec"], 200, quantity="instructions"),
    Target("four", RUST["four"], 1.15, "floor"),
    Target("four", RUST["four"], 1, quantity="allocations"),
    Target("four", RUST["four"], 205, quantity="instructions"),
    Target("array", RUST["array"], 1.25, "floor"),
    Target("array", RUST["array"], 1, quantity="allocations"),
    Target("array", RUST["array"], 240, quantity="instructions"),
    Target("numpy -> no-op", "NumPy array -> Rust no-op argument", 0.6, "nanobind"),
    Target("torch -> no-op", "PyTorch tensor -> Rust no-op argument", 1, BEST),
    Target("torch -> no-op", "PyTorch tensor -> Rust no-op argument", 1, BEST_CHECKED),
    Target("jax -> no-op", "JAX array -> Rust no-op argument", 0.2, "nanobind"),
    Target("jax -> object", "`asdlpack(JAX array)`", 0.25, "nanobind", reference_work="jax -> no-op"),
    Target("jax -> no-op", "JAX array -> `import`, without a type", 0.25, "nanobind", ours=BARE),
    Target("numpy -> object", "`asdlpack(NumPy array)`", 0.6, "tvm-ffi"),
    Target("numpy -> object", "`asdlpack(NumPy array)`", 0.006, "pydlpack"),
    Target("new tensor -> object", "new tensor -> Python object", 1, BEST),
    Target("new tensor -> capsule", "new tensor -> capsule", 0.8, "dlpark"),
    Target("new object -> numpy", "new object -> `np.from_dlpack`", 0.9, "pyo3-dlpack"),
    Target("object -> numpy", "our object -> `np.from_dlpack`", 0.8, "pyo3-dlpack"),
    Target("new object -> torch", "new object -> `torch.from_dlpack`", 0.95, BEST),
    Target(
        "new tensor -> torch",
        "new tensor -> PyTorch tensor, the best way that we offer",
        0.65,
        "dlpark: capsule",
        ours="dlbridge: `into_library`",
    ),
    Target(
        "new tensor -> torch",
        "new tensor -> `Torch<f32, 1>`",
        1,
        "pyo3-dlpack: capsule",
        ours="dlbridge: `Torch`",
    ),
    Target("state dict, there", "state dict of 10 000 from PyTorch, for each tensor", 0.9, "tvm-ffi"),
    Target("state dict, back", "state dict of 10 000 to PyTorch, for each tensor", 0.9, "dlpark"),
    *(
        Target(
            f"100000 in a {collection}",
            f"{collection} of 100 000 -> argument, for each array",
            1.2,
            ENTRIES if collection == "dict" else "dlbridge",
            reference_work=f"1000 in a {collection}",
            ours=ENTRIES if collection == "dict" else "dlbridge",
        )
        for collection in COLLECTIONS
    ),
    *(
        Target(f"{count} in a {collection}", f"{collection} of {count} -> argument, for each array", 1, "nanobind")
        for collection in ("list", "list of PyTorch tensors")
        for count in ("1", "10")
    ),
    *(Target(work, f"NumPy array -> argument, {work} at once", 1, "nanobind") for work in AT_ONCE),
    Target("import dlbridge", "`import dlbridge`, more than a bare interpreter", 5, quantity="ms"),
    Target("copies", "copies behind NumPy or PyTorch", 0, quantity="cases"),
    Target("new vector -> numpy", "new vector -> NumPy array", 1.1, "rust-numpy"),
    Target("12 new vectors -> numpy", "12 new vectors -> NumPy arrays in tuples", 1.1, "rust-numpy"),
    *(Target(work, title, 1, "rust-numpy") for work, title in COPIED.items()),
    *(Target(f"{what}, refused", f"{what}, refused", 1, "rust-numpy", ours=TRIED) for what in REFUSED),
    *(Target(f"{what}, raised", f"{what}, raised to Python", 1, "rust-numpy") for what in REFUSED),
    *(
        Target(work, f"{title} -> {result}", 1.2, CHUNKED, ours=ours)
        for work, title in COLUMNS.items()
        for result, ours in (("argument", "dlbridge"), ("`asdlpack`", "dlbridge: `asdlpack`"))
    ),
    *(
        Target(
            FIRST.format(library),
            f"NumPy array -> argument after {library}'s first borrow, more than alone",
            40,
            subtract="dlbridge",
            subtracted_work="numpy -> no-op",
        )
        for library in ("dlbridge", "rust-numpy")
    ),
    Target("numpy -> no-op", "typed argument, more than `import` alone: NumPy", 40, subtract=BARE),
    Target("torch -> no-op", "typed argument, more than `import` alone: PyTorch", 40, subtract=BARE),
    Target("numpy -> no-op", "typed argument, more than the floor: NumPy", 40, subtract="floor: buffer"),
    Target("torch -> no-op", "typed argument, more than the floor: PyTorch", 40, subtract="floor: borrowed table"),
)


def is_ours(library: str) -> bool:
    return library.startswith("dlbridge")


def is_offer(library: str) -> bool:
    """Returns True for dlbridge as authors use it; the import alone is only a step of that."""
    return is_ours(library) and library != BARE


def is_floor(library: str) -> bool:
    return library.startswith("floor")


def is_peer(library: str) -> bool:
    """Returns True for other libraries as they are: no hand-written code, and no framework's own function."""
    return not (is_ours(library) or is_floor(library) or is_checked(library) or "'s own " in library)


def is_checked(library: str) -> bool:
    """Returns True for a row of another library whose caller adds dlbridge's checks."""
    return library.endswith(CHECKED_SUFFIX)


def libraries(run: Run, work: str) -> list[str]:
    """Returns the libraries with a number for a work."""
    if work in RUST:
        named = [row.split("/", 1) for row in run["rust"]]
        found = [library for of, library in named if of == work and library != "source"]
    else:
        found = list(by_library(run, work))
    return [library for library in found if nanoseconds(run, work, library) is not None]


def best(run: Run, work: str, wanted: Callable[[str], bool], quantity: str = "ns") -> tuple[str, float] | None:
    """Returns the wanted library with the least number."""
    read = QUANTITIES[quantity]
    values = [(name, read(run, work, name)) for name in libraries(run, work) if wanted(name)]
    known = [(name, value) for name, value in values if value is not None]
    return min(known, key=lambda found: found[1]) if known else None
