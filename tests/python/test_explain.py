"""explain and doctor: their predictions match what happens."""

import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import dlbridge
import native as n
import pytest
from conftest import require
from dlbridge import doctor
from frameworks import require_installed
from native import Flags, Native, OldProducer, Producer
from processes import printed
from producers import producer, raises

np = require("numpy")


def protocols(explanation: dlbridge.Explanation) -> dict[str, str | None]:
    """The protocols that the object has, and the result of an import by each."""
    return {report.protocol: report.refusal or report.answer for report in explanation.protocols if report.present}


def test_explain_describes_an_array() -> None:
    source = np.arange(6.0).reshape(2, 3).T
    explanation = dlbridge.explain(source)
    assert explanation.type == "numpy.ndarray"
    assert protocols(explanation) == dict.fromkeys(
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


def test_explain_prints_a_readable_text() -> None:
    require("torch")
    explanation = dlbridge.explain(b"abc", to=["numpy", "torch"])
    text = str(explanation)
    assert repr(explanation) == text
    assert text.startswith("bytes\n  protocols\n    buffer                shares its memory, read-only\n")
    assert "    read only             True\n" in text
    assert "  to numpy 2." in text
    assert "\n    without a copy\n" in text
    assert "not without a copy: the tensor is read-only and torch ignores that" in text
    assert text.endswith("call torch.from_dlpack(t) if no code writes the result")


@pytest.mark.parametrize(
    ("value", "speaks", "refusal"),
    [
        ("text", {}, "TypeError: 'str' object supports no exchange protocol"),
        (5, {}, "TypeError: 'int' object supports no exchange protocol"),
        (np.array(["a"]), {"dlpack", "array-interface", "array-struct", "buffer"}, "BufferError: "),
    ],
)
def test_explain_of_a_refused_object_shows_the_refusal(value: Any, speaks: Any, refusal: str) -> None:
    explanation = dlbridge.explain(value, to="numpy")
    assert set(protocols(explanation)) == set(speaks)
    assert explanation.tensor is None
    assert explanation.refusal is not None
    assert explanation.refusal.startswith(refusal)
    assert "cannot be imported: " in str(explanation)
    assert explanation.verdicts == []


def test_explain_shows_repairs() -> None:
    explanation = dlbridge.explain(np.arange(3, dtype=np.dtype("i4").newbyteorder()))
    reason = "the elements were not in this machine's byte order"
    found = protocols(explanation)
    assert found["buffer"] == f"a copy: {reason}"
    assert (found["dlpack"] or "").startswith("BufferError: ")
    assert explanation.tensor is not None
    assert explanation.tensor["copied"] == reason


def test_explain_shows_a_legacy_producer(native: Native) -> None:
    explanation = dlbridge.explain(OldProducer(lambda _: native.craft((6,), versioned=False)))
    assert protocols(explanation) == {"dlpack": "legacy, shares its memory, read-only"}


def test_explain_type_error_of_a_producer_keeps_its_protocol() -> None:
    found = protocols(dlbridge.explain(Producer(lambda _: dlbridge.asdlpack("text"))))
    assert set(found) == {"dlpack"}
    assert "'str' object supports no exchange protocol" in (found["dlpack"] or "")


def test_explain_attribute_that_raises_keeps_its_protocol() -> None:
    broken = producer(__array_interface__=property(raises(TypeError("not today"))))
    assert protocols(dlbridge.explain(broken)) == {"array-interface": "TypeError: not today"}


def test_explain_does_not_consume_a_capsule(native: Native) -> None:
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
def test_verdict_matches_the_export(consumer: str, case: str, native: Native) -> None:
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


@pytest.mark.parametrize("device", [n.CPU, n.OPENCL], ids=["cpu", "opencl"])
def test_verdict_for_read_only_data_follows_the_version_that_jax_requests(device: tuple[int, int], native: Native) -> None:
    jax = require("jax")
    recorder = Producer(BufferError("noted"))
    with pytest.raises(BufferError, match="noted"):
        jax.dlpack.from_dlpack(recorder)
    room = dlbridge.empty((6,))
    tensor, _ = native.tensor((6,), flags=Flags.READ_ONLY, device=device, data=room.address)
    [verdict] = dlbridge.explain(tensor, to="jax").verdicts
    assert verdict.zero_copy == ("max_version" in recorder.asked[-1])
    assert verdict.zero_copy or "legacy capsules, which cannot mark that" in (verdict.reason or "")


@pytest.mark.parametrize(
    ("tensor", "library", "reason"),
    [
        (dlbridge.empty((2, 3)), "polars", "polars takes at most 1 dimension, not 2"),
        (dlbridge.empty(4, "int4"), "torch", "torch does not support int4"),
        (dlbridge.empty(4, "float64"), "jax", "jax would narrow float64"),
        (dlbridge.empty(4, "int64"), "jax", "jax would narrow int64"),
    ],
    ids=["polars 2-d", "torch int4", "jax float64", "jax int64"],
)
def test_refusal_is_not_explained_as_a_copy(tensor: dlbridge.Tensor, library: str, reason: str) -> None:
    require(library)
    explanation = dlbridge.explain(tensor, to=library)
    [verdict] = explanation.verdicts
    assert (verdict.zero_copy, verdict.refused, verdict.remedy) == (False, True, None)
    assert (verdict.reason or "").startswith(reason)
    assert f"\n    refused: {reason}" in str(explanation)
    assert json.loads(explanation.as_json())["verdicts"][0]["refused"] is True
    with pytest.raises(BufferError, match=reason):
        tensor.to(library, copy=True)


def test_copy_is_not_explained_as_a_refusal() -> None:
    pd = require("pandas")
    explanation = dlbridge.explain(dlbridge.empty((2, 3)).T, to=["numpy", pd, "pillow"])
    assert [verdict.refused for verdict in explanation.verdicts[:2]] == [False, False]
    require("PIL")
    [verdict] = explanation.verdicts[2:]
    assert (verdict.zero_copy, verdict.refused) == (False, False)
    assert "    not without a copy: pillow accepts C order only\n" in str(explanation)


def test_library_may_be_a_module() -> None:
    pd = require("pandas")
    tensor = dlbridge.empty(3)
    for to in (np, [np], (np,), np.linalg):
        assert [verdict.library for verdict in dlbridge.explain(tensor, to=to).verdicts] == ["numpy"]
    verdicts = dlbridge.explain(tensor, to=[pd, "np", "pytorch"]).verdicts
    assert [verdict.library for verdict in verdicts] == ["pandas", "numpy", "torch"]
    assert verdicts[1].version == np.__version__
    image = require("PIL.Image")
    [verdict] = dlbridge.explain(dlbridge.empty((2, 3)), to=image).verdicts
    assert (verdict.library, verdict.version) == ("pillow", require("PIL").__version__)
    # The classes of JAX's arrays are in a package of their own.
    [verdict] = dlbridge.explain(dlbridge.empty(2), to=require("jaxlib")).verdicts
    assert verdict.library == "jax"
    with pytest.raises(ValueError, match="unknown library 'json'"):
        dlbridge.explain(tensor, to=json)
    wrong: Any
    for wrong in (5, [5], np.float32(1), b"numpy"):
        with pytest.raises(TypeError, match="to must be the name of a library, or its module, not "):
            dlbridge.explain(tensor, to=wrong)


def test_missing_library_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    # An import of a module that is None fails, also where CuPy is installed.
    monkeypatch.setitem(sys.modules, "cupy", None)
    explanation = dlbridge.explain(np.arange(3), to="cupy")
    [verdict] = explanation.verdicts
    assert (verdict.version, verdict.zero_copy, verdict.refused) == (None, False, True)
    assert (verdict.reason, verdict.remedy) == ("cupy is not installed", "install cupy first")
    assert str(explanation).endswith("  to cupy (not installed)\n    refused: cupy is not installed\n    install cupy first")
    with pytest.raises(ModuleNotFoundError, match="^cupy is not installed; install it first$") as caught:
        dlbridge.asdlpack(np.arange(3)).to("cupy")
    assert caught.value.name == "cupy"


@pytest.mark.parametrize(
    ("code", "error", "text"),
    [
        ("import no_such_dependency", ModuleNotFoundError, "No module named 'no_such_dependency'"),
        ("raise OSError('libcuda is too old')", OSError, "libcuda is too old"),
    ],
)
def test_library_that_fails_to_load_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, error: type[Exception], text: str
) -> None:
    (tmp_path / "cupy.py").write_text(code)
    monkeypatch.syspath_prepend(str(tmp_path))
    [verdict] = dlbridge.explain(np.arange(3), to="cupy").verdicts
    assert (verdict.zero_copy, verdict.refused, verdict.remedy, verdict.measured) == (False, True, None, None)
    assert verdict.reason == f"cupy cannot be used: {text}"
    with pytest.raises(error, match=text) as caught:
        dlbridge.asdlpack(np.arange(3)).to("cupy")
    assert getattr(caught.value, "name", None) in (None, "no_such_dependency")


def test_explain_releases_the_tensor(native: Native) -> None:
    tensor, crafted = native.tensor((6,), flags=Flags.READ_ONLY)
    dlbridge.explain(tensor, to="numpy")
    del tensor
    assert crafted.record.calls == 1


def test_doctor() -> None:
    command = [sys.executable, "-m", "dlbridge", "doctor", "numpy", "--json"]
    result = subprocess.run(command, capture_output=True, text=True)
    assert (result.returncode, result.stderr) == (0, "1 of 1: numpy\n")
    [finding] = json.loads(result.stdout)
    assert finding["library"] == "numpy"
    assert finding["version"] == np.__version__
    assert finding["protocols"] == ["dlpack", "array-interface", "array-struct", "buffer"]
    assert (finding["imported"], finding["exported"]) == ("shared", "shared")
    text = subprocess.run(command[:-1], capture_output=True, text=True).stdout
    assert f"numpy {np.__version__}\n  protocols   dlpack, array-interface" in text
    assert text.startswith(f"dlbridge {dlbridge.__version__}, Python 3.")


def test_doctor_accepts_other_names_and_each_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "examine_apart", lambda library: doctor.Finding(library, problem="not installed"))
    lines: list[str] = []
    doctor.main(["np", "numpy", "PIL"], lines.append)
    assert lines[1:] == ["numpy: not installed", "pillow: not installed"]


def test_doctor_knows_a_tensor_of_each_consumer() -> None:
    assert set(doctor.SAMPLES) == {consumer["name"] for consumer in dlbridge._core._consumers()}


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


def test_doctor_reports_a_broken_library(monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[str] = []
    run = subprocess.run
    for code, problem in [
        ("__import__('os').abort()", "ended with signal 6"),
        ("1 / 0", "ended with code 1: ZeroDivisionError: division by zero"),
        ("raise ModuleNotFoundError(\"No module named 'numpy'\")", "numpy: not installed"),
        ("__import__('no_such')", "ended with code 1: ModuleNotFoundError: No module named 'no_such'"),
    ]:
        # Instead of the program that examines a library.
        monkeypatch.setattr(subprocess, "run", lambda command, code=code, **keywords: run([command[0], "-c", code], **keywords))
        assert doctor.main(["numpy"], lines.append) == 1
        assert problem in lines[-1]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ([], 2, "usage: python -m dlbridge COMMAND"),
        (["--version"], 0, f"dlbridge {dlbridge.__version__}\n"),
        (["--help"], 0, "\nclean  "),
        (["--help"], 0, "\ndoctor  "),
        (["conformance"], 2, "python -m dlbridge_conformance, which checks"),
        (["nonsense"], 2, "unknown command: nonsense\nusage: python -m dlbridge COMMAND"),
        (["doctor", "nonsense"], 2, "unknown: nonsense; known are numpy, torch"),
        (["doctor", "--help"], 0, "Test which frameworks exchange tensors"),
        (["clean", "--help"], 0, "--dry-run   list the segments and remove nothing"),
    ],
)
def test_command_line_reports_usage_and_errors(arguments: list[str], code: int, said: str) -> None:
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
def test_verdict_for_each_dtype_matches_the_export(library: str) -> None:
    require_installed(library, "ml_dtypes")
    lines = printed("dtypes.py", library)
    assert len(lines) > 35
    for line in lines:
        assert line["problem"] == (None if line["said"] else "BufferError"), line
        assert line["problem_of_a_copy"] == ("BufferError" if line["refused"] else None), line


def test_explain_shows_version_and_flags_of_the_producer(native: Native) -> None:
    tensor, _ = native.tensor((6,), flags=Flags.READ_ONLY | Flags.IS_COPIED)
    facts = dlbridge.explain(tensor).tensor
    assert facts is not None
    assert (facts["dlpack_version"], facts["flags"]) == ("1.3", "read-only and copied")
    facts = dlbridge.explain(bytearray(3)).tensor
    assert facts is not None
    assert (facts["dlpack_version"], facts["flags"]) == ("none", "none")


def test_explain_masked_array_is_refused_by_every_protocol() -> None:
    explanation = dlbridge.explain(np.ma.array([1, 2], mask=[0, 1]))
    present = [report.protocol for report in explanation.protocols if report.present]
    assert present == ["dlpack", "array-interface", "array-struct", "buffer"]
    assert all("masked" in (report.refusal or "") for report in explanation.protocols if report.present)
