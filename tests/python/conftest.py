"""What the tests share: frameworks that may be missing, the compiled helper, other processes."""

from __future__ import annotations

import gc
import importlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

import native as native_module
import pytest
from native import Native

#: Whether what is missing is a failure and not a skip.
REQUIRED = os.environ.get("DLBRIDGE_REQUIRE") == "1"


def missing(reason: str) -> NoReturn:
    """Skips the test or the file, or fails it where nothing may be missing."""
    if REQUIRED:
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason, allow_module_level=True)


def require(name: str) -> Any:
    """A framework, as a module; without it the test file is skipped, or fails."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name.partition(".")[0]:
            raise
        missing(f"{name} is not installed")


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Native:
    """native.c, compiled and loaded."""
    compiler = native_module.compiler()
    if compiler is None:
        missing("there is no C compiler")
    return native_module.load(native_module.build(tmp_path_factory.mktemp("native"), compiler))


@pytest.fixture
def native(library: Native) -> Iterator[Native]:
    """The compiled helper; every tensor that the test crafted must be deleted exactly once."""
    native = Native(library.library, library.path)
    yield native
    if not native.all_deleted():
        gc.collect()
    assert native.all_deleted(), "a deleter was not called, or called twice"


Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def run() -> Run:
    """Runs Python code in a process of its own, with the test helpers on its path.

    ``options`` are those of the interpreter; by default it checks itself, and warnings are errors.
    """

    def run(
        code: str, *arguments: str, options: Sequence[str] = ("-X", "dev", "-W", "error")
    ) -> subprocess.CompletedProcess[str]:
        path = [str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path)}
        command = [sys.executable, *options, "-c", code, *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)

    return run
