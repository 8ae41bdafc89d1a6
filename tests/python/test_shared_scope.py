"""A scope of shared memory: workers make tensors, the process that made the scope owns what it receives."""

import copy
import gc
import multiprocessing
import os
import pickle
import pickletools
import time
from typing import Any

import dlbridge
import pytest
from conftest import require
from processes import output
from dlbridge._segment_format import MAGIC
from dlbridge.shared import _receive
from shared_segments import SHM, clean, inode, kill_group, names, on_linux, started, wait_until

np = require("numpy")

# It forks, which JAX's threads in the same process do not survive.
pytestmark = [on_linux, pytest.mark.alone]


def prefix(scope: dlbridge.SharedScope) -> str:
    """The first characters of the names in a scope."""
    return repr(scope).split("'")[1]


def set_scope(scope: dlbridge.SharedScope) -> None:
    global worker_scope
    worker_scope = scope


def make(number: int) -> tuple[dlbridge.SharedTensor, int, int]:
    """A worker function: a tensor, the inode of its memory, and the process."""
    shared = worker_scope.share_memory(np.full((100, 100), number, "float32"))
    return shared, inode(shared.tensor.address), os.getpid()


def fill(number: int) -> tuple[dlbridge.SharedTensor, int, int]:
    """A worker function: the same, but the tensor is made in the shared memory."""
    shared = worker_scope.empty((100, 100))
    shared.tensor.numpy()[:] = number
    return shared, inode(shared.tensor.address), os.getpid()


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_pool_returns_tensors_without_a_copy(method: str) -> None:
    # In another process, to see what the resource tracker prints at the end.
    code = """
import dlbridge, multiprocessing, os, sys
from shared_segments import inode, names
from test_shared_scope import fill, make, prefix, set_scope
if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    with dlbridge.SharedScope() as scope, context.Pool(2, set_scope, (scope,)) as pool:
        for work in (make, fill):
            for number, (shared, its_inode, worker) in enumerate(pool.imap(work, range(20))):
                assert worker != os.getpid()
                assert inode(shared.tensor.address) == its_inode != 0, "the same memory"
                array = shared.tensor.numpy()
                assert (array == number).all()
                assert shared.name in names(prefix(scope))
                last = shared.name
                del shared
                assert (array == number).all()
            # The pool keeps the result that it received last.
            assert names(prefix(scope)) <= {prefix(scope), last}, "the receiver removes the names"
        pool.close()
        pool.join()
        assert names(prefix(scope)) == {prefix(scope)}
    assert names(prefix(scope)) == set()
    print("done")
"""
    assert output(code, method) == "done\n"


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_worker_may_end_before_its_result_is_read(method: str) -> None:
    code = """
import dlbridge, multiprocessing, sys
from test_shared_scope import names, prefix, put
if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    with dlbridge.SharedScope() as scope:
        queue = context.SimpleQueue()
        worker = context.Process(target=put, args=(scope, queue))
        worker.start()
        worker.join()
        shared = queue.get()
        assert bytes(shared.tensor) == b"abc"
        del shared
        assert names(prefix(scope)) == {prefix(scope)}
    print("done")
"""
    assert output(code, method) == "done\n"


def put(scope: dlbridge.SharedScope, queue: Any) -> None:
    """A worker function: puts one tensor, and drops another one."""
    queue.put(scope.share_memory(b"abc"))
    dropped = scope.share_memory(b"dropped")
    assert dropped.name in names(prefix(scope))
    name = dropped.name
    del dropped
    assert name not in names(prefix(scope)), "no other process has the name"
    kept.append(scope.share_memory(b"kept until the end of the worker"))


kept: list[dlbridge.SharedTensor] = []


def put_and_wait(scope: dlbridge.SharedScope, queue: Any) -> None:
    """A worker function: puts tensors, keeps one, and waits."""
    for _ in range(3):
        queue.put(scope.share_memory(b"abc"))
    kept.append(scope.share_memory(b"not sent"))
    queue.put(None)
    time.sleep(600)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_end_of_the_scope_removes_what_a_killed_worker_left(method: str) -> None:
    code = """
import dlbridge, multiprocessing, sys
from test_shared_scope import names, prefix, put_and_wait
if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    with dlbridge.SharedScope() as scope:
        queue = context.Queue()
        worker = context.Process(target=put_and_wait, args=(scope, queue))
        worker.start()
        shared = queue.get()
        queue.get(), queue.get(), queue.get()
        worker.kill()
        worker.join()
        assert names(prefix(scope)) == {prefix(scope), shared.name, *names(prefix(scope))}
        assert len(names(prefix(scope))) == 3, "the marker, what is received and kept, and what is not sent"
        scope.clear()
        assert names(prefix(scope)) == {prefix(scope), shared.name}
    assert names(prefix(scope)) == set()
    assert bytes(shared.tensor) == b"abc"
    del shared
    print("done")
"""
    assert output(code, method) == "done\n"


def test_results_that_are_not_read_are_removed_with_the_scope() -> None:
    code = """
import dlbridge, multiprocessing
from test_shared_scope import names, prefix, put
if __name__ == "__main__":
    scope = dlbridge.SharedScope()
    queue = multiprocessing.get_context("fork").SimpleQueue()
    workers = [multiprocessing.get_context("fork").Process(target=put, args=(scope, queue)) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    first = queue.get()
    assert len(names(prefix(scope))) == 5
    scope.clear()
    assert names(prefix(scope)) == {prefix(scope), first.name}
    print(prefix(scope))
    # The end of this process closes the scope.
"""
    assert names(output(code).strip()) == set()


#: Makes a scope with segments, prints its first characters, and waits.
CONSUMER = """
import dlbridge, multiprocessing, time
from test_shared_scope import prefix, put_and_wait
if __name__ == "__main__":
    scope = dlbridge.SharedScope()
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    worker = context.Process(target=put_and_wait, args=(scope, queue), daemon=True)
    worker.start()
    shared = queue.get()
    [queue.get() for _ in range(3)]
    print(prefix(scope), worker.pid, flush=True)
    time.sleep(600)
"""


def test_killed_consumer_and_workers_leave_segments_that_clean_removes() -> None:
    with started(CONSUMER) as (consumer, said):
        name = said.split()[0]
        assert name in names(name)
        before = len(names(name))
        assert before >= 3
        lines = [line for line in clean().splitlines() if line.startswith(name)]
        assert len(lines) == before
        assert all(f"process {consumer.pid} lives: kept" in line for line in lines)
        kill_group(consumer)
    assert len(names(name)) == before
    lines = [line for line in clean().splitlines() if line.startswith(name)]
    assert len(lines) == before
    assert all(f"process {consumer.pid} has ended: removed" in line for line in lines)
    assert names(name) == set()


def test_tracker_removes_all_names_if_the_consumer_and_its_worker_are_killed() -> None:
    with started(CONSUMER) as (consumer, said):
        name, worker = said.split()
        consumer.kill()
        consumer.wait()
        os.kill(int(worker), 9)
        wait_until(lambda: not names(name))


def test_worker_cannot_make_segments_after_the_end_of_the_scope() -> None:
    scope = dlbridge.SharedScope()
    connection, theirs = multiprocessing.Pipe()
    worker = multiprocessing.get_context("fork").Process(target=make_when_told, args=(scope, theirs))
    worker.start()
    connection.send("make")
    received = connection.recv()
    assert bytes(received.tensor) == b"abc"
    scope.close()
    scope.close()
    connection.send("make")
    assert connection.recv() == "the scope is closed; make a new dlbridge.SharedScope"
    assert names(prefix(scope)) == set()
    connection.send("stop")
    worker.join()
    assert bytes(received.tensor) == b"abc"
    with pytest.raises(ValueError, match="the scope is closed"):
        scope.share_memory(b"abc")
    with pytest.raises(ValueError, match="the scope is closed"):
        scope.empty(3)
    scope.clear()


def make_when_told(scope: dlbridge.SharedScope, connection: Any) -> None:
    """A worker function: makes segments, or sends the text of the error."""
    while connection.recv() == "make":
        try:
            connection.send(scope.share_memory(b"abc"))
        except ValueError as error:
            connection.send(str(error))


def attach_and_send_back(scope: dlbridge.SharedScope, connection: Any) -> None:
    """A worker function: sends back what it receives."""
    shared = connection.recv()
    memoryview(shared.tensor)[0] = ord("x")
    connection.send(shared)
    shared.unlink()
    connection.recv()


def test_process_with_another_tracker_gives_its_tensor_to_the_owner() -> None:
    code = """
import dlbridge, pickle, subprocess, sys
from test_shared_scope import names, prefix
worker = "import pickle, sys; scope = pickle.load(sys.stdin.buffer); "
worker += "sys.stdout.buffer.write(pickle.dumps(scope.share_memory(b'abc')))"
with dlbridge.SharedScope() as scope:
    command = [sys.executable, "-W", "error", "-c", worker]
    for _ in range(2):
        done = subprocess.run(command, input=pickle.dumps(scope), check=True, capture_output=True)
        assert done.stderr == b"", done.stderr
    assert len(names(prefix(scope))) == 3, "the end of the other process does not remove its names"
    shared = pickle.loads(done.stdout)
    assert bytes(shared.tensor) == b"abc"
    del shared
    assert len(names(prefix(scope))) == 2
assert names(prefix(scope)) == set()
print("done")
"""
    assert output(code) == "done\n"


def test_tensor_of_the_owner_is_only_borrowed_by_workers() -> None:
    with dlbridge.SharedScope() as scope:
        connection, theirs = multiprocessing.Pipe()
        context = multiprocessing.get_context("fork")
        worker = context.Process(target=attach_and_send_back, args=(scope, theirs))
        worker.start()
        shared = scope.share_memory(b"abc")
        connection.send(shared)
        again = connection.recv()
        assert again.tensor.address == shared.tensor.address
        assert bytes(shared.tensor) == b"xbc"
        connection.send(None)
        worker.join()
        assert shared.name in names(prefix(scope)), "a worker does not remove it"
        for other in (copy.copy(shared), pickle.loads(pickle.dumps(shared))):
            assert other.tensor.address == shared.tensor.address
        del other
        assert shared.name in names(prefix(scope)), "a copy in the owner does not remove it either"
        shared.unlink()
        again.unlink()
        assert names(prefix(scope)) == {prefix(scope)}


@pytest.mark.parametrize(
    ("shape", "dtype"),
    [((3, 5), "float32"), (7, "bfloat16"), ((3, 3), "int4"), ((0, 4), "int64"), ((), "complex128")],
)
def test_empty_has_the_shape_and_dtype(shape: Any, dtype: str) -> None:
    with dlbridge.SharedScope() as scope, scope.empty(shape, dtype) as shared:
        expected = dlbridge.empty(shape, dtype)
        tensor = shared.tensor
        assert (tensor.shape, tensor.dtype) == (expected.shape, dtype)
        assert (tensor.nbytes, tensor.readonly) == (expected.nbytes, False)
        assert not any(bytes(tensor.__reduce_ex__(5)[1][0].raw()))  # type: ignore[index]


def test_received_tensor_whose_name_is_gone_raises_when_it_is_used() -> None:
    with dlbridge.SharedScope() as scope:
        shared = scope.share_memory(b"abc")
        message = pickle.dumps(shared)
        shared.unlink()
        received = pickle.loads(message)
        with pytest.raises(FileNotFoundError, match="no shared memory has that name"):
            _ = received.tensor
        received.unlink()
    with pytest.raises(FileNotFoundError):
        _ = pickle.loads(message).tensor


def test_received_segment_that_is_not_a_tensor_is_removed_with_its_result() -> None:
    with dlbridge.SharedScope() as scope:
        name = f"{prefix(scope)}u0123456789abcdef"
        (SHM / name).write_bytes(b"")
        received = _receive(scope, name)
        with pytest.raises(ValueError, match="is not a tensor: it has 0 bytes"):
            _ = received.tensor
        assert name in names(prefix(scope))
        del received
        gc.collect()
        assert name not in names(prefix(scope))


def test_scope_that_is_garbage_removes_its_names() -> None:
    scope = dlbridge.SharedScope()
    name = prefix(scope)
    shared = scope.share_memory(b"abc")
    again = pickle.loads(pickle.dumps(scope))
    assert again is scope
    assert MAGIC.replace(b" 1", b" 0") == (SHM / name).read_bytes()[: len(MAGIC)]
    del scope, again
    gc.collect()
    assert names(name) != set(), "a tensor of the scope keeps it"
    del shared
    gc.collect()
    assert names(name) == set()


def test_pickles_name_the_public_module_only() -> None:
    with dlbridge.SharedScope() as scope, dlbridge.share_memory(b"abc") as shared:
        for pickled in (shared, scope, scope.share_memory(b"abc")):
            content = pickle.dumps(pickled, protocol=4)
            texts = [text for _, text, _ in pickletools.genops(content) if isinstance(text, str)]
            assert {text for text in texts if text.startswith("dlbridge.")} == {"dlbridge.shared"}


def test_names_do_not_collide() -> None:
    with dlbridge.SharedScope() as scope, dlbridge.SharedScope() as other:
        assert not prefix(scope).startswith(prefix(other))
        made = [scope.empty(1) for _ in range(200)]
        assert len({shared.name for shared in made}) == 200
        assert len(names(prefix(scope))) == 201
        assert names(prefix(other)) == {prefix(other)}
