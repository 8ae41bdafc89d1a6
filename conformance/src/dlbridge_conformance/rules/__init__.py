"""The rules: one file per topic.

A consumer reads the right elements, or it refuses: it raises an exception, after which the deleter has run exactly once.
A refusal keeps every rule except those that say "accepted". Wrong elements break a rule in any case. A dtype or device
that a consumer cannot read may also be kept as it is, which its own export shows. Where nothing can be concluded, the
rule does not apply.
"""
