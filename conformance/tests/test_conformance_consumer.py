"""The consumer rules: a consumer without faults keeps all, and each deliberate fault breaks the rule meant for it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from dlbridge_conformance import Result, Role, Rule, Status, all_rules
from dlbridge_conformance.crafter import CUDA, ROCM
from dlbridge_conformance.fork import in_fork
from dlbridge_conformance.rules.consumer_hostile import WRONG
from python_consumer import PythonConsumer

RULES = {id: rule for id, rule in all_rules().items() if rule.role is Role.CONSUMER}

#: each fault, and the rule that must catch it
FAULTS = {
    "never deletes": "C-DELETER-ONCE",
    "deletes twice": "C-DELETER-ONCE-LEGACY",
    "deletes early": "C-DELETER-NOT-BEFORE",
    "deletes again at exit": "C-DELETER-EXIT-CLEAN",
    "needs a context": "C-DELETER-NULL-CONTEXT",
    "keeps empty tensors": "C-DELETER-ZERO-SIZE",
    "keeps 0-d tensors": "C-DELETER-0-D",
    "stays on its thread": "C-DELETER-OTHER-THREAD",
    "leaks the refused": "C-DELETER-REFUSED",
    "deletes the refused twice": "C-CAPSULE-REFUSED-OWNER",
    "does not rename": "C-CAPSULE-RENAMED-VERSIONED",
    "takes used capsules": "C-CAPSULE-USED",
    "takes capsules of any name": "C-CAPSULE-FOREIGN-NAME",
    "takes version 2": "C-VERSION-MAJOR-REFUSED",
    "takes version 0.8": "C-VERSION-MAJOR-0",
    "compares one byte of the version": "C-VERSION-MAJOR-HUGE",
    "refuses later minor versions": "C-VERSION-MINOR-LATER",
    "passes the stream by position": "C-PROTOCOL-KEYWORDS-ONLY",
    "has a keyword of its own": "C-PROTOCOL-KNOWN-KEYWORDS",
    "asks for no copy unasked": "C-PROTOCOL-NOTHING-UNASKED",
    "gives no version": "C-PROTOCOL-MAX-VERSION",
    "gives the version as a list": "C-PROTOCOL-MAX-VERSION-FORM",
    "asks for the device last": "C-PROTOCOL-DEVICE-FIRST",
    "asks once too often": "C-PROTOCOL-ASKS-ONCE",
    "does not ask again": "C-PROTOCOL-OLD-PRODUCER",
    "takes only versioned capsules": "C-PROTOCOL-LEGACY-ANSWER",
    "assumes the requested ABI": "C-PROTOCOL-LEGACY-NAME",
    "has one exception for all": "C-ERROR-TYPE-ERROR",
    "asks four times": "C-ERROR-TYPE-ERROR-CALLS",
    "asks again after any exception": "C-ERROR-NOT-REPEATED",
    "swallows errors of the device": "C-ERROR-DEVICE",
    "gives a stream on the CPU": "C-STREAM-NONE-ON-CPU",
    "ignores strides": "C-LAYOUT-TRANSPOSED",
    "lacks negative strides": "C-LAYOUT-NEGATIVE",
    "has strides in units of float32": "C-DTYPE-STRIDED",
    "refuses odd strides": "C-LAYOUT-SIZE-1-ACCEPTED",
    "needs strides": "C-LAYOUT-NULL-STRIDES-LEGACY",
    "ignores byte_offset": "C-LAYOUT-BYTE-OFFSET",
    "forgets shapes without elements": "C-LAYOUT-ZERO-SIZE",
    "ignores lanes": "C-DTYPE-LANES-2",
    "lacks uint16": "C-DTYPE-UINT16",
    "lacks int64": "C-DTYPE-INT64",
    "takes unknown codes for floats": "C-DTYPE-UNKNOWN-CODE",
    "takes padded for packed": "C-DTYPE-PADDED",
    "ignores the bits of small floats": "C-DTYPE-FLOAT6-BITS",
    "drops READ_ONLY": "C-FLAG-READ-ONLY-MARKED",
    "knows only its own flags": "C-FLAG-UNKNOWN-MARKED",
    "has writable views": "C-FLAG-READ-ONLY-VIEW",
    "ignores copy": "C-COPY-TRUE-OTHER-MEMORY",
    "copies always": "C-COPY-NONE-SHARES",
    "copies unless told not to": "C-COPY-NONE-AS-FALSE",
    "takes any device": "C-DEVICE-UNKNOWN-TYPE",
    "passes the device unchanged": "C-DEVICE-PASSED-ON",
    "needs a deleter": "C-HOSTILE-DELETER-NULL",
    "takes negative extents": "C-HOSTILE-EXTENT-NEGATIVE-REFUSED",
    "takes data of NULL": "C-HOSTILE-DATA-NULL-REFUSED",
    "forgets dimensions": "C-HOSTILE-NDIM-300",
    "fails to export": "C-LIFETIME-CHAIN-OTHER",
    "refuses what it asked for": "C-VERSION-1-0",
    "looks at the dtype before the version": "C-VERSION-MAJOR-UNREAD",
    "ignores devices": "C-DEVICE-COPY-FALSE",
    "borrows": "C-EXCHANGE-BORROWED-NOT-KEPT",
    "looks for the table on the object": "C-EXCHANGE-ON-TYPE",
    "takes tables of any version": "C-EXCHANGE-MAJOR",
    "refuses tables of later minor versions": "C-EXCHANGE-MINOR-LATER",
    "knows only the newest table": "C-EXCHANGE-PREVIOUS",
    "takes tables of any name": "C-EXCHANGE-NAME",
    "has one table for all types": "C-EXCHANGE-EACH-TYPE",
    "loses exceptions of tables": "C-EXCHANGE-ERROR",
    "gives up a table that failed": "C-EXCHANGE-RECOVERS",
    "asks for the stream of device 0": "C-EXCHANGE-STREAM",
    "has views that own nothing": "C-LIFETIME-VIEW",
    "exports without an owner": "C-LIFETIME-CHAIN-OWN",
    "reads before it looks at the version": "C-VERSION-MAJOR-UNREAD",
    "trusts the deleter": "C-HOSTILE-DELETER-NULL",
    "writes what it reads": "C-LIFETIME-PRODUCER-READS",
}

#: further rules that catch a fault
ALSO: dict[str, list[str]] = {
    "never deletes": [
        "C-DELETER-CYCLE", "C-DELETER-MANY", "C-DELETER-EXIT-CALLED", "C-LAYOUT-C-ORDER", "C-DELETER-AT-ONCE",
        "C-DELETER-PENDING-KEPT", "C-DELETER-PRODUCER-GONE", "C-LIFETIME-VIEW-FIRST", "C-LIFETIME-THREADS",
        "C-LIFETIME-TWICE", "C-LIFETIME-CHAIN-OTHER", "C-COPY-TRUE-GIVEN-BACK", "C-EXCHANGE-GIVEN-BACK",
    ],
    "does not rename": ["C-CAPSULE-OUTLIVES-ARRAY", "C-CAPSULE-RENAMED-LEGACY"],
    "leaks the refused": [
        "C-VERSION-MAJOR-FREED", "C-DELETER-REFUSED-LEGACY", "C-DELETER-REFUSED-AT-ONCE", "C-EXCHANGE-REFUSED",
    ],
    "deletes early": ["C-CAPSULE-DIES-FIRST"],
    "takes any device": [
        "C-DEVICE-STRUCT-DISAGREES", "C-DEVICE-CUDA", "C-DEVICE-ROCM", "C-DEVICE-OPENCL", "C-EXCHANGE-STREAM",
    ],
    "has one exception for all": [
        "C-ERROR-OWN-CLASS", "C-ERROR-INTERRUPT", "C-ERROR-NO-METHODS-CLASS", "C-ERROR-BUFFER-ERROR",
    ],
    "asks again after any exception": ["C-COPY-FALSE-PRODUCER-REFUSES"],
    "ignores copy": ["C-COPY-TRUE-SOURCE-UNWRITTEN", "C-COPY-TRUE-OLD-PRODUCER"],
    "ignores byte_offset": [
        "C-DTYPE-BYTE-OFFSET", "C-COPY-NONE-ADDRESS", "C-LAYOUT-BYTE-OFFSET-0-D", "C-LAYOUT-BYTE-OFFSET-STRIDED",
        "C-LAYOUT-BYTE-OFFSET-ACCEPTED",
    ],
    "ignores strides": [
        "C-LAYOUT-BROADCAST", "C-LAYOUT-STEPPED", "C-LAYOUT-PERMUTED", "C-LAYOUT-PADDED-ROWS",
        "C-LAYOUT-OVERLAPPING",
    ],
    "ignores lanes": ["C-DTYPE-LANES-4", "C-DTYPE-LANES-0-REFUSED", "C-DTYPE-LANES-SUBBYTE"],
    "drops READ_ONLY": [
        "C-FLAG-READ-ONLY-UNWRITTEN", "C-FLAG-READ-ONLY-PASSED-ON", "C-FLAG-READ-ONLY-COPY", "C-EXCHANGE-READ-ONLY",
    ],
    "trusts the deleter": ["C-HOSTILE-DELETER-NULL-REFUSED"],
    "takes version 2": ["C-VERSION-MAJOR-BUFFER-ERROR", "C-EXCHANGE-TENSOR-MAJOR"],
    "stays on its thread": ["C-DELETER-MADE-ON-THREAD"],
    "takes used capsules": ["C-CAPSULE-SECOND-USE"],
    "takes capsules of any name": ["C-CAPSULE-NO-NAME"],
    "has views that own nothing": ["C-LIFETIME-VIEW-OF-VIEW"],
    "needs strides": ["C-LAYOUT-NULL-STRIDES-1-0"],
    "refuses odd strides": [
        "C-LAYOUT-TRANSPOSED-ACCEPTED", "C-LAYOUT-STEPPED-ACCEPTED", "C-LAYOUT-NEGATIVE-ACCEPTED",
        "C-LAYOUT-BROADCAST-ACCEPTED",
    ],
    "ignores the bits of small floats": ["C-DTYPE-FLOAT4-BITS"],
    "takes data of NULL": ["C-HOSTILE-DATA-NULL-OFFSET-REFUSED"],
    "fails to export": ["C-LIFETIME-CHAIN-UNUSED", "C-FLAG-READ-ONLY-PASSED-ON"],
    "borrows": ["C-EXCHANGE-BORROW-NULL"],
    "writes what it reads": ["C-EXCHANGE-ELEMENTS"],
    "aborts on what is wrong": ["C-HOSTILE-SIZE-OVERFLOW-EMPTY", *(f"C-{name}" for name in WRONG)],
    "copies always": ["C-COPY-FALSE-NEEDED", "C-COPY-FALSE-OLD-PRODUCER", "C-COPY-FALSE-SHARES"],
    "takes what is wrong": [f"C-{name}-REFUSED" for name in WRONG],
}  # fmt: skip


@pytest.fixture(autouse=True)
def in_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets the processes that a rule starts find the consumer."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(Path(__file__).parent), *sys.path]))


def run(id: str, *faults: str) -> Result:
    """Runs one rule on a consumer with faults."""
    return in_fork(PythonConsumer(*faults), RULES[id], 30)


@pytest.mark.parametrize("rule", RULES.values(), ids=list(RULES))
def test_consumer_without_faults_keeps_every_rule(rule: Rule) -> None:
    result = run(rule.id)
    if result.status is Status.NOT_APPLICABLE:
        assert rule.id in NOT_APPLICABLE, result.detail
    else:
        assert result.status is Status.PASSED, (result.detail, result.evidence)


#: rules that do not apply to the consumer without faults: it supports only the CPU, and never has to copy
NOT_APPLICABLE = {"C-STREAM-PASSED", "C-STREAM-CUDA-NOT-0", "C-STREAM-ROCM-NOT-1-2", "C-COPY-FALSE-CLASS"}


#: faults in the stream that a consumer passes, the device, and the rule
STREAM_FAULTS = [
    ("gives no stream", CUDA, "C-STREAM-PASSED"),
    ("gives stream 0", CUDA, "C-STREAM-CUDA-NOT-0"),
    ("gives stream 1", ROCM, "C-STREAM-ROCM-NOT-1-2"),
]


@pytest.mark.parametrize(("fault", "device", "id"), STREAM_FAULTS)
def test_consumer_stream_fault_breaks_its_rule(fault: str, device: tuple[int, int], id: str) -> None:
    for faults, is_broken in (((), False), ((fault,), True)):
        consumer = PythonConsumer(*faults)
        consumer.device = device
        result = in_fork(consumer, RULES[id], 30)
        assert result.status is not Status.NOT_APPLICABLE
        assert result.status.is_broken == is_broken, result


@pytest.mark.parametrize(
    ("fault", "id"), [*FAULTS.items(), *((fault, id) for fault, ids in ALSO.items() for id in ids)]
)
def test_consumer_fault_breaks_its_rule(fault: str, id: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHON_CONSUMER_FAULTS", fault)
    result = run(id, fault)
    assert result.status.is_broken, (result.status, result.detail, result.evidence)
