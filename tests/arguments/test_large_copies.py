"""Large arguments that are copied or converted: other Python threads run meanwhile, and an interrupt ends the borrow."""

import functools
import operator
from typing import Any

import numpy as np
import pytest
import typed_arguments as typed
from interrupts import interrupted, let_in, repeat

#: Maximum number of calls. The other thread runs during the first one, unless the machine is busy.
CALLS = 20

#: Arguments of more than 4 MiB that are copied: of another dtype, order or byte order.
ARGUMENTS = {
    "converted": np.zeros(1 << 21, "f4"),
    "booleans": np.zeros(1 << 21, "?"),
    "reordered": np.zeros((1024, 2048)).T,
    "swapped": np.zeros(1 << 20, ">f8"),
}


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
    # A note names the argument.
    with interrupted(match="^of the handler"):
        repeat(calls)
    assert operator.length_hint(calls) > 0
    # This call writes, and fails if a borrow for reading is left.
    typed.swap_bytes(argument.view(argument.dtype.newbyteorder("=")).reshape(-1, order="A"))
