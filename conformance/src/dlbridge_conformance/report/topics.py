"""Groups the rules by role and topic, for the reports with a heat map."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field

from dlbridge_conformance.rule import Role, Rule


@dataclass
class Topic:
    """The rules of one file in ``rules/``."""

    role: Role
    name: str
    #: the first line of the file's docstring
    about: str
    rules: list[Rule] = field(default_factory=list)


def topics(rules: list[Rule]) -> list[Topic]:
    """Groups the rules by topic, and sorts the topics by role. The order of the rules stays."""
    found: dict[tuple[Role, str], Topic] = {}
    for rule in rules:
        module = rule.check.__module__
        if (rule.role, module) not in found:
            prefix = rule.role.value.replace("-", "_") + "_"
            name = module.rpartition(".")[2].removeprefix(prefix).replace("_", " ")
            lines = (getattr(sys.modules.get(module), "__doc__", None) or "").splitlines() or [""]
            found[rule.role, module] = Topic(rule.role, name, lines[0].replace("``", ""))
        found[rule.role, module].rules.append(rule)
    order = list(Role)
    return sorted(found.values(), key=lambda topic: order.index(topic.role))
