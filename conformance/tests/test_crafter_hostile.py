"""The native crafter under attack: no argument except an address can crash the process.

Each program runs in a process of its own, because a failure is a crash.
"""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from conftest import require
from processes import run

require("numpy")

START = """
import numpy as np
import dlbridge
from dlbridge_conformance import crafter
from dlbridge_conformance.crafter import Held, Way
native = crafter.native

def table(**keywords):
    return native.Table(native.craft_table(**keywords))

def exported():
    return crafter.take(np.arange(3.0).__dlpack__(max_version=(1, 3)))

def refused(call, *classes):
    try:
        call()
    except classes as error:
        return str(error)
    raise AssertionError("it was not refused")

class Long(list):
    def __len__(self):
        return 2**62
"""


def survives(program: str) -> str:
    """Runs a program, expects exit status 0, and returns its output."""
    done = run(START + program)
    assert done.returncode == 0, f"{done.returncode}: {done.stdout}{done.stderr}"
    return done.stdout.strip()


def all_refused(calls: Mapping[str, str | tuple[str, str]]) -> None:
    """Each call raises its exception, by default ValueError; the last line printed names the call that crashed."""
    lines = [
        f"print({name!r}, flush=True); refused(lambda: {code}, {error})"
        for name, (code, error) in ((name, (c, "ValueError") if isinstance(c, str) else c) for name, c in calls.items())
    ]
    survives("\n".join(lines))


def test_fields_of_more_dimensions_than_crafted_are_those_crafted() -> None:
    program = """
from itertools import product
for ndim, deleter, versioned in product([3, 40, 2**31 - 1], [True, False], [True, False]):
    made = crafter.craft((2, 3), ndim=ndim, deleter=deleter, versioned=versioned, skew=1)
    found = crafter.take(made.capsule()).fields
    assert (found.ndim, found.shape, found.strides) == (ndim, (2, 3), (3, 1)), found
"""
    survives(program)


def test_fields_of_an_empty_shape_are_not_the_strides_behind_it() -> None:
    program = """
found = crafter.take(crafter.craft((), strides=(7, 8), ndim=2).capsule()).fields
print(found.shape, found.strides)
"""
    assert survives(program) == "() (7, 8)"


def test_borrowed_tensor_of_more_dimensions_than_crafted_has_those_crafted() -> None:
    program = """
lender = type("Lender", (), {"_crafted": lambda _: crafter.craft((2, 3), ndim=2**31 - 1).native})()
print(table().borrowed(lender)[1]["shape"])
"""
    assert survives(program) == "(2, 3)"


#: reads and writes outside of the tensor
OUTSIDE: dict[str, str | tuple[str, str]] = {
    "more bytes than the tensor has": "crafter.craft().read(10**8)",
    "the maximum number of bytes": "crafter.craft().read(2**64 - 1)",
    "bytes in front": "crafter.craft().read(1, -1)",
    "bytes behind": "crafter.craft().read(1, 256)",
    "bytes that begin inside": "crafter.craft().read(256, 1)",
    "writing in front": "Held(crafter.craft().native.held()).write(b'1', -1)",
    "writing behind": "Held(crafter.craft().native.held()).write(bytes(257))",
    "an origin outside": "crafter.craft(origin=-2**40).read(4)",
    "a byte offset outside": "crafter.craft(byte_offset=2**40).read(4)",
    "data of NULL": "crafter.craft(data=0).read(4)",
    "more bytes than an array has": "exported().read(25)",
    "bytes in front of an array": "exported().read(4, -4)",
    "writing behind an array": "exported().write(bytes(25))",
    "writing an array of strings of C": "crafter.take(dlbridge.asdlpack(b'abc').__dlpack__(max_version=(1, 3))).write(b'x')",
}


def test_bytes_outside_of_the_tensor_are_refused() -> None:
    all_refused(OUTSIDE)


def test_bytes_of_a_view_are_read_from_its_first_to_its_last_element() -> None:
    program = """
backwards = crafter.take(np.arange(6, dtype="u1")[4:0:-2].__dlpack__(max_version=(1, 3)))
print(backwards.read(3, -2), refused(lambda: backwards.read(1, 1), ValueError), refused(lambda: backwards.read(1, -3), ValueError))
"""
    said = "bytes {} are outside of the tensor, whose memory is bytes -2 to 1"
    assert survives(program) == f"{bytes([2, 3, 4])} {said.format('1 to 2')} {said.format('-3 to -2')}"


def test_tensor_that_owns_itself_is_deleted_again_once() -> None:
    program = """
made = crafter.craft()
made.native.own(made.native.held())
Held(made.native.held()).delete()
print(made.record.calls)
"""
    assert survives(program) == "2"


def test_second_owned_tensor_is_refused_and_kept() -> None:
    program = """
made, first, second = crafter.craft(), exported(), exported()
made.native.own(first.native)
print(refused(lambda: made.native.own(second.native), ValueError))
second.delete()
Held(made.native.held()).delete()
print(refused(lambda: made.native.own(exported().native), ValueError))
"""
    assert survives(program) == "the tensor owns another one already\nthe tensor was given back"


@pytest.mark.parametrize("versioned", [True, False])
def test_capsule_under_the_name_of_the_other_abi_is_deleted_by_its_own(versioned: bool) -> None:
    program = f"""
name = crafter.LEGACY if {versioned} else crafter.VERSIONED
made = crafter.craft((2, 3), versioned={versioned}, flags=2**64 - 1, manager_ctx=2**64 - 1)
held = crafter.take(made.capsule(name))
print(held.native.versioned, held.fields.shape)
held.delete()
again = crafter.craft(versioned={versioned}, flags=2**64 - 1)
capsule = again.capsule(name)
del capsule
print(made.record.calls, again.record.calls)
"""
    assert survives(program) == f"{versioned} (2, 3)\n1 1"


#: refused calls, with their exceptions
REFUSED: dict[str, str | tuple[str, str]] = {
    "a table in a capsule of a tensor": ("crafter.take(native.craft_table(name=crafter.VERSIONED))", "ValueError"),
    "a tensor in a capsule of a table": ("native.Table(crafter.craft(manager_ctx=8).capsule('dlpack_exchange_api'))", "ValueError"),
    "a table before this one at any address": ("native.craft_table(previous=8)", "ValueError"),
    "a tensor before this table": ("native.craft_table(previous=crafter.craft().native.address)", "ValueError"),
    "a shape without end": ("native.Crafted(ndim=1, shape=range(2**62), strides=None, payload=b'')", "TypeError"),
    "a shape that asks for terabytes": ("native.Crafted(ndim=1, shape=range(2**44), strides=None, payload=b'')", "TypeError"),
    "an allocation without end": ("table().allocated(range(2**62), (0, 8, 1), (1, 0))", "TypeError"),
    "a body without end": ("crafter.craft(skew=2**62)", "MemoryError"),
    "an unknown way": ("exported().native.delete(9)", "ValueError"),
}  # fmt: skip


def test_impossible_argument_is_refused() -> None:
    all_refused(REFUSED)


def test_capsule_that_is_refused_is_not_renamed() -> None:
    program = """
capsule = native.craft_table(name=crafter.LEGACY)
refused(lambda: crafter.take(capsule), ValueError)
print(crafter.capsule_name(capsule))
"""
    assert survives(program) == "dltensor"


def test_list_that_lies_about_its_length_is_read_to_its_end() -> None:
    program = """
made = native.Crafted(ndim=1, shape=Long([3]), strides=None, payload=bytes(12))
print(made.fields()["shape"], table(missing=Long(["current_work_stream"])).functions()["current_work_stream"])
print(table(allocate=lambda *_: (0, None, Long([("kind", "message")]))).allocated([1], (0, 8, 1), (1, 0)))
"""
    assert survives(program) == "(3,) False\n((0, None, None), [('kind', 'message')])"


#: functions of a table that call themselves through the table
AGAIN = {
    "allocated": """
made = table(allocate=lambda *_: (0, None, [(again() and "", "")]))
def again():
    return made.allocated([1], (0, 8, 1), (1, 0))
""",
    "exported": """
made = table()
class Lender:
    def _crafted(self):
        return made.exported(self)[2]
def again():
    return made.exported(Lender())
""",
}


@pytest.mark.parametrize("call", AGAIN)
def test_table_calling_itself_endlessly_stops(call: str) -> None:
    survives(AGAIN[call] + "import sys; sys.setrecursionlimit(100_000)\nagain()\n")


@pytest.mark.parametrize("way", [2, 3, 4])
def test_deleter_waiting_for_a_finalizing_interpreter_does_not_abort(way: int) -> None:
    survives(f"import atexit; atexit.register(exported().native.delete, {way})")


def test_tensor_deleted_by_the_garbage_collector_is_not_read() -> None:
    program = """
import gc
held = None
class Cycle:
    def __init__(self):
        self.me = self
    def __del__(self):
        if not held.deleted:
            held.delete()
gc.set_threshold(1)
for _ in range(500):
    held = crafter.take(np.zeros(1 << 16).__dlpack__(max_version=(1, 3)))
    Cycle()
    for call in (held.native.fields, lambda: held.read(8)):
        try:
            call()
        except ValueError:
            pass
"""
    survives(program)


def test_tensor_read_and_deleted_by_threads_at_once_is_read_whole_or_refused() -> None:
    program = """
import sys, threading
sys.setswitchinterval(1e-6)
shared, wrong = [exported()], []
def read():
    for _ in range(5_000):
        held = shared[0]
        try:
            if held.read(24) != np.arange(3.0).tobytes() or held.fields.shape != (3,):
                wrong.append(held)
            held.write(np.arange(3.0).tobytes())
        except ValueError:
            pass
threads = [threading.Thread(target=read) for _ in range(4)]
for thread in threads:
    thread.start()
for turn in range(5_000):
    last, shared[0] = shared[0], exported()
    last.delete(Way(turn % 3))
for thread in threads:
    thread.join()
print(len(wrong))
"""
    assert survives(program) == "0"


FUZZ = """
import random
chance = random.Random({seed})
WHATEVER = [
    None, True, 0, 1, -1, 2, 255, 256, 2**31 - 1, -2**31, 2**31, 2**32 - 1, 2**53, 2**63 - 1, -2**63, 2**63, 2**64 - 1, 2**64,
    2**100, 0.5, float("nan"), "", "dltensor", "dltensor_versioned", "a\\0b", "\\ud800", b"", bytes(300), bytearray(4), (), (1,),
    (1, 0), (-1, -1), (2**31 - 1, -2**31), (0, 8, 1), (2, 32, 1), (255, 255, 65535), [], [1], [2**63 - 1] * 3, [-2**63] * 3,
    range(3), range(2**62), Long([1]), object(), type, print, ValueError, ValueError("x"), KeyboardInterrupt(), np.arange(3), {{}},
]

def objects():
    made = crafter.craft(
        chance.choice([(2, 3), (), (0,), None]), ndim=chance.choice([0, 1, 2, 40, -1, 2**31 - 1, -2**31]),
        strides=chance.choice([None, "C", (1, 1)]), versioned=chance.random() < .5, deleter=chance.random() < .5,
        byte_offset=chance.choice([0, 8, 2**63]), origin=chance.choice([0, -8, 2**62]), skew=chance.choice([0, 1, 7]))
    return [
        made.native, made.native.held(), exported().native,
        made.capsule(chance.choice([crafter.LEGACY, crafter.VERSIONED, None, "dlpack_exchange_api", "other"])),
        native.craft_table(name=chance.choice([crafter.LEGACY, crafter.VERSIONED, "dlpack_exchange_api"])),
    ]

def calls(made):
    crafted, held, foreign = made[:3]
    yield from (getattr(crafted, name) for name in ("capsule", "fields", "record", "own", "held"))
    for one in (held, foreign):
        yield from (getattr(one, name) for name in ("fields", "bytes", "write", "delete", "delete_pending"))
    yield from (native.take, native.capsule_name, native.counts, native.clear_pending, native.Table, native.stream_asked)
    crafted_table = table(failure=chance.choice([0, -1, 1, 2**31 - 1]))
    yield from (getattr(crafted_table, name) for name in ("exported", "borrowed", "imported", "work_stream", "allocated"))

NAMED = {{
    native.Crafted: ("versioned", "version", "manager_ctx", "deleter", "flags", "device", "dtype", "ndim", "shape", "strides",
                     "byte_offset", "payload", "origin", "skew"),
    native.craft_table: ("version", "missing", "name", "previous", "stream", "allocate", "failure"),
}}
SOUND = {{native.Crafted: dict(ndim=1, shape=[3], strides=None, payload=b""), native.craft_table: {{}}}}
done = 0
for _ in range(400):
    made = objects()
    argument = lambda: chance.choice(made if chance.random() < .3 else WHATEVER)
    for call in calls(made):
        try:
            call(*[argument() for _ in range(chance.choice([0, 1, 1, 1, 2, 2, 3]))])
            done += 1
        except Exception:
            pass
    for call, names in NAMED.items():
        try:
            call(**SOUND[call] | {{chance.choice(names): argument() for _ in range(2)}})
            done += 1
        except Exception:
            pass
assert done > 500, done
"""


@pytest.mark.parametrize("seed", range(2))
def test_every_function_with_any_arguments_answers_or_raises(seed: int) -> None:
    survives(FUZZ.format(seed=seed))
