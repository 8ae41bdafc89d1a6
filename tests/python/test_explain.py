"""explain and doctor: what they say is what happens."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import dlbridge
import pytest
from conftest import Run, missing, require
from dlbridge import doctor
from native import Flags, Native

np = require("numpy")


def doors(explanation: dlbridge.Explanation) -> dict[str, str | None]:
    """The doors that are there, and what comes of them."""
    return {door.protocol: door.refusal or door.answer for door in explanation.doors if door.there}


def test_an_array() -> None:
    source = np.arange(6.0).reshape(2, 3).T
    explanation = dlbridge.explain(source)
    assert explanation.type == "numpy.ndarray"
    assert doors(explanation) == dict.fromkeys(
        ["dlpack", "array-interface", "array-struct", "buffer"], "shares its memory"
    )
    assert explanation.tensor == {
        "shape": (3, 2),
        "strides": (1, 3),
        "dtype": "float64",
        "device": "cpu",
        "address": hex(source.ctypes.data),
        "alignment": min(source.ctypes.data & -source.ctypes.data, 4096),
        "contiguous": "F",
        "read_only": False,
        "protocol": "dlpack",
        "dlpack_version": "1.0",
        "flags": "none",
        "copied": "no",
    }
    assert (explanation.refusal, explanation.verdicts) == (None, [])
    assert json.loads(explanation.as_json())["tensor"]["strides"] == [1, 3]


def test_the_text_is_for_people() -> None:
    require("torch")
    text = str(dlbridge.explain(b"abc", to=["numpy", "torch"]))
    assert text.startswith("bytes\n  speaks\n    buffer                shares its memory, read-only\n")
    assert "    read only             True\n" in text
    assert "  to numpy 2." in text
    assert "\n    without a copy\n" in text
    assert "not without a copy: the tensor is read-only and torch ignores that" in text
    assert text.endswith("call torch.from_dlpack yourself if nobody writes")


@pytest.mark.parametrize(
    ("value", "speaks", "refusal"),
    [
        ("text", {}, "TypeError: 'str' object speaks no exchange protocol"),
        (5, {}, "TypeError: 'int' object speaks no exchange protocol"),
        (np.array(["a"]), {"dlpack", "array-interface", "array-struct", "buffer"}, "BufferError: "),
    ],
    ids=str,
)
def test_what_does_not_come_in(value: Any, speaks: Any, refusal: str) -> None:
    explanation = dlbridge.explain(value, to="numpy")
    assert set(doors(explanation)) == set(speaks)
    assert explanation.tensor is None
    assert explanation.refusal is not None
    assert explanation.refusal.startswith(refusal)
    assert "cannot be imported: " in str(explanation)
    assert explanation.verdicts == []


def test_repairs_are_told() -> None:
    explanation = dlbridge.explain(np.arange(3, dtype=np.dtype("i4").newbyteorder()))
    reason = "the elements were not in this machine's byte order"
    found = doors(explanation)
    assert found["buffer"] == f"a copy: {reason}"
    assert (found["dlpack"] or "").startswith("BufferError: ")
    assert explanation.tensor is not None
    assert explanation.tensor["copied"] == reason


def test_a_legacy_producer(native: Native) -> None:
    class Legacy:
        """A producer that has no versioned answer."""

        def __dlpack__(self, *, stream: Any = None) -> Any:
            """A new capsule each time."""
            return native.craft((6,), versioned=False).capsule()

        def __dlpack_device__(self) -> tuple[int, int]:
            """The CPU."""
            return (1, 0)

    explanation = dlbridge.explain(Legacy())
    assert doors(explanation) == {"dlpack": "legacy, shares its memory, read-only"}


def test_explain_type_error_of_a_producer_keeps_its_protocol() -> None:
    class Wrapper:
        """A wrapper of an object without a protocol."""

        def __dlpack__(self, **keywords: Any) -> Any:
            """Always refused, with the words of dlbridge."""
            return dlbridge.asdlpack("text").__dlpack__(**keywords)

        def __dlpack_device__(self) -> tuple[int, int]:
            """The CPU."""
            return (1, 0)

    found = doors(dlbridge.explain(Wrapper()))
    assert set(found) == {"dlpack"}
    assert "'str' object speaks no exchange protocol" in (found["dlpack"] or "")


def test_explain_attribute_that_raises_keeps_its_protocol() -> None:
    class Broken:
        """A producer whose attribute cannot be read."""

        @property
        def __array_interface__(self) -> Any:
            """Always raises."""
            raise TypeError("not today")

    assert doors(dlbridge.explain(Broken())) == {"array-interface": "TypeError: not today"}


def test_a_capsule_is_left_alone(native: Native) -> None:
    capsule = native.craft().capsule()
    explanation = dlbridge.explain(capsule)
    assert explanation.tensor is None
    assert "can be imported once" in str(explanation)
    assert native.name(capsule) == "dltensor_versioned"


@pytest.mark.parametrize("consumer", ["numpy", "torch", "jax", "pyarrow"])
@pytest.mark.parametrize(
    "case",
    ["plain", "read-only", "backwards", "gaps", "transposed", "empty", "unaligned", "legacy"],
)
def test_the_verdict_is_what_happens(consumer: str, case: str, native: Native) -> None:
    require(consumer)
    room = dlbridge.empty((4, 16)).numpy()
    source: Any = {
        "plain": room,
        "read-only": bytes(64),
        "backwards": room[::-1],
        "gaps": room[:, ::2],
        "transposed": room.T,
        "empty": room[:0],
        "unaligned": room[0, 1:],
        "legacy": room,
    }[case]
    tensor = dlbridge.asdlpack(source, protocol="dlpack-legacy" if case == "legacy" else None)
    [verdict] = dlbridge.explain(tensor, to=consumer).verdicts
    assert verdict.library == consumer
    assert verdict.version is not None
    if not verdict.zero_copy:
        assert verdict.reason
        assert verdict.remedy
        with pytest.raises(BufferError):
            tensor.to(consumer, copy=False)
        return
    assert (verdict.reason, verdict.remedy) == (None, None)
    home = tensor.to(consumer, copy=False)
    addresses = {
        "numpy": lambda: home.ctypes.data,
        "torch": lambda: home.data_ptr(),
        "jax": lambda: home.unsafe_buffer_pointer(),
        "pyarrow": lambda: home.to_numpy().ctypes.data,
    }
    assert case == "empty" or addresses[consumer]() == tensor.address


def test_libraries_that_are_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="'nope' is no library"):
        dlbridge.explain([1], to="nope")
    if importlib.util.find_spec("cupy") is None:
        [verdict] = dlbridge.explain(np.arange(3), to="cupy").verdicts
        assert (verdict.version, verdict.remedy) == (None, "install cupy first")


def test_what_was_asked_is_given_back(native: Native) -> None:
    tensor, crafted = native.tensor((6,), flags=Flags.READ_ONLY)
    dlbridge.explain(tensor, to="numpy")
    del tensor
    assert crafted.record.calls == 1


def test_doctor(run: Run) -> None:
    command = [sys.executable, "-m", "dlbridge", "doctor", "numpy", "--json"]
    result = subprocess.run(command, capture_output=True, text=True)
    assert (result.returncode, result.stderr) == (0, "1 of 1: numpy\n")
    [finding] = json.loads(result.stdout)
    assert finding["library"] == "numpy"
    assert finding["version"] == np.__version__
    assert finding["doors"] == ["dlpack", "array-interface", "array-struct", "buffer"]
    assert (finding["imported"], finding["exported"]) == ("shared", "shared")
    text = subprocess.run(command[:-1], capture_output=True, text=True).stdout
    assert f"numpy {np.__version__}\n  speaks      dlpack, array-interface" in text
    assert text.startswith(f"dlbridge {dlbridge.__version__}, Python 3.")


def test_doctor_examines_frameworks_side_by_side(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    barrier = threading.Barrier(3)

    def examine(library: str) -> doctor.Finding:
        barrier.wait(60)  # breaks unless all run at the same time
        return doctor.Finding(library, problem="not installed")

    monkeypatch.setattr(doctor, "examine_apart", examine)
    lines: list[str] = []
    assert doctor.main(["torch", "numpy", "jax"], lines.append) == 1
    assert lines[1:] == [f"{name}: not installed" for name in ("torch", "numpy", "jax")]
    said = capsys.readouterr().err.splitlines()
    assert [line.split(":")[0] for line in said] == ["1 of 3", "2 of 3", "3 of 3"]


def test_doctor_finds_what_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[str] = []
    for code, problem in [
        ("__import__('os').abort()", "ended with signal 6"),
        ("1 / 0", "ended with code 1: ZeroDivisionError: division by zero"),
        ("raise ModuleNotFoundError(\"No module named 'numpy'\")", "numpy: not installed"),
        ("__import__('no_such')", "ended with code 1: ModuleNotFoundError: No module named 'no_such'"),
    ]:
        monkeypatch.setattr(doctor, "examine_apart", ran(code))
        assert doctor.main(["numpy"], lines.append) == 1
        assert problem in lines[-1]


def ran(code: str) -> Any:
    """An examination that runs other code."""
    examine = doctor.examine_apart

    def instead(library: str) -> doctor.Finding:
        original = subprocess.run

        def replaced(command: list[str], **keywords: Any) -> Any:
            return original([command[0], "-c", code], **keywords)

        subprocess.run = replaced  # type: ignore[assignment]
        try:
            return examine(library)
        finally:
            subprocess.run = original

    return instead


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ([], 2, "usage: python -m dlbridge COMMAND"),
        (["--help"], 0, "\ndoctor  "),
        (["conformance"], 2, "python -m dlbridge_conformance, which checks"),
        (["nonsense"], 2, "unknown command: nonsense\nusage: python -m dlbridge COMMAND"),
        (["doctor", "nonsense"], 2, "unknown: nonsense; known are numpy, torch"),
        (["doctor", "--help"], 0, "Try out which frameworks exchange tensors"),
    ],
)
def test_the_command_line(arguments: list[str], code: int, said: str) -> None:
    command = [sys.executable, "-m", "dlbridge", *arguments]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == code
    assert said in (result.stderr if code else result.stdout)


@pytest.mark.parametrize(
    "library",
    [
        *("numpy", "torch", "jax", "tensorflow", "paddle", "pyarrow", "mlx", "tvm_ffi"),
        *("onnxruntime", "warp", "array_api_strict", "polars", "pandas"),
    ],
)
def test_what_is_said_of_each_dtype_is_what_comes_of_it(library: str) -> None:
    for module in (library, "ml_dtypes"):
        if importlib.util.find_spec(module) is None:
            missing(f"{module} is not installed")
    program = Path(__file__).with_name("dtypes.py")
    result = subprocess.run(
        [sys.executable, str(program), library], capture_output=True, text=True, timeout=200
    )
    assert result.returncode == 0, result.stderr[-2000:]
    lines = [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]
    assert len(lines) > 35
    for line in lines:
        assert line["problem"] == (None if line["said"] else "BufferError"), line


def test_a_library_may_be_called_by_its_other_names() -> None:
    verdicts = dlbridge.explain(np.arange(3), to=["np", "pytorch"]).verdicts
    assert [verdict.library for verdict in verdicts] == ["numpy", "torch"]
    assert verdicts[0].version == np.__version__


def test_the_version_and_the_flags_of_the_producer(native: Native) -> None:
    tensor, _ = native.tensor((6,), flags=Flags.READ_ONLY | Flags.IS_COPIED)
    facts = dlbridge.explain(tensor).tensor
    assert facts is not None
    assert (facts["dlpack_version"], facts["flags"]) == ("1.3", "read-only and copied")
    facts = dlbridge.explain(bytearray(3)).tensor
    assert facts is not None
    assert (facts["dlpack_version"], facts["flags"]) == ("none", "none")


def test_the_doors_of_an_array_that_none_of_them_lets_through() -> None:
    explanation = dlbridge.explain(np.ma.array([1, 2], mask=[0, 1]))
    there = [door.protocol for door in explanation.doors if door.there]
    assert there == ["dlpack", "array-interface", "array-struct", "buffer"]
    assert all("masked" in (door.refusal or "") for door in explanation.doors if door.there)
