"""Measures `dlbridge.matrix` beside the libraries of tables: a table as one array, in C order and in Fortran order.

    python bench/run.py tables [--elements 3000000] [--rounds 15]

All contenders of a row take turns in one process, and the best turn of each counts. pandas makes Fortran order, `np.column_stack`
C order, polars both. The table of Markdown has milliseconds, and the ratio of dlbridge to the best other one in that order.
"""

from __future__ import annotations

import argparse
import gc
import time
import warnings
from collections.abc import Callable
from typing import Any

CHUNKS = 16


def tables(width: int, mixed: bool, elements: int) -> dict[str, Any]:
    import numpy as np
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    rows = elements // width
    dtypes = ["f8", "i8", "f4"] if mixed else ["f8"]
    columns = {f"c{n}": (np.arange(rows) * 7 % 1000 + n).astype(dtypes[n % len(dtypes)]) for n in range(width)}
    one = pa.table(columns)
    cuts = [rows * n // CHUNKS for n in range(CHUNKS + 1)]
    many = pa.concat_tables([one.slice(begin, end - begin) for begin, end in zip(cuts, cuts[1:], strict=False)])
    return {
        "pandas": pd.DataFrame(columns).copy(),
        "polars": pl.from_arrow(one),
        "polars, chunks": pl.from_arrow(many, rechunk=False),
        "pyarrow": one,
        "pyarrow, chunks": many,
    }


def contenders(kind: str, table: Any) -> dict[str, dict[str, Callable[[], Any]]]:
    import dlbridge
    import numpy as np
    import torch

    ours = {order: {"dlbridge": lambda order=order: dlbridge.matrix(table, order=order)} for order in ("C", "F")}
    if kind == "pandas":
        ours["F"] |= {"to_numpy": table.to_numpy, "torch": lambda: torch.from_numpy(table.to_numpy())}
    elif kind.startswith("polars"):
        ours["C"]["to_numpy"] = lambda: table.to_numpy(order="c")
        ours["F"]["to_numpy"] = lambda: table.to_numpy(order="fortran")
    else:
        ours["C"]["column_stack"] = lambda: np.column_stack([column.to_numpy() for column in table.columns])
    return ours


def best(calls: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    found = dict.fromkeys(calls, float("inf"))
    for turn in range(rounds + 1):
        for name, call in calls.items():
            begun = time.perf_counter()
            call()
            spent = time.perf_counter() - begun
            found[name] = min(found[name], spent) if turn else found[name]
    return {name: seconds * 1000 for name, seconds in found.items()}


def main(words: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--elements", type=int, default=3_000_000)
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args(words)
    # PyTorch warns of arrays that are read-only.
    warnings.filterwarnings("ignore", category=UserWarning)
    print("| table | columns | dtypes | order | dlbridge | best other | | ratio |\n| --- | --- | --- | --- | --- | --- | --- | --- |")
    for mixed in (False, True):
        for width in (3, 30, 300):
            for kind, table in tables(width, mixed, options.elements).items():
                gc.collect()
                for order, calls in contenders(kind, table).items():
                    times = best(calls, options.rounds)
                    ours, others = times.pop("dlbridge"), sorted((ms, name) for name, ms in times.items())
                    row = f"| {kind} | {width} | {'three' if mixed else 'one'} | {order} | {ours:.3g} ms |"
                    print(row + (f" {others[0][0]:.3g} ms | {others[0][1]} | {ours / others[0][0]:.2f} |" if others else " | | |"), flush=True)


if __name__ == "__main__":
    main()
