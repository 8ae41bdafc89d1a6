"""Borrows of shared memory: the registry treats all tensors over one segment as the same memory."""

from __future__ import annotations

import pickle

import dlbridge
import numpy as np
import pytest
import typed_arguments as typed


@pytest.mark.parametrize("way", ["attach", "pickle", "attach after close"])
def test_attached_tensor_beside_its_own_segment_is_the_same_memory(way: str) -> None:
    with dlbridge.share_memory(np.arange(4.0)) as shared:
        tensor = shared.tensor
        if way == "attach after close":
            shared.close()
        again = (
            pickle.loads(pickle.dumps(shared)) if way == "pickle" else dlbridge.attach(shared.name)
        )
        with pytest.raises(BufferError, match="overlaps"):
            typed.swap(tensor, again.tensor)
        with pytest.raises(BufferError, match="overlaps"):
            typed.while_reading(tensor, lambda: typed.negate(again.tensor))
        typed.swap(tensor.numpy()[:2], again.tensor.numpy()[2:])
        assert tensor.numpy().tolist() == [2.0, 3.0, 0.0, 1.0]
