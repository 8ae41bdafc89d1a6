"""ROCm streams, on the stand-in with HIP's names. These tests need no GPU, and do not replace tests on one."""

from collections.abc import Callable

import dlbridge
import native as n
import pytest
from native import Native
from stand_in import NEW, Array, Driver, array, build, driver, given_back

# The stand-in for the driver of a GPU is loaded once in a process.
pytestmark = pytest.mark.alone

__all__ = ["array", "driver", "given_back"]


@pytest.fixture(scope="session")
def stand_in(tmp_path_factory: pytest.TempPathFactory) -> Driver:
    return Driver(build(tmp_path_factory.mktemp("driver"), rocm=True))


@pytest.mark.parametrize("consumers", [None, 0, "another"], ids=str)
@pytest.mark.parametrize("named", [None, 0, "another"], ids=str)
def test_consumer_reads_the_pending_write(
    stand_in: Driver, native: Native, array: Callable[..., Array], named: object, consumers: object
) -> None:
    made = array(1)
    ours = stand_in.stream(1) if named == "another" else 0
    theirs = stand_in.stream(1) if consumers == "another" else 0
    tensor = dlbridge.asdlpack(made, stream=None if named is None else ours)
    assert (tensor.device, made.asked, tensor.stream) == ("rocm:1", [ours], ours)
    held = native.export(tensor, stream=None if consumers is None else theirs, max_version=(1, 3))
    assert stand_in.now(held.fields.data, 24) != NEW, "the write is still pending"
    assert stand_in.seen_on(theirs, held.fields.data, 24, 1) == NEW
    held.delete()


def test_invalid_stream_is_refused(array: Callable[..., Array]) -> None:
    tensor = dlbridge.asdlpack(array(1))
    for stream in (1, 2):
        with pytest.raises(ValueError, match="which ROCm does not have: 0 is its default stream"):
            tensor.__dlpack__(stream=stream)
    with pytest.raises(ValueError, match="not the number of a stream"):
        tensor.__dlpack__(stream=-2)
    assert tensor.__cuda_array_interface__["stream"] == 1


def test_copy_from_rocm_is_refused(array: Callable[..., Array]) -> None:
    tensor = dlbridge.asdlpack(array(1))
    for ask in (lambda: dlbridge.asdlpack(tensor, device="cpu"), lambda: tensor.__dlpack__(dl_device=n.CPU)):
        with pytest.raises(BufferError, match="rocm:1"):
            ask()
