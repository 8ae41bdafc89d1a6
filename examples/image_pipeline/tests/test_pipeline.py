"""The pipeline on its own picture: export, writing, and refusals."""

from __future__ import annotations

import gc
import subprocess
import sys
from pathlib import Path

import image_pipeline
import numpy as np
import numpy.typing as npt
import pytest

EXAMPLE = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(EXAMPLE))
import interop  # noqa: E402
import run  # noqa: E402

PICTURE = interop.PICTURE

Pixels = npt.NDArray[np.uint8]


def decoded(path: Path) -> Pixels:
    """Returns the pixels of a picture, in the memory that Rust decoded it to."""
    return np.asarray(np.from_dlpack(image_pipeline.load(path)), np.uint8, copy=False)


@pytest.fixture
def pixels() -> Pixels:
    """The example's picture, exported to NumPy by Rust's tensor."""
    return decoded(PICTURE)


def test_numpy_uses_the_memory_of_the_tensor() -> None:
    picture = image_pipeline.load(PICTURE)
    first, second = np.from_dlpack(picture), np.from_dlpack(picture)
    assert first.shape == (320, 480, 3)
    assert first.dtype == np.uint8
    assert picture.address == first.ctypes.data == second.ctypes.data
    first[0, 0] = 1, 2, 3
    assert second[0, 0].tolist() == [1, 2, 3]
    assert not picture.copied


def test_pixels_outlive_the_tensor() -> None:
    picture = image_pipeline.load(PICTURE)
    array = np.from_dlpack(picture)
    total = int(array.sum())
    del picture
    gc.collect()
    assert int(array.sum()) == total


def test_save_reads_the_exported_memory(pixels: Pixels, tmp_path: Path) -> None:
    pixels[10:20, 30:40] = 255, 0, 128
    path = tmp_path / "out.png"
    assert image_pipeline.save(pixels, path) == pixels.ctypes.data
    assert np.array_equal(decoded(path), pixels)


def test_save_accepts_a_tensor(tmp_path: Path) -> None:
    picture = image_pipeline.load(PICTURE)
    image_pipeline.save(picture, tmp_path / "out.png")
    again = decoded(tmp_path / "out.png")
    assert np.array_equal(again, np.from_dlpack(picture))


@pytest.mark.parametrize(
    "part",
    [
        np.s_[::-1],
        np.s_[:, ::-1],
        np.s_[..., ::-1],
        np.s_[5:200, 17:63],
        np.s_[::3, ::2],
        np.s_[:1, :1],
    ],
)
def test_save_with_any_strides_writes_the_view(
    pixels: Pixels, tmp_path: Path, part: tuple[slice, ...]
) -> None:
    view = pixels[part]
    assert image_pipeline.save(view, tmp_path / "out.png") == view.ctypes.data
    assert np.array_equal(decoded(tmp_path / "out.png"), view)


def test_save_with_transposed_axes_writes_the_view(pixels: Pixels, tmp_path: Path) -> None:
    turned = pixels.transpose(1, 0, 2)
    image_pipeline.save(turned, tmp_path / "out.png")
    assert np.array_equal(decoded(tmp_path / "out.png"), turned)


def test_save_accepts_read_only_pixels(pixels: Pixels, tmp_path: Path) -> None:
    pixels.flags.writeable = False
    assert image_pipeline.save(pixels, tmp_path / "out.png") == pixels.ctypes.data


@pytest.mark.parametrize(
    ("wrong", "found"),
    [
        (np.zeros((4, 5, 3)), "float64"),
        (np.zeros((4, 5, 3), np.int8), "int8"),
        (np.zeros((4, 5), np.uint8), "[4, 5]"),
        (np.zeros((4, 5, 4), np.uint8), "[4, 5, 4]"),
        (np.zeros((3, 4, 5), np.uint8), "[3, 4, 5]"),
    ],
)
def test_wrong_pixels_are_refused_by_name(
    wrong: npt.NDArray[np.generic], found: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match="uint8 .* \\[height, width, 3\\]") as refusal:
        image_pipeline.save(wrong, tmp_path / "out.png")
    assert found in str(refusal.value)
    assert not (tmp_path / "out.png").exists()


def test_object_without_a_protocol_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError):
        image_pipeline.save("pixels", tmp_path / "out.png")


def test_unusable_file_is_named_in_the_error(pixels: Pixels, tmp_path: Path) -> None:
    missing = tmp_path / "missing.png"
    with pytest.raises(FileNotFoundError, match="missing.png"):
        image_pipeline.load(missing)
    text = tmp_path / "text.png"
    text.write_text("not a picture")
    with pytest.raises(ValueError, match="text.png"):
        image_pipeline.load(text)
    with pytest.raises(FileNotFoundError, match="nowhere"):
        image_pipeline.save(pixels, tmp_path / "nowhere" / "out.png")


def test_copy_is_reported_as_not_shared(
    capsys: pytest.CaptureFixture[str], pixels: Pixels
) -> None:
    hop = run.Hop("there", exported=0x1000, imported=0x2000, reported=False, exchange=lambda: None)
    assert hop.copied
    run.print_hops([hop], pixels)
    printed = capsys.readouterr().out
    assert f"  {pixels.nbytes}  " in printed
    assert "NOT SHARED: there copied the pixels from 0x1000 to 0x2000" in printed


@pytest.mark.skipif(sys.platform == "win32", reason="Windows lacks signals")
def test_framework_that_crashes_becomes_a_row(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "paddle.py").write_text("import os; os.abort()")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    row = interop.run_probe("paddle")
    assert (row.out, row.good) == ("crashed (SIGABRT)", False)


def test_framework_that_fails_to_import_becomes_a_row(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "paddle.py").write_text("raise ImportError('half installed')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    row = interop.run_probe("paddle")
    assert (row.out, row.good) == ("failed: ImportError: half installed", False)


def test_framework_that_hangs_becomes_a_row(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "paddle.py").write_text("import time; time.sleep(60)")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(interop, "SECONDS", 1)
    row = interop.run_probe("paddle")
    assert (row.out, row.good) == ("no answer in 1 s", False)


def test_run_writes_both_pictures_without_a_copy(tmp_path: Path) -> None:
    command = [sys.executable, str(EXAMPLE / "run.py"), "--out", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr

    before = decoded(tmp_path / "before.png")
    after = decoded(tmp_path / "after.png")
    assert np.array_equal(before, decoded(PICTURE))
    assert np.abs(after.astype(int) - before).mean() > 5

    hops = [line for line in done.stdout.splitlines() if " -> " in line and "0x" in line]
    assert len(hops) >= 2
    addresses = {line.split("0x")[1].split()[0] for line in hops}
    assert len(addresses) == 1
    assert all(line.split("0x")[1].split()[1] == "0" for line in hops)
