"""A library without an adapter is checked by the names of the array API."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import require
from dlbridge_conformance import ModuleAdapter
from dlbridge_conformance.registry import adapter_named
from own_adapter import command

#: a library with ``from_dlpack`` and arrays of dlbridge, and modules that lack something
LIBRARY = """
import dlbridge
from dlbridge import from_dlpack

class Array:
    from_dlpack = staticmethod(from_dlpack)

number = 3
"""

CRASHES = """
import ctypes, os, dlbridge

def from_dlpack(x, **keywords):
    if "copy" in keywords:
        os.abort()
    if keywords:
        ctypes.string_at(0)
    return dlbridge.from_dlpack(x)
"""

REFUSES = """
def from_dlpack(x, mode):
    return x
"""


#: a library whose arrays lack shape, dtype, T and an address
SHAPELESS = """
import dlbridge

class Array:
    def __init__(self, tensor):
        self._tensor = tensor
    def tolist(self):
        return self._tensor.tolist()
    def __getitem__(self, index):
        return Array(self._tensor[index])
    def __setitem__(self, index, value):
        raise TypeError("arrays never change")
    def __dlpack__(self, **keywords):
        return self._tensor.__dlpack__(**keywords)
    def __dlpack_device__(self):
        return self._tensor.__dlpack_device__()

def from_dlpack(x, **keywords):
    return Array(dlbridge.from_dlpack(x, **keywords))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A directory with the modules."""
    modules = {"mylib": LIBRARY, "crashlib": CRASHES, "refuselib": REFUSES, "shapeless": SHAPELESS}
    for name, text in modules.items():
        Path(tmp_path, f"{name}.py").write_text(text)
    return tmp_path


def outcomes(folder: Path, library: str, *rules: str) -> dict[str, Any]:
    """The status of each rule."""
    selection = [word for rule in rules for word in ("--rule", rule)]
    done = command(folder, library, *selection, "-q", "--json", "report.json")
    assert done.returncode in (0, 1), done.stderr
    (checked,) = json.loads(Path(folder, "report.json").read_text())["libraries"]
    return {result["rule"]: result["status"] for result in checked["results"]}


@pytest.mark.parametrize("library", ["numpy:from_dlpack", "array_api_strict", "torch:from_dlpack"])
def test_module_has_the_outcomes_of_its_adapter(folder: Path, library: str) -> None:
    module = library.partition(":")[0]
    require(module)
    rules = ("P-STRUCT", "P-VIEWS", "C-LAYOUT", "C-VERSION")
    own = outcomes(folder, module.replace("_", "-"), *rules)
    found = outcomes(folder, library, *rules)
    lacking = {id for id, status in found.items() if status == "not applicable"}
    differing = {id: (own[id], found[id]) for id in own if id not in lacking and own[id] != found[id]}
    assert differing == {}
    assert sum(status == "passed" for status in found.values()) > 30


@pytest.mark.parametrize("library", ["shapeless", "awkward"])
def test_array_without_shape_breaks_no_rule_by_that(folder: Path, library: str) -> None:
    if library != "shapeless":
        require(library)
    done = command(folder, library, "-q", "--json", "r.json", "--rule", "C-LIFETIME", "--rule", "C-FLAG", "--rule", "P-VIEWS")
    assert done.returncode in (0, 1), done.stderr
    (checked,) = json.loads(Path(folder, "r.json").read_text())["libraries"]
    found = {result["rule"]: (result["status"], result["detail"]) for result in checked["results"]}
    assert [rule for rule, (status, detail) in found.items() if status == "failed" and "Attribute" in detail] == []
    assert found["C-LIFETIME-VIEW"][0] == "not applicable"
    assert found["C-LIFETIME-VIEW"][1].startswith("the kit's sliced() needs what these arrays lack: ")
    assert found["C-LIFETIME-TWICE"][0] == "passed"


def test_small_floats_that_onnxruntime_returns_as_bytes_break_no_rule(folder: Path) -> None:
    require("onnxruntime")
    found = outcomes(folder, "onnxruntime", "C-DTYPE-FLOAT8-E4M3FN", "C-DTYPE-FLOAT4-E2M1FN")
    assert set(found.values()) == {"not applicable"}


@pytest.mark.parametrize("library", ["mylib", "mylib:Array", "mylib:Array.from_dlpack", "mylib:from_dlpack"])
def test_library_can_be_named_in_each_way(folder: Path, library: str) -> None:
    done = command(folder, library, "--rule", "C-DELETER-ONCE", "--rule", "P-CAPSULE-TYPE")
    assert done.returncode == 0, done.stderr
    assert f"{library} C-DELETER-ONCE: passed" in done.stdout
    assert f"{library} P-CAPSULE-TYPE: passed" in done.stdout
    assert done.stderr.startswith(f"{library} unknown: checked by the names of the array API\n    arrays: imported by from_dlpack, int8")


@pytest.mark.parametrize(
    ("library", "message"),
    [
        ("json", "json lacks from_dlpack, and asarray or array that makes arrays with __dlpack__. Name the "),
        ("nix", "unknown library 'nix': neither an adapter of the kit nor a module of "),
        ("refuselib", "refuselib does not import a plain float32 tensor on the CPU and return its elements: TypeError: "),
        ("mylib:number", "mylib:number is not an adapter, a class or a function, but of int; to write an adapter: "),
        ("mylib:Array.nix", "cannot load the adapter mylib:Array.nix: "),
        ("json:JSONDecoder", "json:JSONDecoder is not a subclass of dlbridge_conformance.Adapter, and lacks from_dlpack; "),
    ],
)
def test_library_without_functions_is_refused(folder: Path, library: str, message: str) -> None:
    done = command(folder, library)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(message)
    assert done.stderr.count("\n") == 1


def test_crashes_do_not_end_the_report(folder: Path) -> None:
    done = command(folder, "crashlib", "--rule", "C-COPY", "--rule", "C-DEVICE-KEYWORD", "--rule", "C-DELETER", "--json", "r.json")
    assert done.returncode == 1, done.stderr
    (library,) = json.loads(Path(folder, "r.json").read_text())["libraries"]
    found = {result["rule"]: (result["status"], result["signal"]) for result in library["results"]}
    assert found["C-COPY-KEYWORD"] == ("crashed", "SIGABRT")
    assert found["C-DEVICE-KEYWORD"] == ("crashed", "SIGSEGV")
    assert found["C-DELETER-ONCE"] == ("passed", None)
    assert len(found) > 20


def test_library_that_ends_its_process_on_import_is_reported(folder: Path) -> None:
    Path(folder, "deadlib.py").write_text("import os\nos.abort()\n")
    done = command(folder, "deadlib", "--rule", "C-DELETER", "-q")
    assert done.returncode == 1, done.stderr
    assert "the library could not be imported: the process died of SIGABRT" in done.stdout


def test_methods_of_a_subclass_are_used(folder: Path) -> None:
    require("numpy")
    adapter = "from dlbridge_conformance import ModuleAdapter\nclass Mine(ModuleAdapter):\n    module = 'numpy'\n"
    Path(folder, "mine.py").write_text(
        f"{adapter}    def array(self, values, dtype='float32'):\n        return self.numpy.array(values, 'float64')\n"
    )
    done = command(folder, "mine:Mine", "--rule", "P-DTYPES-FLOAT64")
    assert "    arrays: made by the adapter, float64\n" in done.stderr, done.stderr


def test_views_that_are_copies_do_not_count() -> None:
    numpy = require("numpy")
    library = adapter_named("numpy:from_dlpack")
    assert isinstance(library, ModuleAdapter)
    library.load()
    array = numpy.arange(6.0).reshape(3, 2)
    assert library.values(library.reversed(array)) == [[4.0, 5.0], [2.0, 3.0], [0.0, 1.0]]
    with pytest.raises(Exception, match="makes a copy and not a view"):
        library._view(array, array[1:].copy())


# ------------------------------------------------------------------------------------------------- the search path


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The root of a project whose library and whose ``json`` hide the installed modules if it is searched first."""
    for name in ("mylib", "json"):
        Path(tmp_path, "root", name).mkdir(parents=True)
        Path(tmp_path, "root", name, "__init__.py").write_text("raise ImportError('a module of the current folder')\n")
    installed = tmp_path / "installed"
    installed.mkdir()
    Path(installed, "mylib.py").write_text(LIBRARY)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(installed), *filter(None, [os.environ.get("PYTHONPATH")])]))
    return tmp_path / "root"


@pytest.mark.parametrize("program", [("-m", "dlbridge_conformance"), (str(Path(sys.executable).with_name("dlbridge-conformance")),)])
@pytest.mark.parametrize("library", ["mylib", "mylib:from_dlpack", "mine:Mine"])
def test_current_folder_does_not_hide_installed_modules(checkout: Path, program: tuple[str, ...], library: str) -> None:
    adapter = "from dlbridge_conformance import ModuleAdapter\nclass Mine(ModuleAdapter):\n    module = 'mylib'\n"
    Path(checkout, "mine.py").write_text(adapter)
    # The second rule starts a process of its own.
    command = [sys.executable, *program, library, "--rule", "C-DELETER-ONCE", "--rule", "C-DELETER-EXIT-CLEAN", "-q"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=checkout, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"{library} C-DELETER-ONCE: passed" in done.stdout
    assert f"{library} C-DELETER-EXIT-CLEAN: passed" in done.stdout


@pytest.mark.parametrize("options", [["-mdlbridge_conformance"], ["-um", "dlbridge_conformance"], ["-X", "dev", "-m", "dlbridge_conformance"]])
def test_current_folder_is_last_in_every_spelling_of_the_option(checkout: Path, options: list[str]) -> None:
    done = subprocess.run([sys.executable, "-W", "ignore", *options, "--help"], capture_output=True, text=True, cwd=checkout)
    assert (done.returncode, done.stderr) == (0, "")


# ------------------------------------------------------------------------------------------------- faulty adapters

FAULTY = """
from dlbridge_conformance import Adapter, ModuleAdapter

class Bare(Adapter):
    name = "bare"

class BareModule(ModuleAdapter):
    pass

class Mine(Adapter):
    name = module = "faulty"

class Unmakeable(Mine):
    def __init__(self):
        raise RuntimeError("no licence")

class Versionless(Mine):
    def version(self):
        raise OSError("no file")

class Unsure(Mine):
    def is_installed(self):
        raise ValueError("no driver")

class Unloadable(Mine):
    def load(self):
        raise OSError("no driver")

class Leaving(Mine):
    def version(self):
        raise SystemExit(0)

class LeavingEarly(Mine):
    def __init__(self):
        raise SystemExit(0)

class Number(Mine):
    def version(self):
        return 7.5
"""
MODULES = {"syntax": "def", "raises": "raise RuntimeError('no GPU')", "leaves": "import sys\nsys.exit(0)"}


@pytest.fixture
def faulty(folder: Path) -> Path:
    """A directory with faulty adapters."""
    for name, text in (MODULES | {"faulty": FAULTY}).items():
        Path(folder, f"{name}.py").write_text(text)
    return folder


WRONG = [
    ("syntax:X", "cannot load the adapter syntax:X: SyntaxError: invalid syntax"),
    ("raises:X", "cannot load the adapter raises:X: RuntimeError: no GPU"),
    ("raises.part", "cannot import the package of raises.part: RuntimeError: no GPU"),
    ("leaves:X", "cannot load the adapter leaves:X: SystemExit: 0"),
    ("faulty:Bare", "the adapter faulty:Bare lacks the attribute module, the name of the module to import"),
    ("faulty:BareModule", "the adapter faulty:BareModule lacks the attribute module, the name of the module to import"),
    ("faulty:Unmakeable", "cannot make the adapter faulty:Unmakeable: RuntimeError: no licence"),
    ("faulty:Versionless", "version() of the adapter faulty:Versionless raised OSError: no file"),
    ("faulty:Leaving", "version() of the adapter faulty:Leaving raised SystemExit: 0"),
    ("faulty:LeavingEarly", "cannot make the adapter faulty:LeavingEarly: SystemExit: 0"),
    ("faulty:Unsure", "is_installed() of the adapter faulty:Unsure raised ValueError: no driver"),
]


@pytest.mark.parametrize(("library", "message"), WRONG)
def test_faulty_adapter_is_refused(faulty: Path, library: str, message: str) -> None:
    done = command(faulty, library, "--rule", "P-CAPSULE-TYPE")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.stderr
    assert done.stderr.startswith(message)


def test_version_that_is_not_text_is_shown(faulty: Path) -> None:
    done = command(faulty, "faulty:Number", "--rule", "P-CAPSULE-TYPE", "-q", "--junit", "r.xml")
    assert (done.returncode, done.stderr) == (0, "")
    assert "faulty:Number  7.5 " in done.stdout
