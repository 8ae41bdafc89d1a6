"""The producer rules: a producer without faults keeps all, and each deliberate fault breaks the rule meant for it."""

from __future__ import annotations

import pytest

from dlbridge_conformance import crafter
from dlbridge_conformance.fork import check
from dlbridge_conformance.result import Status
from dlbridge_conformance.registry import all_rules
from dlbridge_conformance.rule import Role
from faulty_producer import (
    Bare, Faulty, Made, Positional, absolute, c_order, changed, changing, clearing, copying_to, destroyed,
    dtype_as, elsewhere, fields, forgetful, freezing, in_bytes, keeping, keeping_struct, leaking, once, raising,
    refusing, refusing_exports, renamed, same_capsule, sound, squeezed, turned, unknown, without, without_owner,
)  # fmt: skip

RULES = {id: rule for id, rule in all_rules().items() if rule.role is Role.PRODUCER}
#: rules that start a process, which would not know the faulty adapter
IN_PROCESSES = {"P-DELETER-AT-EXIT", "P-DELETER-AT-EXIT-CAPSULE"}

#: rules that break if an array is never freed
LET_GO = (
    "P-CAPSULE-UNUSED-FREES", "P-COPY-TRUE-FREES", "P-DELETER-OBJECT", "P-DELETER-WITHOUT-GIL",
    "P-DELETER-NATIVE-THREAD", "P-DELETER-GIL-TAKEN", "P-DELETER-PYTHON-THREAD", "P-DELETER-AT-ONCE",
    "P-DELETER-CHAIN", "P-DELETER-CHAIN-OWN",
)  # fmt: skip
#: rules that do not apply to a producer without faults on the CPU
NOT_HERE = {"P-FLAGS-READ-ONLY-LEGACY-ERROR", "P-KEYWORDS-DL-DEVICE-NO-COPY"} | {
    id for id in RULES if id.startswith("P-STREAM-")
}

#: faults of a producer, and the rule that must catch each
FAULTS: dict[str, tuple[str, Faulty]] = {
    "returns None": ("P-CAPSULE-TYPE", Faulty(lambda array, keywords: None)),
    "legacy capsule of another name": ("P-CAPSULE-LEGACY-NAME", Faulty(renamed("tensor"))),
    "max_version=None is versioned": (
        "P-CAPSULE-NONE-NAME", Faulty(lambda a, k: sound(a, {**k, "max_version": (1, 3)}))),
    "max_version ignored": ("P-CAPSULE-VERSIONED-NAME", Faulty(without("max_version"))),
    "capsule without a name": ("P-CAPSULE-KNOWN-NAME", Faulty(renamed(None))),
    "versioned for a consumer of 0.8": (
        "P-CAPSULE-MAX-BEFORE-1", Faulty(lambda a, k: sound(a, {**k, "max_version": (1, 3)}))),
    "another major than asked for": ("P-CAPSULE-MAX-SAME-MAJOR", Faulty(lambda a, k: (
        fields(version=(2, 0)) if k.get("max_version") == (1, 0) else sound)(a, k))),
    "an older minor for a newer consumer": ("P-CAPSULE-MAX-NEWER-MINOR", Faulty(lambda a, k: (
        fields(version=(1, 0)) if k.get("max_version") == (1, 99) else sound)(a, k))),
    "legacy for a newer major": ("P-CAPSULE-MAX-NEWER-MAJOR", Faulty(lambda a, k: sound(
        a, {} if k.get("max_version") == (99, 0) else k))),
    "the same capsule twice": ("P-CAPSULE-EACH-ITS-OWN", Faulty(same_capsule)),
    "one export only": ("P-CAPSULE-AFTER-USE", Faulty(once)),
    "keeps what was exported": ("P-CAPSULE-UNUSED-FREES", Faulty(keeping)),
    "legacy and versioned disagree": ("P-CAPSULE-ABIS-AGREE", Faulty(changed(
        lambda f: {} if f.version else {"device": (3, 0)}))),
    "no stream": ("P-KEYWORDS-STREAM", Faulty(lambda a, k: unknown(a, k, "stream"))),
    "no max_version": ("P-KEYWORDS-MAX-VERSION", Faulty(lambda a, k: unknown(a, k, "max_version"))),
    "no dl_device": ("P-KEYWORDS-DL-DEVICE", Faulty(lambda a, k: unknown(a, k, "dl_device"))),
    "no copy": ("P-KEYWORDS-COPY", Faulty(lambda a, k: unknown(a, k, "copy"))),
    "any keyword is fine": ("P-KEYWORDS-UNKNOWN", Faulty(without("not_a_keyword"))),
    "streams ignored": ("P-KEYWORDS-STREAM-ON-CPU", Faulty(without("stream"))),
    "BufferError for a stream": ("P-KEYWORDS-STREAM-ERROR", Faulty(raising(BufferError("a stream"), "stream"))),
    "streams not looked at": ("P-KEYWORDS-STREAM-TYPE", Faulty(without("stream"))),
    "max_version of any type": ("P-KEYWORDS-MAX-VERSION-TYPE", Faulty(without("max_version"))),
    "dl_device ignored": ("P-KEYWORDS-DL-DEVICE-FOREIGN", Faulty(without("dl_device"))),
    "RuntimeError for a device": ("P-KEYWORDS-DL-DEVICE-UNKNOWN", Faulty(refusing(RuntimeError))),
    "own device refused": ("P-KEYWORDS-DL-DEVICE-OWN", Faulty(raising(BufferError("no devices"), "dl_device"))),
    "CPU refused": ("P-KEYWORDS-DL-DEVICE-CPU", Faulty(raising(BufferError("no devices"), "dl_device"))),
    "CPU of another number": ("P-KEYWORDS-DL-DEVICE-CPU-ID", Faulty(lambda a, k: (
        changed(lambda _: {"device": k["dl_device"]}, dl_device=None) if k.get("dl_device") else sound)(a, k))),
    "copied to a device though told not to": (
        "P-KEYWORDS-DL-DEVICE-NO-COPY", Faulty(lambda a, k: copying_to(a, k, always=True))),
    "streams ignored with a device": ("P-KEYWORDS-DL-DEVICE-STREAM", Faulty(lambda a, k: (
        without("stream") if k.get("dl_device") else sound)(a, k))),
    "copied for a None": ("P-KEYWORDS-ALL-NONE", Faulty(lambda a, k: (
        elsewhere if "copy" in k and k["copy"] is None else sound)(a, k))),
    "takes a positional stream": ("P-KEYWORDS-KEYWORD-ONLY", Faulty(wrap=Positional)),
    "device is a list": ("P-DEVICE-TUPLE", Faulty(device_answer=lambda: [1, 0])),
    "device type is a string": ("P-DEVICE-TYPE", Faulty(device_answer=lambda: ("cpu", 0))),
    "device id is None": ("P-DEVICE-ID", Faulty(device_answer=lambda: (1, None))),
    "unknown device type": ("P-DEVICE-KNOWN", Faulty(device_answer=lambda: (99, 0))),
    "device in the struct differs": ("P-DEVICE-AGREES", Faulty(fields(device=(3, 0)))),
    "CPU number 1": ("P-DEVICE-SINGLE-ID", Faulty(device_answer=lambda: (1, 1))),
    "version 2": ("P-STRUCT-VERSION", Faulty(fields(version=(2, 0)))),
    "size-1 axes left out": ("P-STRUCT-NDIM", Faulty(changed(squeezed))),
    "shape reversed": ("P-STRUCT-SHAPE", Faulty(changed(turned))),
    "shape NULL": ("P-STRUCT-SHAPE-SET", Faulty(fields(shape=None))),
    "strides NULL": ("P-STRUCT-STRIDES-SET", Faulty(fields(strides=None))),
    "strides NULL without elements": ("P-STRUCT-STRIDES-SET-ZERO-SIZE", Faulty(fields(strides=None))),
    "strides in bytes": ("P-STRUCT-STRIDES-C-ORDER", Faulty(changed(in_bytes))),
    "strides NULL for a transposed matrix": ("P-STRUCT-STRIDES-NULL", Faulty(fields(strides=None))),
    "byte_offset of one element": ("P-STRUCT-ELEMENTS", Faulty(fields(byte_offset=4))),
    "always copied": ("P-STRUCT-SAME-MEMORY", Faulty(elsewhere)),
    "scalar with an axis": ("P-STRUCT-SCALAR", Faulty(changed(
        lambda f: {} if f.shape else {"shape": (1,), "strides": (1,), "ndim": 1}))),
    "squeezed": ("P-STRUCT-SIZE-ONE", Faulty(changed(squeezed))),
    "empty shapes as (0,)": ("P-STRUCT-ZERO-SIZE", Faulty(changed(
        lambda f: {"shape": (0,), "strides": (1,), "ndim": 1} if 0 in (f.shape or ()) else {}))),
    "data set without elements": ("P-STRUCT-ZERO-SIZE-NULL", Faulty(fields(data=4096))),
    "data NULL": ("P-STRUCT-DATA-SET", Faulty(fields(data=0))),
    "not aligned": ("P-STRUCT-ALIGNED", Faulty(changed(lambda f: {"data": f.data + 4}))),
    "no deleter": ("P-STRUCT-DELETER", Faulty(fields(deleter=False))),
    "transposed matrix in C order": ("P-VIEWS-TRANSPOSED", Faulty(changed(c_order))),
    "steps lost": ("P-VIEWS-STEPPED", Faulty(changed(c_order))),
    "negative strides without sign": ("P-VIEWS-REVERSED", Faulty(changed(absolute))),
    "slices from the beginning": ("P-VIEWS-SLICED", Faulty(changed(
        lambda f: {"data": f.data - 8} if f.shape == (3, 2) else {}))),
    "broadcast as if repeated": ("P-VIEWS-BROADCAST", Faulty(changed(
        lambda f: {"strides": (1, 0)} if 0 in (f.strides or ()) else {}))),
    "transposed copied": ("P-VIEWS-TRANSPOSED-SAME-MEMORY", Faulty(elsewhere)),
    "offset counted twice": ("P-VIEWS-OFFSET-COUNTS", Faulty(changed(
        lambda f: {"byte_offset": 8} if f.shape == (3, 2) else {}))),
    "views refused": ("P-VIEWS-ACCEPTED", Faulty(refusing_exports(
        lambda f: f.strides != crafter.c_strides(f.shape or ())))),
    "a slice refused as ValueError": ("P-VIEWS-SLICED", Faulty(lambda a, k: (
        raising(ValueError("no slices"), "max_version") if a.inner.shape == (3, 2) else sound)(a, k))),
    "int16 refused": ("P-DTYPES-STANDARD", Faulty(refusing_exports(lambda f: f.dtype == (0, 16, 1)))),
    "strides of every dtype in bytes": ("P-DTYPES-STRIDES", Faulty(changed(in_bytes))),
    "bool as uint8": ("P-DTYPES-BOOL", Faulty(dtype_as("bool", (1, 8, 1)))),
    "bfloat16 as float16": ("P-DTYPES-BFLOAT16", Faulty(dtype_as("bfloat16", (2, 16, 1)))),
    "two lanes": ("P-DTYPES-FLOAT32", Faulty(dtype_as("float32", (2, 32, 2)))),
    "complex of half the bits": ("P-DTYPES-COMPLEX64", Faulty(dtype_as("complex64", (5, 32, 1)))),
    "copy=True refused": ("P-COPY-TRUE-TAKEN", Faulty(raising(BufferError("no copies"), "copy"))),
    "copy=False refused": ("P-COPY-FALSE-ACCEPTED", Faulty(raising(BufferError("no promises"), "copy"))),
    "copy without a flag": ("P-COPY-TRUE-FLAG", Faulty(changed(lambda f: {"flags": f.flags & ~2}))),
    "copy ignored": ("P-COPY-TRUE-MEMORY", Faulty(without("copy"))),
    "copy ignored for legacy consumers": ("P-COPY-TRUE-LEGACY", Faulty(without("copy"))),
    "copies share memory": ("P-COPY-TRUE-APART", Faulty(without("copy"))),
    "copies see later writes": ("P-COPY-TRUE-SNAPSHOT", Faulty(without("copy"))),
    "copied though told not to": ("P-COPY-FALSE-MEMORY", Faulty(elsewhere)),
    "says copied and shares": ("P-COPY-FALSE-FLAG", Faulty(changed(lambda f: {"flags": f.flags | 2}))),
    "copied without need": ("P-COPY-NONE-MEMORY", Faulty(elsewhere)),
    "copied and not said": ("P-COPY-NONE-FLAG", Faulty(elsewhere)),
    "read-only not said": ("P-FLAGS-READ-ONLY", Faulty(changed(lambda f: {"flags": f.flags & ~1}))),
    "read-only view not said": ("P-FLAGS-READ-ONLY-VIEW", Faulty(changed(lambda f: {"flags": f.flags & ~1}))),
    "read-only not said of shared memory": (
        "P-FLAGS-READ-ONLY-COPY-FALSE", Faulty(changed(lambda f: {"flags": f.flags & ~1}))),
    "read-only, and the flag is not set": (
        "P-FLAGS-READ-ONLY-AGREES", Faulty(changed(lambda f: {"flags": f.flags & ~1}))),
    "read-only refused": ("P-FLAGS-READ-ONLY-ACCEPTED", Faulty(refusing_exports(lambda f: f.flags & 1))),
    "read-only after the export": ("P-FLAGS-READ-ONLY-KEEPS", Faulty(freezing)),
    "all read-only": ("P-FLAGS-WRITABLE", Faulty(changed(lambda f: {"flags": f.flags | 1}))),
    "read-only shared with legacy consumers": ("P-FLAGS-READ-ONLY-LEGACY", Faulty(lambda a, k: (
        sound if k else changed(lambda _: {"versioned": False}, max_version=(1, 3)))(a, k))),
    "flags of the future": ("P-FLAGS-UNKNOWN", Faulty(fields(flags=1 << 40))),
    "float32 padded": ("P-FLAGS-PADDED", Faulty(fields(flags=4))),
    "memory kept for ever": ("P-DELETER-FREES-ARRAY", Faulty(keeping)),
    "holds nothing": ("P-DELETER-HOLDS", Faulty(without_owner)),
    "holds nothing after the export": ("P-CAPSULE-HOLDS", Faulty(without_owner)),
    "holds nothing of a view": ("P-VIEWS-OUTLIVE", Faulty(without_owner)),
    "holds nothing at the end of a chain": ("P-DELETER-CHAIN-OWN", Faulty(without_owner)),
    "holds nothing for either of two": ("P-DELETER-ORDER", Faulty(without_owner)),
    "destructor deletes what was taken": ("P-CAPSULE-USED-KEEPS", Faulty(destroyed(lambda held: held.delete()))),
    "destructor deletes nothing": ("P-CAPSULE-UNUSED-FREES", Faulty(destroyed(lambda held: None))),
    "destructor loses exceptions": ("P-CAPSULE-PENDING", Faulty(clearing)),
    "deleter loses exceptions": ("P-DELETER-PENDING", Faulty(forgetful)),
    "object kept for ever": ("P-DELETER-OBJECT", Faulty(keeping)),
    "struct kept for ever": ("P-DELETER-FREES-STRUCT", Faulty(keeping_struct)),
    "shape kept for ever": ("P-DELETER-FREES-STRUCT", Faulty(leaking)),
    **{
        f"kept, with{'' if wrap is Made else 'out'} weak references: {id}": (id, Faulty(keeping, wrap=wrap))
        for wrap in (Made, Bare)
        for id in LET_GO
    },
    "writes exported memory": ("P-SEMANTICS-UNCHANGED", Faulty(changing)),
    "consumers write elsewhere": ("P-SEMANTICS-CONSUMER-WRITES", Faulty(elsewhere)),
    "producer writes elsewhere": ("P-SEMANTICS-PRODUCER-WRITES", Faulty(elsewhere)),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_producer_fault_breaks_its_rule(fault: str) -> None:
    id, library = FAULTS[fault]
    result = check(library, RULES[id])
    assert result.status is Status.FAILED, result
    assert result.detail


@pytest.mark.parametrize("id", [id for id in RULES if id not in IN_PROCESSES])
def test_producer_without_faults_keeps_every_rule(id: str) -> None:
    result = check(Faulty(), RULES[id])
    assert result.status in (Status.PASSED, Status.NOT_APPLICABLE), result
    if result.status is Status.NOT_APPLICABLE:
        assert id in NOT_HERE
