"""Replacements for older packages, with their names."""
