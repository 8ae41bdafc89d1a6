"""Measures the calls of one extension in this process, or tries which objects it accepts. Prints JSON.

`measure.py NAME times`, `measure.py NAME accepts`, or `measure.py NAME accepts-alone`: without the package dlbridge. The
extension is on PYTHONPATH.
"""

from __future__ import annotations

import array
import importlib
import json
import sys
import timeit
from collections.abc import Callable
from typing import Any

#: the duration of one repetition in seconds, and the number of repetitions
SECONDS, REPETITIONS = 0.02, 7


def least(call: Callable[[], Any]) -> float:
    """Returns the least time of one call, in nanoseconds."""
    timer = timeit.Timer(call)
    once = min(timer.repeat(3, 1))
    number = max(1, min(1_000_000, int(SECONDS / max(once, 1e-9))))
    return 1e9 * min(timer.repeat(REPETITIONS, number)) / number


def converters() -> dict[str, Callable[[Any], Any]]:
    """Returns other objects with the elements of a one-dimensional NumPy array. A missing library is an error."""
    import jax
    import jax.numpy
    import numpy
    import pandas
    import polars
    import pyarrow
    import torch

    jax.config.update("jax_enable_x64", True)
    return {
        "torch": torch.from_numpy,
        "JAX": jax.numpy.asarray,
        "pyarrow": pyarrow.array,
        "polars": polars.Series,
        "pandas": pandas.Series,
        "memoryview": memoryview,
        "array.array": lambda a: array.array({"int64": "q", "uint64": "Q", "float64": "d"}[str(a.dtype)], a.tolist()),
        "strided array": lambda a: numpy.repeat(a, 2)[::2],
        "list": lambda a: a.tolist(),
    }


def accepts(with_argument: Callable[[Any], Any], more: dict[str, Callable[[Any], Any]]) -> dict[str, str]:
    """Returns the outcome for each object: `yes`, the name of an exception, or `wrong` for another result."""
    expected = with_argument(lambda a: a)
    outcomes = {}
    for name, convert in (converters() | more).items():
        try:
            outcomes[name] = "yes" if with_argument(convert) == expected else "wrong"
        except BaseException as error:  # PyO3's panic is not an Exception
            outcomes[name] = type(error).__name__
    return outcomes


def main() -> None:
    name, what = sys.argv[1:]
    if what == "accepts-alone":
        sys.modules["dlbridge"] = None  # type: ignore[assignment]
    extension = importlib.import_module(f"calls.{name}")
    if what.startswith("accepts"):
        result: Any = accepts(extension.with_argument, getattr(extension, "CONVERTERS", {}))
    else:
        result = {label: least(call) for label, call in extension.calls().items()}
    json.dump(result, sys.stdout)


if __name__ == "__main__":
    main()
