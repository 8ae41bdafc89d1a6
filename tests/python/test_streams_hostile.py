"""Nonsensical values of ``stream``, on the stand-in for the CUDA driver. These tests need no GPU, and do not replace tests
on one."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from typing import Any

import dlbridge
import pytest
from native import Native
from stand_in import NEW, Array, Driver, InterfaceArray, array, driver, given_back, stand_in

# The stand-in for the driver of a GPU is loaded once in a process.
pytestmark = pytest.mark.alone

__all__ = ["array", "driver", "given_back", "stand_in"]

Made = Callable[..., Array]


class Index:
    """An object that ``operator.index`` accepts as an integer."""

    def __init__(self, answer: Callable[[], object]) -> None:
        self.answer = answer

    def __index__(self) -> Any:
        return self.answer()


def raises() -> object:
    """An ``__index__`` that fails."""
    raise ZeroDivisionError


class Loud(int):
    """An integer whose ``__str__`` raises."""

    def __str__(self) -> str:
        raise ZeroDivisionError

    __repr__ = __str__


HOSTILE: list[tuple[object, type[Exception]]] = [
    (2**63, ValueError), (2**64 - 1, ValueError), (-(2**63), ValueError), (-(2**200), ValueError), (2**200, ValueError),
    (10**5000, ValueError), (Loud(-7), ValueError),
    (float("nan"), TypeError), (2.0, TypeError), (1j, TypeError),
    (True, TypeError), (False, TypeError), (Index(raises), ZeroDivisionError),
    (Index(lambda: "1"), TypeError), ("", TypeError), (b"\x01", TypeError), ([1], TypeError), (int, TypeError), (..., TypeError),
]  # fmt: skip


@pytest.mark.parametrize(("stream", "error"), HOSTILE, ids=lambda value: type(value).__name__)
def test_hostile_stream_is_refused_before_the_producer_is_called(
    driver: Driver,
    native: Native,
    array: Made,
    stream: Any,
    error: type[Exception],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tensor, made = dlbridge.asdlpack(array()), array()
    unraisable: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", unraisable.append)
    for call in (
        lambda: tensor.__dlpack__(stream=stream),
        lambda: dlbridge.asdlpack(made, stream=stream),
        lambda: dlbridge.from_dlpack(made, stream=stream),
        lambda: dlbridge.asdlpack(tensor, stream=stream),
    ):
        with pytest.raises(error):
            call()
    assert not unraisable, "Python printed an exception of the stream's __str__"
    assert made.asked == []
    native.take(made.crafted.capsule()).delete()


def test_random_stream_numbers_are_streams_or_refused(driver: Driver, native: Native, array: Made) -> None:
    chosen = random.Random(3)
    known = [1, 2, driver.stream()]
    tensor = dlbridge.asdlpack(array())
    for _ in range(500):
        stream = chosen.choice([chosen.getrandbits(chosen.randrange(1, 80)), -chosen.getrandbits(65), *known])
        try:
            native.export(tensor, stream=stream, max_version=(1, 3)).delete()
        except (BufferError, ValueError) as error:
            assert stream not in known, error
    held = native.export(tensor, stream=known[2], max_version=(1, 3))
    assert driver.seen_on(known[2], held.fields.data, 24) == NEW
    held.delete()


def test_interface_with_a_hostile_stream_is_refused(driver: Driver) -> None:
    address = driver.memory(24)
    for stream in (2**64, -5, "1", 1.5, object(), 0):
        with pytest.raises((BufferError, TypeError, ValueError)):
            dlbridge.asdlpack(InterfaceArray(address, (6,), stream))  # type: ignore[arg-type]
    with pytest.raises(BufferError, match="error 400"):
        dlbridge.asdlpack(InterfaceArray(address, (6,), 0xDEAD0))
