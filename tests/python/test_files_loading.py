"""``dlbridge.load``: files of each format as mappings, whose tensors are the pages of the file."""

import gc
import os
import pickle
import subprocess
import sys
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import dlbridge
import numpy as np
import pytest
from concurrently import concurrently
from conftest import require
from model_files import arrays, save_arrow
from processes import output
from shared_segments import mapping


@pytest.fixture
def model(tmp_path: Path) -> str:
    """A safetensors file by its own library."""
    numpy = require("safetensors.numpy")
    path = str(tmp_path / "model.safetensors")
    numpy.save_file({name: np.array(array, order="C") for name, array in arrays().items()}, path, metadata={"a": "b"})
    return path


def test_file_of_safetensors_is_a_mapping(model: str) -> None:
    file = dlbridge.load(model)
    assert isinstance(file, Mapping)
    assert set(file) == set(arrays())
    assert len(file) == len(arrays())
    assert "int8" in file and "none" not in file and 3 not in file
    assert file.metadata == {"a": "b"}
    for name, array in arrays().items():
        np.testing.assert_array_equal(file[name].numpy(), array)
        assert file.info(name).dtype == str(array.dtype)
        assert file.info(name).shape == array.shape
        assert file.info(name).nbytes == array.nbytes
    with pytest.raises(KeyError, match="none"):
        file["none"]
    with pytest.raises(KeyError, match="none"):
        file.info("none")


def test_tensors_are_the_pages_of_the_file(model: str) -> None:
    file = dlbridge.load(model, to="numpy")
    array = file["float64"]
    assert not array.flags.writeable
    assert file["float64"].ctypes.data == array.ctypes.data
    assert mapping(array.ctypes.data).path == model


def test_tensors_outlive_the_file(model: str) -> None:
    with dlbridge.load(model, to="numpy") as file:
        array = file["int32"]
    with pytest.raises(ValueError, match="closed"):
        file["int32"]
    assert "closed" in repr(file)
    del file
    gc.collect()
    np.testing.assert_array_equal(array, arrays()["int32"])


def test_writable_tensor_is_private(model: str) -> None:
    before = Path(model).read_bytes()
    file = dlbridge.load(model, to="numpy", writable=True)
    first = file["int64"]
    first[:] = -1
    np.testing.assert_array_equal(file["int64"], arrays()["int64"])
    assert Path(model).read_bytes() == before


def test_private_tensors_that_are_dropped_do_not_count(model: str) -> None:
    file = dlbridge.load(model, to="numpy", writable=True)
    for _ in range(31_000):
        array = file["float64"]
    assert mapping(array.ctypes.data).path == model


def test_torch_writes_a_private_page(model: str) -> None:
    torch = require("torch")
    file = dlbridge.load(model, to="torch")
    before = Path(model).read_bytes()
    tensor = file["float32"]
    tensor += 1
    np.testing.assert_array_equal(tensor.numpy(), arrays()["float32"] + 1)
    assert Path(model).read_bytes() == before
    assert mapping(tensor.data_ptr()).path == model
    copied = dlbridge.load(model, to=torch, writable=False)["float32"]
    assert mapping(copied.data_ptr()).path != model


def test_jax_shares_what_is_aligned(tmp_path: Path) -> None:
    require("jax")
    path = tmp_path / "x.safetensors"
    dlbridge.save(path, {"odd": np.ones(3, "float32"), "x": np.ones((4, 16), "float32"), "y": np.ones(32, "float64")})
    file = dlbridge.load(path, to="jax")
    for name in ("x", "y"):
        assert file.info(name).alignment >= 64
    x = file["x"]
    assert mapping(x.unsafe_buffer_pointer()).path == str(path)
    assert file["odd"].tolist() == [1, 1, 1]


READS = """
import sys
import dlbridge
from importlib import import_module
def pss():
    return int(next(line for line in open("/proc/self/smaps_rollup") if line.startswith("Pss:")).split()[1]) * 1024
path, library = sys.argv[1:]
import_module(library)
first = [float(x.sum()) for x in dlbridge.load(path + ".small", to=library).values()]
before = pss()
tensors = dict(dlbridge.load(path, to=library))
assert [float(x.sum()) for x in tensors.values()] == [1 << 20] * 16
print("read", flush=True)
sys.stdin.readline()
print(pss() - before, flush=True)
sys.stdin.readline()
"""


def test_processes_share_the_pages_of_a_file(tmp_path: Path) -> None:
    libraries = ["numpy", "torch", "jax"]
    for library in libraries:
        require(library)
    path = tmp_path / "x.safetensors"
    dlbridge.save(path, {f"layer.{n}": np.ones((1024, 1024), "float32") for n in range(16)})
    dlbridge.save(f"{path}.small.safetensors", {"x": np.ones((16, 1024), "float32")})
    os.rename(f"{path}.small.safetensors", f"{path}.small")
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    processes = [subprocess.Popen([sys.executable, "-c", READS, path, library], **pipes) for library in libraries]
    told = [process.stdout.readline() for process in processes if process.stdout]
    assert told == ["read\n"] * len(libraries)
    for process in processes:
        assert process.stdin
        process.stdin.write("\n")
        process.stdin.flush()
    sizes = [int(process.stdout.readline()) for process in processes if process.stdout]
    for process in processes:
        process.communicate()
    # A copy in one of the processes would make it two.
    assert sum(sizes) < 1.4 * path.stat().st_size, sizes


def test_threads_load_at_once(model: str) -> None:
    file = dlbridge.load(model, to="numpy")

    def is_right() -> bool:
        return all(np.array_equal(file[name], array) for _ in range(50) for name, array in arrays().items())

    assert concurrently([is_right] * 8) == [True] * 8


def test_device_is_checked_at_once(model: str) -> None:
    assert dlbridge.load(model, device="cpu")["int8"].device == "cpu"
    with pytest.raises(ValueError, match="not the name of a device"):
        dlbridge.load(model, device="gpu")
    with pytest.raises(BufferError, match="cuda:63"):
        dlbridge.load(model, device="cuda:63")


def test_file_is_pickled_as_its_path(model: str) -> None:
    file = dlbridge.load(model, to=np)
    message = pickle.dumps(file)
    assert len(message) < 500
    again = pickle.loads(message)
    assert set(again) == set(file)
    np.testing.assert_array_equal(again["int32"], arrays()["int32"])
    again.close()
    with pytest.raises(ValueError, match="closed"):
        pickle.dumps(again)


def test_pickled_file_is_found_from_another_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    dlbridge.save("x.safetensors", {"x": np.ones(3)})
    file = dlbridge.load("x.safetensors")
    monkeypatch.chdir("/")
    assert list(pickle.loads(pickle.dumps(file))) == ["x"]


def test_path_of_a_sharded_model_is_found_by_its_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    named = {f"layer.{n}": np.full(1000, n, "float32") for n in range(4)}
    dlbridge.save("b.safetensors", named, max_shard_bytes=8000)
    assert not Path("b.safetensors").exists()
    file = dlbridge.load("b.safetensors", to="numpy")
    assert set(file) == set(named)
    monkeypatch.chdir("/")
    assert set(pickle.loads(pickle.dumps(file))) == set(named)
    with pytest.raises(FileNotFoundError, match=r"c\.safetensors"):
        dlbridge.load(tmp_path / "c.safetensors")


def test_only_the_path_of_a_safetensors_file_may_have_an_index(tmp_path: Path) -> None:
    (tmp_path / "x.npz.index.json").write_text("[]")
    with pytest.raises(FileNotFoundError, match="x.npz'?$"):
        dlbridge.load(tmp_path / "x.npz")


def test_file_that_exists_is_loaded_instead_of_an_index(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    dlbridge.save(path, {"x": np.ones(3)})
    (tmp_path / "x.safetensors.index.json").write_text("{}")
    assert list(dlbridge.load(path)) == ["x"]


def test_library_that_is_not_installed_is_refused_by_load(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # Python does not find a module whose entry is None.
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(ModuleNotFoundError, match="^cupy is not installed; install it first$") as caught:
        dlbridge.load(model, to="cupy")
    assert caught.value.name == "cupy"


def test_wrong_options_are_refused_by_load(model: str) -> None:
    wrong: Any
    for wrong in ("yes", 1, 0):
        with pytest.raises(TypeError, match="writable must be None, True or False, not "):
            dlbridge.load(model, writable=wrong)
    wrong = 5
    with pytest.raises(TypeError, match="to must be the name of a library, or its module, not 5"):
        dlbridge.load(model, to=wrong)
    with pytest.raises(ValueError, match="unknown library 'nope'"):
        dlbridge.load(model, to="nope")


def test_npz_of_numpy_is_loaded(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", **arrays())
    np.savez_compressed(tmp_path / "y.npz", **arrays())
    for name in ("x.npz", "y.npz"):
        file = dlbridge.load(tmp_path / name, to="numpy")
        for key, array in arrays().items():
            np.testing.assert_array_equal(file[key], array)
    assert dlbridge.load(tmp_path / "x.npz")["columns"].numpy().flags.f_contiguous


def test_names_of_a_zip_are_those_of_its_members(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    np.savez(path, **{"a/b": np.ones(3)})
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("notes.txt", "text")
    assert list(dlbridge.load(path)) == ["a/b"]


def test_text_beside_arrays_is_refused_when_it_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    np.savez(path, x=np.ones(3), labels=np.array(["a", "b"]))
    file = dlbridge.load(path)
    assert list(file) == ["x"]
    with pytest.raises(ValueError, match="labels.*<U1"):
        file["labels"]
    with pytest.raises(ValueError, match="labels.*<U1"):
        file.info("labels")


def test_text_that_is_compressed_well_is_beside_arrays(tmp_path: Path) -> None:
    path, text = tmp_path / "x.npz", np.array(["cat"] * 200_000)
    np.savez_compressed(path, x=np.ones(3), l0=text, l1=text)
    assert list(dlbridge.load(path)) == ["x"]


def test_gguf_is_loaded(tmp_path: Path) -> None:
    gguf = require("gguf")
    path = tmp_path / "x.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_uint32("answer", 42)
    writer.add_array("words", ["a", "b"])
    writer.add_tensor("x", np.arange(6, dtype="float32").reshape(2, 3))
    blocks = np.arange(2 * 34 * 2, dtype="uint8").reshape(2, 68)
    writer.add_tensor("q", blocks, raw_dtype=gguf.GGMLQuantizationType.Q8_0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    file = dlbridge.load(path, to="numpy")
    assert file.metadata["answer"] == 42
    assert file.metadata["words"] == ["a", "b"]
    np.testing.assert_array_equal(file["x"], np.arange(6, dtype="float32").reshape(2, 3))
    np.testing.assert_array_equal(file["q"], blocks)
    assert file.info("x").quantization is None
    q = file.info("q").quantization
    assert q is not None
    assert (q.name, q.block_len, q.block_bytes, q.shape) == ("Q8_0", 32, 34, (2, 64))


def test_arrow_file_is_loaded(tmp_path: Path) -> None:
    pa = require("pyarrow")
    path = tmp_path / "x.arrow"
    table = pa.table({"a": pa.array([1, 2, 3], "int32"), "b": pa.array([0.5, 1.5, 2.5])})
    save_arrow(path, table.schema, table)
    file = dlbridge.load(path, to="numpy")
    assert list(file) == ["a", "b"]
    assert file["a"].tolist() == [1, 2, 3]
    assert file.info("b").dtype == "float64"
    with pytest.raises(KeyError):
        file["c"]


def test_batches_of_an_arrow_file_are_joined(tmp_path: Path) -> None:
    pa = require("pyarrow")
    path = tmp_path / "x.arrow"
    schema = pa.schema([("a", pa.int32())], metadata={b"k": b"\xff"})
    batches = [pa.record_batch([pa.array([n, n], "int32")], schema=schema) for n in range(3)]
    save_arrow(path, schema, *batches)
    file = dlbridge.load(path)
    assert file["a"].tolist() == [0, 0, 1, 1, 2, 2]
    assert file["a"].copied
    assert list(file.metadata) == ["k"]


def test_arrow_file_without_batches_has_empty_columns(tmp_path: Path) -> None:
    pa = require("pyarrow")
    path = tmp_path / "x.arrow"
    save_arrow(path, pa.schema([("a", pa.int32())]))
    assert dlbridge.load(path)["a"].shape == (0,)


FORKS = """
import os, signal, sys, threading
import dlbridge
count = int(sys.argv[2])
ended = []
for _ in range(25):
    file = dlbridge.load(sys.argv[1], to="numpy", writable=True)
    thread = threading.Thread(target=lambda: [file[name] for name in file])
    thread.start()
    for _ in range(4):
        pid = os.fork()
        if pid == 0:
            signal.alarm(30)
            file[f"t{count - 1}"]
            os._exit(0)
        ended.append(os.waitpid(pid, 0)[1])
    thread.join()
    if any(ended):
        break
print(ended)
"""


def test_fork_during_a_request_does_not_hang(tmp_path: Path) -> None:
    path, count = tmp_path / "x.safetensors", 1000
    dlbridge.save(path, {f"t{nth}": np.zeros(1 << 14, "uint8") for nth in range(count)})
    # A warning tells that a fork with threads may hang.
    assert output(FORKS, path, count, options=["-W", "ignore"], quiet=False) == f"{[0] * 100}\n"


def test_pickled_file_that_is_gone_raises_at_its_first_use(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    dlbridge.save(path, {"x": np.ones(3)})
    pickled = pickle.dumps(dlbridge.load(path))
    path.unlink()
    file = pickle.loads(pickled)
    uses: list[Callable[[], Any]] = [lambda: file["x"], lambda: len(file), lambda: "x" in file, lambda: file.metadata]
    for use in uses:
        with pytest.raises(FileNotFoundError, match="x.safetensors"):
            use()
    assert repr(file).startswith(f"<dlbridge.TensorFile of '{path}' that could not be loaded: FileNotFoundError")
    dlbridge.save(path, {"x": np.ones(3)})
    assert pickle.loads(pickle.dumps(file))["x"].shape == (3,)


def test_pickled_file_without_its_library_raises_at_its_first_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pa = require("pyarrow")
    table = pa.table({"a": [1, 2]})
    save_arrow(tmp_path / "x.arrow", table.schema, table)
    pickled = pickle.dumps(dlbridge.load(tmp_path / "x.arrow"))
    # Python does not find a module whose entry is None.
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    file = pickle.loads(pickled)
    with pytest.raises(ModuleNotFoundError, match="pyarrow"):
        list(file)


def test_pickled_file_without_its_device_raises_at_its_first_use(model: str) -> None:
    pickled = pickle.dumps(dlbridge.load(model, device="cpu"))
    # No machine of these tests has that device.
    file = pickle.loads(pickled.replace(b"\x03cpu", b"\x03vpi"))
    with pytest.raises(BufferError, match="vpi"):
        list(file)


@pytest.mark.parametrize("kind", [ImportError, OSError, ValueError, RuntimeError])
def test_pickled_file_whose_library_cannot_be_imported_raises_at_its_first_use(
    kind: type[Exception], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pa = require("pyarrow")
    table = pa.table({"a": [1, 2]})
    save_arrow(tmp_path / "x.arrow", table.schema, table)
    pickled = pickle.dumps(dlbridge.load(tmp_path / "x.arrow"))
    (tmp_path / "pyarrow").mkdir()
    (tmp_path / "pyarrow" / "__init__.py").write_text("import dependency_of_pyarrow")
    (tmp_path / "dependency_of_pyarrow.py").write_text(f"raise {kind.__name__}('broken')")
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in [name for name in sys.modules if name.partition(".")[0] == "pyarrow"]:
        monkeypatch.delitem(sys.modules, name)
    file = pickle.loads(pickled)
    with pytest.raises(kind, match="broken"):
        list(file)
