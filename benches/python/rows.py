"""The measurements from Python: one statement for each library and each piece of work.

A row's work belongs to one group, which runs in its own process with one framework. A row that a library cannot run
stays in: it raises, and the table shows that.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

Names = dict[str, Any]
"""The variables of a statement."""


@dataclass(frozen=True)
class Row:
    """One piece of work by one library."""

    group: str
    work: str
    library: str
    statement: str
    names: Callable[[], Names]
    """Imports the statement's modules and returns its variables. Called once, in the process that measures."""


EXTENSIONS = ("dlbridge", "dlpark", "dlpk", "pyo3-dlpack", "dlpack-rs", "rust-numpy", "nanobind")
"""The libraries for authors of extensions: `peers/NAME`."""

WITH_CAPSULES = tuple(name for name in EXTENSIONS if name != "rust-numpy")

CHECKED_SUFFIX = ", with dlbridge's checks in Python"
"""Ends the name of a row whose caller adds the checks that the library lacks."""

ONE_USE = ("dlpk",)
"""Libraries whose objects can be exported only once, so each call makes a new object."""


def extension(library: str) -> Any:
    return importlib.import_module("with_" + library.replace("-", "_"))


def function_of(library: str, name: str) -> Any:
    return getattr(extension(library), name)


def matrix(group: str) -> Any:
    """A small float32 matrix of a framework."""
    if group == "torch":
        import torch

        # A matrix product would start threads, but the measurement is single-threaded.
        torch.set_num_threads(1)
        return torch.ones(4, 6)
    if group == "jax":
        import jax

        return jax.block_until_ready(jax.numpy.ones((4, 6), "float32"))
    import numpy as np

    return np.ones((4, 6), "float32")


def calling(group: str, function: Callable[[], Any]) -> Callable[[], Names]:
    return lambda: {"f": function(), "x": matrix(group)}


def arguments(group: str) -> Iterator[Row]:
    """A framework's matrix as the argument of a function that does nothing with it."""
    work = f"{group} -> no-op"

    def row(library: str, function: Callable[[], Any]) -> Row:
        return Row(group, work, library, "f(x)", calling(group, function))

    for library in EXTENSIONS:
        yield row(library, partial(function_of, library, "noop"))
    yield row("dlbridge, `import` alone", partial(function_of, "dlbridge", "bare"))
    yield row("tvm-ffi", tvm_nothing)
    if group == "torch":
        # A tensor that requires grad or has its negative bit set is refused by dlbridge alone.
        statement = "x.requires_grad or x.is_neg() or f(x)"
        checked = {"tvm-ffi": tvm_nothing, "dlpark": partial(function_of, "dlpark", "noop")}
        for library, function in checked.items():
            yield Row(group, work, library + CHECKED_SUFFIX, statement, calling(group, function))
    protocols = {"numpy": ("dlpack", "buffer"), "torch": ("dlpack", "borrowed_table", "owned_table")}
    for protocol in protocols.get(group, ("dlpack", "buffer")):
        yield row(f"floor: {protocol.replace('_', ' ')}", partial(function_of, "floor", f"by_{protocol}"))


def tvm_nothing() -> Any:
    import tvm_ffi

    return tvm_ffi.get_global_func("testing.nop")


def imports(group: str) -> Iterator[Row]:
    """A framework's matrix as an object that exports DLPack, and as a tensor of the framework."""

    def dlbridge_function() -> Any:
        import dlbridge

        return dlbridge.asdlpack

    def pydlpack_function() -> Any:
        import dlpack

        return dlpack.asdlpack

    def own() -> Any:
        if group == "torch":
            import torch

            return torch.from_dlpack
        if group == "jax":
            import jax

            return jax.numpy.from_dlpack
        import numpy as np

        return np.from_dlpack

    def tvm() -> Any:
        import tvm_ffi

        return tvm_ffi.from_dlpack

    work = f"{group} -> object"
    yield Row(group, work, "dlbridge", "f(x)", calling(group, dlbridge_function))
    yield Row(group, work, "pydlpack", "f(x)", calling(group, pydlpack_function))
    yield Row(group, work, "tvm-ffi", "f(x)", calling(group, tvm))
    yield Row(group, work, f"{group}'s own `from_dlpack`", "f(x)", calling(group, own))
    if group != "torch":
        # PyTorch's tensors lack a buffer.
        yield Row(group, work, "floor: buffer", "f(x)", calling(group, partial(function_of, "floor", "hold")))


def exports() -> Iterator[Row]:
    """A tensor of the extension as a capsule, as an object, and as a NumPy array."""

    def capsule(library: str) -> Callable[[], Names]:
        return lambda: {"new": extension(library).new}

    def to_numpy(library: str) -> Callable[[], Names]:
        import numpy as np

        def names() -> Names:
            make = extension(library).make
            return {"make": make, "x": make(), "f": np.from_dlpack}

        return names

    for library in (*WITH_CAPSULES, "floor"):
        yield Row("export", "new tensor -> capsule", library, "new()", capsule(library))
        yield Row("export", "new tensor -> object", library, "make()", to_numpy(library))
        yield Row("export", "new object -> numpy", library, "f(make())", to_numpy(library))
        statement = "f(make())" if library in ONE_USE else "f(x)"
        yield Row("export", "object -> numpy", library, statement, to_numpy(library))


def returns() -> Iterator[Row]:
    """A new vector as a NumPy array, and twelve of them in tuples."""

    def names(library: str, function: str) -> Callable[[], Names]:
        return lambda: {"new": function_of(library, function)}

    for library in ("dlbridge", "rust-numpy"):
        yield Row("export", "new vector -> numpy", library, "new()", names(library, "new_numpy"))
        yield Row("export", "12 new vectors -> numpy", library, "new()", names(library, "twelve_numpy"))


def to_torch() -> Iterator[Row]:
    """A new and an existing tensor of the extension as a PyTorch tensor."""

    def names(library: str, **functions: str) -> Callable[[], Names]:
        def get() -> Names:
            import torch

            # A program does this once; afterwards the library knows the type of the tensors.
            module = extension(library)
            found = {name: getattr(module, function) for name, function in functions.items()}
            kept = {"x": module.make()} if hasattr(module, "make") else {}
            return {"f": torch.from_dlpack, "Tensor": torch.Tensor, **found, **kept}

        return get

    work = "new tensor -> torch"
    yield Row("torch", work, "dlbridge: `into_library`", "new()", names("dlbridge", new="new_torch"))
    yield Row("torch", work, "dlbridge: `Torch`", "new()", names("dlbridge", new="typed_torch"))
    yield Row("torch", work, "dlbridge: `.torch()`", "make().torch()", names("dlbridge", make="make"))
    for library in WITH_CAPSULES:
        yield Row("torch", work, f"{library}: capsule", "f(new())", names(library, new="new"))
    yield Row("torch", work, "floor: capsule", "f(new())", names("floor", new="new"))
    yield Row("torch", work, "floor: table", "new(Tensor)", names("floor", new="new_as"))

    for library in (*WITH_CAPSULES, "floor"):
        yield Row("torch", "new object -> torch", library, "f(make())", names(library, make="make"))

    work = "object -> torch"
    yield Row("torch", work, "dlbridge: `.torch()`", "x.torch()", names("dlbridge"))
    for library in (*WITH_CAPSULES, "floor"):
        statement = "f(make())" if library in ONE_USE else "f(x)"
        yield Row("torch", work, library, statement, names(library, make="make"))


def conversions() -> Iterator[Row]:
    """Lists and other dtypes as arguments that copy them, and objects that every argument refuses."""

    def integers(*shape: int, dtype: str = "int64") -> Callable[[], Any]:
        def make() -> Any:
            import numpy as np

            return np.ones(shape, dtype)

        return make

    def transposed(*shape: int, dtype: str) -> Callable[[], Any]:
        make = integers(*shape, dtype=dtype)
        return lambda: make().T

    def without_dimensions(count: int) -> Callable[[], Any]:
        def make() -> Any:
            import numpy as np

            return [np.array(0.5) for _ in range(count)]

        return make

    def names(library: str, function: str, make: Callable[[], Any]) -> Callable[[], Names]:
        def get() -> Names:
            # dlbridge borrows first. The rows of both registries measure the other order.
            function_of("dlbridge", "noop")(matrix("numpy"))
            return {"f": function_of(library, function), "x": make()}

        return get

    copied: dict[str, tuple[str, Callable[[], Any]]] = {
        "10 floats in a list -> no-op": ("vector", lambda: [0.5] * 10),
        "1000 floats in a list -> no-op": ("vector", lambda: [0.5] * 1000),
        "1000 integers in a list -> no-op": ("integers", lambda: list(range(1000))),
        "10 x 10 floats in lists -> no-op": ("matrix", lambda: [[0.5] * 10] * 10),
        "4 x 6 int64 as float64 -> no-op": ("cast", integers(4, 6)),
        "1000 x 10 int64 as float64 -> no-op": ("cast", integers(1000, 10)),
        "100 x 100 uint8 as float64 -> no-op": ("cast", integers(100, 100, dtype="uint8")),
        "100 x 100 bool as float64 -> no-op": ("cast", integers(100, 100, dtype="bool")),
        "100 x 100 float32, transposed, as float64 -> no-op": ("cast", transposed(100, 100, dtype="float32")),
        "4 x 6 float64 in the other byte order -> no-op": ("cast", integers(4, 6, dtype=">f8")),
        "100 arrays without dimensions in a list -> no-op": ("vector", without_dimensions(100)),
    }
    refused: dict[str, Callable[[], Any]] = {
        "array of another dtype": integers(6, dtype="int32"),
        "matrix for a vector": integers(4, 6, dtype="float64"),
        "list for an array": lambda: [0.5] * 10,
    }
    for title, (function, make) in copied.items():
        for library in ("dlbridge", "rust-numpy"):
            yield Row("conversions", title, library, "f(x)", names(library, function, make))
    for title, make in refused.items():
        work = f"{title}, refused"
        for library in ("dlbridge", "rust-numpy"):
            yield Row("conversions", work, library, "f(x)", names(library, "refuses", make))
        tried = names("dlbridge", "tries", make)
        yield Row("conversions", work, "dlbridge: `try_extract`", "f(x)", tried)
        for library in ("dlbridge", "rust-numpy"):
            caught = "try:\n    f(x)\nexcept TypeError:\n    pass"
            yield Row("conversions", f"{title}, raised", library, caught, names(library, "exact", make))


def columns() -> Iterator[Row]:
    """A Series of float64 as an argument, as a DLPack object, and as imported by pyarrow."""

    def names(series: Callable[[], Any], function: Callable[[], Any]) -> Callable[[], Names]:
        return lambda: {"f": function(), "x": series()}

    def column(frames: str, **options: str) -> Callable[[], Any]:
        return lambda: importlib.import_module(frames).Series([0.5] * 24, **options)

    def asdlpack() -> Any:
        return importlib.import_module("dlbridge").asdlpack

    def chunked_array() -> Any:
        return importlib.import_module("pyarrow").chunked_array

    series = {
        "polars": ("polars", column("polars")),
        "pandas": ("pandas", column("pandas")),
        "pandas of Arrow": ("pandas", column("pandas", dtype="float64[pyarrow]")),
    }
    offers: dict[str, Callable[[], Any]] = {
        "dlbridge": partial(function_of, "dlbridge", "exact"),
        "dlbridge: `asdlpack`": asdlpack,
        "pyarrow's own `chunked_array`": chunked_array,
    }
    for title, (group, make) in series.items():
        for library, function in offers.items():
            yield Row(group, f"{title} -> no-op", library, "f(x)", names(make, function))


def both_registries() -> Iterator[Row]:
    """An argument in a process where extensions built on both libraries borrow arrays."""

    def names(first: str, second: str, measured: str) -> Callable[[], Names]:
        def get() -> Names:
            x = matrix("numpy")
            # Each library borrows once, in this order, and installs or finds the registry that both share.
            for library in (first, second):
                function_of(library, "noop")(x)
            return {"f": function_of(measured, "noop"), "x": x}

        return get

    libraries = ("dlbridge", "rust-numpy")
    for first, second in (libraries, libraries[::-1]):
        for library in libraries:
            work = f"numpy -> no-op, {first} borrowed first"
            yield Row(f"{first} first", work, library, "f(x)", names(first, second, library))


def rows() -> list[Row]:
    every: list[Row] = []
    for group in ("numpy", "torch", "jax"):
        every += [*arguments(group), *imports(group)]
    return [*every, *exports(), *returns(), *to_torch(), *conversions(), *columns(), *both_registries()]


GROUPS = (
    "numpy",
    "torch",
    "jax",
    "export",
    "conversions",
    "polars",
    "pandas",
    "dlbridge first",
    "rust-numpy first",
)
