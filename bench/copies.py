"""Unavoidable copies by dlbridge, NumPy and PyTorch, and a memcpy of the same size.

Every contender allocates its target, as a caller's copy does. They take turns, and the best turn of each counts, so
that other load on the machine affects all of them alike. PyTorch uses one thread per processor; NumPy and memcpy use
one thread.
"""

import argparse
import json
import os
import time
from collections.abc import Callable

import dlbridge
import numpy as np
from report import copies

try:
    import torch
except ImportError:
    torch = None

Copy = Callable[[], object]
SIZES = {"64 KiB": 1 << 16, "4 MiB": 1 << 22, "256 MiB": 1 << 28}


class Case:
    """A copy of the same elements by each contender."""

    def __init__(self, name: str, source, numpy: Copy, torch: Copy | None, dlbridge: Copy, nbytes: int) -> None:
        self.name, self.nbytes, self.source = name, nbytes, source
        self.contenders = {"dlbridge": dlbridge, "numpy": numpy, "torch": torch, "memcpy": memcpy(nbytes)}


def memcpy(nbytes: int) -> Copy:
    """C's memcpy into new memory, in one thread: NumPy does the same with contiguous bytes."""
    source = np.ones(nbytes, np.uint8)
    return source.copy


def strided(name: str, view: np.ndarray) -> Case:
    """Copies a view to C order. PyTorch does not support negative strides, so it gets the reversed array and `flip`."""
    flipped = [axis for axis, stride in enumerate(view.strides) if stride < 0]
    forward = view[tuple(slice(None, None, -1) if axis in flipped else slice(None) for axis in range(view.ndim))]
    by_torch = None
    if torch is not None:
        of_torch = torch.from_numpy(forward if forward.flags.writeable else forward.base).as_strided(
            forward.shape, [stride // forward.itemsize for stride in forward.strides]
        )
        by_torch = (lambda: of_torch.flip(flipped)) if flipped else (lambda: of_torch.clone(memory_format=torch.contiguous_format))
    # Each contender has the elements in a tensor of its own, so the measurement has only the copy.
    of_dlbridge = dlbridge.asdlpack(view)
    return Case(
        name,
        view,
        numpy=lambda: view.copy("C"),
        torch=by_torch,
        dlbridge=lambda: dlbridge.asdlpack(of_dlbridge, copy=True),
        nbytes=view.nbytes,
    )


def swapped(name: str, view: np.ndarray) -> Case:
    """Copies numbers of the other byte order to this machine's order, in C order."""
    native = view.dtype.newbyteorder("=")
    return Case(
        name,
        view,
        numpy=lambda: view.astype(native, order="C"),
        torch=None,
        dlbridge=lambda: dlbridge.asdlpack(view),
        nbytes=view.nbytes,
    )


def noise(nbytes: int, dtype: str, shape=None) -> np.ndarray:
    dtype = np.dtype(dtype)
    flat = np.arange(nbytes // 8 + 2, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    if dtype.kind == "f":
        # Numbers, because NaN would slow some contenders.
        flat = (flat >> np.uint64(40)).astype(np.float32).repeat(2)[: nbytes // 4 + 8]
    elements = flat.view(np.uint8)[: nbytes // dtype.itemsize * dtype.itemsize].view(dtype)
    return elements if shape is None else elements[: int(np.prod(shape))].reshape(shape)


def side(nbytes: int, itemsize: int) -> int:
    """Returns the largest power of two that is the extent of a square of at most this many bytes."""
    side = 1
    while (2 * side) ** 2 * itemsize <= nbytes:
        side *= 2
    return side


def cases(nbytes: int) -> list[Callable[[], Case]]:
    """Makes each case when its turn comes, so that the memory of the others is free."""

    def square(dtype: str, factor: int = 1, odd: int = 0) -> np.ndarray:
        n = side(nbytes * factor, np.dtype(dtype).itemsize) - odd
        return noise(n * n * np.dtype(dtype).itemsize, dtype, (n, n))

    def picture(dtype: str, channels: int) -> tuple[int, int]:
        height = max(8, int((nbytes // np.dtype(dtype).itemsize // channels) ** 0.5))
        return height, nbytes // np.dtype(dtype).itemsize // channels // height

    def hwc(dtype: str, channels: int) -> np.ndarray:
        height, width = picture(dtype, channels)
        return noise(nbytes, dtype, (height, width, channels))

    def chw(dtype: str, channels: int) -> np.ndarray:
        height, width = picture(dtype, channels)
        return noise(nbytes, dtype, (channels, height, width))

    def nchw() -> np.ndarray:
        return noise(nbytes, "f4", (max(1, nbytes // (64 * 16 * 16 * 4)), 64, 16, 16))

    listed = [
        lambda: strided("contiguous, f4", noise(nbytes, "f4")),
        lambda: strided("left half of rows, f4", (a := square("f4", 2))[:, : a.shape[1] // 2]),
        lambda: strided("every second of both axes, f4", square("f4", 4)[::2, ::2]),
        lambda: strided("every second of both axes, u1", square("u1", 4)[::2, ::2]),
        lambda: strided("rows backwards, f4", square("f4")[::-1]),
        lambda: strided("columns backwards, f4", square("f4")[:, ::-1]),
        lambda: strided("columns backwards, u1", square("u1")[:, ::-1]),
        *(
            (lambda dtype=dtype: strided(f"transposed, {dtype}", square(dtype).T))
            for dtype in ("u1", "u2", "f4", "f8", "c16")
        ),
        lambda: strided("transposed, odd extents, u1", square("u1", odd=3).T),
        lambda: strided("transposed, odd extents, f4", square("f4", odd=3).T),
        lambda: strided("transposed, odd extents, f8", square("f8", odd=3).T),
        lambda: strided("transposed, tall, f4", noise(nbytes, "f4", (nbytes // 256, 64)).T),
        lambda: strided("transposed, wide, f4", noise(nbytes, "f4", (64, nbytes // 256)).T),
        lambda: strided("HWC to CHW, u1", hwc("u1", 3).transpose(2, 0, 1)),
        lambda: strided("CHW to HWC, u1", chw("u1", 3).transpose(1, 2, 0)),
        lambda: strided("HWC to CHW, f4", hwc("f4", 3).transpose(2, 0, 1)),
        lambda: strided("CHW to HWC, f4", chw("f4", 3).transpose(1, 2, 0)),
        lambda: strided("NCHW to NHWC, f4", nchw().transpose(0, 2, 3, 1)),
        lambda: strided("one row for all, f4", np.broadcast_to(square("f4")[0], square("f4").shape)),
        lambda: strided("one column for all, f4", np.broadcast_to(square("f4")[:, :1], square("f4").shape)),
        *(
            (lambda dtype=dtype: swapped(f"byte-swapped, {dtype}", noise(nbytes, dtype.replace(">f", ">u"))))
            for dtype in (">u2", ">f4", ">f8")
        ),
        lambda: swapped("byte-swapped, left half of rows, >f4", (a := square(">u4", 2))[:, : a.shape[1] // 2]),
        lambda: swapped("byte-swapped, transposed, >f4", square(">u4").T),
        lambda: strided("three columns of four, f4", noise(nbytes // 3 * 4, "f4", (nbytes // 12, 4))[:, :3]),
        lambda: strided("every second of six columns, f4", noise(nbytes * 2, "f4", (nbytes // 12, 6))[:, ::2]),
    ]
    return listed


def tiny() -> list[Callable[[], Case]]:
    return [
        lambda: strided("24 elements, contiguous, f4", noise(96, "f4", (2, 3, 4))),
        lambda: strided("24 elements, transposed, f4", noise(96, "f4", (2, 3, 4)).T),
    ]


def seconds(copy: Copy, loops: int) -> float:
    begin = time.perf_counter()
    for _ in range(loops):
        copy()
    return (time.perf_counter() - begin) / loops


def measured(case: Case, rounds: int) -> dict:
    """Returns GB/s of each contender: the best of some rounds, each with all contenders."""
    best = {name: float("inf") for name in case.contenders}
    present = {name: copy for name, copy in case.contenders.items() if copy is not None}
    loops = {name: max(1 if case.nbytes > 1 << 26 else 4, int(4e-4 / seconds(copy, 2))) for name, copy in present.items()}
    for _ in range(rounds):
        for name, copy in present.items():
            best[name] = min(best[name], seconds(copy, loops[name]))
    speeds = {name: case.nbytes / best[name] / 1e9 if name in present else None for name in best}
    return {"case": case.name, "bytes": case.nbytes, **speeds}


def rows(quick: bool, only: str = "", sizes: list[str] | None = None) -> list[dict]:
    """Returns a row per case and size: GB/s of dlbridge, the peers and memcpy; `None` if a peer lacks this copy."""
    if torch is not None:
        torch.set_num_threads(os.cpu_count() or 1)
    result = []
    for size, nbytes in SIZES.items():
        if (sizes is not None and size not in sizes) or (quick and sizes is None and nbytes > 1 << 22):
            continue
        rounds = 3 if nbytes > 1 << 26 else 40 if quick else 120
        made = [make() for make in (tiny() if nbytes == 1 << 16 else [])] + cases(nbytes)
        for make in made:
            case = make if isinstance(make, Case) else make()
            if only in case.name:
                result.append(measured(case, rounds))
            del case
    return result


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", default="", help="only cases whose name contains this text")
    parser.add_argument("--size", action="append", choices=SIZES)
    parser.add_argument("--json", action="store_true", help="print JSON, not Markdown")
    arguments = parser.parse_args()
    measured_rows = rows(arguments.quick, arguments.only, arguments.size)
    print(json.dumps({"rows": measured_rows}) if arguments.json else copies([{"copies": measured_rows}]))
