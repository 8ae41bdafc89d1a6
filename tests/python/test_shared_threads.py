"""Shared memory with threads, forks and signals: nothing waits for ever, and no name is left."""

import os
import threading
from collections.abc import Callable
from typing import Any

import dlbridge
import pytest
from dlbridge import _shm
from processes import output
from shared_segments import SHM, names, on_linux

pytestmark = on_linux


def test_finalizer_does_not_wait_for_another_thread() -> None:
    # The collector may run it in a thread that holds the lock of the resource tracker.
    shared = dlbridge.share_memory(b"abc")
    scope = dlbridge.SharedScope()
    left = {shared.name, scope.__reduce__()[1][0]}
    held, dropped = threading.Event(), threading.Event()

    def hold() -> None:
        with _shm.DO_LEFT, _shm.LOCK:
            held.set()
            assert dropped.wait(30)

    thread = threading.Thread(target=hold)
    thread.start()
    assert held.wait(30)
    del shared, scope
    assert names("dlbridge_") >= left, "removed by the thread that holds the lock"
    dropped.set()
    thread.join()
    assert not names("dlbridge_") & left


def test_many_are_dropped_while_another_thread_shares() -> None:
    going, errors, made = True, [], []

    def work() -> None:
        while going:
            try:
                with dlbridge.share_memory(b"abc"):
                    pass
            except BaseException as error:
                errors.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    for _ in range(3):
        tensors = [dlbridge.share_memory(b"x") for _ in range(1500)]
        made += [tensor.name for tensor in tensors]
        del tensors
    going = False
    thread.join()
    assert errors == []
    assert not names("dlbridge_") & set(made)


HANDLER = """
import random, signal, threading
import dlbridge
from dlbridge import _shm
class Stop(Exception):
    pass
def stop(*_):
    raise Stop
signal.signal(signal.SIGALRM, stop)
interrupted = 0
for _ in range(3000):
    try:
        signal.setitimer(signal.ITIMER_REAL, random.uniform(5e-6, 100e-6))
        shared = dlbridge.share_memory(b"abc")
        del shared
        signal.setitimer(signal.ITIMER_REAL, 0)
    except Stop:
        interrupted += 1
signal.signal(signal.SIGALRM, signal.SIG_IGN)
free = []
thread = threading.Thread(target=lambda: free.append(_shm.LOCK.acquire(timeout=10)))
thread.start()
thread.join()
print(interrupted > 0, free)
"""


def test_handler_that_raises_does_not_keep_the_lock() -> None:
    # At the end, Python prints the exceptions that a finalizer raised.
    assert output(HANDLER, options=["-W", "ignore"], quiet=False) == "True [True]\n"


FORKS = """
import faulthandler, os, sys, threading
import dlbridge
scope = dlbridge.SharedScope()
sys.setswitchinterval(1e-6)
going = True
def work():
    while going:
        scope.share_memory(b"abc").unlink()
threads = [threading.Thread(target=work) for _ in range(2)]
for thread in threads:
    thread.start()
ended = []
for _ in range(40):
    pid = os.fork()
    if pid == 0:
        faulthandler.dump_traceback_later(30, exit=True)
        dlbridge.share_memory(b"c").unlink()
        os._exit(0)
    ended.append(os.waitpid(pid, 0)[1])
    if ended[-1]:
        break
going = False
for thread in threads:
    thread.join()
print(ended)
"""


def test_fork_does_not_find_the_lock_of_the_tracker_held() -> None:
    # A warning tells that a fork with threads may hang.
    assert output(FORKS, options=["-W", "ignore"], quiet=False) == f"{[0] * 40}\n"


@pytest.mark.parametrize("make", [dlbridge.SharedScope, lambda: dlbridge.share_memory(b"abc")])
def test_signal_as_soon_as_a_random_name_exists_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch, make: Callable[[], Any]
) -> None:
    made: list[str] = []
    real = _shm._posixshmem

    class Interrupted:
        shm_unlink = staticmethod(real.shm_unlink)

        @staticmethod
        def shm_open(name: str, flags: int, mode: int) -> Any:
            os.close(real.shm_open(name, flags, mode))
            made.append(name)
            raise KeyboardInterrupt

    monkeypatch.setattr(_shm, "_posixshmem", Interrupted)
    with pytest.raises(KeyboardInterrupt):
        make()
    [name] = made
    assert not (SHM / name[1:]).exists()
