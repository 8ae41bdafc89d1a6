"""The rules by role and topic, as the reports with a heat map show them."""

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
    """The rules by topic, the topics in the order of the roles; within one, all stays in order."""
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
