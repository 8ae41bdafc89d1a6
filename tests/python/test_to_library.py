"""Exports by `to`, `numpy`, `torch`, `jax` and `like`: the data, and refused libraries and dtypes."""

import array
import functools
import gc
import json
import mmap
from pathlib import Path
from typing import Any

import dlbridge
import pytest
from conftest import require
from native import Native
from processes import output

np = require("numpy")


def numbers() -> Any:
    """Six writable numbers, aligned so that no library copies them."""
    tensor = dlbridge.empty((2, 3))
    memoryview(tensor).cast("B")[:] = np.arange(6, dtype="float32").tobytes()
    return tensor


def test_numpy() -> None:
    tensor = numbers()
    home = tensor.numpy()
    assert (type(home), home.tolist()) == (np.ndarray, [[0, 1, 2], [3, 4, 5]])
    assert home.ctypes.data == tensor.address
    home[0, 0] = 7
    assert memoryview(tensor)[0, 0] == 7
    copied = tensor.numpy(copy=True)
    assert copied.ctypes.data != tensor.address
    assert copied.tolist() == home.tolist()
    assert not dlbridge.asdlpack(b"abc").numpy(copy=False).flags.writeable


def test_handles_are_refused_with_advice_that_works() -> None:
    t = dlbridge.empty((2, 3), "handle64")
    with pytest.raises(BufferError, match=r"numpy does not support handle64.*numpy\.frombuffer\(bytes\(t\), 'M8\[ns\]'\)\.reshape"):
        t.numpy()
    assert np.frombuffer(bytes(t), "M8[ns]").reshape(t.shape).tobytes() == bytes(t)


@pytest.mark.parametrize(
    ("dtype", "itemsize"),
    [
        *(("bfloat16", 2), ("float8_e4m3fn", 1), ("float8_e5m2", 1), ("float8_e8m0fnu", 1)),
        *(("int4", 1), ("uint4", 1), ("float4_e2m1fn", 1), ("float6_e2m3fn", 1)),
    ],
)
def test_dtypes_of_ml_dtypes_are_exported_to_numpy(dtype: str, itemsize: int) -> None:
    ml_dtypes = require("ml_dtypes")
    array = np.array([1, 2, 4], getattr(ml_dtypes, dtype))
    tensor = dlbridge.asdlpack(array)
    assert (tensor.dtype, tensor.protocol, tensor.copied) == (dtype, "array-interface", False)
    assert tensor.address == array.ctypes.data
    home = tensor.numpy()
    assert (home.dtype, home.itemsize) == (array.dtype, itemsize)
    assert home.ctypes.data == array.ctypes.data
    assert home.astype("float32").tolist() == [1, 2, 4]


def test_packed_elements_are_unpacked_for_numpy() -> None:
    require("ml_dtypes")
    tensor = dlbridge.empty(4, "int4")
    assert tensor.nbytes == 2
    assert tensor.numpy().tolist() == [0, 0, 0, 0]
    with pytest.raises(BufferError, match="numpy does not support packed elements.*copy=False forbids it"):
        tensor.numpy(copy=False)


def test_torch() -> None:
    torch = require("torch")
    tensor = numbers()
    home = tensor.torch()
    assert (type(home), home.data_ptr()) == (torch.Tensor, tensor.address)
    assert home.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert tensor.torch(copy=True).data_ptr() != tensor.address
    assert tensor.to("pytorch").data_ptr() == tensor.address
    strided = dlbridge.asdlpack(tensor.numpy().T[::2])
    assert strided.torch().tolist() == [[0, 3], [2, 5]]
    assert strided.torch().data_ptr() == tensor.address


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "complex32", "uint16", "bool"])
def test_dtypes_of_torch(dtype: str) -> None:
    torch = require("torch")
    tensor = dlbridge.empty((2, 2), dtype)
    home = tensor.torch()
    assert home.dtype == getattr(torch, dtype)
    assert home.data_ptr() == tensor.address


def test_read_only_data_is_copied_for_torch() -> None:
    require("torch")
    tensor = dlbridge.asdlpack(b"abc")
    home = tensor.torch()
    home[0] = 0
    assert bytes(tensor) == b"abc"
    with pytest.raises(BufferError, match=r"read-only and torch ignores that.*torch\.from_dlpack"):
        tensor.torch(copy=False)


def test_negative_strides_are_copied_for_torch() -> None:
    require("torch")
    tensor = dlbridge.asdlpack(np.arange(6.0)[::-1])
    assert tensor.torch().tolist() == [5, 4, 3, 2, 1, 0]
    with pytest.raises(BufferError, match="torch accepts no negative strides"):
        tensor.torch(copy=False)
    one = dlbridge.asdlpack(np.arange(6.0)[3:4][::-1])
    assert one.torch(copy=False).data_ptr() == one.address


LANES, UNKNOWN, WIDE = {"dtype": (2, 32, 2)}, {"dtype": (99, 8, 1)}, {"dtype": (2, 128, 1)}
BACKWARDS = {"strides": (-3, -1), "origin": 20}
ON_CUDA, ELSEWHERE = {"device": (2, 0)}, {"device": (99, 0)}

#: Tensors that the function of a library refuses.
REFUSED: dict[str, list[dict[str, Any]]] = {
    "numpy.from_dlpack": [{"dtype": (4, 16, 1)}, {"dtype": (17, 4, 1)}, ON_CUDA, {"shape": (1,) * 65}],
    "torch.from_dlpack": [BACKWARDS, WIDE],
    "jax.dlpack.from_dlpack": [
        {"shape": (3, 2), "strides": (4, 1)}, {"shape": (3,), "strides": (-1,), "origin": 8},
        {"shape": (3,), "strides": (0,)}, WIDE, ON_CUDA,
    ],
    "pyarrow.Tensor.from_dlpack": [
        BACKWARDS, {"dtype": (4, 16, 1)}, {"dtype": (6, 8, 1)}, {"dtype": (5, 64, 1)}, ON_CUDA
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    ("function", "fields"),
    [(name, fields) for name, own in REFUSED.items() for fields in [LANES, UNKNOWN, ELSEWHERE, *own]],
    ids=str,
)
def test_tensor_that_a_library_refuses_is_deleted_once(native: Native, function: str, fields: dict[str, Any]) -> None:
    library, *names = function.split(".")
    from_dlpack = functools.reduce(getattr, names, require(library))
    tensor, crafted = native.tensor(**fields)
    with pytest.raises((RuntimeError, BufferError, ValueError, TypeError, NotImplementedError)) as caught:
        from_dlpack(tensor)
    del caught
    gc.collect()
    assert crafted.record.calls == 0
    del tensor
    assert crafted.record.calls == 1


def test_jax() -> None:
    jax = require("jax")
    tensor = numbers()
    home = tensor.jax()
    assert isinstance(home, jax.Array)
    assert home.unsafe_buffer_pointer() == tensor.address
    assert home.tolist() == [[0, 1, 2], [3, 4, 5]]
    gaps = dlbridge.asdlpack(np.arange(12, dtype="float32")[::2])
    assert gaps.jax().tolist() == [0, 2, 4, 6, 8, 10]
    with pytest.raises(BufferError, match="jax accepts no gaps between elements"):
        gaps.jax(copy=False)
    transposed = dlbridge.asdlpack(tensor.numpy().T)
    assert transposed.jax(copy=False).tolist() == [[0, 3], [1, 4], [2, 5]]
    crooked = dlbridge.asdlpack(memoryview(tensor).cast("B")[4:8])
    with pytest.raises(BufferError, match="not aligned to 64 bytes"):
        crooked.jax(copy=False)


def test_pyarrow() -> None:
    pa = require("pyarrow")
    tensor = numbers()
    home = tensor.to("pa")
    assert (type(home), home.to_numpy().ctypes.data) == (pa.Tensor, tensor.address)
    read_only = dlbridge.asdlpack(b"abc").to("pyarrow", copy=False)
    assert not read_only.is_mutable


@pytest.mark.parametrize("name", ["nump", "", "numpy.linalg"])
def test_unknown_library_is_refused_with_the_known_names(name: str) -> None:
    with pytest.raises(ValueError, match=f"unknown library '{name}'; known: numpy, torch"):
        numbers().to(name)
    with pytest.raises(ValueError, match=f"unknown library '{name}'"):
        dlbridge.explain(numbers(), to=name)


def test_wrong_arguments() -> None:
    with pytest.raises(TypeError, match="copy must be None, True or False, not 1"):
        numbers().numpy(copy=1)
    with pytest.raises(TypeError):
        numbers().to(5)


@pytest.mark.parametrize("name", ["numpy", "pyarrow", "array_api_strict", "mlx"])
def test_data_that_is_not_on_the_cpu_is_refused(native: Native, name: str) -> None:
    tensor, crafted = native.tensor((6,), device=(14, 1))
    with pytest.raises(BufferError, match=f"{name} supports data on the CPU only.*on oneapi:1"):
        tensor.to(name)
    assert not dlbridge.explain(tensor, to=name).verdicts[0].zero_copy
    del tensor
    assert crafted.record.calls == 1


def test_like() -> None:
    class Own(np.ndarray):  # type: ignore[name-defined,misc]
        """A subclass."""

    tensor = numbers()
    array_like = dlbridge.like(np.zeros(1), tensor)
    assert (type(array_like), array_like.ctypes.data) == (np.ndarray, tensor.address)
    assert type(dlbridge.like(np.zeros(1).view(Own), tensor)) is np.ndarray
    assert dlbridge.like(dlbridge.empty(1), tensor) is tensor
    for prototype in (b"", bytearray(1), array.array("f"), memoryview(b""), mmap.mmap(-1, 1)):
        view = dlbridge.like(prototype, tensor)
        assert (type(view), view.tolist()) == (memoryview, [[0, 1, 2], [3, 4, 5]])
    copied = dlbridge.like(np.zeros(1), tensor, copy=True)
    assert copied.ctypes.data != tensor.address
    with pytest.raises(TypeError, match="builtins.object|object belongs to an unknown library"):
        dlbridge.like(object(), tensor)


def test_like_with_a_class_of_no_library_is_refused() -> None:
    class Metaclass(type):
        __module__ = 3  # type: ignore[assignment]

    class Ours(metaclass=Metaclass):
        """A class in a module named `tf`, the usual alias of TensorFlow."""

        __module__ = "tf.models"

    for prototype in (Ours(), Metaclass("Odd", (), {"__module__": 5})()):
        with pytest.raises(TypeError, match="belongs to an unknown library"):
            dlbridge.like(prototype, numbers())


def test_like_torch_and_jax() -> None:
    torch = require("torch")
    tensor = numbers()
    made = dlbridge.like(torch.nn.Parameter(torch.zeros(1)), tensor)
    assert (type(made), made.data_ptr()) == (torch.Tensor, tensor.address)
    jax = require("jax")
    made = dlbridge.like(jax.numpy.zeros(1), tensor)
    assert isinstance(made, jax.Array)
    assert made.unsafe_buffer_pointer() == tensor.address


ASKS_ITSELF = """
import dlbridge, numpy
def from_dlpack(x): return "theirs"
ndarray = list
assert dlbridge.asdlpack(numpy.zeros(3)).to("cupy") == "theirs"
"""
IN_ONE_THREAD = """
import dlbridge, numpy
print(dlbridge.asdlpack(numpy.zeros(3)).to("cupy"))
"""
IN_TWO_THREADS = """
import dlbridge, numpy, threading, time
def importing():
    import cupy
thread = threading.Thread(target=importing)
thread.start()
time.sleep(0.2)
answer = dlbridge.asdlpack(numpy.zeros(3)).to("cupy")
thread.join()
print(answer)
"""


@pytest.mark.parametrize("program", [IN_ONE_THREAD, IN_TWO_THREADS], ids=["one thread", "two threads"])
def test_library_that_exports_to_itself_during_its_import_gets_the_tensor(program: str, tmp_path: Path) -> None:
    package = tmp_path / "cupy"
    package.mkdir()
    # A slow import, so that another thread imports meanwhile.
    (package / "__init__.py").write_text("import time; time.sleep(0.5)\n" + ASKS_ITSELF)
    assert output(f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n{program}", options=()) == "theirs\n"


def test_to_accepts_a_module() -> None:
    torch = require("torch")
    tensor = numbers()
    assert tensor.to(torch).data_ptr() == tensor.address
    assert type(tensor.to(np)) is np.ndarray
    assert type(tensor.to(np.linalg)) is np.ndarray
    with pytest.raises(ValueError, match="'json'"):
        tensor.to(json)
    with pytest.raises(TypeError, match="library must be the name of a library, or its module, not <class"):
        tensor.to(np.ndarray)


def address(array: Any) -> int:
    return int(array.__array_interface__["data"][0])


def test_polars_copies_elements_that_are_not_aligned_to_their_size() -> None:
    require("polars")
    unaligned = np.frombuffer(bytearray(13), "f4", 3, 1)
    unaligned[...] = [1, 2, 3]
    tensor = dlbridge.asdlpack(unaligned)
    match = r"polars copies elements whose address is not a multiple of their size.*asdlpack\(obj, copy=True\)"
    with pytest.raises(BufferError, match=match):
        tensor.to("polars", copy=False)
    assert not dlbridge.explain(tensor, to="polars").verdicts[0].zero_copy
    series = tensor.to("polars")
    unaligned[0] = 9
    assert series.to_list() == [1, 2, 3]
    assert dlbridge.asdlpack(unaligned, copy=True).to("polars", copy=False).to_list() == [9, 2, 3]


def test_polars_shares_a_column() -> None:
    polars = require("polars")
    tensor = numbers().reshape(6)
    for name in ("polars", "pl", polars):
        series = tensor.to(name, copy=False)
        assert (type(series), series.to_list()) == (polars.Series, [0, 1, 2, 3, 4, 5])
        assert address(series.to_numpy()) == tensor.address
    assert address(tensor.to("polars", copy=True).to_numpy()) != tensor.address
    assert dlbridge.asdlpack(b"abc").to("polars", copy=False).to_list() == [97, 98, 99]
    assert tensor[::2].to("polars").to_list() == [0, 2, 4]
    assert dlbridge.like(polars.Series([1]), tensor).to_list() == series.to_list()
    assert dlbridge.explain(tensor, to="polars").verdicts[0].zero_copy
    with pytest.raises(BufferError, match="polars accepts C order only"):
        tensor[::2].to("polars", copy=False)
    with pytest.raises(BufferError, match="polars takes at most 1 dimension, not 2"):
        numbers().to("polars")
    with pytest.raises(BufferError, match="polars does not support bool"):
        dlbridge.empty(3, "bool").to("polars")


@pytest.mark.parametrize("dtype", ["float32", "int64", "bool", "complex64", "uint8"])
def test_pandas_shares_a_column_and_a_table(dtype: str) -> None:
    pandas = require("pandas")
    array = np.arange(12).astype(dtype)
    for view in (array, array[::2], array[::-1], array.reshape(3, 4), array.reshape(3, 4).T):
        tensor = dlbridge.asdlpack(view)
        made = tensor.to("pandas", copy=False)
        assert type(made) is (pandas.Series if view.ndim == 1 else pandas.DataFrame)
        assert (made.to_numpy() == view).all()
        assert address(made.to_numpy()) == tensor.address
        assert address(tensor.to("pandas", copy=True).to_numpy()) != tensor.address
    assert dlbridge.explain(array, to="pandas").verdicts[0].zero_copy
    read_only = dlbridge.asdlpack(b"abc").to("pd")
    with pytest.raises(ValueError, match="read-only"):
        read_only.iloc[0] = 1
    with pytest.raises(BufferError, match="pandas takes at most 2 dimensions, not 3"):
        dlbridge.empty((1, 2, 3)).to("pandas")


@pytest.mark.parametrize(
    ("mode", "dtype", "bands"),
    [("L", "uint8", ()), ("F", "float32", ()), ("I", "int32", ()), ("I;16", "uint16", ()), ("RGBA", "uint8", (4,))],
)
def test_pillow_shares_the_modes_that_it_can(mode: str, dtype: str, bands: tuple[int, ...]) -> None:
    image_class = require("PIL.Image").Image
    array = np.zeros((2, 3, *bands), dtype)
    for library in ("pillow", "PIL"):
        image = dlbridge.asdlpack(array).to(library, copy=False)
        assert (type(image), image.mode, image.size) == (image_class, mode, (3, 2))
    array[1, 2] = 7
    assert np.atleast_1d(image.getpixel((2, 1))).tolist() == [7] * max(1, len(bands) and 4)
    image.putpixel((0, 0), 9 if not bands else (9, 9, 9, 9))
    assert array[0, 0].max() == 0
    assert dlbridge.explain(array, to="PIL").verdicts[0].zero_copy
    copied = dlbridge.asdlpack(array).to("pillow", copy=True)
    array[1, 2] = 8
    assert np.atleast_1d(copied.getpixel((2, 1)))[0] == 7


@pytest.mark.parametrize(("mode", "dtype", "bands"), [("RGB", "uint8", (3,)), ("LA", "uint8", (2,)), ("1", "bool", ())])
def test_pillow_copies_the_other_modes_once(mode: str, dtype: str, bands: tuple[int, ...]) -> None:
    require("PIL.Image")
    array = np.ones((2, 3, *bands), dtype)
    tensor = dlbridge.asdlpack(array)
    image = tensor.to("pillow")
    assert (image.mode, image.size) == (mode, (3, 2))
    assert (np.asarray(image) == array).all()
    with pytest.raises(BufferError, match="pillow keeps such an image in another layout, and copy=False"):
        tensor.to("pillow", copy=False)
    assert not dlbridge.explain(tensor, to="pillow").verdicts[0].zero_copy


@pytest.mark.parametrize(
    ("shape", "dtype", "match"),
    [
        *(((2, 3, 5), "uint8", "(takes|does not support)"), ((2, 3, 4), "float32", "(takes|does not support)")),
        *(((2, 3), "int64", "(takes|does not support)"), (3, "float32", "(takes|does not support)")),
        (3, "uint8", "takes tensors of at least 2 dimensions, not 1"),
    ],
)
def test_pillow_refuses_what_is_not_an_image(shape: Any, dtype: str, match: str) -> None:
    require("PIL.Image")
    with pytest.raises(BufferError, match=f"pillow {match}"):
        dlbridge.empty(shape, dtype).to("pillow")
