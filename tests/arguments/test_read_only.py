"""Read-only memory made by Rust: functions in Rust refuse to write it, even after a library drops the read-only flag."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import typed_arguments as typed

pa, torch = pytest.importorskip("pyarrow"), pytest.importorskip("torch")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "forget",
    [
        torch.from_dlpack,
        torch.asarray,
        lambda x: torch.from_numpy(np.asarray(x)),
        lambda x: torch.from_numpy(np.from_dlpack(x)),
        lambda x: torch.frombuffer(memoryview(x), dtype=torch.float64),
        lambda x: torch.from_numpy(pa.array(x).to_numpy()),
        lambda x: torch.from_numpy(np.frombuffer(memoryview(x), dtype="f8")),
    ],
)
def test_read_only_memory_is_not_written_through_another_library(forget: Any) -> None:
    constants = typed.constants()
    forgotten = forget(constants)
    assert forgotten.data_ptr() == constants.address
    with pytest.raises(BufferError, match="overlaps that of a read-only dlbridge.Tensor, borrowed for reading"):
        typed.negate(forgotten)
    assert constants.tolist() if hasattr(constants, "tolist") else memoryview(constants).tolist() == [1, 2, 3]


def test_borrow_ends_with_the_tensor() -> None:
    room = np.ones(3)
    lent = np.asarray(typed.constants())
    del lent
    typed.negate(room)
    assert room.tolist() == [-1, -1, -1]
