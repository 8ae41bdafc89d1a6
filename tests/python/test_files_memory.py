"""``dlbridge.load`` of bytes, of memory and of open files, and of the folders of models."""

import gc
import io
import mmap
import os
import pickle
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dlbridge
import numpy as np
import pytest
from concurrently import concurrently
from conftest import require
from model_files import arrays, save_arrow
from native import Native

MiB = 1 << 20


def write_safetensors(path: Path) -> None:
    dlbridge.save(f"{path}.safetensors", arrays())
    path.with_name(f"{path.name}.safetensors").rename(path)


def write_npz(path: Path) -> None:
    np.savez(path, **arrays())
    path.with_name(f"{path.name}.npz").rename(path)


def write_torch(path: Path) -> None:
    torch = require("torch")
    torch.save({name: torch.from_numpy(array.copy()) for name, array in arrays().items()}, path)


def write_gguf(path: Path) -> None:
    gguf = require("gguf")
    writer = gguf.GGUFWriter(path, "llama")
    for name in ("float32", "int8"):
        writer.add_tensor(name, arrays()[name])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_arrow(path: Path) -> None:
    table = require("pyarrow").table({"x": [1, 2, 3]})
    save_arrow(path, table.schema, table)


WRITERS = [write_safetensors, write_npz, write_torch, write_gguf, write_arrow]


def mapped(path: Path) -> mmap.mmap:
    with open(path, "rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


class Reader:
    """The two methods that a reader needs."""

    def __init__(self, path: Path) -> None:
        opened = io.BytesIO(path.read_bytes())
        self.read, self.seek = opened.read, opened.seek


SOURCES: dict[str, Callable[[Path], Any]] = {
    "bytes": lambda path: path.read_bytes(),
    "bytearray": lambda path: bytearray(path.read_bytes()),
    "memoryview": lambda path: memoryview(path.read_bytes()),
    "mmap": mapped,
    "Tensor": lambda path: dlbridge.asdlpack(path.read_bytes()),
    "array": lambda path: np.fromfile(path, "uint8"),
    "BytesIO": lambda path: io.BytesIO(path.read_bytes()),
    "file": lambda path: open(path, "rb"),
    "raw file": lambda path: open(path, "rb", buffering=0),
    "reader": Reader,
}


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("write", WRITERS)
def test_source_has_the_tensors_of_the_file(write: Callable[[Path], None], source: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    write(path)
    expected, opened = dlbridge.load(path, to="numpy"), SOURCES[source](path)
    file = dlbridge.load(opened, to="numpy")
    assert list(file) == list(expected)
    assert file.metadata == expected.metadata
    for name, array in expected.items():
        np.testing.assert_array_equal(file[name], array)
        assert file.info(name).shape == array.shape
    assert (expected.path, file.path) == (str(path), None)
    with pytest.raises(TypeError, match="cannot be pickled; pickle its path or its bytes"):
        pickle.dumps(file)
    if isinstance(opened, io.BufferedReader | io.FileIO):
        opened.close()


def test_npy_in_memory_is_a_tensor() -> None:
    file = io.BytesIO()
    np.save(file, np.arange(5))
    for source in (file, file.getvalue()):
        assert dlbridge.load(source, to="numpy").tolist() == [0, 1, 2, 3, 4]


def address(memory: Any) -> int:
    return np.frombuffer(memory, "uint8").ctypes.data


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_tensors_share_the_memory_and_cannot_be_written(kind: Any, tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    dlbridge.save(path, {"x": np.arange(8)})
    memory = kind(path.read_bytes())
    array = dlbridge.load(memory, to="numpy")["x"]
    assert 0 < array.ctypes.data - address(memory) < len(memory)
    assert not array.flags.writeable
    written = dlbridge.load(memory, to="numpy", writable=True)["x"]
    written[:] = 0
    assert array.tolist() == list(range(8))


def test_write_of_other_code_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    dlbridge.save(path, {"x": np.zeros(8, "uint8")})
    memory = bytearray(path.read_bytes())
    array = dlbridge.load(memory, to="numpy")["x"]
    memory[-1] = 7
    assert array.tolist() == [0] * 7 + [7]


class Ranges(io.RawIOBase):
    """A file of an object store, which notes the ranges that are read."""

    def __init__(self, path: Path) -> None:
        self._file = io.BytesIO(path.read_bytes())
        self.read_bytes: list[range] = []

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._file.seek(offset, whence)

    def read(self, size: int = -1) -> bytes:
        begin = self._file.tell()
        found = self._file.read(min(size, 3 * MiB))
        self.read_bytes.append(range(begin, begin + len(found)))
        return found


@pytest.mark.parametrize("name", ["x.safetensors", "x.npz"])
def test_reader_is_asked_for_the_header_and_the_tensor_alone(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    dlbridge.save(path, {name: np.full(4 * MiB, number, "uint8") for number, name in enumerate("abcd")})
    reader = Ranges(path)
    file = dlbridge.load(reader, to="numpy")
    assert sum(len(part) for part in reader.read_bytes) < 100_000
    reader.read_bytes.clear()
    array = file["c"]
    assert set(array.tolist()) == {2} and array.flags.writeable
    assert sum(len(part) for part in reader.read_bytes) == 4 * MiB


def test_reader_of_an_archive_is_asked_for_a_small_part_of_each_member(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    dlbridge.save(path, {f"x{number}": np.full(1000, number) for number in range(200)})
    reader = Ranges(path)
    dlbridge.load(reader)
    assert sum(len(part) for part in reader.read_bytes) < 200 * 3000


def test_tensor_that_a_library_refuses_is_named(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    dlbridge.save(path, {"x": np.zeros((2, 2), "float32")})
    with pytest.raises(BufferError, match="polars takes at most 1 dimension, not 2") as refused:
        dlbridge.load(path, to="polars")["x"]
    assert refused.value.__notes__ == ["tensor 'x' of the file"]


def test_threads_share_a_reader(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    dlbridge.save(path, arrays())
    with open(path, "rb") as opened:
        file = dlbridge.load(opened, to="numpy")

        def is_right() -> bool:
            return all(np.array_equal(file[name], array) for _ in range(20) for name, array in arrays().items())

        assert concurrently([is_right] * 4) == [True] * 4


class Broken(io.RawIOBase):
    """A file whose connection ends after some bytes."""

    def __init__(self, path: Path, answer: Any) -> None:
        self._file, self._answer, self.is_broken = io.BytesIO(path.read_bytes()), answer, False

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._file.seek(offset, whence)

    def read(self, size: int = -1) -> Any:
        return self._answer(size) if self.is_broken else self._file.read(size)


def reset(size: int) -> bytes:
    raise ConnectionResetError("the store is gone")


@pytest.mark.parametrize(
    ("answer", "error", "message"),
    [
        (reset, ConnectionResetError, "^the store is gone$"),
        (lambda size: "text", TypeError, r"read\(\) returned <class 'str'>, not bytes; open the file in mode 'rb'"),
        (lambda size: bytes(size + 1), ValueError, r"read\(\) returned too many bytes"),
        (lambda size: b"", OSError, "the file ended at byte 128 of 800128"),
    ],
)
def test_reader_that_fails_raises_its_own_exception(answer: Any, error: Any, message: str, tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    dlbridge.save(path, {"x": np.ones(100_000)})
    reader = Broken(path, answer)
    file = dlbridge.load(reader)
    reader.is_broken = True
    with pytest.raises(error, match=message):
        file["x"]


class Asking(Ranges):
    """A file whose ``read`` calls a function first."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.ask: Callable[[], Any] = int

    def read(self, size: int = -1) -> bytes:
        self.ask()
        return super().read(size)


def test_reader_that_asks_for_a_tensor_of_its_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    dlbridge.save(path, {"x": np.arange(3)})
    reader = Asking(path)
    file = dlbridge.load(reader, to="numpy")
    reader.ask = lambda: file["x"]
    with pytest.raises(OSError, match="^the reader asks for a tensor of the file that it reads$"):
        file["x"]
    reader.ask = int
    assert file["x"].tolist() == [0, 1, 2]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform does not have os.fork")
@pytest.mark.filterwarnings("ignore:.*fork")
def test_child_of_a_fork_does_not_wait_for_a_thread_of_its_parent(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    dlbridge.save(path, {"x": np.arange(3)})
    reader, reads, goes_on = Asking(path), threading.Event(), threading.Event()
    file = dlbridge.load(reader, to="numpy")
    reader.ask = lambda: (reads.set(), goes_on.wait(60))
    thread = threading.Thread(target=lambda: file["x"])
    thread.start()
    assert reads.wait(60)
    child = os.fork()
    if child == 0:
        try:
            reader.ask = int
            file["x"]
        except OSError as error:
            os._exit(7 if "another thread was reading when this process was forked" in str(error) else 8)
        os._exit(9)
    goes_on.set()
    thread.join(60)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_cycle_through_a_reader_is_collected(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    dlbridge.save(path, {"x": np.arange(3)})
    reader: Any = Asking(path)
    reader.file = dlbridge.load(reader)
    gone = weakref.ref(reader)
    del reader
    gc.collect()
    assert gone() is None


def test_sources_that_are_not_files_are_refused(tmp_path: Path, native: Native) -> None:
    path = tmp_path / "x.txt"
    path.write_text("text")
    with open(path) as text, pytest.raises(TypeError, match="open the file in mode 'rb'"):
        dlbridge.load(text)
    wrong: Any
    for wrong in (3, None, ["x.npy"], object()):
        name = type(wrong).__name__
        with pytest.raises(TypeError, match=f"load takes the path of a file or folder, .* read and seek, not {name}"):
            dlbridge.load(wrong)
    with pytest.raises(ValueError, match="NUL"):
        dlbridge.load("a\0b")
    with pytest.raises(ValueError, match="^the file is empty$"):
        dlbridge.load(b"")
    with pytest.raises(BufferError, match="contiguous"):
        dlbridge.load(np.zeros(100, "uint8")[::2])
    with pytest.raises(BufferError, match="CPU"):
        dlbridge.load(native.tensor(device=(15, 0))[0])


NAMES = ["model.safetensors", "diffusion_pytorch_model.safetensors", "pytorch_model.bin", "diffusion_pytorch_model.bin"]


def test_folder_is_its_model(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="the folder has none of model.safetensors, .*; name the file"):
        dlbridge.load(tmp_path)
    torch = require("torch")
    for number, name in reversed(list(enumerate(NAMES))):
        if name.endswith("bin"):
            torch.save({"x": torch.tensor(number)}, tmp_path / name)
        else:
            dlbridge.save(tmp_path / name, {"x": np.array(number)})
        file = dlbridge.load(tmp_path, to="numpy")
        assert (file["x"], file.path) == (number, str(tmp_path / name))
        assert pickle.loads(pickle.dumps(file)).path == str(tmp_path / name)


def test_index_in_a_folder_is_found(tmp_path: Path) -> None:
    torch = require("torch")
    torch.save({"x": torch.ones(2)}, tmp_path / "pytorch_model-00001-of-00001.bin")
    index = tmp_path / "pytorch_model.bin.index.json"
    index.write_text('{"weight_map": {"x": "pytorch_model-00001-of-00001.bin"}}')
    for path in (tmp_path, tmp_path / "pytorch_model.bin", index):
        file = dlbridge.load(path)
        assert (list(file), file.path) == (["x"], str(index))
