"""Measures the time of an exchange and the speed of copies, beside the libraries and the driver: python timings.py [--quick]"""

import ctypes
import importlib
import sys
import time
from collections.abc import Callable
from typing import Any

import dlbridge
import pytest
from arrays import InterfaceArray
from driver import Driver
from libraries import made

KIB, MIB = 1 << 10, 1 << 20


def show(heading: str, rows: list[list[str]]) -> None:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    print(heading, *("  ".join(map(str.ljust, row, widths)) for row in rows), sep="\n")


def best(work: Callable[[], object], *, repeats: int, least: float) -> float:
    """Returns the seconds of one call: the best of several repeats of many calls."""
    work()
    number, shortest = 1, float("inf")
    while True:
        begun = time.perf_counter()
        for _ in range(number):
            work()
        taken = time.perf_counter() - begun
        if taken >= least or number >= 1 << 20:
            break
        number *= 2
    for _ in range(repeats):
        begun = time.perf_counter()
        for _ in range(number):
            work()
        shortest = min(shortest, (time.perf_counter() - begun) / number)
    return shortest


def main(quick: bool) -> None:
    driver = Driver()
    repeats = 3 if quick else 7
    arrays: dict[str, Any] = {}
    libraries: dict[str, Any] = {}
    for name in ("torch", "cupy", "numba", "jax"):
        try:
            libraries[name] = made(name, driver)
            arrays[name] = libraries[name].made([0.0] * 1024, (32, 32))
        except (Exception, pytest.skip.Exception) as error:
            print(f"{name} is not measured: {error}")
    exchanges(arrays, libraries, repeats)
    bandwidths(driver, libraries.get("torch"), repeats, quick)


def exchanges(arrays: dict[str, Any], libraries: dict[str, Any], repeats: int) -> None:
    """Prints the table of exchanges: dlbridge's time, and a library's time for the same exchange."""
    take = {name: library.from_dlpack for name, library in libraries.items() if library.takes}
    if "numba" in libraries:
        take["numba"] = libraries["numba"].from_interface
    ours = {name: dlbridge.asdlpack(array) for name, array in arrays.items()}

    def other(taker: str, giver: str) -> Callable[[], object] | None:
        """A library imports an array of another library."""
        if taker not in take or giver not in arrays or (giver == "numba" and taker not in ("numba", "cupy")):
            return None
        function = libraries["cupy"].from_interface if (taker, giver) == ("cupy", "numba") else take[taker]
        return lambda: function(arrays[giver])

    def into(name: str) -> Callable[[], object] | None:
        """dlbridge imports an array."""
        return (lambda: dlbridge.asdlpack(arrays[name])) if name in arrays else None

    def out(taker: str, giver: str) -> Callable[[], object] | None:
        """A library imports a dlbridge tensor."""
        return (lambda: take[taker](ours[giver])) if taker in take and giver in ours else None

    pairs = [
        ("asdlpack(torch)", into("torch"), "cupy.from_dlpack(torch)", other("cupy", "torch")),
        ("asdlpack(cupy)", into("cupy"), "torch.from_dlpack(cupy)", other("torch", "cupy")),
        ("asdlpack(numba)", into("numba"), "cupy.asarray(numba)", other("cupy", "numba")),
        ("asdlpack(jax)", into("jax"), "torch.from_dlpack(jax)", other("torch", "jax")),
        ("asdlpack(object with the interface)", interface_of(arrays), "as_cuda_array(cupy)", other("numba", "cupy")),
        ("torch.from_dlpack(dlbridge)", out("torch", "cupy"), "torch.from_dlpack(cupy)", other("torch", "cupy")),
        ("cupy.from_dlpack(dlbridge)", out("cupy", "torch"), "cupy.from_dlpack(torch)", other("cupy", "torch")),
        ("as_cuda_array(dlbridge)", out("numba", "cupy"), "as_cuda_array(cupy)", other("numba", "cupy")),
        ("jax.dlpack.from_dlpack(dlbridge)", out("jax", "cupy"), "jax.dlpack.from_dlpack(cupy)", other("jax", "cupy")),
    ]
    rows = [["with dlbridge", "ns", "without", "ns", "ratio"]]
    for name, work, beside, reference in pairs:
        own, theirs = nanoseconds(work, repeats), nanoseconds(reference, repeats)
        ratio = f"{own / theirs:.2f}" if isinstance(own, float) and isinstance(theirs, float) else ""
        rows.append([name, shown(own), beside, shown(theirs), ratio])
    show(f"exchanges, the best of {repeats}; the ratio is the first divided by the second", rows)


def interface_of(arrays: dict[str, Any]) -> Callable[[], object] | None:
    """Returns the import of an object that has only the interface."""
    if "cupy" not in arrays:
        return None
    only = InterfaceArray.only(arrays["cupy"])
    return lambda: dlbridge.asdlpack(only)


def nanoseconds(work: Callable[[], object] | None, repeats: int) -> float | str:
    """Returns the nanoseconds of a call, or the reason why it was not measured."""
    if work is None:
        return "not available"
    try:
        return 1e9 * best(work, repeats=repeats, least=0.02)
    except Exception as error:
        return f"refused: {type(error).__name__}"


def shown(value: float | str) -> str:
    """Formats a cell of a table."""
    return value if isinstance(value, str) else f"{value:.0f}"


def bandwidths(driver: Driver, torch: Any, repeats: int, quick: bool) -> None:
    """Prints the tables of copies. Those of dlbridge and torch include new memory; bytes are counted once."""
    sizes = [64 * KIB, MIB, 16 * MIB] + ([] if quick else [64 * MIB, 256 * MIB])
    tables: dict[str, list[list[str]]] = {"host to device": [], "device to host": [], "device to device": []}
    for size in sizes:
        for rows, works in zip(tables.values(), copies(driver, torch, size), strict=True):
            rows.append([str(size), *(gigabytes(work, size, repeats) for work in works)])
    columns = ["bytes", "dlbridge", "cuMemcpyAsync, pinned", "cuMemcpy, pageable", "torch"]
    for where, rows in tables.items():
        show(f"{where}, in GB/s, the best of {repeats}", [columns, *rows])


def copies(driver: Driver, torch: Any, size: int) -> list[list[Callable[[], object] | None]]:
    """For each direction: the copy by dlbridge, by the driver from pinned and from pageable memory, and by torch."""
    stream = driver.stream()
    device, twin = driver.memory(size), driver.memory(size)
    pinned = driver.memory(size, kind="pinned")
    pageable = bytearray(b"\1") * size
    host = dlbridge.asdlpack(pageable)
    there = dlbridge.asdlpack(host, device="cuda:0")
    driver.wait_for_all()

    def queued(to: int, source: int) -> Callable[[], object]:
        """A copy on the stream, with a wait for it."""

        def copy() -> None:
            driver.copy(to, source, size, stream)
            driver.wait(stream)

        return copy

    def at_once(to: int, source: int) -> Callable[[], object]:
        """A copy from or to pageable memory."""

        def copy() -> None:
            with driver.on(0):
                driver.call("cuMemcpy", to, source, size)

        return copy

    def waited(work: Callable[[], object]) -> Callable[[], object]:
        """Work of dlbridge on the stream, with a wait for it."""

        def both() -> None:
            kept = work()
            driver.wait(stream)
            del kept

        return both

    by_torch: list[Callable[[], object] | None] = [None, None, None]
    if torch is not None:
        module = importlib.import_module("torch")
        on_host = module.ones(size, dtype=module.uint8)
        on_device = on_host.cuda()

        def synchronised(work: Callable[[], object]) -> Callable[[], object]:
            """Work of torch, with a wait for it."""
            return lambda: (work(), module.cuda.synchronize())

        by_torch = [synchronised(on_host.cuda), on_device.cpu, synchronised(on_device.clone)]
    address = ctypes.addressof(ctypes.c_char.from_buffer(pageable))
    own = [
        waited(lambda: dlbridge.asdlpack(host, device="cuda:0", stream=stream)),
        lambda: dlbridge.asdlpack(there, device="cpu"),
        waited(lambda: dlbridge.asdlpack(there, copy=True, stream=stream)),
    ]
    return [
        [own[0], queued(device, pinned), at_once(device, address), by_torch[0]],
        [own[1], queued(pinned, device), at_once(address, device), by_torch[1]],
        [own[2], queued(twin, device), None, by_torch[2]],
    ]


def gigabytes(work: Callable[[], object] | None, size: int, repeats: int) -> str:
    """Formats the bandwidth of a copy as a cell of a table."""
    if work is None:
        return "-"
    try:
        return f"{size / best(work, repeats=repeats, least=0.01) / 1e9:.2f}"
    except Exception as error:
        return type(error).__name__


if __name__ == "__main__":
    main("--quick" in sys.argv)
