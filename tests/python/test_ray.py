"""Ray with two workers: tensors of every framework go through the object store, and arrive read-only without a copy."""

import os
import warnings
from collections.abc import Iterator
from typing import Any

import dlbridge
import pytest
from conftest import require
from engine_tensors import CASES, COUNT, assert_values, values
from processes import child_environment
from shared_segments import mapping

np = require("numpy")
ray = require("ray")


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    """Ray with two workers on this machine."""
    # The workers import the helpers of the tests.
    there = {"env_vars": {"PYTHONPATH": child_environment()["PYTHONPATH"]}}
    with warnings.catch_warnings():
        # JAX warns of the fork if another test file of this process uses it.
        warnings.simplefilter("ignore")
        ray.init(num_cpus=2, include_dashboard=False, object_store_memory=256 << 20, runtime_env=there)
    yield
    ray.shutdown()


def check(tensor: dlbridge.Tensor, dtype: str) -> tuple[bool, bool]:
    """Asserts the values, and returns whether the tensor is read-only, and in the object store."""
    assert_values(tensor, dtype)
    assert tensor.address % 64 == 0
    if dtype != "bfloat16":
        assert tensor.numpy().ctypes.data == tensor.address
    return tensor.readonly, "plasma" in mapping(tensor.address).path


@pytest.fixture(scope="module")
def check_there() -> Any:
    """The function ``check`` as a task."""
    return ray.remote(lambda tensor, dtype: (*check(tensor, dtype), os.getpid()))


@pytest.mark.parametrize(("make", "dtype"), CASES)
def test_put_and_get_return_read_only_memory_of_the_object_store(make: Any, dtype: str) -> None:
    reference = ray.put(dlbridge.asdlpack(make(dtype)))
    tensor = ray.get(reference)
    assert check(tensor, dtype) == (True, True)
    again = ray.get(reference)
    assert again.address == tensor.address, "one memory for all readers of a process"
    del reference, again
    assert check(tensor, dtype) == (True, True), "the tensor keeps the object"


@pytest.mark.parametrize(("make", "dtype"), CASES)
def test_tasks_read_arguments_in_the_object_store(check_there: Any, make: Any, dtype: str) -> None:
    reference = ray.put(dlbridge.asdlpack(make(dtype)))
    for readonly, stored, process in ray.get([check_there.remote(reference, dtype) for _ in range(4)]):
        assert (readonly, stored) == (True, True)
        assert process != os.getpid()
    # Ray puts a large argument itself.
    assert ray.get(check_there.remote(dlbridge.asdlpack(make(dtype)), dtype))[:2] == (True, True)


@pytest.mark.parametrize(("make", "dtype"), CASES)
def test_results_of_tasks_are_in_the_object_store(make: Any, dtype: str) -> None:
    result = ray.remote(lambda: dlbridge.asdlpack(make(dtype))).remote()
    assert check(ray.get(result), dtype) == (True, True)


def test_two_workers_read_one_object_at_the_same_time() -> None:
    @ray.remote
    class Reader:
        def read(self, tensor: dlbridge.Tensor) -> tuple[int, float]:
            self.tensor = tensor
            return os.getpid(), float(tensor.numpy()[1, 5])

    readers = [Reader.remote(), Reader.remote()]
    reference = ray.put(dlbridge.asdlpack(values("float32")))
    results = ray.get([reader.read.remote(reference) for reader in readers])
    assert len({process for process, _ in results}) == 2
    assert {value for _, value in results} == {float(values("float32")[1, 5])}


def test_frameworks_share_what_they_accept_read_only() -> None:
    torch, jax = require("torch"), require("jax")
    tensor = ray.get(ray.put(dlbridge.asdlpack(values("float32"))))
    array = tensor.numpy()
    assert not array.flags.writeable
    with pytest.raises(BufferError, match="read-only"):
        tensor.torch(copy=False)
    assert tensor.torch().data_ptr() != tensor.address, "a PyTorch tensor is always writable"
    assert jax.numpy.array_equal(tensor.jax(), values("float32"))
    assert torch.equal(tensor.torch(), torch.from_numpy(values("float32")))


def test_small_tensor_is_copied_beside_its_reference() -> None:
    tensor = ray.get(ray.put(dlbridge.asdlpack(np.arange(6.0))))
    assert tensor.numpy().tolist() == [0, 1, 2, 3, 4, 5]


def test_order_of_elements_is_c_after_the_object_store() -> None:
    tensor = ray.get(ray.put(dlbridge.asdlpack(values("float32").T)))
    assert tensor.shape == (COUNT // 2, 2)
    assert (tensor.numpy() == values("float32").T).all()
    assert tensor.numpy().flags.c_contiguous
