"""What pytest finds when dlbridge is installed: a fixture."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dlbridge._core import live_exports
from dlbridge.testing import LeakedExports, exports_given_back

#: Whether the test itself ended with an exception.
RAISED = pytest.StashKey[bool]()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """Notes how the test ended; the report is made by others."""
    if call.when == "call":
        item.stash[RAISED] = call.excinfo is not None


@pytest.fixture
def no_leaked_exports(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fails the test if a tensor of dlbridge was lent in it and is still out at its end.

    A test that fails by itself is left alone: its traceback holds whatever it held.
    """
    try:
        with exports_given_back():
            yield
            if live_exports():
                # Values of fixtures that are torn down already, but for this reference.
                request.node.funcargs.clear()
    except LeakedExports:
        if not request.node.stash.get(RAISED, False):
            raise
