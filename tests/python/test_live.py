"""live_exports lists the exports that are alive."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator

import dlbridge
import pytest
from conftest import require
from native import Native, Way


@pytest.fixture(autouse=True)
def recording() -> Iterator[None]:
    """Records exports during a test."""
    assert dlbridge.record_exports(True) is False
    yield
    assert dlbridge.record_exports(False) is True
    gc.collect()
    assert dlbridge.live_exports() == []


def test_live_exports_lists_every_protocol(native: Native) -> None:
    tensor = dlbridge.asdlpack(bytearray(b"abcdef"))
    held = native.export(tensor, max_version=(1, 3))
    legacy = native.export(tensor)
    view = memoryview(tensor)
    struct = tensor.__array_struct__
    exports = dlbridge.live_exports()
    assert [export["protocol"] for export in exports] == [
        *("dlpack", "dlpack-legacy", "buffer", "array-struct")
    ]
    for export in exports:
        assert (export["dtype"], export["shape"], export["device"]) == ("uint8", (6,), "cpu")
        assert 0 <= export["age"] < 60
    numbers = [export["number"] for export in exports]
    assert numbers == sorted(set(numbers))
    held.delete(Way.NATIVE_THREAD)
    assert [export["number"] for export in dlbridge.live_exports()] == numbers[1:]
    del struct
    view.release()
    assert [export["number"] for export in dlbridge.live_exports()] == [numbers[1]]
    legacy.delete(Way.WITHOUT_GIL)


def test_recorded_exports_keep_flags_and_address(native: Native) -> None:
    for source, read_only in [(b"abc", True), (bytearray(b"abc"), False)]:
        tensor = dlbridge.asdlpack(source)
        held = native.export(tensor, max_version=(1, 3))
        assert held.fields.data == tensor.address
        assert bool(held.fields.flags & 1) == read_only
        held.delete()
    producer, crafted = native.tensor((2, 3), strides=(-3, 1), origin=12, versioned=False)
    held = native.export(producer)
    assert (held.fields.shape, held.fields.strides) == ((2, 3), (-3, 1))
    held.delete()
    held = native.export(producer, max_version=(1, 0))
    assert held.fields.flags == 1, "data of a legacy producer is marked as read-only"
    del producer
    assert crafted.record.calls == 0
    held.delete()
    assert crafted.record.calls == 1


def test_unused_capsule_is_an_export_until_it_is_freed() -> None:
    tensor = dlbridge.empty(3)
    capsule = tensor.__dlpack__(max_version=(1, 0))
    assert len(dlbridge.live_exports()) == 1
    del capsule
    assert dlbridge.live_exports() == []


def test_array_of_numpy_is_an_export_until_its_last_view() -> None:
    np = require("numpy")
    tensor = dlbridge.empty((2, 3))
    array = np.from_dlpack(tensor)
    part = array[1:]
    del tensor, array
    [export] = dlbridge.live_exports()
    assert (export["protocol"], export["shape"], export["dtype"]) == ("dlpack", (2, 3), "float32")
    del part


def test_export_before_the_recording_is_not_listed(native: Native) -> None:
    dlbridge.record_exports(False)
    held = native.export(dlbridge.empty(3), max_version=(1, 0))
    dlbridge.record_exports(True)
    assert dlbridge.live_exports() == []
    held.delete()


def test_threads(native: Native) -> None:
    tensor = dlbridge.empty(3)

    def lend() -> None:
        for _ in range(200):
            native.export(tensor, max_version=(1, 0)).delete(Way.NATIVE_THREAD)
            dlbridge.live_exports()

    threads = [threading.Thread(target=lend) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
