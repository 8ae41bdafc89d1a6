"""The options of the GPU suite, and the fixture `bench` of every test."""

import gc
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from driver import Driver, NoDevice
from libraries import NAMES, Library, made

STAND_IN = "These results are from a stand-in for the driver over host memory. They are NOT GPU RESULTS."


@dataclass
class Bench:
    """The objects that a test uses."""

    driver: Driver
    library: Library

    @property
    def is_hardware(self) -> bool:
        """True for a GPU, false for the stand-in."""
        return self.driver.is_hardware

    def second_device(self) -> int:
        """Returns the number of a device other than the first."""
        if self.driver.devices < 2:
            pytest.skip("the machine has one device")
        return 1


def until(is_so: Callable[[], bool], what: str) -> None:
    """Waits until a condition is true; raises AssertionError after ten seconds."""
    deadline = time.monotonic() + 10
    while not is_so():
        assert time.monotonic() < deadline, what
        time.sleep(0.001)


def pytest_addoption(parser: pytest.Parser) -> None:
    """One library in each run, because they would disturb each other in one process."""
    parser.addoption("--library", choices=NAMES, default="driver", help="by default the driver's own arrays")
    parser.addoption("--stand-in", type=Path, help="a library in place of the driver; it is not a GPU")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "only(*names): the libraries that the test is for, if not all")


def pytest_report_header(config: pytest.Config) -> str | None:
    return STAND_IN if config.option.stand_in else None


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if config.option.stand_in:
        terminalreporter.write_line(STAND_IN)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out the tests that are not for the library."""
    marks = [(item, item.get_closest_marker("only")) for item in items]
    items[:] = [item for item, only in marks if only is None or config.option.library in only.args]


@pytest.fixture(scope="session")
def library(pytestconfig: pytest.Config) -> Library:
    """The library of this run."""
    try:
        return made(pytestconfig.option.library, Driver(pytestconfig.option.stand_in))
    except NoDevice as why:
        pytest.skip(f"no CUDA device here: {why}; nothing was run on hardware")


@pytest.fixture
def bench(library: Library) -> Iterator[Bench]:
    """The library and the driver. After the test the driver must have counted no use of freed memory."""
    faults = library.driver.faults
    yield Bench(library.driver, library)
    gc.collect()
    library.driver.wait_for_all()
    assert library.driver.faults == faults, "freed memory was used"
