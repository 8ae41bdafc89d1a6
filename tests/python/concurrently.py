"""Runs functions in threads that begin at the same moment."""

import sys
import sysconfig
import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest

#: Seconds after which threads that wait for each other are a failure.
PATIENCE = 120


def require_no_gil() -> None:
    """Skips a test file unless this process runs without the GIL: elsewhere its tests would show nothing."""
    if not sysconfig.get_config_var("Py_GIL_DISABLED"):
        pytest.skip("this Python has the GIL; use a free-threaded one", allow_module_level=True)
    if sys._is_gil_enabled():
        pytest.skip("the GIL is on; set PYTHON_GIL=0", allow_module_level=True)


def concurrently(functions: Sequence[Callable[[], Any]], raises: bool = True) -> list[Any]:
    """Calls each function in a thread of its own, and returns what it returned. Raises the first exception, or returns it."""
    results: list[Any] = [None] * len(functions)
    start = threading.Barrier(len(functions))

    def run(place: int) -> None:
        start.wait(PATIENCE)
        try:
            results[place] = functions[place]()
        except Exception as error:
            results[place] = error

    threads = [threading.Thread(target=run, args=(place,), daemon=True) for place in range(len(functions))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert not any(thread.is_alive() for thread in threads), "threads wait for each other"
    for result in results:
        if raises and isinstance(result, Exception):
            raise result
    return results


def repeatedly(functions: Sequence[Callable[[], Any]], count: int) -> None:
    """As :func:`concurrently`, with ``count`` calls of each function. Raises the first exception."""

    def repeated(function: Callable[[], Any]) -> Callable[[], None]:
        def run() -> None:
            for _ in range(count):
                function()

        return run

    concurrently([repeated(function) for function in functions])
