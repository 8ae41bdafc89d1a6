"""Unusual consumers that follow the standard: they break only the rules about their unusual behaviour."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from dlbridge_conformance import Level, Role, Status, all_rules
from dlbridge_conformance.crafter import CUDA
from dlbridge_conformance.fork import in_fork
from dlbridge_conformance.rules.consumer_hostile import WRONG
from python_consumer import Array, PythonConsumer

#: the rules that start no process, since a new process would not find the consumer
RULES = {id: rule for id, rule in all_rules().items() if rule.role is Role.CONSUMER and not rule.processes}


@pytest.fixture(scope="module", autouse=True)
def frozen() -> Iterator[None]:
    """Freezes the existing objects, because the checks collect garbage often."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


class ProducesOnly(PythonConsumer):
    """A library that does not consume."""

    consumes = False


class OnDevice(PythonConsumer):
    """A library that takes only GPU memory."""

    device = CUDA
    takes_host_memory = False

    def from_dlpack(self, producer: Any, **keywords: Any) -> Any:
        if producer.__dlpack_device__() != CUDA:
            raise TypeError("no memory of a GPU")
        return super().from_dlpack(producer, **keywords)


class Pictures(PythonConsumer):
    """A library whose arrays have three dimensions."""

    ndims = (3, 3)

    def _described(self, fields: Any) -> Any:
        if fields.ndim != 3:
            raise BufferError("a picture has three dimensions")
        return super()._described(fields)


class WithoutCopy(PythonConsumer):
    """A library whose from_dlpack is older than the keyword copy."""

    def from_dlpack(self, producer: Any, *, device: str | None = None) -> Any:  # type: ignore[override]
        return super().from_dlpack(producer, device=device)


class CopyingWithoutCopy(WithoutCopy):
    """A library without the keyword copy that copies every tensor."""

    def __init__(self, *faults: str) -> None:
        super().__init__("copies always", *faults)


class CopyOfOwn(PythonConsumer):
    """A library that raises TypeErrors about arguments if a producer cannot copy."""

    def from_dlpack(self, producer: Any, *, device: str | None = None, copy: bool | None = None) -> Any:
        if copy:
            raise TypeError("the argument copy is not True for this device")
        return super().from_dlpack(producer, device=device, copy=copy)


class NoExport(PythonConsumer):
    """A library that does not export imported arrays."""

    def _made(self, held: Any) -> Any:
        array = super()._made(held)
        return Unexported(**{name: getattr(array, name) for name in array.__dataclass_fields__})


class Unexported(Array):
    """An array that refuses its export."""

    def __dlpack__(self, *, max_version: Any = None, **_: Any) -> Any:
        raise BufferError("it is another library's memory")


def found(consumer: PythonConsumer) -> tuple[dict[str, str], set[str]]:
    """The MUST and SHOULD rules that a consumer breaks, with the reason, and those that do not apply."""
    results = {id: in_fork(consumer, rule, 30) for id, rule in RULES.items()}
    binding = {id for id, rule in RULES.items() if rule.level is not Level.MAY}
    broken = {id: f"{r.status} {r.detail}" for id, r in results.items() if r.status.is_broken and id in binding}
    return broken, {id for id, result in results.items() if result.status is Status.NOT_APPLICABLE}


#: unusual consumers, and the MUST and SHOULD rules that they break
UNUSUAL: dict[str, tuple[PythonConsumer, set[str]]] = {
    "asks twice": (PythonConsumer("asks once too often"), {"C-PROTOCOL-ASKS-ONCE"}),
    "gives the refused back later": (PythonConsumer("gives the refused back later"), {"C-DELETER-REFUSED-AT-ONCE"}),
    "ignores tables": (PythonConsumer("ignores tables"), set()),
    "borrows and copies": (PythonConsumer("borrows and copies"), set()),
    "falls back to the methods": (PythonConsumer("falls back to the methods"), set()),
    "three dimensions": (Pictures(), set()),
    "without copy": (WithoutCopy(), {"C-COPY-KEYWORD"}),
    "copies and lacks the keyword copy": (CopyingWithoutCopy(), {"C-COPY-KEYWORD", "C-COPY-NONE-SHARES"}),
    "exports nothing": (NoExport(), set()),
    "does not consume": (ProducesOnly(), set()),
    "on a GPU": (OnDevice(), set()),
}


@pytest.mark.parametrize("name", UNUSUAL)
def test_unusual_consumer_breaks_only_expected_rules(name: str) -> None:
    consumer, expected = UNUSUAL[name]
    broken, _ = found(consumer)
    assert set(broken) == expected, broken


def test_rule_about_missing_feature_does_not_apply() -> None:
    assert found(ProducesOnly())[1] == set(RULES)
    streams = {"C-STREAM-PASSED", "C-STREAM-CUDA-NOT-0"}
    assert set(RULES) - found(OnDevice())[1] == streams
    exchange = {id for id in RULES if id.startswith("C-EXCHANGE")}
    assert found(PythonConsumer("ignores tables"))[1] & exchange == exchange
    assert len(found(Pictures())[1]) < 30


def test_copy_typeerror_from_producer_does_not_hide_the_keyword() -> None:
    _, left_out = found(CopyOfOwn())
    assert "C-COPY-FALSE-SHARES" not in left_out


def test_invalid_tensor_accepted_without_harm_keeps_the_rule() -> None:
    consumer = PythonConsumer("takes what is wrong")
    results = {name: in_fork(consumer, RULES[f"C-{name}"], 30) for name in WRONG}
    assert {name: result.status for name, result in results.items()} == dict.fromkeys(WRONG, Status.PASSED)


def test_producer_only_library_starts_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(Path(__file__).parent), *sys.path]))
    for id, rule in all_rules().items():
        if rule.role is Role.CONSUMER and rule.processes:
            assert in_fork(ProducesOnly(), rule, 30).status is Status.NOT_APPLICABLE, id
