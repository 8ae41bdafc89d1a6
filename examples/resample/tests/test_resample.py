"""Audio resampling."""

from __future__ import annotations

import array
import math
import subprocess
import sys

import numpy as np
import pytest
from resample import resample


def tone(rate: int, seconds: float = 0.1) -> array.array[float]:
    """Returns a tone of 440 Hz."""
    return array.array("f", [math.sin(2 * math.pi * 440 * i / rate) for i in range(int(rate * seconds))])


@pytest.mark.parametrize("new_rate", [44_100, 22_050, 48_000, 8_000])
def test_resampled_tone_keeps_its_frequency(new_rate: int) -> None:
    samples = resample(tone(44_100), 44_100, new_rate)
    assert type(samples) is memoryview
    assert (samples.format, len(samples)) == ("f", math.ceil(4410 * new_rate / 44_100))
    times = np.arange(len(samples)) / new_rate
    inside = times < 4409 / 44_100
    assert np.abs(np.asarray(samples) - np.sin(2 * np.pi * 440 * times))[inside].max() < 0.001


def test_other_sample_types_are_converted() -> None:
    assert resample(array.array("h", [0, 100, 200]), 1, 2).tolist() == [0, 50, 100, 150, 200, 200]
    assert resample(np.arange(6, dtype="f4")[::-2], 2, 2).tolist() == [5, 3, 1]
    assert resample(array.array("f"), 1, 2).tolist() == []
    torch = pytest.importorskip("torch")
    assert type(resample(torch.zeros(10), 2, 1)) is torch.Tensor


def test_unsuitable_arguments_are_refused() -> None:
    with pytest.raises(TypeError, match=r"'samples': expected float32\[_\] on cpu, C order; got float64"):
        resample(array.array("d", [1]), 1, 1)
    with pytest.raises(ValueError, match="above zero; got 0 and 5"):
        resample(tone(1000), 0, 5)


def test_too_many_samples_raise_memory_error() -> None:
    # 1000 samples become 2**32 - 1 times as many: 16 TiB.
    code = (
        "import array, resource, resample\n"
        "resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))\n"
        "try:\n"
        "    resample.resample(array.array('f', bytes(4000)), 1, 2**32 - 1)\n"
        "except MemoryError as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "not enough memory for 4294967295000 samples\n")
