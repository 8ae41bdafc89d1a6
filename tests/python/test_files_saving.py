"""``dlbridge.save``: dtypes, shards and new versions of a file, read by ``dlbridge.load`` and other libraries."""

import json
import os
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import dlbridge
import numpy as np
import pytest
from conftest import require
from model_files import arrays
from processes import output


def test_saved_file_is_one_of_safetensors(tmp_path: Path) -> None:
    safetensors = require("safetensors.numpy")
    path = tmp_path / "x.safetensors"
    dlbridge.save(path, arrays(), metadata={"key": "Wört"})
    theirs = safetensors.load_file(path)
    assert set(theirs) == set(arrays())
    for name, array in arrays().items():
        np.testing.assert_array_equal(theirs[name], array)
        assert theirs[name].dtype == array.dtype
    with require("safetensors").safe_open(path, "numpy") as file:
        assert file.metadata() == {"key": "Wört"}
    again = tmp_path / "again.safetensors"
    safetensors.save_file(theirs, again)
    assert _data(again) == _data(path)


def _data(path: Path) -> dict[str, bytes]:
    """The bytes of each tensor, by the header."""
    content = path.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + length])
    header.pop("__metadata__", None)
    return {name: content[8 + length :][slice(*each["data_offsets"])] for name, each in header.items()}


def test_saved_npz_is_one_of_numpy(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    dlbridge.save(path, arrays())
    theirs = np.load(path)
    assert set(theirs) == set(arrays())
    ours = dlbridge.load(path, to="numpy")
    for name, array in arrays().items():
        np.testing.assert_array_equal(theirs[name], array)
        np.testing.assert_array_equal(ours[name], array)
        assert array.size == 0 or ours.info(name).alignment >= 64


def test_npy_is_the_tensor(tmp_path: Path) -> None:
    for name, array in arrays().items():
        path = tmp_path / f"{name}.npy"
        dlbridge.save(path, array)
        np.testing.assert_array_equal(np.load(path), array)
        np.save(path, array)
        np.testing.assert_array_equal(dlbridge.load(path, to="numpy"), array)
    np.save(tmp_path / "big.npy", np.arange(5, dtype=">i4"))
    assert dlbridge.load(tmp_path / "big.npy").tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_narrow_dtypes_of_torch_come_back(tmp_path: Path, name: str) -> None:
    torch = require("torch")
    safetensors = require("safetensors.torch")
    x = torch.arange(12).reshape(3, 4).to(getattr(torch, name))
    path = tmp_path / "x.safetensors"
    dlbridge.save(path, {"x": x})
    theirs = safetensors.load_file(path)["x"]
    assert theirs.dtype == x.dtype
    assert torch.equal(theirs.view(torch.uint8), x.view(torch.uint8))
    ours = dlbridge.load(path, to="torch")["x"]
    assert ours.dtype == x.dtype
    assert torch.equal(ours.view(torch.uint8), x.view(torch.uint8))


def test_packed_elements_come_back(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    ml_dtypes = require("ml_dtypes")
    x = (np.arange(24) % 5).reshape(3, 8).astype(ml_dtypes.float4_e2m1fn)
    dlbridge.save(path, {"x": x})
    again = dlbridge.load(path)["x"]
    assert again.dtype == "float4_e2m1fn"
    assert again.nbytes == 12
    assert again.tolist() == x.astype("float32").tolist()
    with pytest.raises(BufferError, match="packed"):
        dlbridge.save(path, {"x": dlbridge.empty(3, "float4_e2m1fn")})


def test_floats_of_four_bits_are_pairs_in_torch(tmp_path: Path) -> None:
    torch = require("torch")
    safetensors = require("safetensors.torch")
    x = torch.arange(12, dtype=torch.uint8).reshape(3, 4).view(torch.float4_e2m1fn_x2)
    path = tmp_path / "x.safetensors"
    dlbridge.save(path, {"x": x})
    for y in (dlbridge.load(path, to="torch")["x"], safetensors.load_file(path)["x"]):
        assert y.dtype == x.dtype
        assert torch.equal(y.view(torch.uint8), x.view(torch.uint8))
    assert dlbridge.load(path).info("x").shape == (3, 8)


def test_large_padded_elements_are_packed_piece_by_piece(tmp_path: Path) -> None:
    ml_dtypes = require("ml_dtypes")
    x = (np.arange(40 << 20, dtype="uint8") % 5).reshape(-1, 5).astype(ml_dtypes.float4_e2m1fn)
    dlbridge.save(tmp_path / "x.safetensors", {"x": x})
    np.testing.assert_array_equal(dlbridge.load(tmp_path / "x.safetensors", to="numpy")["x"].view("uint8"), x.view("uint8"))


def test_name_may_be_empty(tmp_path: Path) -> None:
    dlbridge.save(tmp_path / "x.safetensors", {"": np.ones(3)})
    assert list(dlbridge.load(tmp_path / "x.safetensors")) == [""]


def test_sharded_model_is_one_mapping(tmp_path: Path) -> None:
    named = {f"layer.{n}": np.full(1000, n, "float32") for n in range(10)}
    dlbridge.save(tmp_path / "model.safetensors", named, max_shard_bytes=9000)
    files = sorted(os.listdir(tmp_path))
    assert files[0] == "model-00001-of-00005.safetensors"
    assert files[-1] == "model.safetensors.index.json"
    index = json.loads((tmp_path / files[-1]).read_text())
    assert index["metadata"]["total_size"] == 40_000
    assert set(index["weight_map"]) == set(named)
    for path in (tmp_path, tmp_path / files[-1], tmp_path / "model.safetensors"):
        file = dlbridge.load(path, to="numpy")
        assert set(file) == set(named)
        for name, array in named.items():
            np.testing.assert_array_equal(file[name], array)


def test_new_model_replaces_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    (tmp_path / "model-notes.txt").write_text("mine")
    models = [{f"layer.{n}": np.full(100, n + 10 * turn, "float32") for n in range(4)} for turn in range(4)]
    old = None
    for turn, limit in enumerate((500, 500, None, 900)):
        dlbridge.save(path, models[turn], max_shard_bytes=limit)
        file = dlbridge.load(tmp_path, to="numpy")
        for name, array in models[turn].items():
            np.testing.assert_array_equal(file[name], array)
        files = 4 + 1 if limit == 500 else 2 + 1 if limit else 1
        assert len(os.listdir(tmp_path)) == files + 1
        if old is not None:
            np.testing.assert_array_equal(old["layer.3"], models[turn - 1]["layer.3"])
        old = file


def test_new_version_of_a_model_has_the_mode_of_the_old_one(tmp_path: Path) -> None:
    path, x = tmp_path / "m.safetensors", {n: np.ones(100) for n in "xy"}
    dlbridge.save(path, x, max_shard_bytes=800)
    for file in tmp_path.iterdir():
        file.chmod(0o600)
    dlbridge.save(path, x, max_shard_bytes=800)
    assert {file.stat().st_mode & 0o777 for file in tmp_path.iterdir()} == {0o600}


def test_file_appears_when_it_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    dlbridge.save(path, {"x": np.ones(3)})
    old = dlbridge.load(path, to="numpy")["x"]

    class Fails:
        def __dlpack__(self, **_: Any) -> Any:
            raise RuntimeError("no")

        def __dlpack_device__(self) -> tuple[int, int]:
            return 1, 0

    with pytest.raises(RuntimeError):
        dlbridge.save(path, {"x": np.zeros(3), "y": Fails()})
    assert os.listdir(tmp_path) == ["x.safetensors"]
    path.chmod(0o640)
    dlbridge.save(path, {"x": np.zeros(3)})
    assert path.stat().st_mode & 0o777 == 0o640
    assert old.tolist() == [1, 1, 1]
    assert dlbridge.load(path, to="numpy")["x"].tolist() == [0, 0, 0]


def test_new_file_has_the_mode_of_new_files(tmp_path: Path) -> None:
    dlbridge.save(tmp_path / "x.npy", np.ones(3))
    (tmp_path / "y").write_text("")
    assert (tmp_path / "x.npy").stat().st_mode == (tmp_path / "y").stat().st_mode


def test_file_that_is_too_large_for_the_disk_leaves_nothing(tmp_path: Path) -> None:
    code = (
        "import resource, sys, errno, signal; import numpy as np, dlbridge; "
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, resource.RLIM_INFINITY))\n"
        "for end, limit in (('safetensors', None), ('npz', None), ('safetensors', 8 << 20)):\n"
        "    try: dlbridge.save(sys.argv[1] + '/x.' + end, {n: np.ones(1 << 20) for n in 'xy'}, max_shard_bytes=limit)\n"
        "    except OSError as error: assert error.errno == errno.EFBIG, error\n"
        "    else: raise AssertionError(end)"
    )
    output(code, tmp_path, options=())
    assert os.listdir(tmp_path) == []


SAVES = """
import resource, sys
import numpy as np
import dlbridge
x = np.ones((40, 1 << 20), "float32")
y = np.ones((1 << 20, 16), "float64").T
peak = lambda: int(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1]) * 1024
dlbridge.save(sys.argv[1], {"s": np.ones(3)})
before = peak()
dlbridge.save(sys.argv[1], {"x": x, "y": y})
print(peak() - before)
"""


def test_save_needs_little_memory_above_the_tensors(tmp_path: Path) -> None:
    path = str(tmp_path / "x.safetensors")
    # Otherwise glibc may keep each freed piece for later, as it does in a Python without the GIL.
    assert int(output(SAVES, path, options=(), quiet=False, MALLOC_MMAP_THRESHOLD_=str(1 << 17))) < 64 << 20
    file = dlbridge.load(path, to="numpy")
    assert file["y"].shape == (16, 1 << 20)
    assert file["y"].sum() == 16 << 20


class Turning(Mapping[str, Any]):
    """A mapping that lists its names in another order each time."""

    def __init__(self, data: dict[str, Any]) -> None:
        self.data, self.turns = data, 0

    def __iter__(self) -> Iterator[str]:
        self.turns += 1
        return iter(sorted(self.data, reverse=self.turns % 2 == 0))

    def __getitem__(self, name: str) -> Any:
        return self.data[name]

    def __len__(self) -> int:
        return len(self.data)


def test_mapping_is_read_once(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    dlbridge.save(path, Turning({"a": np.zeros(2), "b": np.ones(2)}))
    file = dlbridge.load(path)
    assert {name: file[name].tolist() for name in file} == {"a": [0, 0], "b": [1, 1]}


def test_files_that_save_did_not_name_stay(tmp_path: Path) -> None:
    path, mine = tmp_path / "m.safetensors", ["m-notes.txt", "sub/m-00001-of-00002.safetensors", "m-ema-00001-of-00002.safetensors"]
    (tmp_path / "sub").mkdir()
    for name in mine:
        (tmp_path / name).write_text("mine")
    theirs = tmp_path / "m-v1-00001-of-00001.safetensors"
    theirs.write_text("an old shard")
    index = {"weight_map": dict(zip("abcd", [*mine, theirs.name], strict=True))}
    (tmp_path / "m.safetensors.index.json").write_text(json.dumps(index))
    dlbridge.save(path, {"x": np.ones(3)})
    assert [name for name in mine if not (tmp_path / name).exists()] == []
    assert not theirs.exists()


SAVER = """
import itertools, sys
import numpy as np
import dlbridge
for turn in itertools.count(1):
    whole = {name: np.full(2000, turn, "float32") for name in "abcdefgh"}
    dlbridge.save(sys.argv[1], whole, max_shard_bytes=None if turn % 5 == 0 else 9000)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows replaces no open file")
def test_load_beside_save_gets_one_model(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    dlbridge.save(path, {name: np.zeros(2000, "float32") for name in "abcdefgh"}, max_shard_bytes=9000)
    with subprocess.Popen([sys.executable, "-c", SAVER, path]) as saver:
        try:
            turns, end = set(), time.monotonic() + 120
            while len(turns) < 20 and time.monotonic() < end:
                assert saver.poll() is None
                try:
                    file = dlbridge.load(path, to="numpy")
                except OSError:
                    continue
                values = {float(file[name][-1]) for name in file}
                assert len(values) == 1, values
                turns |= values
        finally:
            saver.kill()
    assert len(turns) == 20


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="Windows has no timer that sends a signal")
def test_signal_stops_a_large_file(tmp_path: Path) -> None:
    code = (
        "import signal, sys, threading, time; import numpy as np, dlbridge\n"
        "def stop(*_): raise ZeroDivisionError\n"
        "signal.signal(signal.SIGALRM, stop)\n"
        "x = np.broadcast_to(np.ones(1 << 20, 'float32'), (250, 1 << 20))\n"
        "try:\n"
        "    signal.setitimer(signal.ITIMER_REAL, 0.05)\n"
        "    dlbridge.save(sys.argv[1], {'x': x})\n"
        "except ZeroDivisionError: pass\n"
        "else: raise AssertionError('it was not stopped')\n"
    )
    ran = subprocess.run([sys.executable, "-c", code, tmp_path / "x.safetensors"], capture_output=True, text=True)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("size", "files"),
    [("9kB", 3), ("9 KB", 3), ("8KiB", 3), (9e3, 3), (np.int64(9000), 3), ("1GB", 1), (float("inf"), 1), ("5e3", TypeError), ("GB", TypeError), (0.5, ValueError)],
)
def test_shard_size_is_a_number_or_text(tmp_path: Path, size: Any, files: Any) -> None:
    whole = {name: np.ones(1000) for name in "ab"}
    if isinstance(files, int):
        dlbridge.save(tmp_path / "m.safetensors", whole, max_shard_bytes=size)
        assert len(os.listdir(tmp_path)) == files
    else:
        with pytest.raises(files, match="max_shard_bytes"):
            dlbridge.save(tmp_path / "m.safetensors", whole, max_shard_bytes=size)
