"""Tables and columns of pandas, polars and pyarrow, for the compiled core."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from dlbridge._core import Tensor, asdlpack

#: The libraries of tables, with the units of times that their columns have; pandas converts all others.
UNITS = {"pandas": "", "polars": "D ms us ns", "pyarrow": "D s ms us ns"}


def places(names: list[Any], wanted: list[Any]) -> list[int]:
    """Return the places of columns among all, by their names."""
    known: dict[Any, list[int]] = {}
    for nth, name in enumerate(names):
        known.setdefault(name, []).append(nth)
    for name in wanted:
        count = len(known.get(name, ()))
        if count == 0 and name != name:
            raise ValueError(f"no column has this name {name!r}, which differs from each other NaN; rename the column")
        if count == 0:
            listed = ", ".join(map(repr, names[:20])) + (", ..." if len(names) > 20 else "")
            raise ValueError(f"no column has the name {name!r}; the names are {listed}")
        if count > 1:
            raise ValueError(f"{count} columns have the name {name!r}; rename them, or leave out columns=")
    return [known[name][0] for name in wanted]


def table(tensor: Tensor, library: str, names: list[Any], copy: bool | None) -> Any:
    """Make a table of a tensor of (rows, columns), with names for its columns."""
    if library not in UNITS:
        raise ValueError(f"columns names the columns of a table, which {library} lacks; 'pandas', 'polars' and 'pyarrow' have tables")
    if tensor.ndim != 2:
        raise BufferError(
            f"a table is made of a tensor of (rows, columns), not of one of the shape {list(tensor.shape)}; reshape it first, or "
            "leave out columns="
        )
    rows, count = tensor.shape
    if len(names) != count:
        raise ValueError(f"columns has {len(names)} names, and the tensor has {count} columns; pass a name for each")
    if library == "pandas":
        frame = tensor.to("pandas", copy=copy)
        frame.columns = names
        return frame
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"columns has the name {name!r}, and the columns of {library} have strings as names; pass str({name!r})")
    if copy or (rows > 1 and tensor.strides[0] != 1):
        # One transposing copy, after which every column is contiguous.
        tensor, copy = asdlpack(tensor, contiguous="F", copy=copy), None
    columns = [tensor[:, nth] for nth in range(count)]
    module = import_module(library)
    if library == "polars":
        return module.DataFrame([column.to("polars", copy=copy) for column in columns], schema=names)
    return module.table([module.array(column) for column in columns], names=names)


def like_times(library: str, like: Any, times: Any) -> Any:
    """Make a column of a library of an array of times, or an index of pandas as ``like`` is one; other libraries lack columns."""
    if library not in UNITS:
        return times
    module = import_module(library)
    try:
        if library == "pyarrow":
            return module.array(times)
        return (module.Index if library == "pandas" and isinstance(like, module.Index) else module.Series)(times)
    except Exception as error:
        kind, found = times.dtype.name.partition("[")[0], times.dtype.name
        # No library has spans of days.
        units = [f"{kind}[{unit}]" for unit in UNITS[library].split() if unit != "D" or kind == "datetime64"]
        if not units or found in units or isinstance(error, RecursionError | MemoryError):
            raise
        raise BufferError(
            f"{library} lacks columns of {found} and has those of {', '.join(units)}; return times of one of these units, or an "
            "array of NumPy"
        ) from error
