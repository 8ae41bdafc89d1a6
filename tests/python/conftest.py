"""Shared by the tests: frameworks that may be missing, crafted tensors, other processes."""

import gc
import sys
from collections.abc import Iterator

import pytest
from frameworks import REQUIRED, missing, require
from native import Native

__all__ = ["missing", "require"]


def pytest_configure(config: pytest.Config) -> None:
    """JAX warns of a fork in its process; the children of these tests do not use JAX."""
    config.addinivalue_line("filterwarnings", r"ignore:os\.fork\(\) was called:RuntimeWarning")


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fails a run on Linux that skipped every test, if DLBRIDGE_REQUIRE is 1. Some files are only for Linux."""
    reporter = session.config.pluginmanager.getplugin("terminalreporter")
    ended = session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
    if not (REQUIRED and sys.platform == "linux" and ended) or reporter is None or session.config.option.collectonly:
        return
    if "skipped" in reporter.stats and not {"passed", "xfailed", "xpassed"} & set(reporter.stats):
        reporter.write_line("every test was skipped, and DLBRIDGE_REQUIRE is 1")
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.fixture(scope="module", autouse=True)
def frozen() -> None:
    """Lets collections of a test visit only what the tests of its file made: the frameworks have millions of objects."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def native() -> Iterator[Native]:
    """Crafts tensors. At the end of the test it checks that each was deleted exactly once."""
    native = Native()
    yield native
    if not native.all_deleted():
        gc.collect()
    assert native.all_deleted(), "a deleter was not called, or called twice"
