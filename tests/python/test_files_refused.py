"""``dlbridge.load`` and ``dlbridge.save`` refuse damaged files, dtypes and arguments, and raise errors of the system."""

import errno
import json
import os
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import dlbridge
import numpy as np
import pytest
from conftest import require
from model_files import save_arrow
from native import Native
from producers import producer, raises


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the file is empty"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n", "a pointer of Git LFS.*git lfs pull"),
        (b"\n<!DOCTYPE html>\n<html><body>Please log in</body></html>", "an HTML page.*download"),
        (b"<html>" * 10, "an HTML page"),
        (b"\x80\x04pickle", "first bytes"),
        (struct.pack("<Q", 2**40) + b"{}", "at most 100000000"),
        (struct.pack("<Q", 100) + b"{}", "only 2 follow"),
        (struct.pack("<Q", 2) + b"{]", "header is not valid"),
        (struct.pack("<Q", 2) + b"{}x", "1 follow the header"),
        (b"GGUF\x63\0\0\0" + bytes(16), "version"),
        (b"\x93NUMPY\x09\0" + bytes(16), "version"),
        (b"PK\x03\x04" + bytes(30), "not a valid zip file"),
    ],
)
def test_file_that_is_damaged_or_not_a_model_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    is_no_download = message.startswith(("the file is empty", "a pointer", "an HTML"))
    for name in ["damaged"] + ["model.safetensors.index.json"] * is_no_download:
        path = tmp_path / name
        path.write_bytes(content)
        with pytest.raises(ValueError, match=message) as caught:
            dlbridge.load(path)
        assert str(path) in str(caught.value)


def safetensors_of(header: dict[str, Any], data: bytes) -> bytes:
    """A safetensors file with any header."""
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


@pytest.mark.parametrize(
    ("tensor", "message"),
    [
        ({"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}, "have 8 bytes"),
        ({"dtype": "F32", "shape": [2], "data_offsets": [4, 12]}, "begins at byte 4"),
        ({"dtype": "F33", "shape": [2], "data_offsets": [0, 8]}, "F33"),
        ({"dtype": "F32", "shape": [2**40, 2**40], "data_offsets": [0, 8]}, "more bytes than any file"),
        *(
            ({"dtype": "F32", "shape": shape, "data_offsets": [0, 0]}, "more bytes than any file")
            for shape in ([0, 2**63], [0, 2**40, 2**40], [2**40, 2**40, 0])
        ),
        ({"dtype": "F32", "shape": [-1], "data_offsets": [0, 8]}, "header is not valid"),
        ({"dtype": "F32", "shape": [2]}, "data_offsets"),
        ({"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}, "8 follow the header"),
    ],
)
def test_wrong_description_is_refused(tmp_path: Path, tensor: dict[str, Any], message: str) -> None:
    path = tmp_path / "x.safetensors"
    path.write_bytes(safetensors_of({"x": tensor}, bytes(8)))
    with pytest.raises(ValueError, match=message):
        dlbridge.load(path)


def test_damaged_arrow_file_is_refused(tmp_path: Path) -> None:
    pa = require("pyarrow")
    path = tmp_path / "x.arrow"
    table = pa.table({"a": pa.array(range(12345), "int64")})
    save_arrow(path, table.schema, table)
    count, other = struct.pack("<q", 12345), struct.pack("<q", 10**6)
    content = path.read_bytes()
    head = content.find(count)
    # The lengths of the batch and of its column; the elements have that number too.
    path.write_bytes(content[:head] + content[head : head + 200].replace(count, other) + content[head + 200 :])
    with pytest.raises(ValueError, match="Buffer"):
        dlbridge.load(path)["a"]


def index_in(folder: Path, **shards: str) -> Path:
    """Writes the index of a sharded model, with the file of each tensor."""
    path = folder / "model.safetensors.index.json"
    path.write_text(json.dumps({"weight_map": shards}))
    return path


def test_shards_outside_the_folder_are_refused(tmp_path: Path) -> None:
    for name in ("../x.safetensors", "/etc/passwd", "", "."):
        with pytest.raises(ValueError, match="not in the folder of the index"):
            dlbridge.load(index_in(tmp_path, x=name))
    with pytest.raises(FileNotFoundError, match=r"none\.safetensors"):
        dlbridge.load(index_in(tmp_path, x="none.safetensors"))


def test_index_that_lists_what_a_shard_lacks_is_refused(tmp_path: Path) -> None:
    dlbridge.save(tmp_path / "a.safetensors", {"x": np.ones(3)})
    path = index_in(tmp_path, x="a.safetensors", y="a.safetensors")
    with pytest.raises(ValueError, match=r"\"y\" in .*a\.safetensors, which lacks it"):
        dlbridge.load(path)


def test_pipes_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.safetensors")
    index = index_in(tmp_path, x="pipe.safetensors")
    os.mkfifo(tmp_path / "other.safetensors.index.json")
    for path in (tmp_path / "pipe.safetensors", index, tmp_path / "other.safetensors.index.json"):
        with pytest.raises(OSError, match="not a regular file"):
            dlbridge.load(path)
    dlbridge.save(tmp_path / "other.safetensors", {"x": np.ones(3)})


def test_dtype_that_a_format_lacks_is_refused(tmp_path: Path) -> None:
    x = dlbridge.empty(3, "bfloat16")
    with pytest.raises(BufferError, match="x.npy: the elements are bfloat16, which npy lacks"):
        dlbridge.save(tmp_path / "x.npy", x)
    with pytest.raises(BufferError, match="complex128, which safetensors lacks"):
        dlbridge.save(tmp_path / "x.safetensors", {"x": np.ones(2, "complex128")})
    assert os.listdir(tmp_path) == []


def test_wrong_arguments_are_named(tmp_path: Path) -> None:
    path, x = tmp_path / "x.safetensors", np.ones(3)
    with pytest.raises(TypeError, match="mapping of names to tensors, not ndarray"):
        dlbridge.save(path, x)
    with pytest.raises(TypeError, match="must be str, not 1"):
        dlbridge.save(path, {1: x})  # type: ignore[dict-item]
    with pytest.raises(TypeError, match="metadata must be text, not 'epoch': 3"):
        dlbridge.save(path, {"x": x}, metadata={"epoch": 3})  # type: ignore[dict-item]
    with pytest.raises(ValueError, match="positive, not -1"):
        dlbridge.save(path, {"x": x}, max_shard_bytes=-1)
    with pytest.raises(ValueError, match="this npz file cannot be written: only safetensors files have metadata"):
        dlbridge.save(tmp_path / "x.npz", {"x": x}, metadata={"epoch": "3"})
    assert os.listdir(tmp_path) == []


def test_missing_file_has_the_class_of_python(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        dlbridge.load(tmp_path / "none.safetensors")
    assert caught.value.filename is not None
    with pytest.raises(FileNotFoundError):
        dlbridge.save(tmp_path / "none" / "x.npy", np.ones(3))
    with pytest.raises(ValueError, match="extension"):
        dlbridge.save(tmp_path / "x.pickle", {"x": np.ones(3)})
    with pytest.raises(ValueError, match="exactly one tensor"):
        dlbridge.save(tmp_path / "x.npy", {"x": np.ones(3), "y": np.ones(3)})
    with pytest.raises(ValueError, match="__metadata__"):
        dlbridge.save(tmp_path / "x.safetensors", {"__metadata__": np.ones(3)})


def test_errors_of_the_system_have_their_class(tmp_path: Path) -> None:
    with pytest.raises(NotADirectoryError):
        dlbridge.save("/dev/null/x.npy", np.ones(3))
    folder = tmp_path / "folder"
    folder.mkdir()
    folder.chmod(0o500)
    if os.geteuid():
        with pytest.raises(PermissionError):
            dlbridge.save(folder / "x.npy", np.ones(3))
    # No module is imported to make the exception, which would fail at the end of the interpreter.
    code = "import sys, dlbridge; dlbridge.save; sys.modules['pathlib'] = None; dlbridge.save('none/x.npy', b'abc')"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert ran.stderr.strip().splitlines()[-1].startswith("FileNotFoundError"), ran.stderr
    assert ran.returncode == 1


def test_refusals_of_save_name_the_tensor(tmp_path: Path, native: Native) -> None:
    deleted = require("jax").numpy.ones(3)
    deleted.delete()
    bad: dict[str, Any] = {
        "deleted": deleted,
        "grad": require("torch").ones(3, requires_grad=True),
        "device": native.tensor(device=(15, 0))[0],
        "runtime": producer(__dlpack__=raises(RuntimeError), __dlpack_device__=lambda _: (1, 0)),
        "division": producer(__dlpack__=raises(ZeroDivisionError), __dlpack_device__=lambda _: (1, 0)),
        "text": "abc",
        "number": 3,
        "nested": {"y": np.ones(3)},
        "object": np.array([None]),
        "none": None,
        "long": np.ones(2, "longdouble"),
        "complex": np.ones(2, "complex128"),
    }
    for name, value in bad.items():
        errors = {"runtime": RuntimeError, "division": ZeroDivisionError}.get(name, (TypeError, BufferError, ValueError))
        with pytest.raises(errors, match=f"tensor ['\"]layer.{name}['\"]: ") as caught:
            dlbridge.save(tmp_path / "x.safetensors", {"good": np.ones(3), f"layer.{name}": value})
        assert str(caught.value).count(f"layer.{name}") <= 1
    assert os.listdir(tmp_path) == []


def test_save_of_repeated_memory_is_refused(tmp_path: Path) -> None:
    repeated = np.lib.stride_tricks.as_strided(np.ones(1, "float32"), (1 << 40,), (0,))
    with pytest.raises(ValueError, match="tensor 'x': it repeats 4 bytes 1099511627776 times; save the tensor that was"):
        dlbridge.save(tmp_path / "x.npz", {"x": repeated})
    packed = dlbridge.empty((1 << 31,), "float4_e2m1fn")
    with pytest.raises(BufferError, match="float4_e2m1fn, which npz lacks"):
        dlbridge.save(tmp_path / "x.npz", {"x": packed})


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux is asked for the free space")
def test_save_that_cannot_fit_is_refused_before_it_writes(tmp_path: Path) -> None:
    disk = os.statvfs(tmp_path)
    # More than the whole disk, by memory that is never touched.
    row = np.zeros(disk.f_blocks * disk.f_frsize // 4000)
    with pytest.raises(OSError, match=r"and the disk has \d+ free") as caught:
        dlbridge.save(tmp_path / "x.npy", np.broadcast_to(row, (510, len(row))))
    assert caught.value.errno == errno.ENOSPC
    assert os.listdir(tmp_path) == []


def test_arguments_in_another_order_are_named(tmp_path: Path) -> None:
    path, x = tmp_path / "x.safetensors", {"x": np.ones(3)}
    for tensors in (x, x["x"]):
        with pytest.raises(TypeError, match="save takes the path first"):
            dlbridge.save(tensors, path)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="metadata must be a mapping of text to text, not list"):
        dlbridge.save(path, x, metadata=[("a", "b")])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="an npy file keeps no name, such as 'x'"):
        dlbridge.save(tmp_path / "x.npy", x)
    for name in ("a\0b", "x" * 70_000):
        with pytest.raises(ValueError, match="has a NUL, or more than 65531 bytes"):
            dlbridge.save(tmp_path / "x.npz", {name: x["x"]})
    (tmp_path / "d.safetensors").mkdir()
    with pytest.raises(IsADirectoryError):
        dlbridge.save(tmp_path / "d.safetensors", {"a": x["x"], "b": x["x"]}, max_shard_bytes=24)
    assert os.listdir(tmp_path) == ["d.safetensors"]


def test_incomplete_file_is_named(tmp_path: Path) -> None:
    x = np.ones(100)
    for name, tensors, message in [
        ("x.safetensors", {"x": x}, "have 800 bytes of data, and 500 follow the header; it is incomplete"),
        ("x.npz", {"x": x}, "it has {} bytes; if it is incomplete, download it again"),
        ("x.npy", x, "needs 800 bytes, and 500 follow the header"),
    ]:
        dlbridge.save(tmp_path / name, tensors)
        size = os.path.getsize(tmp_path / name) - 300
        os.truncate(tmp_path / name, size)
        with pytest.raises(ValueError, match=message.format(size)):
            dlbridge.load(tmp_path / name)
