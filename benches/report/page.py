"""The tables of `docs/benchmarks.md`, from `benches/results.json`."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from targets import (
    BEST_CHECKED,
    COLLECTIONS,
    RUST,
    TARGETS,
    Run,
    Target,
    allocations,
    best,
    copy_ratio,
    instructions,
    is_checked,
    is_floor,
    is_offer,
    is_ours,
    is_peer,
    libraries,
    nanoseconds,
)

Results = dict[str, Any]

WORKS = {
    **RUST,
    "numpy -> no-op": "NumPy array -> argument of a function that does nothing",
    "torch -> no-op": "PyTorch tensor -> argument of a function that does nothing",
    "jax -> no-op": "JAX array -> argument of a function that does nothing",
    "numpy -> object": "NumPy array -> an object that exports DLPack",
    "torch -> object": "PyTorch tensor -> an object that exports DLPack",
    "jax -> object": "JAX array -> an object that exports DLPack",
    "new tensor -> capsule": "new tensor -> capsule",
    "new tensor -> object": "new tensor -> Python object",
    "new object -> numpy": "new object of the extension -> `np.from_dlpack`",
    "object -> numpy": "object of the extension -> `np.from_dlpack`",
    "new vector -> numpy": "new vector -> NumPy array",
    "12 new vectors -> numpy": "12 new vectors -> NumPy arrays in tuples",
    "new tensor -> torch": "new tensor -> PyTorch tensor",
    "new object -> torch": "new object of the extension -> `torch.from_dlpack`",
    "object -> torch": "object of the extension -> PyTorch tensor",
    "10 floats in a list -> no-op": "list of 10 floats -> argument of a function that does nothing",
    "1000 floats in a list -> no-op": "list of 1000 floats -> the same",
    "1000 integers in a list -> no-op": "list of 1000 integers -> the same",
    "10 x 10 floats in lists -> no-op": "10 lists of 10 floats -> the same",
    "4 x 6 int64 as float64 -> no-op": "NumPy array of 4 x 6 int64 -> argument of float64",
    "1000 x 10 int64 as float64 -> no-op": "NumPy array of 1000 x 10 int64 -> argument of float64",
    "100 x 100 uint8 as float64 -> no-op": "NumPy array of 100 x 100 uint8 -> argument of float64",
    "100 x 100 bool as float64 -> no-op": "NumPy array of 100 x 100 bool -> argument of float64",
    "100 x 100 float32, transposed, as float64 -> no-op": "NumPy array of 100 x 100 float32, transposed -> argument of float64",
    "4 x 6 float64 in the other byte order -> no-op": "NumPy array of 4 x 6 float64 in the other byte order -> argument of float64",
    "100 arrays without dimensions in a list -> no-op": "list of 100 NumPy arrays without dimensions -> argument of float64",
    "array of another dtype, refused": "NumPy array of another dtype, refused within Rust",
    "array of another dtype, raised": "NumPy array of another dtype, raised to Python and caught",
    "matrix for a vector, refused": "NumPy matrix for a vector, refused within Rust",
    "matrix for a vector, raised": "NumPy matrix for a vector, raised to Python and caught",
    "list for an array, refused": "list for an array, refused within Rust",
    "list for an array, raised": "list for an array, raised to Python and caught",
    "polars -> no-op": "Series of polars -> argument of a function that does nothing",
    "pandas -> no-op": "Series of pandas in NumPy's memory -> argument of a function that does nothing",
    "pandas of Arrow -> no-op": "Series of pandas in Arrow's memory -> argument of a function that does nothing",
    "numpy -> no-op, dlbridge borrowed first": "NumPy array -> argument, in a process where dlbridge borrowed before rust-numpy",
    "numpy -> no-op, rust-numpy borrowed first": "NumPy array -> argument, in a process where rust-numpy borrowed before dlbridge",
}


def table(header: list[str], rows: list[list[str]]) -> str:
    """Returns a Markdown table; the first column is text, the others are numbers."""
    rule = ["---", *["---:"] * (len(header) - 1)]
    return "\n".join("| " + " | ".join(line).rstrip() + " |" for line in [header, rule, *rows])


def number(value: float | None) -> str:
    """Returns a number with three significant digits and separated thousands."""
    if value is None:
        return ""
    if abs(value) >= 100:
        return f"{value:,.0f}".replace(",", " ")
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def ratio(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}" if value < 0.02 else f"{value:.2f}"


def named(found: tuple[str, float] | None) -> str:
    return "" if found is None else f"{found[0].removeprefix('floor: ')}: {number(found[1])}"


def measured(target: Target, run: Run) -> str:
    value = target.measured(run)
    return ratio(value) if target.reference else number(value)


def promised(target: Target) -> str:
    unit = {"ns": " ns", "ms": " ms", "cases": " cases"}.get(target.quantity, "")
    if target.reference is None:
        return f"{target.limit:g}{unit}"
    with_count = {f"1000 in a {collection}": " of 1000" for collection in COLLECTIONS}
    work = with_count.get(target.reference_work or "", "")
    return f"{target.limit:g} x {target.reference}{work}"


def targets(runs: list[Run]) -> str:
    rows = []
    first = runs[0]
    for target in TARGETS:
        if target.own(first) is None and not target.is_refused(first):
            # The row is newer than the results.
            continue
        # A difference of two rows of dlbridge lacks a peer.
        alone = target.subtract is not None
        wanted = is_checked if target.reference == BEST_CHECKED else is_peer
        peer = None if alone else best(first, target.work, wanted, target.quantity)
        floor = None if alone else best(first, target.work, is_floor, target.quantity)
        what = f", {target.quantity}" if target.quantity in ("allocations", "instructions") else ""
        rows.append(
            [
                f"{target.title}{what}",
                number(target.own(first)),
                named(peer),
                named(floor) if floor and ": " in floor[0] else number(floor[1] if floor else None),
                *(measured(target, run) for run in runs),
                f"<= {promised(target)}",
                "yes" if target.reached(runs) else "**no**",
            ]
        )
    header = ["work", "ours", "best peer", "floor", *(f"run {n + 1}" for n in range(len(runs))), "must be", "reached"]
    return table(header, rows)


def peers(runs: list[Run]) -> str:
    """Returns every work with every library. The last column is the time over dlbridge's, of the first run."""
    text = []
    for work, title in WORKS.items():
        if not libraries(runs[0], work):
            # The row is newer than the results.
            continue
        text.append(f"### {title}")
        ours = best(runs[0], work, is_offer)
        refused = {} if work in RUST else runs[0]["python"].get(work, {})
        rows = []
        for library in libraries(runs[0], work):
            times = [nanoseconds(run, work, library) for run in runs]
            more = [f"{times[0] / ours[1]:.2f}" if ours and times[0] else ""]
            if work in RUST:
                more += [number(allocations(runs[0], work, library)), number(instructions(runs[0], work, library))]
            rows.append([f"**{library}**" if is_ours(library) else library, *map(number, times), *more])
        width = len(rows[0]) if rows else 2
        rows += [[name, why, *[""] * (width - 2)] for name, why in refused.items() if isinstance(why, str)]
        header = ["", *(f"ns, run {n + 1}" for n in range(len(runs))), "x ours"]
        text.append(table(header + (["allocations", "instructions"] if work in RUST else []), rows))
    return "\n\n".join(text)


def scale(runs: list[Run]) -> str:
    parts = (bytes_table, state, many, files, startup, threads, processes)
    return "\n\n".join(text for text in (part(runs) for part in parts) if text)


def both(values: list[float | None]) -> str:
    """Returns one number of all runs."""
    return " / ".join(number(value) for value in values)


def bytes_table(runs: list[Run]) -> str:
    text = ["### From 1 KiB to 1 GiB", "Nanoseconds per argument, including the loop; both runs."]
    for framework, found in runs[0]["scale"]["bytes"].items():
        sizes = list(next(iter(found.values())))
        rows = [
            [library, *(both([run["scale"]["bytes"][framework][library][size] for run in runs]) for size in sizes)]
            for library in found
        ]
        text.append(table([f"{WORKS[f'{framework} -> no-op'].split(' ->')[0]} of", *sizes], rows))
    return "\n\n".join(text)


def state(runs: list[Run]) -> str:
    found = runs[0]["scale"]["tensors"]
    counts = list(next(iter(found.values())))
    rows = []
    for library in found:
        for way in ("there", "back"):
            cells = [both([run["scale"]["tensors"][library][count][way] for run in runs]) for count in counts]
            rows.append([f"{library}, {way}", *cells])
    words = "Nanoseconds per tensor, from PyTorch to an object of the extension, and back; both runs."
    return f"### A state dict\n\n{words}\n\n" + table(["", *(f"of {count}" for count in counts)], rows)


def many(runs: list[Run]) -> str:
    found = runs[0]["scale"].get("many")
    if not found:
        return ""
    text = [
        "### Many arrays in one argument",
        "Nanoseconds per array of 4 x 6 float32 (NumPy's unless PyTorch is named), in a list, dict or tree that is one argument; all arrays are "
        "borrowed at once. The floor locks and releases the buffer of each array. Both runs.",
    ]
    for collection, libraries_of in found.items():
        counts = list(next(iter(libraries_of.values())))
        rows = [
            [library, *(both([run["scale"]["many"][collection][library].get(count) for run in runs]) for count in counts)]
            for library in libraries_of
        ]
        text.append(table([collection, *(f"of {int(count):,}".replace(",", " ") for count in counts)], rows))
    return "\n\n".join(text)


def startup(runs: list[Run]) -> str:
    found = runs[0].get("startup")
    if not found:
        return ""
    rows = [[f"`import {name.replace('-', '_')}`", both([run["startup"].get(name) for run in runs])] for name in found]
    words = (
        "Milliseconds of processor time of a new process beyond a bare interpreter, the median of interleaved processes; "
        "both runs."
    )
    return f"### Imports\n\n{words}\n\n" + table(["", "ms"], rows)


def files(runs: list[Run]) -> str:
    found = runs[0]["scale"].get("safetensors")
    if not found:
        return ""
    rows = []
    for library in found["libraries"]:
        each = [run["scale"]["safetensors"]["libraries"][library] for run in runs]
        rows.append([library, both([e["ms"] for e in each]), both([e["resident"] / 2**20 for e in each])])
    words = (
        f"A file of {found['bytes'] / 1e9:g} GB, opened as {found['tensors']} tensors: milliseconds until the first "
        "element of the last one is read, and the growth of the process's memory in MiB; both runs. The file is sparse, "
        "so that no disk is measured."
    )
    return f"### A safetensors file\n\n{words}\n\n" + table(["", "ms to the first byte", "MiB in memory"], rows)


def threads(runs: list[Run]) -> str:
    rust = runs[0]["scale"]["rust threads"]
    counts = list(next(iter(rust.values())))
    rows = []
    for name in rust:
        each = [run["scale"]["rust threads"][name] for run in runs]
        rows.append([name, *(both([e[count] for e in each]) for count in counts), both([e["2"] / e["1"] for e in each])])
    text = [
        f"### {'Two threads' if len(counts) == 2 else 'Threads'}",
        "Calls per microsecond of each thread, alone and beside other threads, and the ratio of the first two numbers. "
        "Threads of the floor share only the allocator and the processors, so every library loses at least what the "
        "floor loses.",
        table(["each of", *map(threads_word, counts), "share"], rows),
        "From Python, all threads together, under the interpreter's lock:",
    ]
    return "\n\n".join([*text, together(runs, "threads", threads_word)])


def threads_word(count: str) -> str:
    return "one thread" if count == "1" else f"{count} threads"


def processes(runs: list[Run]) -> str:
    if "processes" not in runs[0]["scale"]:
        return ""
    words = "Calls per microsecond of all processes together. Each has an interpreter and a registry of its own."
    return f"### Processes\n\n{words}\n\n" + together(
        runs, "processes", lambda count: "one process" if count == "1" else f"{count} processes"
    )


def together(runs: list[Run], what: str, word: Callable[[str], str]) -> str:
    """Returns the rates of several threads or processes together, and the last over the first."""
    found = runs[0]["scale"][what]
    counts = list(next(iter(found.values())))
    rows = []
    for name in found:
        each = [run["scale"][what][name] for run in runs]
        share = both([e[counts[-1]] / e[counts[0]] for e in each])
        rows.append([name, *(both([e[count] for e in each]) for count in counts), share])
    return table(["NumPy array of", *map(word, counts), "last over first"], rows)


def copies(runs: list[Run]) -> str:
    """Returns the results of `benches/python/copies.py`: gigabytes per second in the first run, and the ratio in each."""
    rows = [run["copies"] for run in runs]
    names = [name for name in rows[0][0] if name not in ("case", "bytes")]
    cells = [
        [row["case"], size(row["bytes"]), *(number(row[name]) for name in names), *(number(copy_ratio(row)) for row in of_runs)]
        for row, of_runs in zip(rows[0], zip(*rows, strict=True), strict=True)
    ]
    return table(["GB/s", "size", *names, *(f"ratio, run {n + 1}" for n in range(len(runs)))], cells)


def size(count: int) -> str:
    for unit, factor in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if count >= factor:
            return f"{count / factor:g} {unit}" if count % factor == 0 else f"{count / factor:.1f} {unit}"
    return f"{count} B"


def machine(described: dict[str, str]) -> str:
    lines = [f"- {name}: {value}" for name, value in described.items()]
    return "\n".join(lines)


def replaced(page: str, name: str, text: str) -> str:
    """Returns the page with a new text between its markers."""
    begin, end = f"<!-- begin: {name} -->\n", f"<!-- end: {name} -->"
    if page.count(begin) != 1 or page.count(end) != 1:
        raise SystemExit(f"the page must have one `{begin.strip()}` and one `{end}`")
    return re.sub(f"{begin}.*{end}", lambda _: f"{begin}\n{text}\n\n{end}", page, flags=re.DOTALL)


def complete(results: Results) -> list[Run]:
    """Returns each run with the results that all runs share."""
    return [{**run, "instructions": results["instructions"]} for run in results["runs"]]


def rendered(page: str, results: Results) -> str:
    """Returns the page with all its tables."""
    runs = complete(results)
    parts = {
        "targets": targets(runs),
        "peers": peers(runs),
        "scale": scale(runs),
        "copies": f"## Copies\n\n{copies(runs)}" if "copies" in runs[0] else "",
        "machine": machine(results["machine"]),
    }
    for name, text in parts.items():
        page = replaced(page, name, text)
    # A missing section leaves only its markers.
    return re.sub(r"(<!-- begin: \w+ -->\n)\n+(<!-- end)", r"\1\2", page)
