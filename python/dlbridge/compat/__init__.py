"""Replacements for packages that did part of this before, under the names that those had."""
