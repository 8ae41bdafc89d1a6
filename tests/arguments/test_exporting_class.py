"""A class of an extension that exports its own tensor, by every protocol."""

import copy
import gc
import hashlib
import pickle

import dlbridge
import numpy as np
import pytest
import typed_arguments as typed
from dlbridge_conformance import crafter
from producers import Only

torch = pytest.importorskip("torch")
jax = pytest.importorskip("jax")


def test_class_exports_its_tensor_by_every_protocol() -> None:
    sound = typed.Sound(4, 2)
    array, tensor = np.asarray(sound), torch.from_dlpack(sound)
    view = memoryview(sound)
    assert array.shape == tuple(tensor.shape) == view.shape == (4, 2)
    assert array.ctypes.data == tensor.data_ptr() == sound.__array_interface__["data"][0]
    array[1, 1] = -3
    assert (tensor[1, 1], view[1, 1]) == (-3, -3)
    assert np.from_dlpack(sound).ctypes.data == array.ctypes.data
    assert jax.numpy.from_dlpack(sound)[1, 1] == -3
    assert sound.__dlpack_device__() == (1, 0)
    assert dlbridge.asdlpack(sound).protocol == "exchange-api"
    protocols = [report.protocol for report in dlbridge.explain(sound).protocols if report.answer]
    assert protocols == ["exchange-api", "dlpack", "array-interface", "array-struct", "buffer", "arrow"]
    assert sound.format() == ("float32", [4, 2])
    assert sound.loudest() == 3
    sound.amplify(2)
    assert array[1, 1] == -6
    assert typed.mean(sound) == -0.75
    pyarrow = pytest.importorskip("pyarrow")
    assert pyarrow.array(sound).to_numpy_ndarray()[1, 1] == -6
    del sound, tensor, view
    gc.collect()
    assert array[1, 1] == -6, "the memory lives as long as an array uses it"


def test_class_itself_borrows_what_it_reads_and_writes() -> None:
    sound = typed.Sound(4, 2)
    doubles = np.asarray(sound).view("f8")
    assert typed.while_reading(doubles, sound.loudest) == 0
    with pytest.raises(BufferError, match=r"borrowed for reading, overlaps that of a numpy.ndarray"):
        typed.while_writing(doubles, sound.loudest)
    with pytest.raises(BufferError, match="borrowed for writing"):
        typed.while_reading(doubles, lambda: sound.amplify(2))
    sound.amplify(2)


def test_exporting_class_is_not_copied_as_a_bare_tensor() -> None:
    for copied in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match=r"cannot pickle '.*Squares' object"):
            copied(typed.Squares(4))


def test_exporting_class_reduces_itself_as_it_says() -> None:
    sound = typed.Sound(2, 1)
    np.asarray(sound)[:] = 5
    assert type(copy.copy(sound)) is typed.Sound
    for again in (copy.deepcopy(sound), *(pickle.loads(pickle.dumps(sound, n)) for n in (2, 4, 5))):
        assert type(again) is typed.Sound
        assert np.asarray(again).tolist() == [[5], [5]]
        again.amplify(2)
    assert np.asarray(sound).tolist() == [[5], [5]]


def test_exporting_class_has_bytes() -> None:
    sound = typed.Sound(2, 1)
    np.asarray(sound)[:] = 5
    data = np.full(2, 5, "f4").tobytes()
    assert bytes(sound) == data
    for dtype, size in [("bfloat16", 16), ("float8_e4m3fn", 8), ("int4", 4)]:
        sound = typed.Lent(dlbridge.empty((2, 4), dtype))
        data = bytes(sound)
        assert len(data) == size
        assert hashlib.sha256(sound).digest() == hashlib.sha256(data).digest()


def test_class_makes_its_tensor_at_each_export() -> None:
    squares = typed.Squares(4)
    assert np.from_dlpack(squares).tolist() == [0, 1, 4, 9]
    assert np.asarray(squares, "f8").tolist() == [0, 1, 4, 9]
    assert dlbridge.asdlpack(squares).numpy().tolist() == [0, 1, 4, 9]
    squares.count = None
    requests = [np.from_dlpack, dlbridge.asdlpack, lambda s: s.__dlpack_device__(), memoryview]
    for ask in requests:
        with pytest.raises(ValueError, match="no squares today"):
            ask(squares)
    with pytest.raises(ValueError, match="squares are numbers"):
        bytes(squares)


def test_memory_that_an_object_does_not_keep_has_no_address() -> None:
    latest = typed.LatestTENSOR([1, 2])
    for exporter in typed.Squares(3), latest:
        assert not hasattr(exporter, "__array_interface__")
        assert not hasattr(exporter, "__cuda_array_interface__")
        with pytest.raises(TypeError, match="looked for __array_interface__"):
            dlbridge.asdlpack(exporter, protocol="array-interface")
        assert dlbridge.asdlpack(exporter, protocol="array-struct").protocol == "array-struct"
    array = np.asarray(Only(latest, "__array_struct__"))
    buffer = np.frombuffer(latest)
    latest.replace([3, 4, 5])
    assert array.tolist() == buffer.tolist() == [1, 2]
    assert isinstance(buffer.base, memoryview), "NumPy keeps the buffer"
    assert np.asarray(latest).tolist() == [3, 4, 5]


@pytest.mark.parametrize("name", ["__array_interface__", "__array_struct__", "a buffer"])
@pytest.mark.filterwarnings("ignore:The given NumPy array is not writable")
def test_consumer_that_ignores_read_only_memory_of_a_class_is_refused(name: str) -> None:
    scale = typed.Scale([1, 2])
    array = np.frombuffer(scale) if name == "a buffer" else np.asarray(Only(scale, name))
    writable = torch.from_numpy(array)
    with pytest.raises(BufferError, match="overlaps that of a read-only dlbridge.Tensor"):
        typed.negate(writable)
    assert scale.height() == 3


@pytest.mark.parametrize("device", [crafter.CPU, crafter.OPENCL])
def test_memory_of_a_class_is_shared_on_each_device(device: tuple[int, int]) -> None:
    crafted = crafter.craft((2,), device=device, flags=crafter.Flags.IS_COPIED)
    lent = typed.Lent(crafter.Producer(crafted, device))
    if device == crafter.CPU:
        assert crafter.take(lent.__dlpack__(copy=True, max_version=(1, 3))).fields.flags == crafter.Flags.IS_COPIED
    exports = [crafter.take(lent.__dlpack__(max_version=(1, 3))).fields.flags for _ in range(3)]
    assert exports == [0, 0, 0]


def test_consumer_in_c_imports_an_exporting_class() -> None:
    tvm_ffi = pytest.importorskip("tvm_ffi")
    echo = tvm_ffi.get_global_func("testing.echo")
    sound = typed.Sound(4, 2)
    np.asarray(sound)[:] = 2
    echoed = np.from_dlpack(echo(tvm_ffi.from_dlpack(sound)))
    assert echoed.ctypes.data == np.asarray(sound).ctypes.data


def test_exchange_table_imports_exports_and_borrows() -> None:
    sound = typed.Sound(2, 1)
    table = crafter.native.Table(typed.Sound.__dlpack_c_exchange_api__)
    assert table.versions == [(1, 3)]
    # A class may make its tensor at each export, so nothing would keep borrowed memory alive.
    assert [name for name, there in table.functions().items() if not there] == ["dltensor_from_py_object_no_sync"]
    _, held, _ = table.exported(sound)
    _, again, _ = table.imported(held)
    assert type(again) is dlbridge.Tensor
    assert again.address == dlbridge.asdlpack(sound).address
    _, _, error = table.exported([])
    assert (type(error), str(error)) == (TypeError, "'list' object is not a Sound")
