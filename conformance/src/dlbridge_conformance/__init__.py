"""The conformance kit: checks whether a library keeps the rules of DLPack.

It checks a library as a producer, as a consumer, and through its C exchange API: ``dlbridge-conformance LIBRARY``, where
LIBRARY is a module with ``from_dlpack``, or one of the libraries that ``--list`` shows. A library whose functions have
other names needs an :class:`Adapter` of about ten lines.
"""

# First, because it may change where Python finds the modules that all others import.
import dlbridge_conformance.search_path  # isort: split

from dlbridge_conformance.adapter import Adapter
from dlbridge_conformance.context import Context
from dlbridge_conformance.fork import check
from dlbridge_conformance.module_adapter import ModuleAdapter
from dlbridge_conformance.outcome import Broken, NotApplicable
from dlbridge_conformance.process import run
from dlbridge_conformance.registry import all_rules, known_adapters, selected
from dlbridge_conformance.result import Library, Report, Result, Status
from dlbridge_conformance.rule import Level, Role, Rule, rule

__all__ = [
    "Adapter",
    "Broken",
    "Context",
    "Level",
    "Library",
    "ModuleAdapter",
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
