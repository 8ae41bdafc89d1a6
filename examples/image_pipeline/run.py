"""One picture, one allocation: Rust decodes it, NumPy and PyTorch work on it, Rust writes it.

Prints the address of the pixels and the cost of every exchange, and then which of the installed
frameworks can share memory with dlbridge.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import dlbridge
import image_pipeline
import numpy as np
from interop import PICTURE, Pixels, as_pixels, numpy_address, print_interop, text_table

RUNS = 300
"""The number of runs per time; the table shows the median."""


@dataclass
class Hop:
    """One exchange of the picture between two libraries."""

    name: str
    exported: int
    """The address of the pixels in the library that exports them."""
    imported: int
    """Their address in the library that imports them."""
    reported: bool
    """True if dlbridge reports a copy."""
    exchange: Callable[[], object]
    """The exchange alone, for repeated timing."""

    @property
    def copied(self) -> bool:
        """True if the pixels were copied."""
        return self.exported != self.imported or self.reported


def median_ns(work: Callable[[], object]) -> float:
    """Returns the median time of a call, in nanoseconds."""
    times = []
    for _ in range(RUNS):
        start = time.perf_counter_ns()
        work()
        times.append(time.perf_counter_ns() - start)
    return statistics.median(times)


def curve(contrast: float, gain: float, lift: float) -> Pixels:
    """Returns a look-up table: an S-shaped contrast curve, then gain and lift."""
    tone = np.linspace(0.0, 1.0, 256)
    shaped = tone + contrast * (tone * tone * (3.0 - 2.0 * tone) - tone)
    return np.round(255.0 * np.clip(shaped * gain + lift, 0.0, 1.0)).astype(np.uint8)


def grade(pixels: Pixels) -> None:
    """Gives a picture more contrast and warm colours, in place."""
    curves = curve(0.8, 1.06, 0.010), curve(0.9, 0.95, 0.0), curve(0.7, 0.80, 0.020)
    for channel, table in enumerate(curves):
        pixels[..., channel] = table[pixels[..., channel]]


def glow(torch: Any, pixels: Any) -> None:
    """Adds a glow to the bright areas of a picture, in place. `pixels` is a torch tensor."""
    light = pixels.permute(2, 0, 1).float() / 255.0
    bright = light * ((light.mean(0) - 0.45) / 0.4).clamp(0.0, 1.0)
    blur = torch.nn.AvgPool2d(17, stride=1, padding=8, count_include_pad=False)
    for _ in range(3):
        bright = blur(bright)
    screened = 1.0 - (1.0 - light) * (1.0 - 0.55 * bright)
    pixels.copy_((screened * 255.0).round().permute(1, 2, 0))


def rust_to_numpy(picture: dlbridge.Tensor) -> tuple[Hop, Pixels]:
    """Exports the picture from Rust to NumPy, and grades it there."""
    pixels = as_pixels(picture)
    grade(pixels)
    imported = numpy_address(pixels)
    exchange = partial(np.from_dlpack, picture)
    return Hop("Rust -> NumPy", picture.address, imported, picture.copied, exchange), pixels


def numpy_to_torch(pixels: Pixels) -> tuple[Hop, Any]:
    """Exports the pixels from NumPy to PyTorch, and adds the glow there."""
    torch: Any = importlib.import_module("torch")
    tensor = torch.from_dlpack(pixels)
    glow(torch, tensor)
    imported = int(tensor.data_ptr())
    exchange = partial(torch.from_dlpack, pixels)
    return Hop("NumPy -> PyTorch", numpy_address(pixels), imported, False, exchange), tensor


def back_to_rust(name: str, exported: int, pixels: Any, path: Path) -> Hop:
    """Imports the pixels in Rust, and writes them."""
    imported = image_pipeline.save(pixels, path)
    exchange = partial(dlbridge.asdlpack, pixels)
    return Hop(name, exported, imported, exchange().copied, exchange)


def print_hops(hops: list[Hop], pixels: Pixels) -> None:
    """Prints the table of the exchanges."""
    copying = median_ns(partial(np.copy, pixels))
    heads = ["hop", "address", "bytes copied", "exchange", "copy instead"]
    rows = [heads, ["Rust decodes", f"{hops[0].exported:#x}", "", "", ""]]
    for hop in hops:
        copied = pixels.nbytes if hop.copied else 0
        times = [f"{ns / 1000:.1f} us" for ns in (median_ns(hop.exchange), copying)]
        rows.append([hop.name, f"{hop.imported:#x}", str(copied), *times])
    height, width, _ = pixels.shape
    print(f"{width} x {height} pixels, {pixels.nbytes} bytes; times are medians of {RUNS} runs:")
    print(text_table(rows, right=frozenset({2, 3, 4})))
    for hop in hops:
        if hop.copied:
            print(f"NOT SHARED: {hop.name} copied the pixels from {hop.exported:#x} to {hop.imported:#x}")


def pipeline(out: Path) -> bool:
    """Runs the pipeline and prints its table. Returns True if nothing was copied."""
    out.mkdir(parents=True, exist_ok=True)
    before, after = out / "before.png", out / "after.png"
    picture = image_pipeline.load(PICTURE)
    image_pipeline.save(picture, before)
    first, pixels = rust_to_numpy(picture)
    hops = [first]
    if importlib.util.find_spec("torch") is not None:
        second, tensor = numpy_to_torch(pixels)
        hops += [second, back_to_rust("PyTorch -> Rust", second.imported, tensor, after)]
    else:
        hops.append(back_to_rust("NumPy -> Rust", first.imported, pixels, after))
        print("torch is not installed, so its step is skipped")
    print_hops(hops, pixels)
    print(f"before: {before}\nafter:  {after}\n")
    return not any(hop.copied for hop in hops)


def main() -> int:
    """Runs the pipeline and then the interop table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("out"), help="the folder for the pictures")
    shared = pipeline(parser.parse_args().out)
    return 0 if print_interop() and shared else 1


if __name__ == "__main__":
    sys.exit(main())
