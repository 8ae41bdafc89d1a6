"""The conformance kit: whether a library keeps the rules of DLPack, as a producer, as a consumer and with its C exchange
API.

``python -m dlbridge.conformance LIBRARY`` checks one that the kit has an adapter for, ``--list`` shows all. A library that
it does not know needs an :class:`Adapter` of about ten lines.
"""

from dlbridge.conformance.adapter import Adapter, known_adapters
from dlbridge.conformance.check import check
from dlbridge.conformance.context import Context
from dlbridge.conformance.process import run
from dlbridge.conformance.result import Library, Report, Result, Status
from dlbridge.conformance.rule import Broken, Level, NotApplicable, Role, Rule, all_rules, rule, selected

__all__ = [
    "Adapter",
    "Broken",
    "Context",
    "Level",
    "Library",
    "NotApplicable",
    "Report",
    "Result",
    "Role",
    "Rule",
    "Status",
    "known_adapters",
    "all_rules",
    "check",
    "rule",
    "run",
    "selected",
]
