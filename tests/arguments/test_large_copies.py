"""Large arguments that are copied or converted: other Python threads run meanwhile, and an interrupt ends the borrow."""

from __future__ import annotations

import functools
import operator
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import typed_arguments as typed

#: Maximum number of calls. The other thread runs during the first one, unless the machine is busy.
CALLS = 20

#: Arguments of more than 4 MiB that are copied: of another dtype, order or byte order.
ARGUMENTS = {
    "converted": np.zeros(1 << 21, "f4"),
    "booleans": np.zeros(1 << 21, "?"),
    "reordered": np.zeros((1024, 2048)).T,
    "swapped": np.zeros(1 << 20, ">f8"),
}


@contextmanager
def let_in(action: Callable[[], object]) -> Iterator[None]:
    """Runs `action` on another thread as soon as this thread releases the GIL. The interpreter forces no switch meanwhile."""
    interval, gate = sys.getswitchinterval(), threading.Lock()

    def wait() -> None:
        with gate:
            action()

    thread = threading.Thread(target=wait)
    gate.acquire()
    thread.start()
    sys.setswitchinterval(1000)
    try:
        gate.release()
        yield
    finally:
        sys.setswitchinterval(interval)
        thread.join()


@pytest.mark.parametrize("name", ARGUMENTS)
def test_copied_argument_lets_another_thread_run(name: str) -> None:
    seen: list[Any] = []
    with let_in(lambda: seen.append(True)):
        for _ in range(CALLS):
            assert typed.total_of_anything(ARGUMENTS[name]) == (0.0, True)
            if seen:
                break
        during = list(seen)
    assert during == [True]


@pytest.mark.parametrize("name", ARGUMENTS)
def test_interrupt_while_an_argument_is_copied_ends_its_borrow(name: str) -> None:
    argument = ARGUMENTS[name]
    calls = iter([functools.partial(typed.total_of_anything, argument)] * CALLS)
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt), let_in(lambda: signal.raise_signal(signal.SIGINT)):
            # No line of Python runs in between, where an interrupt could be raised too.
            deque(map(operator.methodcaller("__call__"), calls), maxlen=0)
    finally:
        signal.signal(signal.SIGINT, previous)
    assert operator.length_hint(calls) > 0
    # This call writes, and fails if a borrow for reading is left.
    typed.swap_bytes(argument.view(argument.dtype.newbyteorder("=")).reshape(-1, order="A"))
