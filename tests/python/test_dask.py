"""Dask with two worker processes: tensors of every framework are sent out of band, with their dtype and values."""

import os
from collections.abc import Iterator
from typing import Any

import dlbridge
import pytest
from conftest import require
from engine_tensors import CASES, assert_values, values

np = require("numpy")
distributed = require("distributed")


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    """A client of two worker processes on this machine."""
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def check(tensor: dlbridge.Tensor, dtype: str) -> tuple[bool, int]:
    """Asserts the values, and returns whether the tensor is read-only, and the process."""
    assert_values(tensor, dtype)
    return tensor.readonly, os.getpid()


@pytest.mark.parametrize(("make", "dtype"), CASES)
def test_scatter_sends_a_tensor_to_the_workers(client: Any, make: Any, dtype: str) -> None:
    tensor = dlbridge.asdlpack(make(dtype))
    future = client.scatter(tensor, broadcast=True)
    workers = list(client.scheduler_info()["workers"])
    processes = set()
    for worker in workers:
        readonly, process = client.submit(check, future, dtype, workers=[worker], pure=False).result()
        assert readonly == tensor.readonly
        processes.add(process)
    assert len(processes - {os.getpid()}) == 2
    assert check(client.gather(future, direct=True), dtype) == (tensor.readonly, os.getpid())
    # The scheduler requests pickle protocol 4. So the elements are copied into the pickle, and are writable again.
    assert check(future.result(), dtype) == (False, os.getpid())


@pytest.mark.parametrize(("make", "dtype"), CASES)
def test_result_of_a_task_is_the_argument_of_another(client: Any, make: Any, dtype: str) -> None:
    one, two = sorted(client.scheduler_info()["workers"])
    made = client.submit(lambda: dlbridge.asdlpack(make(dtype)), workers=[one], pure=False)
    _, process = client.submit(check, made, dtype, workers=[two], pure=False).result()
    assert process != os.getpid()
    assert check(made.result(), dtype)[1] == os.getpid()


def test_elements_are_a_frame_of_their_own() -> None:
    from distributed.protocol import deserialize, serialize

    tensor = dlbridge.asdlpack(values("float32"))
    header, frames = serialize(tensor)
    assert header["serializer"] == "pickle"
    assert [memoryview(frame).nbytes for frame in frames][1:] == [tensor.nbytes]
    assert len(frames[0]) < 300
    assert np.asarray(frames[1]).ctypes.data == tensor.address, "the frame is the memory of the tensor"
    again = deserialize(header, frames)
    assert again.address == tensor.address


@pytest.mark.parametrize("readonly", [False, True])
def test_read_only_memory_arrives_read_only_without_the_scheduler(client: Any, readonly: bool) -> None:
    tensor = dlbridge.asdlpack(values("float32"), writable=False if readonly else None)
    future = client.scatter(tensor, hash=False, direct=True)
    assert client.submit(check, future, "float32", pure=False).result()[0] == readonly
    assert client.gather(future, direct=True).readonly == readonly


def test_keys_depend_on_the_values(client: Any) -> None:
    from dask.tokenize import tokenize

    one, same, other = (dlbridge.asdlpack(values("float32") + n) for n in (0, 0, 1))
    assert tokenize(one) == tokenize(same) != tokenize(other)
    assert client.submit(check, one, "float32").result() == client.submit(check, same, "float32").result()


def test_memory_of_a_tensor_is_counted() -> None:
    from dask.sizeof import sizeof

    tensor = dlbridge.asdlpack(values("float32"))
    assert sizeof(tensor) >= tensor.nbytes
