"""A pytest plugin, `-p examples.no_skips`: skipped tests fail the run. For machines where everything is installed."""

from __future__ import annotations

import pytest


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fails the run if a test or a file was skipped; pytest prints the reasons."""
    reporter = session.config.pluginmanager.getplugin("terminalreporter")
    if reporter.stats.get("skipped"):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
