"""Shared by the tests of ``dlbridge.load`` and ``dlbridge.save``: named arrays, and Arrow files."""

from pathlib import Path
from typing import Any

import numpy as np
from frameworks import require

DTYPES = [
    "bool",
    *(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)),
    *("float16", "float32", "float64"),
]


def arrays() -> dict[str, Any]:
    """Arrays of every dtype and layout that all formats have, by name."""
    rng = np.random.default_rng(0)
    named: dict[str, Any] = {dtype: (rng.random((3, 5)) * 50).astype(dtype) for dtype in DTYPES}
    named["complex64"] = (rng.random(7) + 1j).astype("complex64")
    named["scalar"] = np.array(1.5, "float32")
    named["empty"] = np.zeros((0, 4), "int16")
    named["columns"] = np.asfortranarray(rng.random((6, 7)))
    named["backwards"] = np.arange(10)[::-2]
    return named


def save_arrow(path: Path, schema: Any, *batches: Any) -> None:
    """Writes an Arrow file by its own library, from record batches or tables."""
    pa = require("pyarrow")
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
        for batch in batches:
            writer.write(batch)
