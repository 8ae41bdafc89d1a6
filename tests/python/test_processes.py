"""Tensors in several processes: pickles, pools, shared memory."""

import concurrent.futures
import errno
import gc
import multiprocessing
import os
import pickle
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import dlbridge
import pytest
from conftest import missing, require
from processes import output, run
from dlbridge import _segments
from frameworks import require_installed
from shared_segments import SHM, wait_until

# Its tests fork, which JAX forbids in a process that it is in.
pytestmark = pytest.mark.alone

np = require("numpy")

def numbers(dtype: str = "float32") -> Any:
    return np.arange(6).reshape(2, 3).astype(dtype)


def double(tensor: dlbridge.Tensor) -> dlbridge.Tensor:
    """A worker function: returns a new tensor with each number doubled."""
    return dlbridge.asdlpack(tensor.numpy() * 2)


def double_in_place(shared: dlbridge.SharedTensor) -> int:
    """A worker function: doubles numbers in shared memory."""
    with shared:
        array = shared.tensor.numpy()
        array *= 2
        return os.getpid()


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize(
    "make",
    [
        numbers,
        lambda: numbers("int64").T,
        lambda: numbers("complex64")[::-1, ::2],
        lambda: numbers("bool"),
        lambda: np.array(5.5),
        lambda: np.zeros((0, 3)),
        lambda: dlbridge.empty((2, 5), "bfloat16"),
        lambda: dlbridge.empty((3, 3), "int4"),
        lambda: np.array([1, -2, 3], require("ml_dtypes").int4),
        lambda: b"bytes",
    ],
)
def test_pickles(protocol: int, make: Any) -> None:
    tensor = dlbridge.asdlpack(make())
    again = pickle.loads(pickle.dumps(tensor, protocol))
    assert (again.dtype, again.shape, again.nbytes) == (tensor.dtype, tensor.shape, tensor.nbytes)
    assert again.address != tensor.address or tensor.nbytes == 0
    assert again.tolist() == tensor.tolist()
    assert again.readonly == (tensor.readonly and protocol >= 5)


def test_pickles_out_of_band_share_the_memory() -> None:
    source = numbers()
    tensor = dlbridge.asdlpack(source)
    buffers: list[pickle.PickleBuffer] = []
    pickled = pickle.dumps(tensor, 5, buffer_callback=buffers.append)
    assert len(buffers) == 1
    assert len(pickled) < 200
    again = pickle.loads(pickled, buffers=buffers)
    assert (again.address, again.readonly) == (tensor.address, False)
    received = [bytearray(buffer.raw()) for buffer in buffers]
    moved = pickle.loads(pickled, buffers=received)
    moved.numpy()[0, 0] = 99
    assert received[0][:4] == np.float32(99).tobytes()
    assert pickle.loads(pickled, buffers=[bytes(received[0])]).readonly


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ((b"abcd", "float32", (2,), False), ValueError),
        ((b"abcd", "float32", (-1,), False), ValueError),
        ((b"abcd", "float32", (2**70,), False), ValueError),
        ((b"abcd", "float32", (1.0,), False), TypeError),
        ((b"abcd", "float33x", (1,), False), ValueError),
        ((b"abcd", "int4", (4,), False), ValueError),
        ((b"abcd", "float32", (2**40, 2**40), False), ValueError),
        ((b"abcd"[::2], "uint8", (4,), False), ValueError),
        (("abcd", "float32", (1,), False), TypeError),
    ],
)
def test_wrong_pickle_is_refused(arguments: Any, error: Any) -> None:
    from dlbridge._core import _rebuild

    with pytest.raises(error):
        _rebuild(*arguments)
    with pytest.raises(ValueError, match="not a tensor of float32 with the shape"):
        _rebuild(memoryview(bytes(8))[::2], "float32", (1,), False)


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_pools(method: str) -> None:
    context = multiprocessing.get_context(method)
    tensors = [dlbridge.asdlpack(numbers(dtype)) for dtype in ("float32", "int16")]
    with concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as pool:
        for tensor, result in zip(tensors, pool.map(double, tensors)):
            assert result.dtype == tensor.dtype
            assert np.array_equal(result.numpy(), tensor.numpy() * 2)
    with context.Pool(1) as pool:
        [result] = pool.map(double, tensors[:1])
        assert np.array_equal(result.numpy(), numbers() * 2)


def test_joblib() -> None:
    joblib = require("joblib")
    tensors = [dlbridge.asdlpack(numbers() + i) for i in range(3)]
    results = joblib.Parallel(n_jobs=2)(joblib.delayed(np.from_dlpack)(t) for t in tensors)
    for i, result in enumerate(results):
        assert np.array_equal(result, numbers() + i)


def is_of_another_test(pid: int) -> bool:
    """Returns true if a process lives and is neither this one nor started by it."""
    while pid not in (0, os.getpid()):
        try:
            # The fields after the name of the program: the state, and the parent.
            pid = int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[1])
        except OSError:
            return False
    return pid == 0


def segments() -> set[str]:
    """The names of dlbridge's segments that exist now, without those of test files that run at the same time.

    A test that kills an owner leaves names for a moment, so wait until there are no more than before.
    """
    found = {path.name for path in SHM.glob("dlbridge_*")} if SHM.is_dir() else set()
    owners = {name: _segments.examine(name) for name in found}
    return {name for name, s in owners.items() if s is None or not s.pid or not is_of_another_test(s.pid)}


# Python warns if any library has started a thread.
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_shared_memory_is_one_memory(method: str) -> None:
    before = segments()
    with dlbridge.share_memory(numbers()) as shared:
        array = shared.tensor.numpy()
        context = multiprocessing.get_context(method)
        with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:
            process = pool.submit(double_in_place, shared).result()
            assert process != os.getpid()
            assert np.array_equal(array, numbers() * 2), "this process sees the worker's write"
            array[0, 0] = 50
            pool.submit(double_in_place, shared).result()
        assert array[0, 0] == 100, "the worker saw the write of this process"
    assert array[0, 0] == 100, "tensors outlive the name"
    wait_until(lambda: segments() <= before)


@pytest.mark.parametrize(
    "make",
    [
        lambda: numbers("complex128").T,
        lambda: np.zeros((0, 4)),
        lambda: np.array(3),
        lambda: dlbridge.empty((3, 5), "float8_e4m3fn"),
        lambda: dlbridge.empty(7, "float4_e2m1fn"),
        lambda: b"read-only",
    ],
)
def test_everything_can_be_shared(make: Any) -> None:
    source = dlbridge.asdlpack(make())
    with dlbridge.share_memory(source) as shared, dlbridge.attach(shared.name) as other:
        for tensor in (shared.tensor, other.tensor):
            assert (tensor.dtype, tensor.shape) == (source.dtype, source.shape)
            assert tensor.nbytes == source.nbytes
            assert not tensor.readonly
            assert tensor.address % 256 == 0
        if source.dtype not in ("float8_e4m3fn", "float4_e2m1fn"):
            assert np.array_equal(other.tensor.numpy(), source.numpy())


def test_closed_tensor_is_refused_and_removed_name_is_gone() -> None:
    shared = dlbridge.share_memory(numbers(), name=f"dlbridge_test_{os.getpid()}")
    assert shared.name in repr(shared)
    kept = shared.tensor
    shared.close()
    with pytest.raises(ValueError, match="is closed; attach to it again"):
        _ = shared.tensor
    with dlbridge.attach(shared.name) as again:
        assert memoryview(again.tensor).tolist() == memoryview(kept).tolist()
    assert shared.name in segments(), "a process that attaches does not remove the name"
    shared.unlink()
    shared.unlink()
    with pytest.raises(FileNotFoundError):
        dlbridge.attach(shared.name)
    assert memoryview(kept)[1, 2] == 5


def test_garbage_collection_removes_the_name() -> None:
    before = segments()
    tensor = dlbridge.share_memory(numbers()).tensor
    gc.collect()
    wait_until(lambda: segments() <= before)
    assert memoryview(tensor)[1, 2] == 5


def test_end_of_a_process_removes_its_segments() -> None:
    before = segments()
    maker = """
import dlbridge, subprocess, sys
shared = dlbridge.share_memory(bytes(100))
code = f"import dlbridge; kept = dlbridge.attach({shared.name!r}); print(kept.tensor.shape)"
done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True)
assert (done.stdout, done.stderr, done.returncode) == ("(100,)\\n", "", 0), done
dlbridge.attach(shared.name)
print(shared.name)
"""
    assert output(maker).strip() not in segments()
    wait_until(lambda: segments() <= before)


def make_and_keep(names: Any) -> None:
    """A worker function: makes a segment and does not close it."""
    global kept_by_worker
    kept_by_worker = dlbridge.share_memory(bytes(100))
    names.put(kept_by_worker.name)


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_worker_removes_its_segments_at_exit(method: str) -> None:
    maker = """
import multiprocessing, sys
from test_processes import make_and_keep
if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    names = context.SimpleQueue()
    worker = context.Process(target=make_and_keep, args=(names,))
    worker.start()
    print(names.get())
    worker.join()
"""
    # With warnings as errors, the tracker would not report the segments that it had to remove.
    assert output(maker, method, options=["-X", "dev"]).strip() not in segments()


def attach_later(name: str) -> None:
    """A worker function: attaches late, while the parent waits at exit."""
    time.sleep(0.5)
    print(bytes(dlbridge.attach(name).tensor), flush=True)


def test_name_exists_while_children_run() -> None:
    maker = """
import dlbridge, multiprocessing
from test_processes import attach_later
shared = dlbridge.share_memory(b"abc")
multiprocessing.get_context("spawn").Process(target=attach_later, args=(shared.name,)).start()
"""
    assert output(maker) == "b'abc'\n"


def return_unlinked(number: int) -> dlbridge.SharedTensor:
    """A worker function: returns shared memory whose name is gone."""
    shared = dlbridge.share_memory(bytes([number]))
    shared.unlink()
    return shared


def return_from_its_own_scope(number: int) -> dlbridge.SharedTensor:
    """A worker function: makes the scope, whose end removes the name before the result is pickled."""
    with dlbridge.SharedScope() as scope:
        return scope.share_memory(bytes([number]))


def return_owned(number: int) -> dlbridge.SharedTensor:
    """A worker function: the name is removed as soon as the result is pickled."""
    return dlbridge.share_memory(bytes([number]))


def read(shared: dlbridge.SharedTensor) -> bytes:
    """A worker function: the elements that it receives."""
    return bytes(shared.tensor)


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_result_of_a_worker_whose_name_is_gone_raises_when_it_is_used(method: str) -> None:
    code = """
import concurrent.futures, dlbridge, multiprocessing, sys
import test_processes as t
text = "no shared memory has that name; the process that made it may have ended or removed it"
def is_refused(function):
    try:
        function()
    except FileNotFoundError as raised:
        assert text in str(raised), raised
        return True
    return False
if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    with context.Pool(2) as pool:
        for work in (t.return_unlinked, t.return_from_its_own_scope):
            results = pool.map_async(work, range(4)).get(60)
            assert all([is_refused(lambda: shared.tensor) for shared in results])
        for number, shared in enumerate(pool.map_async(t.return_owned, range(4)).get(60)):
            assert is_refused(lambda: shared.tensor) or bytes(shared.tensor) == bytes([number])
        assert is_refused(lambda: pool.apply_async(t.read, (t.return_unlinked(0),)).get(60))
        with dlbridge.share_memory(b"abc") as shared:
            assert pool.apply_async(t.read, (shared,)).get(60) == b"abc"
        pool.close()
        pool.join()
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as executor:
        for work in (t.return_unlinked, t.return_from_its_own_scope):
            [shared] = executor.map(work, [0], timeout=60)
            assert is_refused(lambda: shared.tensor)
        assert is_refused(lambda: executor.submit(t.read, t.return_unlinked(0)).result(60))
    print("done")
"""
    assert output(code, method) == "done\n"


@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="memory cannot be reserved here")
def test_limit_of_memory_raises_os_error() -> None:
    # A limit on the size of files applies to shared memory too.
    maker = """
import dlbridge, resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
try:
    dlbridge.share_memory(bytes(2 << 20))
except OSError as error:
    print(error)
"""
    before = segments()
    assert "2101248 bytes of shared memory cannot be allocated: " in output(maker)
    wait_until(lambda: segments() <= before)


def test_shared_memory_that_is_full_is_an_error_and_not_a_crash() -> None:
    small = ["unshare", "--map-root-user", "--mount", "sh", "-c"]
    mount = "mount -t tmpfs -o size=1m tmpfs /dev/shm"
    if shutil.which("unshare") is None or subprocess.run([*small, mount]).returncode != 0:
        pytest.skip("a small /dev/shm cannot be mounted here")
    code = f"""
import dlbridge, os
try:
    dlbridge.share_memory(bytes(2 << 20))
except OSError as error:
    print(error.errno, os.listdir({str(SHM)!r}))
"""
    command = [*small, f'{mount} && exec "$0" -c "$1"', sys.executable, code]
    result = subprocess.run(command, capture_output=True, text=True)
    assert (result.stdout, result.stderr) == (f"{errno.ENOSPC} []\n", "")


@pytest.mark.parametrize("ranks", [2, 4])
def test_mpi(ranks: int) -> None:
    require_installed("mpi4py")
    mpiexec = Path(sys.executable).with_name("mpiexec")
    if not mpiexec.exists():
        missing("mpiexec is not installed beside Python")
    program = Path(__file__).with_name("mpi.py")
    command = [str(mpiexec), "-n", str(ranks), sys.executable, str(program)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=200)
    assert result.returncode == 0, result.stdout + result.stderr
    assert all(f"rank{rank}." in result.stdout for rank in range(ranks))
