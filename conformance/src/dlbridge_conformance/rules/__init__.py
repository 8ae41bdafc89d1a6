"""The rules: one file per topic.

A consumer reads the right elements, or it refuses: it raises an exception, and the deleter runs exactly once. A
refusal keeps every rule except those that say "accepted". Wrong elements always break a rule. A consumer may also keep a
dtype or a device that it cannot read, as its own export then shows. If a check cannot conclude anything, the rule does
not apply.
"""
