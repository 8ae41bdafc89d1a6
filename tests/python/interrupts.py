"""Calls that release the GIL: another thread runs meanwhile, or the handler of a signal raises."""

import operator
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import pytest


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
    # Long enough that the other thread runs only if the code in the block releases the GIL.
    sys.setswitchinterval(1000)
    try:
        gate.release()
        yield
    finally:
        sys.setswitchinterval(interval)
        thread.join()


@contextmanager
def interrupted(error: type[BaseException] = KeyboardInterrupt, match: str = "^of the handler$") -> Iterator[None]:
    """Sends a signal as soon as this thread releases the GIL. The block must raise the exception of the handler."""

    def interrupt(*_: object) -> None:
        raise error("of the handler")

    previous = signal.signal(signal.SIGINT, interrupt)
    try:
        with pytest.raises(error, match=match), let_in(lambda: signal.raise_signal(signal.SIGINT)):
            yield
    finally:
        signal.signal(signal.SIGINT, previous)


def repeat(calls: Iterable[Callable[[], object]]) -> None:
    """Makes the calls. No line of Python runs in between, where an interrupt could be raised too."""
    deque(map(operator.methodcaller("__call__"), calls), maxlen=0)
