"""nanobind: tensors as arguments of C++ functions and their results as tensors, at the same address."""

import gc
import importlib.util
import os
import shutil
import subprocess
import sysconfig
from pathlib import Path
from typing import Any

import dlbridge
import pytest
from conftest import missing, require

np = require("numpy")
nanobind = require("nanobind")


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> Any:
    compiler = os.environ.get("CXX") or shutil.which("c++") or shutil.which("g++")
    include = Path(sysconfig.get_paths()["include"])
    if compiler is None or not (include / "Python.h").exists():
        missing("no C++ compiler was found, or Python's headers are not installed")
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    target = tmp_path_factory.mktemp("nanobind") / f"nanobind_module{suffix}"
    source, folder = Path(nanobind.source_dir()), Path(nanobind.__file__).parent
    includes = [include, nanobind.include_dir(), folder / "ext/robin_map/include"]
    sources = [source / "nb_combined.cpp", Path(__file__).with_name("nanobind_module.cpp")]
    flags = ["-std=c++17", "-shared", "-fPIC", "-fvisibility=hidden", "-fno-strict-aliasing", "-DNB_COMPACT_ASSERTIONS"]
    command = [compiler, *flags, *(f"-I{path}" for path in includes), *map(str, sources)]
    subprocess.run([*command, "-o", str(target)], check=True)
    spec = importlib.util.spec_from_file_location("nanobind_module", target)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("dtype", "code", "bits"),
    [
        *[("bool", 6, 8), ("int8", 0, 8), ("uint16", 1, 16), ("float16", 2, 16)],
        *[("bfloat16", 4, 16), ("complex128", 5, 128), ("float8_e4m3fn", 10, 8), ("int4", 0, 4)],
    ],
)
def test_every_dtype_reaches_cpp(module: Any, dtype: str, code: int, bits: int) -> None:
    tensor = dlbridge.empty((2, 3), dtype)
    described = module.describe(tensor)
    assert described == (tensor.address, [2, 3], [3, 1], code, bits, 1, 0)


@pytest.mark.parametrize(
    "view", [lambda a: a, lambda a: a.T, lambda a: a[::-1, ::2], lambda a: a[:0], lambda a: a[1:2, 3:4]]
)
def test_strides_and_shapes(module: Any, view: Any) -> None:
    array = view(np.arange(24, dtype="float32").reshape(4, 6))
    tensor = dlbridge.asdlpack(array)
    address, shape, strides, *_ = module.describe(tensor)
    assert (address, tuple(shape), tuple(strides)) == (tensor.address, array.shape, tensor.strides)
    assert array.size == 0 or address == array.ctypes.data


def test_writes_in_cpp_reach_the_source(module: Any) -> None:
    array = np.ones((2, 3), "float32")
    assert module.twice(dlbridge.asdlpack(array)) == array.ctypes.data
    assert array.tolist() == [[2, 2, 2], [2, 2, 2]]


def test_read_only_tensor_is_refused_for_writing(module: Any) -> None:
    numbers = bytes(np.ones(6, "float32"))
    tensor = dlbridge.asdlpack(memoryview(numbers).cast("f", (2, 3)))
    # nanobind imports by a legacy capsule, which cannot mark read-only data, so dlbridge copies it.
    assert module.describe(tensor)[0] != tensor.address
    with pytest.raises(TypeError, match="incompatible function arguments"):
        module.twice(tensor)
    assert bytes(np.ones(6, "float32")) == numbers


def test_array_of_nanobind_is_imported_and_freed_once(module: Any) -> None:
    before = module.living()
    made = module.make()
    tensor = dlbridge.asdlpack(made)
    assert (tensor.shape, tensor.dtype, tensor.readonly) == ((2, 3), "float32", False)
    assert tensor.copied is False
    del made
    assert tensor.numpy().tolist() == [[0, 1, 2], [3, 4, 5]]
    assert module.living() == before + 1
    assert module.twice(tensor) == tensor.address
    assert tensor.numpy().tolist() == [[0, 2, 4], [6, 8, 10]]
    del tensor
    gc.collect()
    assert module.living() == before
