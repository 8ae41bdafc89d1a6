"""Producers of one line, for protocols that a test breaks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def producer(**members: Any) -> Any:
    """An object whose class has these members."""
    return type("Producer", (), members)()


def raises(error: BaseException | type[BaseException]) -> Callable[..., Any]:
    """A function that raises an exception."""

    def function(*_: Any, **keywords: Any) -> Any:
        raise error

    return function
