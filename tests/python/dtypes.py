"""Exports every dtype to one library, and prints the prediction of `explain` and the result as lines of JSON.

Run as a program, with the name of the library as argument.
"""

import json
import sys
from collections.abc import Iterator
from typing import Any

import dlbridge

DTYPES = [
    *(f"{kind}{bits}" for kind in ("int", "uint") for bits in (1, 2, 4, 8, 16, 32, 64, 128)),
    *("bool", "float16", "float32", "float64", "bfloat16"),
    *("complex32", "complex64", "complex128", "float32x4", "float4_e2m1fnx2"),
    *("float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz"),
    *("float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"),
    *("float6_e2m3fn", "float6_e3m2fn", "float4_e2m1fn"),
]


def tensors() -> Iterator[tuple[str, Any]]:
    """A tensor of each dtype, packed and padded."""
    for dtype in DTYPES:
        yield dtype, dlbridge.empty(8, dtype)
    import ml_dtypes
    import numpy as np

    for dtype in ("int4", "uint2", "float6_e2m3fn"):
        yield f"padded {dtype}", dlbridge.asdlpack(np.zeros(8, getattr(ml_dtypes, dtype)))


def main(library: str) -> None:
    for dtype, tensor in tensors():
        verdict = dlbridge.explain(tensor, to=library).verdicts[0]
        line = {
            "dtype": dtype,
            "said": verdict.zero_copy,
            "refused": verdict.refused,
            "problem": problem(tensor, library, copy=False),
            "problem_of_a_copy": problem(tensor, library, copy=True),
        }
        print(json.dumps(line), flush=True)


def problem(tensor: Any, library: str, copy: bool) -> str | None:
    """The name of the exception that an export raises; None if it succeeds."""
    try:
        tensor.to(library, copy=copy)
    except Exception as error:
        return type(error).__name__
    return None


if __name__ == "__main__":
    main(sys.argv[1])
