"""The exceptions that a check raises if the library does not keep the rule."""

from __future__ import annotations


class Broken(Exception):
    """The library broke the rule. The text says what was expected, and what the library did."""


class NotApplicable(Exception):
    """The rule does not apply, because the library lacks a feature. The text gives the reason."""
