"""The functions that the checks need of a library, and the driver as a library with its own arrays."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import pytest
from arrays import NEW, Array, InterfaceArray, packed
from driver import Driver

#: All libraries.
NAMES = ("driver", "torch", "cupy", "numba", "jax")


class Library:
    """The functions that the checks call. Arrays are of float32."""

    name = ""
    #: whether its arrays have ``__dlpack__``
    lends = True
    #: whether it has a function that imports objects with ``__dlpack__``
    takes = True
    #: the stream numbers that its ``__dlpack__`` accepts besides handles
    numbers: tuple[int, ...] = (1, 2)
    #: whether it works on the caller's streams
    has_streams = True
    #: whether its ``__cuda_array_interface__`` names the stream of its work
    names_stream = False
    #: whether arrays over imported memory may be written
    writes = True
    #: the stream that new arrays are bound to
    current: Any = None

    def __init__(self, driver: Driver) -> None:
        self.driver = driver

    def version(self) -> str:
        """Returns the library's version."""
        return ""

    def made(self, values: list[float], shape: tuple[int, ...], device: int = 0) -> Any:
        """Makes an array with these values; its work has finished."""
        raise NotImplementedError

    def late(self, values: list[float], stream: int) -> Any:
        """Makes an array on device 0 that gets these values late, on a stream, which is the library's current one."""
        array = self.made([0.0] * len(values), (len(values),))
        self.driver.late(stream, self.address(array), packed(values))
        return array

    def on(self, stream: int) -> AbstractContextManager[Any]:
        """Makes a stream of device 0 the current one; 1 is the legacy default stream, 2 the per-thread one."""
        return nullcontext()

    @contextmanager
    def bound_to(self, stream: Any) -> Iterator[None]:
        """Binds new arrays to a stream in the block."""
        self.current, before = stream, self.current
        try:
            yield
        finally:
            self.current = before

    def address(self, array: Any) -> int:
        """Returns the address of an array."""
        return int(array.__cuda_array_interface__["data"][0])

    def from_dlpack(self, source: Any) -> Any:
        """Imports an object with ``__dlpack__``, synchronised with the current stream."""
        pytest.skip(f"{self.name} does not import DLPack")

    def from_interface(self, source: Any) -> Any:
        """Imports an object with ``__cuda_array_interface__``."""
        pytest.skip(f"{self.name} does not import __cuda_array_interface__")

    def copied(self, array: Any) -> Any:
        """Copies an array with a kernel on the current stream."""
        pytest.skip(f"{self.name} cannot run a kernel here")

    def values(self, array: Any) -> list[float]:
        """Returns the values in C order, after all work."""
        raise NotImplementedError

    def views(self) -> list[tuple[str, Any, tuple[int, ...], tuple[int, ...], list[float]]]:
        """Makes arrays with strides: name, array, shape, strides in elements, and values."""
        pytest.skip(f"{self.name} does not support strides")

    def memory_of_kind(self, kind: str) -> Any:
        """Makes an array of the library in managed or pinned memory, with the values NEW."""
        pytest.skip(f"{self.name} has no {kind} memory")


class OfDriver(Library):
    """Arrays over the driver's memory: they need no library, and run on the stand-in."""

    name = "driver"
    names_stream = True

    def __init__(self, driver: Driver) -> None:
        super().__init__(driver)
        self.current = 1

    def version(self) -> str:
        return f"{self.driver.version // 1000}.{self.driver.version % 1000 // 10}"

    def made(self, values: list[float], shape: tuple[int, ...], device: int = 0) -> Any:
        address = self.driver.filled(packed(values), device)
        return Array(self.driver, address, shape, stream=self.current, device=(2, device))

    def late(self, values: list[float], stream: int) -> Any:
        address = self.driver.filled(bytes(4 * len(values)))
        self.driver.late(stream, address, packed(values))
        return Array(self.driver, address, (len(values),), stream=stream)

    def on(self, stream: int) -> AbstractContextManager[Any]:
        return self.bound_to(stream)

    def address(self, array: Any) -> int:
        return int(array.address)

    def from_dlpack(self, source: Any) -> Any:
        return Array.taken(self.driver, source.__dlpack__(stream=self.current, max_version=(1, 3)), self.current)

    def from_interface(self, source: Any) -> Any:
        return InterfaceArray.taken(self.driver, source, self.current)

    def copied(self, array: Any) -> Any:
        size = 4 * array.count
        twin = self.driver.memory(size, array.device[1])
        self.driver.copy(twin, array.address, size, self.current, array.device[1])
        return Array(self.driver, twin, array.shape, stream=self.current, device=(2, array.device[1]))

    def values(self, array: Any) -> list[float]:
        values: list[float] = array.values()
        return values

    def views(self) -> list[tuple[str, Any, tuple[int, ...], tuple[int, ...], list[float]]]:
        address = self.driver.filled(packed(NEW))
        a, b, c, d, e, f = NEW
        given: list[tuple[str, tuple[int, ...], tuple[int, ...], int, list[float]]] = [
            ("transposed", (3, 2), (1, 3), 0, [a, d, b, e, c, f]),
            ("every second", (3,), (2,), 1, [b, d, f]),
            ("backwards", (6,), (-1,), 5, [f, e, d, c, b, a]),
            ("broadcast", (2, 2), (0, 1), 2, [c, d, c, d]),
        ]
        return [
            (name, Array(self.driver, address + 4 * start, shape, strides=strides), shape, strides, values)
            for name, shape, strides, start, values in given
        ]

    def memory_of_kind(self, kind: str) -> Any:
        address = self.driver.filled(packed(NEW), kind=kind)
        return Array(self.driver, address, (6,), device=({"managed": 13, "pinned": 3}[kind], 0))


def made(name: str, driver: Driver) -> Library:
    """Returns the library of a name; skips the test if it cannot be used."""
    if name == "driver":
        return OfDriver(driver)
    if not driver.is_hardware:
        pytest.skip("it needs kernels, which the stand-in cannot run")
    import frameworks

    kinds: list[type[Library]] = [frameworks.Torch, frameworks.Cupy, frameworks.Numba, frameworks.Jax]
    kind = next(kind for kind in kinds if kind.name == name)
    try:
        return kind(driver)
    except ImportError as error:
        pytest.skip(f"it cannot be imported: {error}")
    except Exception as error:
        pytest.skip(f"it cannot be used: {type(error).__name__}: {error}")
