"""The memory that each way to another process needs, as docs/processes.md states it."""

import pytest
from conftest import require
from processes import printed
from shared_segments import on_linux

require("numpy")

pytestmark = on_linux

#: The new memory of the sender and of the receiver, as multiples of the size of the tensor.
ROWS = {
    "multiprocessing": {
        "Tensor to a worker": [3, 3],
        "Tensor back": [3, 3],
        "SharedTensor to a worker": [0, 0],
        "scope.empty back": [0, 0],
    },
    "loader": {"Tensor": [2, 3], "scope.empty": [0, 0]},
    "ray": {"put": [1, 0], "get": [0, 0], "argument of a task": [0, 0], "result of a task": [1, 0]},
}

#: The library of an engine.
LIBRARIES = {"loader": "torch", "ray": "ray"}


@pytest.mark.parametrize("engine", ROWS)
def test_engine_needs_the_memory_that_the_page_states(engine: str) -> None:
    if engine in LIBRARIES:
        require(LIBRARIES[engine])
    expected = {way: pytest.approx(memory, abs=0.3) for way, memory in ROWS[engine].items()}
    # Sometimes an engine uses memory again that it has, which then is not new.
    assert any(printed("engine_memory.py", "64", engine)[-1] == expected for _ in range(3))
