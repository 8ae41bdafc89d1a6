"""The checks: how to define one, and how a library's checks run."""

from __future__ import annotations

import gc
import struct
import time
import traceback
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from driver import Driver

if TYPE_CHECKING:
    from libraries import Library

#: All libraries; the suite checks them from left to right.
LIBRARIES = ("driver", "torch", "cupy", "numba", "jax")
PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"

#: The values of arrays.
NEW = [1.5, -2.0, 3.25, 4.0, 5.5, -6.75]


class Skipped(Exception):
    """The check cannot run here; the reason."""


@dataclass
class Bench:
    """The objects that a check uses."""

    driver: Driver
    library: Library

    @property
    def is_hardware(self) -> bool:
        """True for a GPU, false for the stand-in."""
        return self.driver.is_hardware

    def second_device(self) -> int:
        """Returns the number of a device other than the first."""
        if self.driver.devices < 2:
            raise Skipped("the machine has one device")
        return 1


@dataclass
class Result:
    """The outcome of a check."""

    library: str
    check: str
    sentence: str
    outcome: str
    reason: str = ""
    seconds: float = 0.0

    def as_json(self) -> dict[str, Any]:
        """Converts the result for the JSON file."""
        return asdict(self)


@dataclass(frozen=True)
class Check:
    """A function that raises if something is wrong; its first sentence states what it checks."""

    name: str
    sentence: str
    run: Callable[[Bench], None]
    libraries: tuple[str, ...] = field(default=LIBRARIES)

    def result(self, library: str, outcome: str, reason: str = "", seconds: float = 0.0) -> Result:
        """Makes the result of this check."""
        return Result(library, self.name, self.sentence, outcome, reason, seconds)


CHECKS: list[Check] = []


def check(*libraries: str) -> Callable[[Callable[[Bench], None]], Callable[[Bench], None]]:
    """Registers a function as a check of these libraries, or of all."""

    def added(function: Callable[[Bench], None]) -> Callable[[Bench], None]:
        sentence = " ".join((function.__doc__ or "").split("\n\n")[0].split())
        CHECKS.append(Check(function.__name__.replace("_", "-"), sentence, function, libraries or LIBRARIES))
        return function

    return added


def checks_of(library: str) -> list[Check]:
    """Returns the checks of a library."""
    return [check for check in CHECKS if library in check.libraries]


def run(bench: Bench, checks: Iterable[Check], tell: Callable[[dict[str, Any]], None]) -> None:
    """Runs checks one after the other, and reports the beginning and the result of each."""
    for one in checks:
        tell({"begins": one.name})
        begun, faults = time.perf_counter(), bench.driver.faults
        outcome, reason = PASSED, ""
        try:
            one.run(bench)
        except Skipped as why:
            outcome, reason = SKIPPED, str(why)
        except Exception:
            outcome, reason = FAILED, traceback.format_exc(limit=-4).strip()
        try:
            gc.collect()
            bench.driver.wait_for_all()
            holds(bench.driver.faults == faults, "freed memory was used")
        except Exception as error:
            outcome, reason = FAILED, f"{reason}\nafterwards: {error}".strip()
        seconds = time.perf_counter() - begun
        tell({"result": one.result(bench.library.name, outcome, reason, round(seconds, 4)).as_json()})


def equal(found: object, expected: object, what: str) -> None:
    """Raises AssertionError unless both are equal."""
    if found != expected:
        raise AssertionError(f"{what}: {found!r} instead of {expected!r}")


def holds(is_so: object, what: str) -> None:
    """Raises AssertionError with this text unless the condition is true."""
    if not is_so:
        raise AssertionError(what)


def refused(
    function: Callable[[], object], errors: type[BaseException] | tuple[type[BaseException], ...] = BufferError,
    word: str = "",
) -> str:
    """Returns the error message of a function that must refuse."""
    try:
        function()
    except errors as error:
        holds(word in str(error), f"the refusal does not say {word!r}: {error}")
        return str(error)
    raise AssertionError(f"the call was not refused with {errors}")


def until(is_so: Callable[[], bool], what: str) -> None:
    """Waits until a condition is true; raises AssertionError after ten seconds."""
    deadline = time.monotonic() + 10
    while not is_so():
        if time.monotonic() > deadline:
            raise AssertionError(what)
        time.sleep(0.001)


def packed(values: list[float]) -> bytes:
    """Returns numbers as the bytes of float32."""
    return struct.pack(f"{len(values)}f", *values)


def unpacked(content: bytes) -> list[float]:
    """Returns the numbers of float32 bytes."""
    return list(struct.unpack(f"{len(content) // 4}f", content))
