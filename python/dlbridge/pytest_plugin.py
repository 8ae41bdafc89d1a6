"""The pytest plugin of dlbridge: a fixture."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dlbridge._core import live_exports
from dlbridge.testing import LeakedExports, exports_released

#: True if the test itself raised an exception.
RAISED = pytest.StashKey[bool]()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """Notes how the test ended; pytest makes the report."""
    if call.when == "call":
        item.stash[RAISED] = call.excinfo is not None


@pytest.fixture
def no_leaked_exports(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fails the test if a consumer still holds a tensor of dlbridge that the test exported.

    A test that fails by itself gets no second error: its traceback still holds the objects of the test.
    """
    try:
        with exports_released():
            yield
            if live_exports():
                # This holds the values of fixtures after their teardown.
                request.node.funcargs.clear()
    except LeakedExports:
        if not request.node.stash.get(RAISED, False):
            raise
