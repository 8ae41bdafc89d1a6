"""The options of pytest that check libraries: ``pytest --dlpack LIBRARY``."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options of the conformance kit."""
    group = parser.getgroup("dlpack", "DLPack conformance")
    group.addoption(
        "--dlpack", action="append", default=[], metavar="LIBRARY",
        help="also check the rules of DLPack for a library: a module with from_dlpack, or what else dlbridge-conformance "
        "takes; -m dlpack runs only these rules",
    )  # fmt: skip
    group.addoption(
        "--dlpack-rule", action="append", default=[], metavar="ID", help="run only this rule, or the rules whose ids begin with ID"
    )
    group.addoption(
        "--dlpack-known-failures", metavar="FILE", help="broken rules in this file are expected failures; for one library"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Adds the conformance kit if ``--dlpack`` is given."""
    config.addinivalue_line("markers", "dlpack: a rule of DLPack, by --dlpack LIBRARY")
    if libraries := config.getoption("dlpack"):
        from dlbridge_conformance.plugin import Plugin

        known = config.getoption("dlpack_known_failures")
        config.pluginmanager.register(Plugin(libraries, config.getoption("dlpack_rule"), known), "dlpack-conformance")
