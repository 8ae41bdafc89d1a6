"""PyTorch, CuPy, Numba and JAX, with the functions that the checks need."""

import ctypes
import importlib
from contextlib import AbstractContextManager
from typing import Any

import pytest
from arrays import NEW, packed
from driver import Driver
from libraries import Library


class Torch(Library):
    name = "torch"
    numbers = (1,)  # It refuses the per-thread default stream.

    def __init__(self, driver: Driver) -> None:
        super().__init__(driver)
        self.torch = importlib.import_module("torch")
        if not self.torch.cuda.is_available():
            pytest.skip("torch finds no CUDA device")

    def version(self) -> str:
        return f"{self.torch.__version__}, CUDA {self.torch.version.cuda}"

    def made(self, values: list[float], shape: tuple[int, ...], device: int = 0) -> Any:
        array = self.torch.tensor(values, dtype=self.torch.float32, device=f"cuda:{device}").reshape(shape)
        self.torch.cuda.synchronize(device)
        return array

    def on(self, stream: int) -> AbstractContextManager[Any]:
        cuda = self.torch.cuda
        if stream == 2:
            pytest.skip("torch does not support the per-thread default stream")
        return cuda.stream(cuda.default_stream() if stream == 1 else cuda.ExternalStream(stream))  # type: ignore[no-any-return]

    def address(self, array: Any) -> int:
        return int(array.data_ptr())

    def from_dlpack(self, source: Any) -> Any:
        return self.torch.from_dlpack(source)

    def from_interface(self, source: Any) -> Any:
        return self.torch.as_tensor(source, device="cuda")

    def copied(self, array: Any) -> Any:
        return array.clone()

    def values(self, array: Any) -> list[float]:
        self.torch.cuda.synchronize()
        return [float(value) for value in array.detach().cpu().reshape(-1).tolist()]

    def views(self) -> list[tuple[str, Any, tuple[int, ...], tuple[int, ...], list[float]]]:
        a, b, c, d, e, f = NEW
        whole = self.made(NEW, (2, 3))
        return [
            ("transposed", whole.T, (3, 2), (1, 3), [a, d, b, e, c, f]),
            ("every second", whole.reshape(6)[1::2], (3,), (2,), [b, d, f]),
            ("broadcast", whole[1].expand(2, 3), (2, 3), (0, 1), [d, e, f, d, e, f]),
        ]

    def memory_of_kind(self, kind: str) -> Any:
        if kind == "managed":
            return super().memory_of_kind(kind)
        return self.torch.tensor(NEW, dtype=self.torch.float32).pin_memory()


class Cupy(Library):
    name = "cupy"
    names_stream = True

    def __init__(self, driver: Driver) -> None:
        super().__init__(driver)
        self.cupy = importlib.import_module("cupy")

    def version(self) -> str:
        return str(self.cupy.__version__)

    def made(self, values: list[float], shape: tuple[int, ...], device: int = 0) -> Any:
        with self.cupy.cuda.Device(device):
            array = self.cupy.array(values, dtype="float32").reshape(shape)
            self.cupy.cuda.Device(device).synchronize()
        return array

    def on(self, stream: int) -> AbstractContextManager[Any]:
        cuda = self.cupy.cuda
        known = {1: cuda.Stream.null, 2: cuda.Stream.ptds}
        return known[stream] if stream in known else self.external(stream)  # type: ignore[no-any-return]

    def external(self, stream: int) -> Any:
        """Wraps a stream of the driver as a CuPy stream."""
        if not hasattr(self.cupy.cuda.Stream, "from_external"):
            return self.cupy.cuda.ExternalStream(stream, 0)

        class Named:
            def __cuda_stream__(self) -> tuple[int, int]:
                return 0, stream

        return self.cupy.cuda.Stream.from_external(Named())

    def from_dlpack(self, source: Any) -> Any:
        return self.cupy.from_dlpack(source)

    def from_interface(self, source: Any) -> Any:
        return self.cupy.asarray(source)

    def copied(self, array: Any) -> Any:
        return array.copy()

    def values(self, array: Any) -> list[float]:
        self.cupy.cuda.Device().synchronize()
        return [float(value) for value in self.cupy.asnumpy(array).reshape(-1).tolist()]

    def views(self) -> list[tuple[str, Any, tuple[int, ...], tuple[int, ...], list[float]]]:
        a, b, c, d, e, f = NEW
        whole = self.made(NEW, (2, 3))
        return [
            ("transposed", whole.T, (3, 2), (1, 3), [a, d, b, e, c, f]),
            ("every second", whole.reshape(6)[1::2], (3,), (2,), [b, d, f]),
            ("backwards", whole.reshape(6)[::-1], (6,), (-1,), [f, e, d, c, b, a]),
            ("broadcast", self.cupy.broadcast_to(whole[1], (2, 3)), (2, 3), (0, 1), [d, e, f, d, e, f]),
        ]

    def memory_of_kind(self, kind: str) -> Any:
        cuda = self.cupy.cuda
        if kind == "pinned":
            return super().memory_of_kind(kind)
        array = self.cupy.ndarray((6,), "float32", memptr=cuda.malloc_managed(24))
        array.set(self.cupy.asnumpy(self.made(NEW, (6,))))
        cuda.Device().synchronize()
        return array


class Numba(Library):
    """Numba, which has ``__cuda_array_interface__`` but not DLPack."""

    name = "numba"
    lends = takes = False
    names_stream = True

    def __init__(self, driver: Driver) -> None:
        super().__init__(driver)
        self.cuda = importlib.import_module("numba.cuda")
        self.numpy = importlib.import_module("numpy")
        if not self.cuda.is_available():
            pytest.skip("numba finds no CUDA device")
        self.current = 0

    def version(self) -> str:
        numba = importlib.import_module("numba")
        return f"{numba.__version__}, numba.cuda {getattr(self.cuda, '__version__', 'of Numba')}"

    def made(self, values: list[float], shape: tuple[int, ...], device: int = 0) -> Any:
        if device:
            pytest.skip("numba changes the current device permanently")
        array = self.cuda.device_array(shape, dtype="float32", stream=self.current)
        if values:
            array.copy_to_device(self.numpy.array(values, dtype="float32").reshape(shape))
        self.cuda.synchronize()
        return array

    def on(self, stream: int) -> AbstractContextManager[Any]:
        named = {1: self.cuda.legacy_default_stream, 2: self.cuda.per_thread_default_stream}
        return self.bound_to(named[stream]() if stream in named else self.cuda.external_stream(stream))

    def from_interface(self, source: Any) -> Any:
        return self.cuda.as_cuda_array(source)

    def copied(self, array: Any) -> Any:
        twin = self.cuda.device_array(array.shape, dtype="float32", stream=self.current)
        twin.copy_to_device(array, stream=self.current)
        return twin

    def values(self, array: Any) -> list[float]:
        self.cuda.synchronize()
        host = array.copy_to_host()
        # Numba copies an array that is bound to a stream on that stream, without a wait.
        self.cuda.synchronize()
        return [float(value) for value in host.reshape(-1).tolist()]

    def views(self) -> list[tuple[str, Any, tuple[int, ...], tuple[int, ...], list[float]]]:
        whole = self.made(NEW, (6,))
        return [("every second", whole[1::2], (3,), (2,), NEW[1::2])]

    def memory_of_kind(self, kind: str) -> Any:
        make = {"managed": self.cuda.managed_array, "pinned": self.cuda.mapped_array}[kind]
        array = make((6,), dtype="float32")
        self.cuda.synchronize()
        address = int(array.__cuda_array_interface__["data"][0])
        ctypes.memmove(address, packed(NEW), 24)
        return array


class Jax(Library):
    """JAX, whose arrays are immutable and which uses only its own streams."""

    name = "jax"
    has_streams = writes = False

    def __init__(self, driver: Driver) -> None:
        super().__init__(driver)
        self.jax = importlib.import_module("jax")
        try:
            self.gpus = self.jax.devices("cuda")
        except RuntimeError as error:
            pytest.skip(f"jax finds no CUDA device: {error}")
        self.slow: Any = None

    def version(self) -> str:
        return str(self.jax.__version__)

    def made(self, values: list[float], shape: tuple[int, ...], device: int = 0) -> Any:
        of = [gpu for gpu in self.gpus if gpu.local_hardware_id == device]
        if not of:
            pytest.skip(f"jax does not list device {device}")
        array = self.jax.numpy.array(values, dtype="float32").reshape(shape)
        return self.jax.device_put(array, of[0]).block_until_ready()

    def late(self, values: list[float], stream: int) -> Any:
        """Returns the result of a repeated matrix product, which JAX queues on its stream."""
        numpy = self.jax.numpy
        if self.slow is None:

            def slow(matrix: Any, vector: Any) -> Any:
                result = self.jax.lax.fori_loop(0, 200, lambda _, x: numpy.tanh(x @ matrix), matrix)
                # This is zero, but the compiler cannot know that.
                return vector + numpy.minimum(numpy.abs(result[0, 0]), 0)

            self.slow = self.jax.jit(slow)
            self.matrix = self.jax.device_put(numpy.ones((2048, 2048), "float32"), self.gpus[0])
            self.slow(self.matrix, self.made([0.0] * len(values), (len(values),))).block_until_ready()
        start = self.made(values, (len(values),))
        return self.slow(self.matrix, start)

    def address(self, array: Any) -> int:
        return int(array.unsafe_buffer_pointer())

    def from_dlpack(self, source: Any) -> Any:
        return self.jax.dlpack.from_dlpack(source)

    def from_interface(self, source: Any) -> Any:
        return self.jax.numpy.asarray(source)

    def copied(self, array: Any) -> Any:
        return self.jax.numpy.add(array, 0)

    def values(self, array: Any) -> list[float]:
        host = self.jax.device_get(array.block_until_ready())
        return [float(value) for value in host.reshape(-1).tolist()]
