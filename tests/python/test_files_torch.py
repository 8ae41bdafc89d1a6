"""``dlbridge.load`` of files that ``torch.save`` wrote: the same tensors as ``torch.load``, bit by bit, without its code."""

import importlib
import json
import pickle
import subprocess
import sys
import zipfile
from collections import Counter, OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dlbridge
import pytest
from conftest import require
from shared_segments import mapping

torch = require("torch")
checkpoint = importlib.import_module("checkpoints.write")

DTYPES = (
    "float64 float32 float16 bfloat16 int64 int32 int16 int8 uint8 bool complex64 complex128 uint16 uint32 uint64 "
    "float8_e4m3fn float8_e5m2 float8_e4m3fnuz float8_e5m2fnuz float8_e8m0fnu"
).split()


def flat(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """The tensors of nested dicts and lists, with their names."""
    if isinstance(value, torch.Tensor):
        yield name, value
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list | tuple) else ()
    for key, item in items:
        yield from flat(item, f"{name}.{key}" if name else str(key))


def bits(tensor: Any) -> bytes:
    return bytes(tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy()) if tensor.numel() else b""


def assert_same(path: Path) -> Any:
    """Asserts that a file has the same tensors for both libraries."""
    expected = dict(flat(torch.load(path, mmap=True, weights_only=True)))
    file = dlbridge.load(path, to="torch")
    assert list(file) == list(expected)
    for name, tensor in expected.items():
        found = file[name]
        assert (found.dtype, found.shape, found.stride()) == (tensor.dtype, tensor.shape, tensor.stride()), name
        assert bits(found) == bits(tensor), name
    return file


def random(dtype: str, *shape: int) -> Any:
    numbers = torch.arange(16 * torch.Size(shape).numel()).to(torch.uint8)
    itemsize = getattr(torch, dtype).itemsize
    numbers = (numbers % 2 if dtype == "bool" else numbers)[: itemsize * torch.Size(shape).numel()]
    return numbers.view(getattr(torch, dtype)).reshape(shape)


def test_dtypes_are_those_of_torch(tmp_path: Path) -> None:
    torch.save({dtype: random(dtype, 3, 4) for dtype in DTYPES}, tmp_path / "x.pt")
    assert_same(tmp_path / "x.pt")


def test_views_and_shared_storages_have_their_strides(tmp_path: Path) -> None:
    base = torch.arange(24.0).reshape(2, 3, 4)
    views = {
        "base": base,
        "again": base,
        "transposed": base.permute(2, 0, 1),
        "part": base[1, :, 1:3],
        "steps": base[:, ::2],
        "repeated": base[0, :1].expand(5, 4),
        "scalar": base[1, 2, 3],
        "empty": base[:0],
        "none": torch.empty(0, 3),
        "channels_last": torch.rand(1, 3, 4, 5).contiguous(memory_format=torch.channels_last),
    }
    path = tmp_path / "x.pt"
    torch.save(views, path)
    file = assert_same(path)
    part = dlbridge.load(path, to="numpy")["part"]
    assert mapping(part.ctypes.data).path == str(path)
    written = file["transposed"]
    written += 1
    assert_same(path)


def test_optimizer_and_module_of_a_training_are_nested_names(tmp_path: Path) -> None:
    module = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
    optimizer = torch.optim.Adam(module.parameters())
    module(torch.ones(2, 3)).sum().backward()
    optimizer.step()
    state = {
        "model": module.state_dict(),
        "optimizer": optimizer.state_dict(),
        "parameter": module[0].weight,
        "buffer": torch.nn.Buffer(torch.ones(2)),
        "list": [torch.ones(1), {"x": torch.ones(1)}],
    }
    torch.save(state, tmp_path / "x.pt")
    file = assert_same(tmp_path / "x.pt")
    assert "model.0.weight" in file
    assert "optimizer.state.0.exp_avg" in file
    assert file.metadata["optimizer.param_groups.0.betas"] == [0.9, 0.999]
    assert file.metadata["optimizer.param_groups.0.foreach"] is None
    assert file["parameter"].tolist() == module[0].weight.tolist()


def test_values_beside_tensors_are_metadata(tmp_path: Path) -> None:
    values = {
        "epoch": 3,
        "seed": 2**64 - 1,
        "negative": -(2**40),
        "loss": 0.5,
        "name": "größe",
        "none": None,
        "is_best": True,
        "size": torch.Size([2, 3]),
        "device": torch.device("cpu"),
        "cuda": torch.device("cuda", 1),
        "dtype": torch.bfloat16,
        "history": [[1, 0.5], [2, 0.25]],
        "counts": Counter("aab"),
        "nested": OrderedDict(a=OrderedDict(b=1)),
        "set": {7},
    }
    torch.save(values, tmp_path / "x.pt")
    assert dlbridge.load(tmp_path / "x.pt").metadata == {
        **{name: values[name] for name in ("epoch", "seed", "negative", "loss", "name", "none", "is_best", "history")},
        "size": [2, 3],
        "device": "cpu",
        "cuda": ["cuda", 1],
        "dtype": "torch.bfloat16",
        "counts.a": 2,
        "counts.b": 1,
        "nested.a.b": 1,
        "set": [7],
    }


def test_tensor_alone_is_loaded_as_a_tensor(tmp_path: Path) -> None:
    torch.save(torch.arange(3), tmp_path / "x.pt")
    assert dlbridge.load(tmp_path / "x.pt", to="numpy").tolist() == [0, 1, 2]


class Attack:
    """An object whose unpickling would run code."""

    def __reduce__(self) -> Any:
        return exec, ("raise SystemExit('code of a file ran')",)


def test_tensor_without_a_name_hides_no_other(tmp_path: Path) -> None:
    path = tmp_path / "model.pt"
    torch.save({"": torch.ones(2), "w": torch.zeros(3)}, path)
    loaded = dlbridge.load(path)
    assert {name: tensor.shape for name, tensor in loaded.items()} == {"": (2,), "w": (3,)}


@pytest.mark.filterwarnings("ignore")  # Of PyTorch, about quantised tensors.
def test_value_that_needs_code_is_refused_by_its_name(tmp_path: Path) -> None:
    path = tmp_path / "x.pt"
    quantised = torch.quantize_per_tensor(torch.ones(2), 1.0, 0, torch.qint8)
    bad = {"attack": Attack(), "path": Path("x"), "quantised": quantised, "sparse": torch.eye(2).to_sparse()}
    torch.save({"x": torch.ones(3), **bad, "conj": torch.ones(2, dtype=torch.complex64).conj()}, path)
    file = dlbridge.load(path)
    assert list(file) == ["x"]
    assert repr(file) == "<dlbridge.TensorFile of 1 tensors, 5 refused>"
    for name, message in {
        "attack": "it needs __builtin__.exec, which no state dict needs",
        "path": "it needs pathlib",
        "quantised": r"it needs torch._utils._rebuild_qtensor, which makes quantised tensors; save x.dequantize\(\)",
        "sparse": "it needs torch._utils._rebuild_sparse_tensor, which makes sparse tensors",
        "conj": "its conjugate or negative bit is set",
    }.items():
        with pytest.raises(ValueError, match=f'x.pt: tensor "{name}": {message}'):
            file[name]
        assert message.replace("\\", "") in file.refused[name]
    torch.save(Attack(), path)
    with pytest.raises(ValueError, match="__builtin__.exec"):
        dlbridge.load(path)
    torch.save(torch.nn.Linear(2, 2), path)
    with pytest.raises(ValueError, match="torch.nn.modules.linear.Linear, which no state dict needs; save that"):
        dlbridge.load(path)


def test_names_of_two_values_are_refused_and_others_are_not(tmp_path: Path) -> None:
    torch.save({"a": {"b": torch.ones(1)}, "a.b": torch.zeros(1), "c": torch.ones(2)}, tmp_path / "x.pt")
    file = dlbridge.load(tmp_path / "x.pt", to="numpy")
    assert file.refused == {"a.b": "two values have this name; rename one, or use torch.load"}
    assert list(file) == ["c"] and file["c"].tolist() == [1, 1]


def test_tensors_of_one_storage_share_its_memory(tmp_path: Path) -> None:
    path, base = tmp_path / "x.pt", torch.arange(6.0)
    torch.save({"tied": base, "again": base, "last": base[4:], "alone": torch.ones(6)}, path)
    for to, options in ("torch", {}), ("numpy", {"writable": True}):
        file = dlbridge.load(path, to=to, **options)
        tied, last, alone = file["tied"], file["last"], file["alone"]
        tied[5] = 7
        alone[:] = 0
        assert (file["again"].tolist(), last.tolist()) == ([0, 1, 2, 3, 4, 7], [4, 7])
        assert file["alone"].tolist() == [1] * 6
        del file, tied, last
        assert dlbridge.load(path, to=to)["tied"].tolist() == [0, 1, 2, 3, 4, 5]
    shared = dlbridge.load(path, to="torch")
    assert shared["tied"].data_ptr() == shared["again"].data_ptr() == shared["last"].data_ptr() - 16


@pytest.mark.parametrize("release", ["1.13.1", "2.10.0"])
def test_checkpoint_of_an_older_release_has_the_same_bits(release: str) -> None:
    file = assert_same(Path(checkpoint.__file__).with_name(f"torch-{release}.pt"))
    dtypes = checkpoint.DTYPES if release == "1.13.1" else f"{checkpoint.DTYPES} {checkpoint.NEWER}"
    state = checkpoint.state(dtypes)
    assert {name: bits(tensor) for name, tensor in file.items()} == {name: bits(tensor) for name, tensor in flat(state)}
    assert not file.refused
    assert file.metadata == {"epoch": 3, "betas": [0.9, 0.999], "name": state["name"], "list.1.deep.1": 3}


def test_checkpoint_is_loaded_without_torch(tmp_path: Path) -> None:
    torch.save({"x": torch.ones(3, dtype=torch.bfloat16)}, tmp_path / "x.pt")
    code = "import dlbridge, sys; print(dlbridge.load(sys.argv[1])['x'].shape, 'torch' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code, tmp_path / "x.pt"], capture_output=True, text=True, check=True)
    assert ran.stdout == "(3,) False\n"


def test_forms_that_are_not_read_are_refused_in_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "x.pt"
    torch.save({"x": torch.ones(3)}, path, _use_new_zipfile_serialization=False)
    with pytest.raises(ValueError, match="before 1.6; load it with torch.load, and save it again"):
        dlbridge.load(path)
    torch.save({"x": torch.ones(3)}, path, pickle_protocol=4)
    with pytest.raises(ValueError, match="its pickle has protocol 4; save it without pickle_protocol"):
        dlbridge.load(path)
    torch.save({"x": torch.ones(3)}, path)
    with zipfile.ZipFile(path) as stored, zipfile.ZipFile(tmp_path / "y.pt", "w", zipfile.ZIP_DEFLATED) as deflated:
        for name in stored.namelist():
            deflated.writestr(name, stored.read(name))
    with pytest.raises(ValueError, match="is compressed or encrypted; load it with torch.load, and save it again"):
        dlbridge.load(tmp_path / "y.pt")
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ValueError, match="not a valid zip file: .* download it again"):
        dlbridge.load(path)


def test_shards_of_a_checkpoint_are_one_model(tmp_path: Path) -> None:
    torch.save({"a": torch.ones(3), "n": 1}, tmp_path / "pytorch_model-00001-of-00002.bin")
    torch.save({"b": torch.zeros(2)}, tmp_path / "pytorch_model-00002-of-00002.bin")
    places = {"a": "pytorch_model-00001-of-00002.bin", "b": "pytorch_model-00002-of-00002.bin"}
    index = tmp_path / "pytorch_model.bin.index.json"
    index.write_text(json.dumps({"metadata": {"total_size": 20}, "weight_map": places}))
    file = dlbridge.load(index, to="numpy")
    assert {name: array.tolist() for name, array in file.items()} == {"a": [1, 1, 1], "b": [0, 0]}
    assert list(pickle.loads(pickle.dumps(file))) == ["a", "b"]
