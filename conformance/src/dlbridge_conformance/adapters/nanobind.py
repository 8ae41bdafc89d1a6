"""nanobind: a C++ extension that is compiled on first use, and cached."""

from __future__ import annotations

import ctypes
import hashlib
import importlib
import importlib.util
import os
import shutil
import subprocess
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from dlbridge_conformance import elements
from dlbridge_conformance.adapter import WithStrides
from dlbridge_conformance.crafter import DTYPES, Ints, c_strides

SOURCE = Path(__file__).with_name("nanobind_module.cpp")
NAME = "dlbridge_conformance_nanobind"


class NanoBind(WithStrides):
    """nanobind. An argument ``nb::ndarray<>`` is its consumer, a result ``nb::ndarray<nb::array_api>`` its producer."""

    name = module = "nanobind"
    dtypes = tuple(DTYPES)
    functions: Any

    def is_installed(self) -> bool:
        """Returns whether nanobind, a C++ compiler and Python's headers are installed."""
        return super().is_installed() and _compiler() is not None and (_include() / "Python.h").exists()

    def load(self) -> None:
        """Compiles the extension unless it is cached, and imports it."""
        spec = importlib.util.spec_from_file_location(NAME, self._compiled())
        assert spec is not None
        assert spec.loader is not None
        self.functions = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(self.functions)

    def array(self, values: Any, dtype: str = "float32") -> Any:
        shape, data = elements.shape_of(values), elements.packed(elements.flat(values), dtype)
        memory = ctypes.create_string_buffer(data, max(len(data), 1))
        return self._over(ctypes.addressof(memory), shape, c_strides(shape), dtype, False, memory)

    def from_dlpack(self, producer: Any, **keywords: Any) -> Any:
        return self.functions.from_dlpack(producer, **keywords)

    def values(self, array: Any) -> Any:
        address, shape, strides, dtype = self.functions.describe(array)
        return elements.at(address, elements.name_of(dtype), shape, strides)

    def address(self, array: Any) -> int:
        return int(self.functions.describe(array)[0])

    def layout(self, array: Any) -> tuple[Ints, Ints]:
        _, shape, strides, _ = self.functions.describe(array)
        return shape, strides

    def view(self, array: Any, shape: Ints, strides: Ints, first: int = 0, read_only: bool = False) -> Any:
        """Makes a view. The view of a read-only array is read-only."""
        address, _, _, dtype = self.functions.describe(array)
        read_only = read_only or not self._is_writable(array)
        return self._over(address + first * dtype[1] // 8, shape, strides, elements.name_of(dtype), read_only, array)

    def read_only(self, array: Any) -> Any:
        return self.view(array, *self.layout(array), read_only=True)

    def write(self, array: Any, value: float) -> None:
        address, _, _, dtype = self.functions.describe(array)
        data = elements.packed([value], elements.name_of(dtype))
        ctypes.memmove(address, data, len(data))

    def _is_writable(self, array: Any) -> bool:
        """Returns whether an argument of writable type accepts the array."""
        try:
            self.functions.from_dlpack(array)
        except TypeError:
            return False
        return True

    def _over(self, address: int, shape: Any, strides: Any, dtype: str, read_only: bool, owner: Any) -> Any:
        code, bits, _ = DTYPES[dtype]
        return self.functions.make(address, list(shape), list(strides), code, bits, read_only, owner)

    def _compiled(self) -> Path:
        """The path of the extension. Each version of nanobind, of Python and of the source has its own."""
        suffix = str(sysconfig.get_config_var("EXT_SUFFIX"))
        key = hashlib.sha256(SOURCE.read_bytes() + f"{self.version()}{suffix}".encode()).hexdigest()[:16]
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dlbridge" / "conformance"
        target = cache / f"{NAME}-{key}{suffix}"
        if not target.exists():
            cache.mkdir(parents=True, exist_ok=True)
            _compile(target)
        return target


def _compiler() -> str | None:
    """A C++ compiler."""
    return os.environ.get("CXX") or shutil.which("c++") or shutil.which("g++")


def _include() -> Path:
    """The folders of Python's headers."""
    return Path(sysconfig.get_paths()["include"])


def _compile(target: Path) -> None:
    """Compiles the extension under a temporary name, so that no process loads an incomplete file."""
    nanobind: Any = importlib.import_module("nanobind")
    folder = Path(nanobind.__file__).parent
    includes = [_include(), nanobind.include_dir(), folder / "ext/robin_map/include"]
    sources = [Path(nanobind.source_dir()) / "nb_combined.cpp", SOURCE]
    flags = ["-std=c++17", "-O1", "-shared", "-fPIC", "-fvisibility=hidden", "-fno-strict-aliasing"]
    with tempfile.TemporaryDirectory(dir=target.parent) as folder_of_it:
        made = Path(folder_of_it) / target.name
        command = [str(_compiler()), *flags, *(f"-I{path}" for path in includes), *map(str, sources), "-o", str(made)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise ImportError(f"nanobind's extension does not compile: {done.stderr[-2000:]}")
        made.replace(target)
