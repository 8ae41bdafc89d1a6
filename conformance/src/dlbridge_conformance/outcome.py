"""The exceptions with which a check ends, unless the library keeps the rule."""

from __future__ import annotations


class Broken(Exception):
    """A library broke a rule: what was expected, and what it did."""


class NotApplicable(Exception):
    """A library lacks what a rule is about: the reason."""
