"""PyTorch's DataLoader with workers: batches in shared memory arrive without a copy, and nothing is left behind."""

import os
import signal
from typing import Any

import dlbridge
import pytest
from conftest import require
from processes import run
from shared_segments import inode, names, on_linux
from test_shared_scope import prefix

np = require("numpy")
torch = require("torch")

# It forks, which JAX's threads in the same process do not survive.
pytestmark = [on_linux, pytest.mark.alone]


class Images:
    """A dataset of 32 small images."""

    def __len__(self) -> int:
        return 32

    def __getitem__(self, index: int) -> Any:
        if index == getattr(self, "killed_at", None):
            os.kill(os.getpid(), signal.SIGKILL)
        return np.full((3, 64, 64), index, "float32")


class Collate:
    def __init__(self, scope: dlbridge.SharedScope, in_place: bool) -> None:
        self.scope = scope
        self.in_place = in_place

    def __call__(self, images: list[Any]) -> dict[str, Any]:
        if self.in_place:
            shared = self.scope.empty((len(images), *images[0].shape), images[0].dtype)
            np.stack(images, out=shared.tensor.numpy())
        else:
            shared = self.scope.share_memory(np.stack(images))
        return {"images": shared, "inode": inode(shared.tensor.address), "process": os.getpid()}


def loader(scope: dlbridge.SharedScope, method: str = "fork", in_place: bool = True, **options: Any) -> Any:
    options = {"dataset": Images(), "batch_size": 4, "num_workers": 2, **options}
    collate = Collate(scope, in_place)
    return torch.utils.data.DataLoader(collate_fn=collate, multiprocessing_context=method, **options)


@pytest.mark.parametrize(("method", "in_place"), [("fork", True), ("fork", False), ("spawn", True)])
def test_batches_arrive_without_a_copy(method: str, in_place: bool) -> None:
    with dlbridge.SharedScope() as scope:
        workers = set()
        for number, batch in enumerate(loader(scope, method, in_place)):
            workers.add(batch["process"])
            images = batch["images"].tensor.torch()
            assert images.data_ptr() == batch["images"].tensor.address
            assert inode(images.data_ptr()) == batch["inode"] != 0, "the memory that the worker wrote"
            assert images.shape == (4, 3, 64, 64)
            assert images[:, 0, 0, 0].tolist() == [4 * number + i for i in range(4)]
            images += 1
        assert number == 7
        assert len(workers - {os.getpid()}) == 2
        del batch
        assert names(prefix(scope)) == {prefix(scope)}, "nothing is left after the epoch"
        assert images[3, 2, 63, 63] == 32, "tensors stay valid"
    assert names(prefix(scope)) == set()


@pytest.mark.parametrize("persistent", [False, True])
def test_epochs_that_are_left_early_leave_nothing(persistent: bool) -> None:
    with dlbridge.SharedScope() as scope:
        data = loader(scope, persistent_workers=persistent, prefetch_factor=4)
        for _ in range(3):
            for batch in data:
                assert batch["images"].tensor.torch()[0, 0, 0, 0] == 0
                break
        kept = list(data)
        assert [int(batch["images"].tensor.numpy()[0, 0, 0, 0]) for batch in kept] == list(range(0, 32, 4))
        if persistent:
            data._iterator._shutdown_workers()
        scope.clear()
        received = {batch["images"].name for batch in kept} | {batch["images"].name}
        assert names(prefix(scope)) == {prefix(scope)} | received
        del kept, batch
        assert names(prefix(scope)) == {prefix(scope)}
    assert names(prefix(scope)) == set()


def test_batches_of_a_killed_worker_are_removed_with_the_scope() -> None:
    code = """
import dlbridge
from shared_segments import names
from test_shared_scope import prefix
from test_torch_loader import Images, loader
data = Images()
data.killed_at = 21
with dlbridge.SharedScope() as scope:
    seen = 0
    try:
        for batch in loader(scope, dataset=data):
            seen += 1
            del batch
    except RuntimeError as error:
        assert "killed by signal" in str(error) or "exited unexpectedly" in str(error), error
        print("killed after", seen)
assert names(prefix(scope)) == set()
"""
    # PyTorch uses deprecated functions, so its warnings are not errors here.
    result = run(code, options=["-W", "ignore"])
    assert result.stdout.startswith("killed after "), result.stderr
    assert "resource_tracker" not in result.stderr
    assert result.returncode == 0
