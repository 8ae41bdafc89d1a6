"""The keywords of ``__dlpack__``: the values that each accepts, and the errors for others."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from dlbridge_conformance.context import Context
from dlbridge_conformance.exports import abis, address_of, best, needs_no_copy
from dlbridge_conformance.memory import watch
from dlbridge_conformance.outcome import Broken
from dlbridge_conformance.rule import may, must, should

SIGNATURE = "array API standard 2024.12, __dlpack__"
#: the keyword that exists in every version
FIRST = "array API standard 2021.12, __dlpack__: stream"
#: later keywords, which a producer may lack
LATER = "array API standard 2023.12, __dlpack__, Notes"
STREAM = "array API standard 2024.12, __dlpack__: stream"
DEVICE = "array API standard 2024.12, __dlpack__: dl_device"
RAISES = "array API standard 2024.12, __dlpack__: Raises"
NOTES = "array API standard 2024.12, __dlpack__: Notes"

#: a Verilog simulator: a device that array libraries do not support
FOREIGN = (9, 0)
#: the device types with streams
CUDA, ROCM = 2, 10
#: devices that a library may copy to
OTHERS = ((1, 0), (2, 0), (10, 0), (8, 0), (14, 0))


def _accepted(c: Context, **keywords: Any) -> None:
    """Exports with keywords; a TypeError breaks the rule."""
    array = c.array()
    try:
        c.export(array, **{**c.asking(), **keywords})
    except TypeError as error:
        raise Broken(f"refused: {error}") from None


def _capsule(c: Context, array: Any, **keywords: Any) -> Any:
    """A capsule with these keywords, in any ABI; the rule does not apply if one of them is not known."""
    c.needs_keywords(*keywords)
    return c.capsule(array, **{**c.asking(), **keywords})


def _wrong(c: Context, keyword: str, values: list[Any]) -> None:
    """Expects that each value is refused, and not with BufferError."""
    array = c.array()
    for value in values:
        error = c.refused(partial(_capsule, c, array, **{keyword: value}))
        c.expect(not isinstance(error, BufferError), f"{keyword}={value!r} raised BufferError: {error}")


must("P-KEYWORDS-STREAM", "__dlpack__ takes the keyword stream, with None on every device.", FIRST,
     lambda c: _accepted(c, stream=None))  # fmt: skip
should("P-KEYWORDS-MAX-VERSION", "__dlpack__ takes the keyword max_version.", LATER,
       lambda c: _accepted(c, max_version=(1, 0)))  # fmt: skip
should("P-KEYWORDS-DL-DEVICE", "__dlpack__ takes the keyword dl_device.", LATER, lambda c: _accepted(c, dl_device=None))
should("P-KEYWORDS-COPY", "__dlpack__ takes the keyword copy.", LATER, lambda c: _accepted(c, copy=None))


@must("P-KEYWORDS-ALL-NONE", "All four keywords may be None at once, which is the same as leaving them out.", SIGNATURE)
def all_none(c: Context) -> None:
    c.needs_keywords("stream", "max_version", "dl_device", "copy")
    array = c.array()
    pairs = []
    for keywords in abis(c):
        plain = c.export(array, **keywords).fields
        nones = dict.fromkeys(("stream", "max_version", "dl_device", "copy"))
        held = c.export(array, **{**nones, **keywords}).fields
        c.expect(held.version == plain.version, f"version {held.version}, and {plain.version} without keywords")
        for name in ("device", "dtype", "shape"):
            c.expect(getattr(held, name) == getattr(plain, name), f"{name} differs from the export without keywords")
        pairs.append((held, plain))
    needs_no_copy(c, array)
    for held, plain in pairs:
        c.expect(address_of(held) == address_of(plain), "the memory differs from the export without keywords")


@should("P-KEYWORDS-KEYWORD-ONLY", "The parameters of __dlpack__ are keyword-only: a positional one is a TypeError.",
        SIGNATURE)  # fmt: skip
def keyword_only(c: Context) -> None:
    array = c.array()
    c.fed("__dlpack__(None)")
    c.refused(lambda: array.__dlpack__(None), TypeError)


@should("P-KEYWORDS-UNKNOWN",
        "A keyword that __dlpack__ does not know is a TypeError: consumers detect support that way.", NOTES)  # fmt: skip
def unknown(c: Context) -> None:
    array = c.array()
    keywords = {**c.asking(), "not_a_keyword": None}
    c.refused(lambda: c.capsule(array, **keywords), TypeError)


@must("P-KEYWORDS-STREAM-ON-CPU", "On the CPU, where streams do not exist, a stream number is refused.", STREAM)
def stream_on_cpu(c: Context) -> None:
    c.needs(c.lib.device[0] == 1, "the arrays are not on the CPU")
    array = c.array()
    for number in (1, 2, 12345):
        c.refused(partial(_capsule, c, array, stream=number))


@should("P-KEYWORDS-STREAM-ERROR", "A wrong stream is an incorrect argument, so the error is not a BufferError.",
        RAISES)  # fmt: skip
def stream_error(c: Context) -> None:
    array = c.array()
    c.needs(c.lib.device[0] == 1, "the arrays are not on the CPU")
    error = c.refused(lambda: _capsule(c, array, stream=12345))
    c.expect(not isinstance(error, BufferError), f"BufferError: {error}")


should("P-KEYWORDS-STREAM-TYPE", "A stream that is a string is refused, and not with BufferError.", RAISES,
       lambda c: _wrong(c, "stream", ["default"]))  # fmt: skip
should("P-KEYWORDS-MAX-VERSION-TYPE",
       "A max_version that is not a tuple, such as 1 or '1.0', is refused, and not with BufferError.", RAISES,
       lambda c: _wrong(c, "max_version", [1, "1.0"]))  # fmt: skip
may("P-KEYWORDS-MAX-VERSION-ITEMS", "A max_version that is not two integers, such as (1,) or ('1', '0'), is refused.",
    RAISES, lambda c: _wrong(c, "max_version", [(), (1,), ("1", "0")]))  # fmt: skip


@must("P-KEYWORDS-DL-DEVICE-OWN",
      "dl_device may be the result of __dlpack_device__, and the tensor is then on that device.", DEVICE)  # fmt: skip
def dl_device_own(c: Context) -> None:
    array = c.array()
    device = array.__dlpack_device__()
    found = best(c, array, dl_device=device).fields.device
    c.expect(found == (int(device[0]), int(device[1])), f"asked for {tuple(device)}, got {found}")


@must("P-KEYWORDS-DL-DEVICE-CPU", "dl_device=(1, 0) returns a tensor in CPU memory.", DEVICE)
def dl_device_cpu(c: Context) -> None:
    array = c.array()
    found = best(c, array, dl_device=(1, 0)).fields.device
    c.expect(found == (1, 0), f"the tensor is on {found}")


@must("P-KEYWORDS-DL-DEVICE-CPU-ID",
      "For a CPU other than 0, a producer refuses or exports with device id 0, the only one that exists.",
      "dlpack.h 1.3, DLDevice::device_id")  # fmt: skip
def dl_device_cpu_id(c: Context) -> None:
    c.needs_keywords("dl_device")
    array = c.array()
    try:
        found = best(c, array, dl_device=(1, 5)).fields.device
    except Exception as error:
        c.got(f"{type(error).__name__}: {error}")
        return
    c.expect(found == (1, 0), f"the tensor is on {found}")


@must("P-KEYWORDS-DL-DEVICE-FOREIGN", "A dl_device of a type that the producer cannot handle is a BufferError.", DEVICE)
def dl_device_foreign(c: Context) -> None:
    array = c.array()
    c.refused(lambda: _capsule(c, array, dl_device=FOREIGN), BufferError)


@must("P-KEYWORDS-DL-DEVICE-UNKNOWN", "A dl_device of a type that DLPack does not define is a BufferError.", DEVICE)
def dl_device_unknown(c: Context) -> None:
    array = c.array()
    c.refused(lambda: _capsule(c, array, dl_device=(99, 0)), BufferError)


@should("P-KEYWORDS-DL-DEVICE-ABSENT", "A dl_device that this machine does not have is a BufferError.", DEVICE)
def dl_device_absent(c: Context) -> None:
    array = c.array()
    c.refused(lambda: _capsule(c, array, dl_device=(2, 1000)), BufferError)


@must("P-KEYWORDS-DL-DEVICE-NO-COPY", "A dl_device that needs a copy is a BufferError with copy=False.", DEVICE)
def dl_device_no_copy(c: Context) -> None:
    c.needs_keywords("dl_device", "copy")
    array = c.array()
    address = address_of(best(c, array).fields)
    for device in OTHERS:
        if device[0] == c.lib.device[0]:
            continue
        try:
            copied = best(c, array, dl_device=device).fields
        except Exception as error:
            c.got(f"not for {device}: {type(error).__name__}: {error}")
            continue
        if copied.device == device and address_of(copied) != address:
            c.refused(partial(_capsule, c, array, dl_device=device, copy=False), BufferError)
            return
    c.needs(False, f"{c.lib.name} cannot copy to another device here")


@must("P-KEYWORDS-DL-DEVICE-STREAM",
      "With dl_device=(1, 0), every stream except None is refused, as the CPU does not have streams.", DEVICE)  # fmt: skip
def dl_device_stream(c: Context) -> None:
    c.needs_keywords("dl_device", "stream")
    array = c.array()
    try:
        best(c, array, dl_device=(1, 0), stream=None).delete()
    except Exception as error:
        c.needs(False, f"no export to the CPU: {type(error).__name__}: {error}")
    for number in (1, 2, 12345):
        c.refused(partial(_capsule, c, array, dl_device=(1, 0), stream=number))


should("P-KEYWORDS-DL-DEVICE-TYPE",
       "A dl_device that is not a tuple, such as 1 or 'cpu', is refused, and not with BufferError.", RAISES,
       lambda c: _wrong(c, "dl_device", [1, "cpu"]))  # fmt: skip


@may("P-KEYWORDS-REFUSED-FREES",
     "A refused export does not keep the array alive, and the array can be exported afterwards.",
     "no text; a leak otherwise")  # fmt: skip
def refused_frees(c: Context) -> None:
    array = c.array()
    best(c, array, dl_device=None).delete()
    is_gone = watch(array)
    c.needs(is_gone, f"arrays of {c.lib.name} do not support weak references")
    assert is_gone is not None
    keywords = {**c.asking(), "dl_device": (99, 0)}
    c.refused(lambda: array.__dlpack__(**keywords))
    best(c, array).delete()
    del array
    c.settle()
    c.expect(is_gone(), "the array lives on after a refused export")


# ------------------------------------------------------------------------------------------------- streams of CUDA and ROCm


def _array_on(c: Context, *kinds: int) -> Any:
    """An array; the rule does not apply without the keyword stream, or if the arrays are on another type of device."""
    c.needs(c.lib.device[0] in kinds, f"the arrays are on {c.lib.device}")
    c.needs_keywords("stream")
    return c.array()


def _takes(kinds: tuple[int, ...], *streams: int | None) -> Callable[[Context], None]:
    """A check that exports with each of these streams."""

    def check(c: Context) -> None:
        array = _array_on(c, *kinds)
        for stream in streams:
            best(c, array, stream=stream).delete()

    return check


def _refuses(kinds: tuple[int, ...], *streams: int) -> Callable[[Context], list[BaseException]]:
    """A check that expects that each of these streams is refused, and returns the exceptions."""

    def check(c: Context) -> list[BaseException]:
        array = _array_on(c, *kinds)
        return [c.refused(partial(best, c, array, stream=stream)) for stream in streams]

    return check


must("P-STREAM-NONE", "On CUDA and ROCm stream may be None, which means the legacy default stream.", STREAM,
     _takes((CUDA, ROCM), None))  # fmt: skip
may("P-STREAM-CUDA-TAKEN", "On CUDA stream may be -1, for no synchronization, 1 or 2, for the default streams.",
    f"{STREAM}: support for other values than None is optional", _takes((CUDA,), -1, 1, 2))  # fmt: skip
may("P-STREAM-ROCM-TAKEN", "On ROCm stream may be -1, for no synchronization, or 0, for the default stream.",
    f"{STREAM}: support for other values than None is optional", _takes((ROCM,), -1, 0))  # fmt: skip
must("P-STREAM-CUDA-NOT-0", "On CUDA stream=0, which could mean either default stream, is refused.", STREAM,
     _refuses((CUDA,), 0))  # fmt: skip
must("P-STREAM-ROCM-NOT-1-2", "On ROCm stream=1 and stream=2 are refused.", STREAM, _refuses((ROCM,), 1, 2))
must("P-STREAM-NEGATIVE", "On CUDA and ROCm a stream below -1 is refused.", STREAM, _refuses((CUDA, ROCM), -2))


@should("P-STREAM-ERROR", "A refused stream is an incorrect argument, so the error is not a BufferError.", RAISES)
def refused_stream_error(c: Context) -> None:
    wrong = (0,) if c.lib.device[0] == CUDA else (1, 2)
    for error in _refuses((CUDA, ROCM), *wrong)(c):
        c.expect(not isinstance(error, BufferError), f"BufferError: {error}")
