"""Type checkers accept right code and refuse wrong code, line by line."""

import json
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path
from typing import Any

import dlbridge
import pytest
from frameworks import require_installed
from dlbridge import typing as dlbridge_typing

#: The checked program. The tests copy it to a folder outside of the installed packages, because mypy would treat
#: everything in their folder as its sources.
CASES = "typing_cases.py"


def marked(folder: Path) -> set[int]:
    """Copies the program to a folder, and returns the numbers of its lines that are marked as wrong."""
    text = Path(__file__).with_name(CASES).read_text(encoding="utf-8")
    (folder / CASES).write_text(text, encoding="utf-8")
    return {n for n, line in enumerate(text.splitlines(), 1) if "  # error: " in line}


def mypy(folder: Path, python: str = sys.executable, cache: Path | None = None) -> set[int]:
    """The lines that mypy refuses."""
    command = [sys.executable, "-m", "mypy", "--strict", "--python-executable", python]
    command += ["--cache-dir", str(cache or folder / "cache"), CASES]
    result = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    found = re.findall(r"typing_cases\.py:(\d+): error: ", result.stdout)
    summary = f"Found {len(found)} error" if found else "Success: no issues found in 1 source file"
    assert summary in result.stdout, result.stdout + result.stderr
    return {int(line) for line in found}


def pyright(folder: Path, python: str = sys.executable, mode: str = "strict") -> set[int]:
    """The lines that pyright refuses."""
    (folder / "pyrightconfig.json").write_text(json.dumps({"typeCheckingMode": mode}))
    command = [sys.executable, "-m", "pyright", "--pythonpath", python, "--outputjson"]
    result = subprocess.run([*command, CASES], capture_output=True, text=True, cwd=folder)
    report = json.loads(result.stdout)
    assert report["summary"]["filesAnalyzed"] == 1
    errors = [entry for entry in report["generalDiagnostics"] if entry["severity"] == "error"]
    return {entry["range"]["start"]["line"] + 1 for entry in errors}


@pytest.fixture(scope="module")
def mypy_cache(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Mypy's cache. All programs share it, and it is kept for the next run, because reading PyTorch's types takes long."""
    cache: pytest.Cache | None = getattr(request.config, "cache", None)
    return cache.mkdir("mypy") if cache else tmp_path_factory.mktemp("mypy_cache")


@pytest.mark.parametrize("checker", ["mypy", "pyright"])
def test_marked_lines_are_refused_and_no_others(
    checker: str, tmp_path: Path, mypy_cache: Path
) -> None:
    require_installed(checker)
    expected = marked(tmp_path)
    assert expected
    refused = mypy(tmp_path, cache=mypy_cache) if checker == "mypy" else pyright(tmp_path)
    assert refused == expected


#: For each library: the modules that it needs, and a program that uses it. The libraries of the last entry
#: do not ship types that mypy reads.
LIBRARIES = {
    "numpy": (
        ["numpy"],
        "import numpy\nassert_type(t.numpy(), numpy.ndarray[Any, Any])\n"
        "asdlpack(numpy.ones(3))\nasdlpack(numpy.float32(1))\nt.numpy().nothing  # error: ndarray[Any]",
    ),
    "torch": (
        ["torch"],
        "import torch\nassert_type(t.torch(), torch.Tensor)\nasdlpack(torch.ones(3))",
    ),
    "jax": (
        ["jax"],
        "import jax\nassert_type(t.jax(), jax.Array)\nasdlpack(jax.numpy.ones(3))\nt.jax().nothing  # error",
    ),
    "tensorflow": (
        ["tensorflow"],
        "import tensorflow  # type: ignore[import-untyped]\nasdlpack(tensorflow.constant([1]))\nasdlpack([tensorflow.ones(1)])  # error",
    ),
    "others": (
        ["pandas", "polars", "pyarrow", "PIL"],
        "import PIL.Image, polars\n"
        "import pandas  # type: ignore[import-untyped]\n"
        "import pyarrow  # type: ignore[import-untyped]\n"
        "asdlpack(pandas.Series([1]))\nasdlpack(pandas.DataFrame({'x': [1]}))\n"
        "asdlpack(polars.Series([1]))\nasdlpack(polars.DataFrame({'x': [1]}))\n"
        "asdlpack(pyarrow.array([1]))\nasdlpack(PIL.Image.new('L', (2, 2)))",
    ),
}


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("checker", ["mypy", "pyright"])
def test_tensor_of_an_installed_library_is_typed(
    checker: str, library: str, tmp_path: Path, mypy_cache: Path
) -> None:
    modules, program = LIBRARIES[library]
    require_installed(checker, *modules)
    head = "from typing import Any, assert_type\nfrom dlbridge import asdlpack\nt = asdlpack(b'abc')\n"
    (tmp_path / CASES).write_text(head + program + "\n")
    lines = (head + program).splitlines()
    expected = {number for number, line in enumerate(lines, 1) if "  # error" in line}
    refused = mypy(tmp_path, cache=mypy_cache) if checker == "mypy" else pyright(tmp_path, mode="standard")
    assert refused == expected


@pytest.mark.parametrize("checker", [mypy, pyright])
def test_tensor_without_the_libraries_has_no_errors(checker: Any, tmp_path: Path) -> None:
    """The environment has only dlbridge."""
    require_installed(checker.__name__)
    venv.create(tmp_path / "venv", with_pip=False)
    base = {"base": str(tmp_path / "venv"), "platbase": str(tmp_path / "venv")}
    packages = Path(sysconfig.get_path("purelib", "venv", base))
    source = Path(str(dlbridge.__file__)).parent
    shutil.copytree(source, packages / "dlbridge", ignore=shutil.ignore_patterns("tests", "*.so", "*.pyd"))
    python = Path(sysconfig.get_path("scripts", "venv", base)) / "python"
    program = "import dlbridge\nt = dlbridge.asdlpack(b'abc')\nprint(t.shape)\nlist[dlbridge.Tensor]([t])\n"
    (tmp_path / CASES).write_text(program)
    assert checker(tmp_path, str(python)) == set()
    (tmp_path / CASES).write_text(program + "t.numpy().any\nt.torch().any\nt.jax().any\ndlbridge.asdlpack([1])\n")
    options = {} if checker is mypy else {"mode": "standard"}
    assert checker(tmp_path, str(python), **options) == {8}


def test_protocols_support_isinstance() -> None:
    tensor = dlbridge.empty(3)
    for name in dlbridge_typing.__all__:
        if name.startswith("Supports"):
            protocol = getattr(dlbridge_typing, name)
            # Since 3.12, Python looks for the property and does not run it.
            refused = () if sys.version_info >= (3, 12) else ("CudaArrayInterface",)
            lacking = (*refused, "ArrowStream", "ArrowDeviceArray")
            there = name.removeprefix("Supports") not in lacking
            if name == "SupportsBuffer":
                # Python has the method since 3.12.
                there = sys.version_info >= (3, 12)
            else:
                assert not isinstance(b"abc", protocol)
            assert isinstance(tensor, protocol) == there, name
