"""The fixtures that pytest finds when dlbridge is installed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dlbridge.testing import exports_given_back


@pytest.fixture
def no_leaked_exports() -> Iterator[None]:
    """Fails the test if a tensor of dlbridge was lent in it and is still out at its end."""
    with exports_given_back():
        yield
