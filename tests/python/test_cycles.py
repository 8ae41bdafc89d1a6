"""Reference cycles through a Tensor, and Python's garbage collector."""

import contextlib
import gc
import itertools
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import dlbridge
import numpy as np
import pytest
from conftest import require

CYCLES = 200

Maker = Callable[..., Any]


class Bytes(bytearray):
    """A bytearray with attributes."""


class Array(np.ndarray):
    """A NumPy array with attributes."""


class Interface:
    """An object with attributes and an array interface."""

    def __init__(self) -> None:
        self.array = np.arange(8.0)
        self.__array_interface__ = self.array.__array_interface__


class Struct:
    """An object with attributes and an array struct."""

    def __init__(self) -> None:
        self.array = np.arange(8.0)

    @property
    def __array_struct__(self) -> Any:
        return self.array.__array_struct__


def some_bytes() -> Any:
    return Bytes(range(8))


def some_array() -> Any:
    return np.arange(8.0).view(Array)


MAKERS = [some_bytes, some_array, Interface, Struct]


def alive_after(make_cycle: Maker) -> int:
    """The number of objects that are alive after the collector has run."""
    gc.collect()
    references = [weakref.ref(make_cycle()) for _ in range(CYCLES)]
    gc.collect()
    return sum(reference() is not None for reference in references)


@contextlib.contextmanager
def busy_collector() -> Iterator[None]:
    """Makes the collector run at nearly every allocation."""
    before = gc.get_threshold()
    gc.set_threshold(1, 1, 1)
    try:
        yield
    finally:
        gc.set_threshold(*before)


def exported(t: dlbridge.Tensor) -> dlbridge.Tensor:
    np.from_dlpack(t)
    memoryview(t).release()
    return t


#: Attributes of an object that make a cycle through a tensor, which the collector can collect.
COLLECTED: dict[str, Maker] = {
    "as it is": lambda o: {"t": dlbridge.asdlpack(o)},
    "slice alone": lambda o: {"t": dlbridge.asdlpack(o)[1:]},
    "slice of slice": lambda o: {"t": dlbridge.asdlpack(o)[1:][::-1]},
    "two imports": lambda o: {"t": dlbridge.asdlpack(o), "u": dlbridge.asdlpack(o)},
    "address for C code": lambda o: {"scope": dlbridge.asdlpack(o).dltensor()},
    "chunks": lambda o: {"chunks": dlbridge.chunks(o)},
    "through a list": lambda o: {"things": [dlbridge.asdlpack(o)]},
    "after an export": lambda o: {"t": exported(dlbridge.asdlpack(o))},
}
#: As COLLECTED, for cycles that docs/exchange.md lists.
LISTED: dict[str, Maker] = {
    "slice and whole": lambda o: {"t": (t := dlbridge.asdlpack(o)), "u": t[1:]},
    "array of another library": lambda o: {"a": dlbridge.asdlpack(o).numpy()},
    "capsule": lambda o: {"c": dlbridge.asdlpack(o).__dlpack__(max_version=(1, 0))},
    "through a memoryview": lambda o: {"t": dlbridge.asdlpack(memoryview(o))},
    "through an array of objects": lambda o: {"kept": np.array([None, dlbridge.asdlpack(o)], object)},
}
LISTED_OF_ARRAYS: dict[str, Maker] = {
    "through a legacy capsule": lambda o: {"kept": dlbridge.asdlpack(o, protocol="dlpack-legacy")},
    "through an array struct": lambda o: {"kept": dlbridge.asdlpack(o, protocol="array-struct")},
}


def cycle(make: Maker, close: Maker) -> Any:
    """An object that `make` returns, with the attributes that `close` returns for it."""
    o = make()
    for name, value in close(o).items():
        setattr(o, name, value)
    return o


@pytest.mark.parametrize("close", COLLECTED)
@pytest.mark.parametrize("make", MAKERS)
def test_cycle_through_a_tensor_is_collected(make: Maker, close: str) -> None:
    assert alive_after(lambda: cycle(make, COLLECTED[close])) == 0


def some_torch_tensor() -> Any:
    return require("torch").arange(8)


class Exporter:
    """An object with attributes, and with the `__dlpack__` of a library other than NumPy."""

    def __init__(self) -> None:
        self.tensor = require("torch").arange(8)

    def __dlpack__(self, **options: Any) -> Any:
        capsule = self.tensor.__dlpack__(**options)
        self.tensor.exporter = self
        return capsule

    def __dlpack_device__(self) -> Any:
        return self.tensor.__dlpack_device__()


@pytest.mark.parametrize(
    ("make", "close"),
    [
        *itertools.product([some_bytes, some_array], LISTED),
        *itertools.product([some_array], LISTED_OF_ARRAYS),
        *itertools.product([Exporter, some_torch_tensor], ["as it is"]),
    ],
)
def test_cycle_that_the_documentation_lists_stays_until_its_attribute_is_deleted(make: Maker, close: str) -> None:
    before = set(vars(make()))
    o = cycle(make, {**COLLECTED, **LISTED, **LISTED_OF_ARRAYS}[close])
    reference = weakref.ref(o)
    del o
    gc.collect()
    # A cycle that is collected belongs to the list of the test above, and not to the list in docs/exchange.md.
    revived: Any = reference()
    assert revived is not None
    for name in set(vars(revived)) - before:
        delattr(revived, name)
    del revived
    gc.collect()
    assert reference() is None


def test_cycle_through_an_array_of_objects_stays_without_a_tensor_too() -> None:
    o = some_bytes()
    o.kept = np.array([None, o], object)
    reference = weakref.ref(o)
    del o
    gc.collect()
    revived: Any = reference()
    assert revived is not None
    del revived.kept


def test_memoryview_that_a_tensor_keeps_is_not_cleared(monkeypatch: pytest.MonkeyPatch) -> None:
    ignored: list[Any] = []
    monkeypatch.setattr("sys.unraisablehook", ignored.append)
    for _ in range(20):
        view = memoryview(bytearray(b"abc"))
        cycle: list[Any] = [view, dlbridge.asdlpack(view)]
        cycle.append(cycle)
        del view, cycle
    gc.collect()
    assert ignored == []


def test_cycle_through_a_memoryview_of_a_tensor_is_collected() -> None:
    assert alive_after(lambda: cycle(some_bytes, lambda o: {"view": memoryview(dlbridge.asdlpack(o))})) == 0


def test_cycle_with_a_finalizer_finds_its_memory_valid() -> None:
    seen: list[Any] = []

    class Last(Bytes):
        def __del__(self) -> None:
            seen.append(self.t.tolist())

    assert alive_after(lambda: cycle(lambda: Last(b"abc"), COLLECTED["as it is"])) == 0
    assert seen == [[97, 98, 99]] * CYCLES


def test_cycle_that_a_finalizer_revives_keeps_its_memory() -> None:
    kept: list[Any] = []

    class Revived(Bytes):
        def __del__(self) -> None:
            kept.append(self.t)

    o = Revived(b"abc")
    o.t = dlbridge.asdlpack(o)
    del o
    gc.collect()
    gc.collect()
    assert [t.tolist() for t in kept] == [[97, 98, 99]]


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("consume", ["numpy", "from_dlpack", "memoryview", "slice", "torch"])
def test_memory_that_a_consumer_holds_outlives_the_cycle(make: Maker, consume: str) -> None:
    if consume == "torch":
        torch = pytest.importorskip("torch")
    consumer = {
        "numpy": np.asarray,
        "from_dlpack": np.from_dlpack,
        "memoryview": memoryview,
        "slice": lambda t: t[::2],
        "torch": lambda t: torch.from_dlpack(t),
    }[consume]
    consumers = []
    with busy_collector():
        for _ in range(20):
            o = make()
            o.t = dlbridge.asdlpack(o)
            consumers.append(consumer(o.t))
            del o
        gc.collect()
        # If memory was freed, new objects overwrite it.
        others = [make() for _ in range(50)]
        gc.collect()
    step = 2 if consume == "slice" else 1
    assert [c.tolist() for c in consumers] == [list(range(0, 8, step))] * len(consumers)
    assert len(others) == 50


@pytest.mark.parametrize("consumer", [np.asarray, np.from_dlpack, memoryview])
def test_object_that_a_consumer_holds_keeps_its_attributes(consumer: Callable[[Any], Any]) -> None:
    o = some_bytes()
    o.t, o.word = dlbridge.asdlpack(o), "here"
    reference: Callable[[], Any] = weakref.ref(o)
    held = consumer(o.t)
    del o
    with busy_collector():
        gc.collect()
        assert reference().word == "here"
        assert reference().t.tolist() == list(range(8))
    del held
    gc.collect()
    assert reference() is None


@pytest.mark.parametrize("make", [some_bytes, some_array])
def test_referents_of_a_tensor_show_the_exporter(make: Maker) -> None:
    o = make()
    t = dlbridge.asdlpack(o)
    assert any(referent is o for referent in gc.get_referents(t))
    assert any(referent is o for referent in gc.get_referents(t[1:])) is False
    part = t[1:]
    del t
    assert any(referent is o for referent in gc.get_referents(part))


def test_referents_of_a_tensor_without_a_python_owner_are_none() -> None:
    t = dlbridge.empty((2, 3), "float32")
    assert [r for r in gc.get_referents(t) if r is not type(t)] == []


@pytest.mark.parametrize(("make", "known"), [(some_bytes, True), (some_array, True), (some_torch_tensor, False)])
def test_import_is_known_to_the_collector_if_it_holds_a_python_object(make: Maker, known: bool) -> None:
    assert gc.is_tracked(dlbridge.asdlpack(make())) == known
