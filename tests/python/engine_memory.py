"""Measures the memory that each way to another process needs: ``python engine_memory.py MIB ENGINE``.

The numbers are the peaks of new memory, as multiples of the size of the tensor: in the process that sends, and in the
one that receives. Memory that several processes map counts where it is written first.
"""

import json
import multiprocessing
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dlbridge

Rows = dict[str, tuple[float, float]]


def status(field: str) -> int:
    """A number of bytes from the status of this process."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    raise KeyError(field)


def reset(*_: Any) -> int:
    """Forgets the peak of the memory of this process, and returns its memory now."""
    Path("/proc/self/clear_refs").write_text("5")
    return status("VmRSS")


def peak(*_: Any) -> int:
    """The peak of the memory of this process since ``reset``."""
    return status("VmHWM")


def tensor(mib: int) -> dlbridge.Tensor:
    """A tensor whose pages are in memory."""
    made = dlbridge.empty(mib << 18)
    made.numpy()[:] = 1
    return made


class Between:
    """Measures this process and another one during an action."""

    def __init__(self, mib: int, run_there: Callable[[Callable[[], int]], int]) -> None:
        self.nbytes = mib << 20
        self.run_there = run_there

    def __call__(self, action: Callable[[], Any]) -> tuple[float, float]:
        """The new memory here and there, as multiples of the tensor."""
        there, here = self.run_there(reset), reset()
        result = action()
        here, there = peak() - here, self.run_there(peak) - there
        del result
        return here / self.nbytes, there / self.nbytes


def first(obj: Any) -> float:
    """A worker function: reads the first element."""
    obj = obj.tensor if isinstance(obj, dlbridge.SharedTensor) else obj
    return float(obj[:1].numpy()[0])


def make(mib: int) -> dlbridge.Tensor:
    """A worker function: returns the tensor that the worker keeps."""
    global kept
    if kept is None:
        kept = tensor(mib)
    return kept


def make_shared(mib: int) -> dlbridge.SharedTensor:
    shared = worker_scope.empty(mib << 18)
    shared.tensor.numpy()[:] = 1
    return shared


def set_scope(scope: dlbridge.SharedScope) -> None:
    global worker_scope
    worker_scope = scope


kept: dlbridge.Tensor | None = None
worker_scope: dlbridge.SharedScope


def multiprocessing_rows(mib: int) -> Rows:
    """A pool with one worker."""
    with (
        dlbridge.SharedScope() as scope,
        multiprocessing.get_context("spawn").Pool(1, set_scope, (scope,)) as pool,
    ):
        between = Between(mib, lambda function: pool.apply(function))
        source = tensor(mib)
        pool.apply(first, (tensor(1),))
        pool.apply(make, (mib,))
        to = between(lambda: pool.apply(first, (source,)))
        back = between(lambda: pool.apply(make, (mib,)))
        with dlbridge.share_memory(source) as shared:
            to_shared = between(lambda: pool.apply(first, (shared,)))
        back_shared = between(lambda: pool.apply(make_shared, (mib,)))
        return {
            "Tensor to a worker": to,
            "Tensor back": back[::-1],
            "SharedTensor to a worker": to_shared,
            # Less the tensor itself, which the worker makes meanwhile.
            "scope.empty back": (back_shared[1] - 1, back_shared[0]),
        }


def ray_rows(mib: int) -> Rows:
    """An actor of Ray."""
    import ray

    ray.init(num_cpus=2, include_dashboard=False, object_store_memory=(8 * mib) << 20, log_to_driver=False)
    try:

        @ray.remote
        class Worker:
            def run(self, function: Callable[[], int]) -> int:
                return function()

            def first(self, obj: Any) -> float:
                return first(obj)

            def make(self, mib: int) -> Any:
                return make(mib)

        worker = Worker.remote()
        between = Between(mib, lambda function: ray.get(worker.run.remote(function)))
        source = tensor(mib)
        ray.get(worker.first.remote(ray.put(tensor(1))))
        small = ray.get(ray.put(tensor(1)))
        assert small.readonly
        ray.get(worker.make.remote(mib))
        references = []
        put = between(lambda: references.append(ray.put(source)))
        to = between(lambda: ray.get(worker.first.remote(references[0])))
        get = between(lambda: first(ray.get(references[0])))
        results = []
        made = between(lambda: results.append(ray.wait([worker.make.remote(mib)])))
        back = between(lambda: first(ray.get(results[0][0][0])))
        return {
            "put": put,
            "get": get[::-1],
            "argument of a task": to,
            "result of a task": (made[1], back[0]),
        }
    finally:
        ray.shutdown()


class Collate:
    """Makes a batch in one of the ways."""

    def __init__(self, way: str, scope: dlbridge.SharedScope) -> None:
        self.way = way
        self.scope = scope

    def __call__(self, samples: list[int]) -> Any:
        mib = samples[0]
        if mib < 0:
            return peak() if mib == -2 else reset()
        if self.way == "Tensor":
            return make(mib)
        shared = self.scope.empty(mib << 18)
        shared.tensor.numpy()[:] = 1
        return shared


def loader_rows(mib: int) -> Rows:
    """A DataLoader with one worker, so that all batches come from one process."""
    import torch

    rows: Rows = {}
    with dlbridge.SharedScope() as scope:
        for way in ("Tensor", "scope.empty"):
            collate = Collate(way, scope)
            data = [mib, -1, mib, -2]
            batches = iter(
                torch.utils.data.DataLoader(
                    data, batch_size=1, num_workers=1, collate_fn=collate, prefetch_factor=1
                )
            )
            next(batches)
            there, here = next(batches), reset()
            batch = next(batches)
            first(batch)
            here = peak() - here
            there = next(batches) - there
            size = mib << 20
            # Less the tensor itself, which the worker makes meanwhile.
            rows[way] = there / size - (way == "scope.empty"), here / size
            del batch
    return rows


ENGINES: dict[str, Callable[[int], Rows]] = {
    "multiprocessing": multiprocessing_rows,
    "loader": loader_rows,
    "ray": ray_rows,
}

if __name__ == "__main__":
    print(json.dumps(ENGINES[sys.argv[2]](int(sys.argv[1]))))
