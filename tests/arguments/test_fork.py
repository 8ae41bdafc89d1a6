"""Forks while other threads hold locks: no child hangs, and the parent continues."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from frameworks import LEFT_OUT, REQUIRED, missing
from processes import output
from stand_in import build, compiled

FOLDER = Path(__file__).parent

#: The folder with the extension built on rust-numpy. The children use the extension if the variable is set.
RUST_NUMPY = os.environ.get("DLBRIDGE_RUST_NUMPY", "")

#: Seconds for the process that forks. The children have a limit of their own.
LIMIT = 300


@pytest.fixture(scope="module")
def deleters(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(FOLDER / "deleters.c", tmp_path_factory.mktemp("deleters") / "deleters.so", "-O1", "-Wall")


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The path of the stand-in for the CUDA driver on Linux, and an empty string on other systems."""
    if sys.platform != "linux":
        return ""
    return str(build(tmp_path_factory.mktemp("driver")))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform does not have os.fork")
@pytest.mark.parametrize(("fed", "forks"), [("borrowed", 1000), ("on a device", 400)])
def test_fork_while_threads_run_deleters_hangs_no_child(
    deleters: Path, driver: str, fed: str, forks: int
) -> None:
    if fed == "on a device" and not driver:
        missing("the stand-in for the driver of CUDA is for Linux")
    if not RUST_NUMPY and REQUIRED and "rust-numpy" not in LEFT_OUT:
        pytest.fail("DLBRIDGE_RUST_NUMPY does not name the folder of the extension", pytrace=False)
    program = str(FOLDER / "fork_program.py")
    command = [sys.executable, program, str(deleters), str(forks), fed, driver, RUST_NUMPY]
    # Otherwise OpenBLAS stops and restarts its threads at each fork, which takes a fifth of the time.
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    result = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, env=environment)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == f"{{0: {forks}}}\n"


#: A thread is stopped while it imports a module of the package, and the process forks. The child gets the same outcome, or
#: the one that is given.
FORK_IN_IMPORT = """
import os, signal, sys, threading
from functools import partial
from importlib.machinery import PathFinder
import numpy as np
import typed_arguments as typed

MODULE, ARGUMENT, IN_CHILD = {module!r}, {argument}, {in_child!r}

importing, forked = threading.Event(), threading.Event()

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == MODULE and threading.current_thread() is thread:
            spec = PathFinder.find_spec(name, path)
            spec.loader.exec_module = partial(execute, spec.loader.exec_module)
            return spec

def execute(execute, module):
    importing.set()
    assert forked.wait(60)
    execute(module)

def called():
    try:
        return typed.mean(ARGUMENT)
    except (TypeError, ImportError) as error:
        return type(error).__name__, str(error), getattr(error, "__notes__", None)

found = []
thread = threading.Thread(target=lambda: found.append(called()))
sys.meta_path.insert(0, Finder())
thread.start()
assert importing.wait(60)
if (child := os.fork()) == 0:
    # The child ends by the signal if it hangs.
    signal.alarm(20)
    os._exit(0 if called() == called() == IN_CHILD else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
forked.set()
thread.join()
assert found == [called()]
print(*found)
if (child := os.fork()) == 0:
    signal.alarm(20)
    os._exit(0 if called() == found[0] else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


#: The object and its memory, which only the package imports.
INTERFACE = """type("Array", (), {"__array_interface__": np.ones((2, 2), "f4").__array_interface__, "of": np})()"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform does not have os.fork")
@pytest.mark.parametrize(
    ("module", "argument", "outcome", "in_child"),
    [
        (
            "dlbridge._errors", "np.zeros(3)",
            ("TensorMismatchError", "argument 'x': expected float32[_, _] on cpu; got float64[3] on cpu", None),
            ("TypeError", "expected float32[_, _] on cpu; got float64[3] on cpu", ["while processing 'x'"]),
        ),
        (
            "dlbridge", INTERFACE, 1.0,
            ("ImportError", "another thread was importing the package dlbridge when this process was forked; import dlbridge before", ["while processing 'x'"]),
        ),
    ],
    ids=["exceptions", "package"],
)  # fmt: skip
def test_fork_while_a_thread_imports_the_package_hangs_no_child(module: str, argument: str, outcome: object, in_child: object) -> None:
    program = FORK_IN_IMPORT.format(module=module, argument=argument, in_child=in_child)
    assert output(program, options=["-W", "ignore"]) == f"0\n{outcome}\n0\n"
