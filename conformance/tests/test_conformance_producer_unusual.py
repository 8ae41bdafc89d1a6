"""Unusual producers that follow the standard break no rule, on any device."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path
from typing import Any

import pytest

from dlbridge_conformance import crafter
from dlbridge_conformance.registry import adapter_named, known_adapters
from dlbridge_conformance.fork import check
from dlbridge_conformance.crafter import Held, Way
from dlbridge_conformance.result import Status
from dlbridge_conformance.registry import all_rules
from dlbridge_conformance.rule import Level, Role
from faulty_producer import (
    DELETER_AT, KEPT, Bare, Faulty, Give, Made, copied, copying_to, raising, refusing_exports, sound, without,
)  # fmt: skip

RULES = {id: rule for id, rule in all_rules().items() if rule.role is Role.PRODUCER}
#: rules whose checks take long, or start a process, which would not know these producers
SLOW = {id for id in RULES if id.startswith("P-DELETER-") or id.endswith("-FREES")}


class WithoutKeywords(Made):
    """An array without keywords. A C method words its TypeError differently from a Python method."""

    @property
    def __dlpack__(self) -> Any:  # type: ignore[override]
        return (self.give(self, {}) for _ in range(1)).__next__


class WithStream(Made):
    """An array from before ``max_version``."""

    def __dlpack__(self, *, stream: Any = None) -> Any:  # type: ignore[override]
        return self.give(self, {"stream": stream})


def versioned_only(array: Made, keywords: dict[str, Any]) -> Any:
    """Refuses legacy capsules."""
    if keywords.get("max_version") is None:
        raise BufferError("legacy capsules are no longer made")
    return sound(array, keywords)


def copying(array: Made, keywords: dict[str, Any]) -> Any:
    """Always copies, with the flag, and refuses copy=False."""
    if keywords.get("copy") is False:
        raise BufferError("this takes a copy")
    return sound(array, {**keywords, "copy": True})


def on_devices(array: Made, keywords: dict[str, Any], *refused: int) -> Any:
    """Accepts streams except those below -1 and the given ones."""
    stream = keywords.get("stream")
    if stream is not None and (stream < -1 or stream in refused):
        raise ValueError(f"unknown stream {stream}")
    return sound(array, {**keywords, "stream": None})


_CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


def holding(array: Made, keywords: dict[str, Any]) -> Any:
    """A producer whose export keeps the array until its deleter is called, which waits for the GIL."""
    held = crafter.take(sound(array, keywords))
    crafted = copied(held.fields, held)
    kept = [array]
    deleter = _CALLBACK(lambda _: kept.clear())
    KEPT.append(deleter)
    place = ctypes.c_void_p.from_address(crafted.native.address + DELETER_AT[crafted.versioned])
    place.value = ctypes.cast(deleter, ctypes.c_void_p).value
    return crafted.capsule()


#: unusual producers, and the rules that they break
UNUSUAL: dict[str, tuple[Faulty, set[str]]] = {
    "no legacy capsules": (Faulty(versioned_only), set()),
    "no keywords": (
        Faulty(wrap=WithoutKeywords),
        {"P-KEYWORDS-STREAM", "P-KEYWORDS-MAX-VERSION", "P-KEYWORDS-DL-DEVICE", "P-KEYWORDS-COPY"}),
    "only stream": (
        Faulty(wrap=WithStream), {"P-KEYWORDS-MAX-VERSION", "P-KEYWORDS-DL-DEVICE", "P-KEYWORDS-COPY"}),
    "always copies": (Faulty(copying), set()),
    "no weak references": (Faulty(wrap=Bare), set()),
    "no negative strides and no strides of 0": (
        Faulty(refusing_exports(lambda f: any(stride <= 0 for stride in f.strides or ()))), {"P-VIEWS-ACCEPTED"}),
    "no views": (
        Faulty(refusing_exports(lambda f: f.strides != crafter.c_strides(f.shape or ()))), {"P-VIEWS-ACCEPTED"}),
    "no float16 and no bfloat16": (
        Faulty(refusing_exports(lambda f: f.dtype in ((2, 16, 1), (4, 16, 1)))), set()),
    "nothing read-only": (
        Faulty(refusing_exports(lambda f: f.flags & 1)), {"P-FLAGS-READ-ONLY-ACCEPTED"}),
    "copies to CUDA": (Faulty(copying_to), set()),
}  # fmt: skip


@pytest.mark.parametrize("name", UNUSUAL)
def test_unusual_producer_breaks_only_expected_rules(name: str) -> None:
    library, expected = UNUSUAL[name]
    results = [check(library, rule) for id, rule in RULES.items() if id not in SLOW]
    broken = {result.rule: result.detail for result in results if result.status.is_broken}
    assert set(broken) - {id for id, rule in RULES.items() if rule.level is Level.MAY} == expected, broken


@pytest.mark.parametrize("id", ["P-DELETER-HOLDS-STRUCT", "P-DELETER-OBJECT", "P-DELETER-AT-ONCE", "P-DELETER-CHAIN"])
@pytest.mark.parametrize("library", [Faulty(versioned_only), Faulty(wrap=Bare)], ids=["versioned only", "bare"])
def test_unusual_producer_deleter_is_checked(id: str, library: Faulty) -> None:
    result = check(library, RULES[id])
    assert result.status is Status.PASSED, result


@pytest.mark.parametrize("id", ["P-STRUCT-VERSION", "P-CAPSULE-VERSIONED-NAME", "P-FLAGS-READ-ONLY"])
def test_type_error_about_a_known_keyword_breaks_rules(id: str) -> None:
    result = check(Faulty(raising(TypeError("max_version is a tuple"), "max_version")), RULES[id])
    assert result.status is Status.FAILED, result


@pytest.mark.parametrize("id", ["P-DELETER-FREES-ARRAY", "P-COPY-TRUE-FREES"])
def test_device_memory_is_not_measured_in_the_process(id: str) -> None:
    result = check(Faulty(device=(2, 0)), RULES[id])
    assert result.status is Status.NOT_APPLICABLE, result


CUDA, ROCM = (2, 0), (10, 0)


def without_streams(error: Exception) -> Give:
    """A producer that accepts only the stream None."""
    return lambda array, keywords: raising(error, "stream")(array, keywords)


def needing_a_stream(array: Made, keywords: dict[str, Any]) -> Any:
    """A producer that requires a stream whenever the keyword is passed."""
    if "stream" in keywords and keywords["stream"] is None:
        raise ValueError("which stream?")
    return sound(array, keywords)


@pytest.mark.parametrize(("device", "refused"), [(CUDA, (0,)), (ROCM, (1, 2))])
def test_producer_without_faults_keeps_the_stream_rules(device: tuple[int, int], refused: tuple[int, ...]) -> None:
    library = Faulty(lambda array, keywords: on_devices(array, keywords, *refused), device=device)
    results = [check(library, rule) for id, rule in RULES.items() if id.startswith("P-STREAM-")]
    other = "ROCM" if device == CUDA else "CUDA"
    for result in results:
        wanted = Status.NOT_APPLICABLE if other in result.rule else Status.PASSED
        assert result.status is wanted, result


@pytest.mark.parametrize(
    ("id", "device", "give"),
    [
        ("P-STREAM-NONE", CUDA, needing_a_stream),
        ("P-STREAM-CUDA-TAKEN", CUDA, without_streams(ValueError("no streams"))),
        ("P-STREAM-ROCM-TAKEN", ROCM, without_streams(ValueError("no streams"))),
        ("P-STREAM-CUDA-NOT-0", CUDA, without("stream")),
        ("P-STREAM-ROCM-NOT-1-2", ROCM, without("stream")),
        ("P-STREAM-NEGATIVE", CUDA, without("stream")),
        ("P-STREAM-ERROR", CUDA, without_streams(BufferError("a stream"))),
    ],
)
def test_producer_stream_fault_breaks_its_rule(id: str, device: tuple[int, int], give: Give) -> None:
    result = check(Faulty(give, device=device), RULES[id])
    assert result.status is Status.FAILED, result


def test_deleter_not_waiting_for_the_gil_breaks_its_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    assert check(Faulty(holding), RULES["P-DELETER-GIL-TAKEN"]).status is Status.PASSED
    delete = Held.delete

    def early(held: Held, way: Way = Way.WITH_GIL) -> None:
        if way is Way.NOT_WAITED_FOR:
            held.native, export = crafter.take(crafter.craft((1,)).capsule()).native, Held(held.native)
            delete(export)
        delete(held, way)

    monkeypatch.setattr(Held, "delete", early)
    result = check(Faulty(holding), RULES["P-DELETER-GIL-TAKEN"])
    assert result.status is Status.FAILED, result
    assert "another thread held the GIL" in result.detail


LEAVING = """
import atexit, os
import dlbridge
from dlbridge_conformance.adapters.dlbridge import DLBridge

class Leaving(DLBridge):
    dlbridge = dlbridge

    def load(self):
        atexit.register(os._exit, 0)
"""


def test_library_ending_the_process_early_breaks_the_exit_rule(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "leaving.py").write_text(LEAVING)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", ":".join([str(tmp_path), *sys.path]))
    known = known_adapters()["dlbridge"]
    known.load()
    for id in ("P-DELETER-AT-EXIT", "P-DELETER-AT-EXIT-CAPSULE"):
        result = check(adapter_named("leaving:Leaving"), RULES[id])
        assert result.status is Status.FAILED, result
        assert "before the deleters had run" in result.detail
        assert check(known, RULES[id]).status is Status.PASSED
