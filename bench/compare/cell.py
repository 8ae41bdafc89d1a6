"""One cell of the tables, in a process of its own: `python -m compare.cell MODULE ROW`.

Passes an input to a library's function, checks the result, and prints the outcome as JSON.
"""

from __future__ import annotations

import importlib
import json
import math
import re
import sys
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from compare.inputs import INPUTS, REFUSED, Input, vector

Answer = tuple[bool, str]
"""True if the result is right, and the result as text."""


def numbers(values: Any) -> Iterator[float]:
    """Returns all numbers of nested lists."""
    if isinstance(values, list):
        for value in values:
            yield from numbers(value)
    else:
        yield values


def contents(tensor: Any) -> list[float]:
    """Returns the elements of a tensor, as its own library reads them."""
    for name in ("tolist", "to_numpy", "numpy"):
        if hasattr(tensor, name):
            values = getattr(tensor, name)()
            values = values.tolist() if hasattr(values, "tolist") else values
            # Masked elements do not count.
            return [value for value in numbers(values) if value is not None]
    return np.asarray(tensor).ravel().tolist()


def try_mean(module: Any, argument: Any, before: list[float]) -> Answer:
    answer = module.mean(argument)
    if not before:
        return math.isnan(answer), str(answer)
    return math.isclose(answer, sum(before) / len(before), rel_tol=1e-5), str(answer)


def try_invert(module: Any, argument: Any, before: list[float]) -> Answer:
    # The memory around a view must not change.
    memory = argument.base if getattr(argument, "base", None) is not None else argument
    whole = contents(memory)
    try:
        module.invert(argument)
    except Exception:
        if contents(memory) != whole:
            return False, "raised after writing"
        raise
    after = contents(argument)
    kept = sum(whole) - sum(before) == sum(contents(memory)) - sum(after)
    return kept and after == [255 - value for value in before], str(after[:4])


def try_twice(module: Any, argument: Any, before: list[float]) -> Answer:
    answer = read(module.twice(argument))
    return answer == [2 * value for value in before], str(answer[:4])


TRIES = {"mean": try_mean, "invert": try_invert, "twice": try_twice}


def read(result: Any) -> list[float]:
    # Some functions return a `memoryview` for a `memoryview`.
    return (np.from_dlpack if hasattr(result, "__dlpack__") else np.asarray)(result).tolist()


def compare(answer: list[float]) -> Answer:
    return answer == (2 * vector()).tolist(), str(answer[:4])


def by_torch(module: Any) -> Answer:
    import torch

    return compare(torch.from_dlpack(module.twice(vector())).tolist())


def by_jax(module: Any) -> Answer:
    import jax

    return compare(jax.numpy.from_dlpack(module.twice(vector())).tolist())


def by_memoryview(module: Any) -> Answer:
    return compare(memoryview(module.twice(vector())).tolist())


def copied(module: Any) -> Answer:
    result = module.twice(vector())
    np.from_dlpack(result, copy=True)[:] = 0
    return compare(read(result))


def two_times(module: Any) -> Answer:
    result = module.twice(vector())
    first, second = np.from_dlpack(result), np.from_dlpack(result)
    del result
    right, shown = compare(first.tolist())
    return right and first.ctypes.data == second.ctypes.data, shown


def resident() -> int:
    """Returns the resident memory of this process in bytes."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


def freed(module: Any) -> Answer:
    large = np.ones(4_000_000, "float32")

    def use() -> None:
        read_or_not = module.twice(large)
        np.from_dlpack(read_or_not)[0]
        module.twice(large)

    use()
    before = resident()
    for _ in range(20):
        use()
    grown = (resident() - before) // large.nbytes
    return grown < 2, "freed" if grown < 2 else "not freed"


RESULTS: dict[str, Callable[[Any], Answer]] = {
    "`numpy.from_dlpack`": lambda module: compare(read(module.twice(vector()))),
    "`torch.from_dlpack`": by_torch,
    "`jax.numpy.from_dlpack`": by_jax,
    "`memoryview`": by_memoryview,
    "`numpy.from_dlpack(copy=True)`": copied,
    "exported two times, and freed before its arrays": two_times,
    "all memory freed, read or not": freed,
}
"""The ways to use the result of `twice`."""


def evidence(error: BaseException) -> str:
    """Returns the class and the first two lines of a message, without addresses, which differ in each run."""
    lines = [line.strip() for line in str(error).splitlines()]
    text = f"{type(error).__name__}: {' '.join(lines[:2])}"
    return re.sub(r"\b(0x)?[0-9a-f]{9,}\b", "ADDRESS", text)


def attempt(right: str, ask: Callable[[], Answer]) -> dict[str, str]:
    try:
        correct, shown = ask()
    # A Rust panic is a `BaseException`, not an `Exception`.
    except BaseException as error:
        outcome = "panic" if type(error).__name__ == "PanicException" else "refused"
        return {"outcome": outcome, "evidence": evidence(error)}
    if not correct:
        return {"outcome": "WRONG", "evidence": shown}
    return {"outcome": "taken" if right == REFUSED else "yes", "evidence": shown}


def words(module: Any) -> dict[str, str]:
    """Returns a library's message for an argument with two faults."""
    try:
        module.mean(np.zeros((2, 3, 4)))
    except Exception as error:
        # As at the end of a traceback, including notes.
        lines = traceback.format_exception_only(error)
        return {"outcome": "refused", "evidence": "".join(lines).strip()}
    return {"outcome": "taken", "evidence": ""}


def ask(module: Any, row: str) -> dict[str, str]:
    if row == "words":
        return words(module)
    function, label = row.split(": ", 1)
    if function == "result":
        return attempt("value", lambda: RESULTS[label](module))
    found: Input = next(i for i in INPUTS if (i.function, i.label) == (function, label))
    argument = found.make()
    # A tensor on the device `meta` lacks elements to read.
    before = [] if getattr(argument, "is_meta", False) else contents(argument)
    return attempt(found.right, lambda: TRIES[function](module, argument, before))


if __name__ == "__main__":
    print(json.dumps(ask(importlib.import_module(sys.argv[1]), sys.argv[2])))
