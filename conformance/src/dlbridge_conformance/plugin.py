"""Runs the rules as test items: ``pytest --dlpack LIBRARY``."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from dlbridge_conformance import known_failures
from dlbridge_conformance.adapter import Adapter, adapter_named, ask, version_of
from dlbridge_conformance.module_adapter import ModuleAdapter
from dlbridge_conformance.process import Server, found
from dlbridge_conformance.report.text import account
from dlbridge_conformance.result import Report, Status
from dlbridge_conformance.rule import Level, Rule, selected
from dlbridge_conformance.search_path import search_here


class RuleBroken(Exception):
    """A library broke a rule. The text is the full account."""


class LibraryRules(pytest.Collector):
    """All rules for a library."""

    adapter: Adapter
    rules: dict[str, Rule]
    #: the ids of rules whose breaks are known
    known: dict[str, str]

    def collect(self) -> Iterator[pytest.Item]:
        """Yields an item for each rule."""
        for rule in self.rules.values():
            yield RuleItem.of(self, rule)

    def setup(self) -> None:
        """Starts the process of the library. It ends with the last item."""
        self.server = Server(self.adapter.name)
        self.addfinalizer(self.server.close)


class RuleItem(pytest.Item):
    """A rule for a library."""

    rule: Rule
    parent: LibraryRules

    @classmethod
    def of(cls, parent: LibraryRules, rule: Rule) -> RuleItem:
        """Makes an item. ``-k`` selects by level and role, ``-m`` by the mark ``dlpack``."""
        item: RuleItem = cls.from_parent(parent, name=rule.id)
        item.rule = rule
        item.add_marker("dlpack")
        item.extra_keyword_matches |= {rule.level.value, rule.role.value}
        item.user_properties += [("level", rule.level.value), ("role", rule.role.value), ("source", rule.source)]
        return item

    def runtest(self) -> None:
        """Skips a rule that does not apply, xfails a known failure and a broken MAY, and fails for other broken rules.

        Fails for a known failure that is kept now.
        """
        result = self.parent.server.check(self.rule)
        if result.status is Status.NOT_APPLICABLE:
            pytest.skip(result.detail)
        is_known = self.rule.id in self.parent.known
        if is_known and result.status is Status.PASSED:
            raise RuleBroken(f"{self.rule.id} is kept now: remove it from the file of known failures")
        if result.status.is_broken:
            if is_known:
                pytest.xfail(f"known failure: {result.detail}")
            if self.rule.level is Level.MAY:
                pytest.xfail(f"MAY: {result.detail}")
            report = Report([self.rule], [], "")
            raise RuleBroken(account(report, self.parent.adapter.name, self.rule, result))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], *arguments: Any, **keywords: Any) -> Any:
        """The account of a broken rule, without a traceback of the kit."""
        if isinstance(excinfo.value, RuleBroken):
            return str(excinfo.value)
        return super().repr_failure(excinfo, *arguments, **keywords)

    def reportinfo(self) -> tuple[Path, None, str]:
        """The heading of a failure."""
        return self.path, None, f"{self.parent.adapter.name} {self.rule.id}"


class Plugin:
    """Adds the rules of some libraries to the collected tests."""

    def __init__(self, libraries: list[str], rules: list[str], known: str | None = None) -> None:
        # The process of the library searches the folder too.
        search_here()
        try:
            self.adapters = [adapter_named(library) for library in libraries]
            self.rules = selected(rules)
            self.known = known_failures.read(Path(known)) if known else {}
        except (LookupError, ValueError) as error:
            raise pytest.UsageError(f"--dlpack: {error.args[0]}") from error
        except OSError as error:
            raise pytest.UsageError(f"--dlpack-known-failures: {error}") from error
        try:
            self.found = [line for a in self.adapters if isinstance(a, ModuleAdapter) for line in found(a.name)]
            missing = [adapter.name for adapter in self.adapters if not ask(adapter.is_installed, adapter)]
            self.versions = [] if missing else [version_of(adapter) for adapter in self.adapters]
        except LookupError as error:
            raise pytest.UsageError(f"--dlpack: {error.args[0]}") from error
        if known and len(libraries) != 1:
            raise pytest.UsageError(f"--dlpack-known-failures needs exactly one --dlpack, and {len(libraries)} are named")
        if missing:
            raise pytest.UsageError(f"--dlpack: not installed: {', '.join(missing)}")

    def pytest_report_header(self) -> list[str]:
        """The versions that are checked, and what was found in modules without an adapter."""
        pairs = zip(self.adapters, self.versions, strict=True)
        return [*(f"dlpack: {adapter.name} {version}, {len(self.rules)} rules" for adapter, version in pairs), *self.found]

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(
        self, collector: pytest.Collector
    ) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        """Appends the libraries to the collected files, if any."""
        report = yield
        if isinstance(collector, pytest.Session) and report.passed:
            report.result = [*report.result, *(self._collector(collector, adapter) for adapter in self.adapters)]
        return report

    def _collector(self, session: pytest.Session, adapter: Adapter) -> LibraryRules:
        made: LibraryRules = LibraryRules.from_parent(session, name=adapter.name, nodeid=f"dlpack:{adapter.name}")
        made.adapter, made.rules, made.known = adapter, self.rules, self.known
        return made
