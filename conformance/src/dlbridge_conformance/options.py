"""The options of pytest that check libraries: ``pytest --dlpack LIBRARY``."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options of the conformance kit."""
    group = parser.getgroup("dlpack", "DLPack conformance")
    group.addoption(
        "--dlpack", action="append", default=[], metavar="LIBRARY",
        help="also check the rules of DLPack for a library, or for an adapter module:Class; "
        "-m dlpack runs only these rules",
    )  # fmt: skip
    group.addoption(
        "--dlpack-rule", action="append", default=[], metavar="ID", help="run only this rule, or the rules whose ids begin with ID"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Adds the conformance kit if ``--dlpack`` is given."""
    config.addinivalue_line("markers", "dlpack: a rule of DLPack, by --dlpack LIBRARY")
    if libraries := config.getoption("dlpack"):
        from dlbridge_conformance.plugin import Plugin

        config.pluginmanager.register(Plugin(libraries, config.getoption("dlpack_rule")), "dlpack-conformance")
