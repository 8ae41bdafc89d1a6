"""Writes a checkpoint with the installed release of PyTorch: ``python write.py`` makes ``torch-<release>.pt`` beside this file.

The files of old releases are kept, so that the tests need only the newest one.
"""

from collections import OrderedDict
from pathlib import Path
from typing import Any

import torch

DTYPES = "float64 float32 float16 bfloat16 int64 int32 int16 int8 uint8 bool complex64 complex128"
NEWER = "uint16 uint32 uint64 float8_e4m3fn float8_e5m2 float8_e4m3fnuz float8_e5m2fnuz float8_e8m0fnu"
"""The dtypes that PyTorch got between 1.13 and 2.10."""


def state(dtypes: str) -> dict[str, Any]:
    """The values of a checkpoint."""
    base = torch.arange(24, dtype=torch.float32).reshape(4, 6)
    return {
        "dtypes": {name: bits(name) for name in dtypes.split()},
        "base": base,
        "tied": base,
        "transposed": base.t(),
        "steps": base[1:, ::2],
        "row": base[2],
        "repeated": base[0, :1].expand(3, 2),
        "scalar": torch.tensor(7, dtype=torch.int64),
        "empty": torch.empty(0, 3),
        "ordered": OrderedDict([("weight", torch.nn.Parameter(torch.ones(2, 3))), ("bias", torch.zeros(2))]),
        "list": [torch.ones(1), {"deep": (torch.zeros(2, dtype=torch.bool), 3)}],
        "epoch": 3,
        "betas": (0.9, 0.999),
        "name": "gr\u00f6\u00dfe",
    }


def bits(name: str) -> torch.Tensor:
    """Elements of a dtype, whose bytes are 0, 1, 2 and so on; of booleans 0 and 1."""
    dtype = getattr(torch, name)
    numbers = torch.arange(6 * torch.empty(0, dtype=dtype).element_size()).to(torch.uint8)
    return (numbers % 2 if name == "bool" else numbers).view(dtype).reshape(2, 3)


if __name__ == "__main__":
    release = torch.__version__.split("+")[0]
    has_newer = hasattr(torch, "float8_e8m0fnu")
    torch.save(state(f"{DTYPES} {NEWER}" if has_newer else DTYPES), Path(__file__).with_name(f"torch-{release}.pt"))
