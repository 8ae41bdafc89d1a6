"""All rows that are measured, each once: what it calls with each library, its goals, and whether it has an instruction budget.

`measure.py` times the rows, `instructions.py` counts those with a budget, and `speed.py` prints the results beside the goals.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

BEST, BEST_CHECKED = "the best peer", "the best peer with every check"
"""Peers of a goal: the fastest one of each run, and the fastest whose caller adds dlbridge's checks."""

CHECKED = ", with dlbridge's checks in Python"
"""Ends the name of a library whose caller adds the checks that it lacks."""


@dataclass(frozen=True)
class Call:
    """A measured statement, and the code that defines its variables."""

    statement: str
    setup: str = ""


@dataclass(frozen=True)
class Goal:
    """A limit of dlbridge's number: a multiple of a peer's number, or the number itself."""

    limit: float
    peer: str | None = None
    of: str | None = None
    """The row of the peer's number, if it is another one."""
    ours: str = "dlbridge"
    less: tuple[str, str] | None = None
    """The row and the library of a number that is subtracted from ours."""


@dataclass(frozen=True)
class Row:
    """One piece of work by several libraries."""

    name: str
    group: str
    """The process that measures it: `PROGRAMS` are programs of their own; in the others, the rows take turns."""
    calls: dict[str, Call]
    """By library. `floor` is hand-written code for this one case."""
    goals: tuple[Goal, ...] = ()
    budget: str | None = None
    """The library whose instructions have a budget."""
    each: int = 1
    """The number of tensors in a call; the results are for each of them."""
    unit: str = "ns"


PROGRAMS = ("rust", "state", "threads", "processes", "startup", "copies")

EXTENSIONS = ("dlbridge", "dlpark", "dlpk", "pyo3-dlpack", "dlpack-rs", "rust-numpy", "nanobind")
"""The libraries for authors of extensions: `peers/NAME`."""

WITH_CAPSULES = tuple(name for name in EXTENSIONS if name != "rust-numpy")

ONE_USE = ("dlpk",)
"""Libraries whose objects can be exported only once, so each call makes a new object."""

TVM_NO_OP = "import tvm_ffi\nf = tvm_ffi.get_global_func('testing.nop')"

FROM_DLPACK = {
    "numpy": "from numpy import from_dlpack",
    "torch": "from torch import from_dlpack",
    "jax": "from jax.numpy import from_dlpack",
}


# The values that setups use, beside what they import.


@cache
def matrix(framework: str = "numpy") -> Any:
    """Returns a small float32 matrix."""
    if framework == "torch":
        import torch

        # A matrix product would start threads, but the measurement is single-threaded.
        torch.set_num_threads(1)
        return torch.ones(4, 6)
    if framework == "jax":
        import jax

        return jax.block_until_ready(jax.numpy.ones((4, 6), "float32"))
    import numpy as np

    return np.ones((4, 6), "float32")


@cache
def arrays(count: int, framework: str = "numpy") -> list[Any]:
    if framework == "torch":
        import torch

        return [torch.ones(4, 6) for _ in range(count)]
    import numpy as np

    return [np.ones((4, 6), "float32") for _ in range(count)]


@cache
def named(count: int) -> dict[str, Any]:
    return {f"layer.{n}.weight": array for n, array in enumerate(arrays(count))}


@cache
def gigabyte(framework: str) -> Any:
    """Returns a matrix of 1 GiB. A library that reads or copies its untouched memory pays for page faults."""
    import numpy as np

    if framework == "torch":
        import torch

        return torch.empty(2**20, 256)
    return np.empty((2**20, 256), "float32")


def variables(call: Call) -> dict[str, Any]:
    """Runs a setup, and returns all variables of its statement."""
    scope: dict[str, Any] = {"matrix": matrix, "arrays": arrays, "named": named, "gigabyte": gigabyte}
    exec(call.setup, scope)
    return scope


def of(library: str, **functions: str) -> str:
    """Returns the imports of functions of an extension, each under the name of its keyword."""
    module = "with_" + library.replace("-", "_")
    return "\n".join(f"from {module} import {function} as {name}" for name, function in functions.items())


def calls(statement: str, libraries: Iterable[str], setup: str = "", **functions: str) -> dict[str, Call]:
    """Returns the same call with several extensions."""
    return {library: Call(statement, f"{of(library, **functions)}\n{setup}") for library in libraries}


def rust() -> list[Row]:
    """Rows of the program `rust`: a new tensor from memory that a source makes, which is subtracted."""
    rows = []
    for work, libraries, ns, count, peers in (
        ("vec", ("dlpark", "dlpk", "dlpack-rs"), 1.15, 200, "a `Vec<f32>` -> tensor -> deleter"),
        ("four", ("dlpark", "dlpack-rs"), 1.15, 205, "the same with four dimensions"),
        ("array", ("dlpark", "dlpk"), 1.25, 240, "an `ndarray::Array3` -> tensor -> view -> drop"),
    ):
        by = {library: Call(f"{work}/{library}") for library in ("source", "floor", "dlbridge", *libraries)}
        rows += [
            Row(f"Rust: {work}", "rust", by, (Goal(ns, "floor"),), budget="dlbridge"),
            Row(f"Rust: {work}, allocations", "rust", by, (Goal(1),), unit="allocations"),
            Row(f"Rust: {work}, instructions", "rust", by, (Goal(count),), unit="instructions"),
        ]
    return rows


TITLES = {"numpy": "NumPy array", "torch": "PyTorch tensor", "jax": "JAX array"}


def arguments() -> list[Row]:
    """A framework's matrix as the argument of a function that does nothing, and as an object that exports DLPack."""
    rows = []
    floors = {"numpy": ("dlpack", "buffer"), "torch": ("dlpack", "borrowed_table", "owned_table"), "jax": ("dlpack", "buffer")}
    import_alone = {framework: (f"{title} -> import", "dlbridge") for framework, title in TITLES.items()}
    goals = {
        "numpy": (
            Goal(0.6, "nanobind"),
            Goal(40, less=import_alone["numpy"]),
            Goal(40, less=("NumPy array -> no-op argument", "floor: buffer")),
        ),
        "torch": (
            Goal(1, BEST),
            Goal(1, BEST_CHECKED),
            Goal(40, less=import_alone["torch"]),
            Goal(40, less=("PyTorch tensor -> no-op argument", "floor: borrowed table")),
        ),
        "jax": (Goal(0.2, "nanobind"),),
    }
    jax_no_op = "JAX array -> no-op argument"
    asdlpack = {
        "numpy": (Goal(0.6, "tvm-ffi"), Goal(0.006, "pydlpack")),
        "torch": (),
        "jax": (Goal(0.25, "nanobind", of=jax_no_op),),
    }
    for framework, title in TITLES.items():
        x = f"x = matrix({framework!r})"
        by = {**calls("f(x)", EXTENSIONS, x, f="noop"), "tvm-ffi": Call("f(x)", f"{TVM_NO_OP}\n{x}")}
        if framework == "torch":
            # dlbridge alone refuses a tensor that requires grad or has its negative bit set.
            statement = "x.requires_grad or x.is_neg() or f(x)"
            by |= {library + CHECKED: Call(statement, by[library].setup) for library in ("tvm-ffi", "dlpark")}
        for protocol in floors[framework]:
            by |= {f"floor: {protocol.replace('_', ' ')}": Call("f(x)", f"{of('floor', f=f'by_{protocol}')}\n{x}")}
        rows.append(Row(f"{title} -> no-op argument", framework, by, goals[framework], budget="dlbridge"))
        only_import = (Goal(0.25, "nanobind", of=jax_no_op),) if framework == "jax" else ()
        budget = None if framework == "numpy" else "dlbridge"
        rows.append(Row(f"{title} -> import", framework, calls("f(x)", ["dlbridge"], x, f="bare"), only_import, budget))
        by = {
            "dlbridge": Call("f(x)", f"from dlbridge import asdlpack as f\n{x}"),
            "pydlpack": Call("f(x)", f"from dlpack import asdlpack as f\n{x}"),
            "tvm-ffi": Call("f(x)", f"from tvm_ffi import from_dlpack as f\n{x}"),
            f"{framework}'s own `from_dlpack`": Call("f(x)", f"{FROM_DLPACK[framework]} as f\n{x}"),
        }
        if framework != "torch":
            # PyTorch's tensors lack a buffer.
            by["floor: buffer"] = Call("f(x)", f"{of('floor', f='hold')}\n{x}")
        rows.append(Row(f"asdlpack({title})", framework, by, asdlpack[framework], budget="dlbridge"))
    ours = calls("f(x)", ["dlbridge"], "from dlbridge import asdlpack\nx = asdlpack(matrix())", f="noop")
    rows.append(Row("dlbridge.Tensor -> no-op argument", "numpy", ours, budget="dlbridge"))
    for framework in ("numpy", "torch"):
        libraries = EXTENSIONS if framework == "numpy" else WITH_CAPSULES
        by = calls("f(x)", libraries, f"x = gigabyte({framework!r})", f="noop")
        by["tvm-ffi"] = Call("f(x)", f"{TVM_NO_OP}\nx = gigabyte({framework!r})")
        rows.append(Row(f"{TITLES[framework]} of 1 GiB -> no-op argument", framework, by))
    return rows


def exports() -> list[Row]:
    """A tensor of the extension as a capsule, as an object, and as a NumPy array."""
    libraries = (*WITH_CAPSULES, "floor")
    numpy = "from numpy import from_dlpack as f"
    kept = calls("f(x)", libraries, f"{numpy}\nx = make()", make="make")
    kept |= {library: replace(kept[library], statement="f(make())") for library in ONE_USE}
    both = ("dlbridge", "rust-numpy")
    return [
        Row("new tensor -> capsule", "export", calls("f()", libraries, f="new"), (Goal(0.8, "dlpark"),), "dlbridge"),
        Row("new tensor -> object", "export", calls("f()", libraries, f="make"), (Goal(1, BEST),), "dlbridge"),
        Row(
            "new tensor -> object -> capsule",
            "export",
            calls("make().__dlpack__(max_version=version)", ["dlbridge"], "version = (1, 3)", make="make"),
            budget="dlbridge",
        ),
        Row(
            "new object -> np.from_dlpack",
            "export",
            calls("f(make())", libraries, numpy, make="make"),
            (Goal(0.9, "pyo3-dlpack"),),
            "dlbridge",
        ),
        Row("object -> np.from_dlpack", "export", kept, (Goal(0.8, "pyo3-dlpack"),), "dlbridge"),
        Row("new vector -> NumPy array", "export", calls("f()", both, f="new_numpy"), (Goal(1.1, "rust-numpy"),), "dlbridge"),
        Row("12 new vectors -> NumPy arrays in tuples", "export", calls("f()", both, f="twelve_numpy"), (Goal(1.1, "rust-numpy"),)),
    ]


def copied() -> list[Row]:
    """Copies of small tensors. `copies.py` has larger ones."""
    rows = []
    for name, array in {"24 elements": "(4, 6), 'float32')", "64 x 64 transposed": "(64, 64), 'float32').T"}.items():
        setup = f"import numpy as np\nfrom dlbridge import asdlpack\nx = asdlpack(np.ones({array})"
        call = {"dlbridge": Call("asdlpack(x, copy=True)", setup)}
        rows.append(Row(f"asdlpack({name}, copy=True)", "export", call, budget="dlbridge"))
    return rows


def to_torch() -> list[Row]:
    """A new and an existing tensor of the extension as a PyTorch tensor."""
    libraries = (*WITH_CAPSULES, "floor")
    torch = "from torch import from_dlpack as f"
    by_capsule = {f"{name}: capsule": call for name, call in calls("f(new())", libraries, torch, new="new").items()}
    kept = calls("f(x)", libraries, f"{torch}\nx = make()", make="make")
    kept |= {library: replace(kept[library], statement="f(make())") for library in ONE_USE}
    return [
        Row(
            "new vector -> PyTorch tensor",
            "torch",
            {
                "dlbridge: `into_library`": Call("new()", of("dlbridge", new="new_torch")),
                "dlbridge: `Torch`": Call("new()", of("dlbridge", new="typed_torch")),
                "dlbridge: `.torch()`": Call("make().torch()", of("dlbridge", make="make")),
                **by_capsule,
                "floor: table": Call("new(Tensor)", f"from torch import Tensor\n{of('floor', new='new_as')}"),
            },
            (
                Goal(0.65, "dlpark: capsule", ours="dlbridge: `into_library`"),
                Goal(1, "pyo3-dlpack: capsule", ours="dlbridge: `Torch`"),
            ),
            budget="dlbridge: `into_library`",
        ),
        Row(
            "new object -> torch.from_dlpack",
            "torch",
            calls("f(make())", libraries, torch, make="make"),
            (Goal(0.95, BEST),),
            "dlbridge",
        ),
        Row(
            "object -> torch.from_dlpack",
            "torch",
            {"dlbridge: `.torch()`": Call("x.torch()", kept["dlbridge"].setup), **kept},
            budget="dlbridge",
        ),
        Row(
            "list of a PyTorch tensor to write -> argument",
            "torch",
            calls("f(x)", ["dlbridge", "nanobind"], "x = [matrix('torch')]", f="write_list"),
            budget="dlbridge",
        ),
    ]


BORROWED = of("dlbridge", first="noop") + "\nfirst(matrix())"
"""dlbridge borrows first, so that rust-numpy uses its registry. The rows of both registries measure the other order."""


def conversions() -> list[Row]:
    """Lists and other dtypes as arguments that copy them, and objects that every argument refuses."""
    copies = {
        "list of 10 floats": ("vector", "[0.5] * 10"),
        "list of 1000 floats": ("vector", "[0.5] * 1000"),
        "list of 1000 integers": ("integers", "list(range(1000))"),
        "10 lists of 10 floats": ("matrix", "[[0.5] * 10] * 10"),
        "4 x 6 int64 as float64": ("cast", "np.ones((4, 6), 'int64')"),
        "1000 x 10 int64 as float64": ("cast", "np.ones((1000, 10), 'int64')"),
        "100 x 100 uint8 as float64": ("cast", "np.ones((100, 100), 'uint8')"),
        "100 x 100 bool as float64": ("cast", "np.ones((100, 100), 'bool')"),
        "100 x 100 float32, transposed, as float64": ("cast", "np.ones((100, 100), 'float32').T"),
        "4 x 6 float64 in the other byte order": ("cast", "np.ones((4, 6), '>f8')"),
        "list of 100 arrays without dimensions": ("vector", "[np.array(0.5) for _ in range(100)]"),
    }
    refused = {
        "array of another dtype": "np.ones(6, 'int32')",
        "matrix for a vector": "np.ones((4, 6), 'float64')",
        "list for an array": "[0.5] * 10",
    }

    def both(statement: str, x: str, function: str) -> dict[str, Call]:
        return calls(statement, ("dlbridge", "rust-numpy"), f"import numpy as np\n{BORROWED}\nx = {x}", f=function)

    beside, caught = (Goal(1, "rust-numpy"),), "try:\n    f(x)\nexcept TypeError:\n    pass"
    rows = [Row(f"{what} -> argument", "conversions", both("f(x)", x, f), beside) for what, (f, x) in copies.items()]
    for what, x in refused.items():
        tried = {"dlbridge: `try_extract`": both("f(x)", x, "tries")["dlbridge"]}
        goal = Goal(1, "rust-numpy", ours="dlbridge: `try_extract`")
        rows.append(Row(f"{what}, refused", "conversions", both("f(x)", x, "refuses") | tried, (goal,)))
        rows.append(Row(f"{what}, raised to Python", "conversions", both(caught, x, "exact"), beside))
    return rows


def columns() -> list[Row]:
    """A Series of float64 as an argument and as a DLPack object, beside the shortest way to its memory without dlbridge."""
    own = "pyarrow's own `chunked_array`"
    rows = []
    for title, group, x in (
        ("Series of polars", "polars", "polars.Series([0.5] * 24)"),
        ("Series of pandas in NumPy's memory", "pandas", "pandas.Series([0.5] * 24)"),
        ("Series of pandas in Arrow's memory", "pandas", "pandas.Series([0.5] * 24, dtype='float64[pyarrow]')"),
    ):
        setup = f"import {group}\nx = {x}"
        by = {
            "dlbridge": Call("f(x)", f"{of('dlbridge', f='exact')}\n{setup}"),
            "dlbridge: `asdlpack`": Call("f(x)", f"from dlbridge import asdlpack as f\n{setup}"),
            own: Call("f(x)", f"from pyarrow import chunked_array as f\n{setup}"),
        }
        rows.append(Row(f"{title} -> argument", group, by, (Goal(1.2, own), Goal(1.2, own, ours="dlbridge: `asdlpack`"))))
    return rows


def both_registries() -> list[Row]:
    """An argument in a process where extensions on both libraries borrow arrays. The first to borrow makes their registry."""
    rows = []
    libraries = ("dlbridge", "rust-numpy")
    for first, second in (libraries, libraries[::-1]):
        setup = f"{of(first, one='noop')}\n{of(second, two='noop')}\nx = matrix()\none(x), two(x)"
        name = f"NumPy array -> argument, {first} borrowed first"
        goal = Goal(40, less=("NumPy array -> no-op argument", "dlbridge"))
        rows.append(Row(name, f"{first} first", calls("f(x)", libraries, setup, f="noop"), (goal,)))
    return rows


ENTRIES = "dlbridge: `Entries`"


def collections() -> list[Row]:
    """Lists and dicts of matrices, all borrowed at once. A row of 100 000 is compared with the one of 1000."""
    rows = []
    all_three = ("dlbridge", "rust-numpy", "nanobind")
    lists = dict.fromkeys(all_three, "noop_list") | {"floor": "list_by_buffer"}
    dicts = {ENTRIES: "noop_entries", **dict.fromkeys(all_three, "noop_dict")}
    kinds: dict[str, tuple[bool, str, dict[str, str]]] = {
        "list of {} NumPy arrays": (True, "arrays({})", lists),
        "list of {} NumPy arrays to write": (False, "arrays({})", dict.fromkeys(all_three, "write_list")),
        "dict of {} NumPy arrays": (False, "named({})", dicts),
        "list of {} PyTorch tensors": (True, "arrays({}, 'torch')", dict.fromkeys(("dlbridge", "nanobind"), "noop_list")),
    }
    for title, (is_beside_nanobind, x, functions) in kinds.items():
        ours = ENTRIES if ENTRIES in functions else "dlbridge"
        name = f"{title} -> argument, each"
        for count in (1, 10, 1000, 100_000):
            by = {
                library: Call("f(x)", f"{BORROWED}\n{of(library.split(':')[0], f=function)}\nx = {x.format(count)}")
                for library, function in functions.items()
                # Its time for each array grows with their number.
                if library != "rust-numpy" or count <= 1000
            }
            goals = (Goal(1.2, ours, of=name.format(1000), ours=ours),) if count == 100_000 else ()
            if is_beside_nanobind and count <= 10:
                goals = (Goal(1, "nanobind"),)
            budget = "dlbridge" if count == 1000 and "PyTorch" not in title else None
            rows.append(Row(name.format(count), "collections", by, goals, budget, each=count))
    objects = of("dlbridge", hand_on="hand_on") + "\nfrom numpy import from_dlpack\nx = named(1000)"
    there = Call("{name: hand_on(array) for name, array in x.items()}", objects)
    back = Call("{name: from_dlpack(object) for name, object in y.items()}", f"{objects}\ny = {there.statement}")
    return [
        *rows,
        Row("state dict of 1000 NumPy arrays -> objects, each", "collections", {"dlbridge": there}, (), "dlbridge", 1000),
        Row("state dict of 1000 objects -> NumPy arrays, each", "collections", {"dlbridge": back}, (), "dlbridge", 1000),
    ]


def state() -> list[Row]:
    """Rows of `scale.py`: a state dict of PyTorch to objects of a library, and back."""
    back = "from torch import from_dlpack as back"
    by = {
        "dlbridge": Call("", f"{of('dlbridge', there='hand_on')}\nback = lambda x: x.torch()"),
        "dlpark": Call("", f"{of('dlpark', there='hand_on')}\n{back}"),
        "dlpk": Call("", f"{of('dlpk', there='hand_on')}\n{back}"),
        "tvm-ffi": Call("", f"from tvm_ffi import from_dlpack as there\n{back}"),
    }
    return [
        Row("state dict of 10 000 PyTorch tensors -> objects, each", "state", by, (Goal(0.9, "tvm-ffi"),)),
        Row("state dict of 10 000 objects -> PyTorch tensors, each", "state", by, (Goal(0.9, "dlpark"),)),
    ]


def together() -> list[Row]:
    """Rows of `scale.py`: several threads, and several processes, that call a function with one argument at once."""
    by = calls("f(x)", EXTENSIONS, f="noop") | {"tvm-ffi": Call("f(x)", TVM_NO_OP)}
    four = {library: by[library] for library in ("dlbridge", "rust-numpy", "nanobind", "tvm-ffi")}
    goal = (Goal(1, "nanobind"),)
    return [
        Row("NumPy array -> argument, 16 threads at once", "threads", by, goal),
        Row("NumPy array -> argument, 4 processes at once", "processes", four, goal),
    ]


def programs() -> list[Row]:
    """Rows of `startup.py` and `copies.py`."""
    by = {
        "dlbridge": Call("import dlbridge"),
        "numpy": Call("import numpy"),
        "tvm-ffi": Call("import tvm_ffi"),
    }
    return [
        Row("import, more than a bare interpreter", "startup", by, (Goal(5),), unit="ms"),
        Row("copies behind NumPy or PyTorch", "copies", {"dlbridge": Call("")}, (Goal(0),), unit="copies"),
    ]


ROWS = (
    *rust(),
    *arguments(),
    *exports(),
    *copied(),
    *to_torch(),
    *conversions(),
    *columns(),
    *both_registries(),
    *collections(),
    *state(),
    *together(),
    *programs(),
)

BY_NAME = {row.name: row for row in ROWS}

GROUPS = tuple(dict.fromkeys(row.group for row in ROWS if row.group not in PROGRAMS))
"""The processes of `measure.py`."""
