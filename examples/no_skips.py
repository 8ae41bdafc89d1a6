"""A plugin for pytest, `-p examples.no_skips`: a test that was skipped is a failure. For where everything is installed."""

from __future__ import annotations

import pytest


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fails the run if a test, or a file of them, was skipped; pytest prints the reasons."""
    reporter = session.config.pluginmanager.getplugin("terminalreporter")
    if reporter.stats.get("skipped"):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
