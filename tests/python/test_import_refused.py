"""Refused imports by ``__dlpack__``, and of objects without memory: class and text of the exception; nothing leaks."""

from types import SimpleNamespace
from typing import Any

import dlbridge
import native as n
import pytest
from frameworks import require_installed
from native import CPU, Flags, Native, Producer
from processes import output
from producers import producer, raises

IMPORTS = pytest.mark.parametrize("imports", [dlbridge.asdlpack, dlbridge.from_dlpack])
BOTH = pytest.mark.parametrize("versioned", [True, False])


class Own(Exception):
    """An exception class of the test."""


class OwnTypeError(TypeError):
    """A TypeError that no interpreter raises."""


@IMPORTS
@pytest.mark.parametrize(
    "error",
    [
        BufferError("no"),
        RuntimeError("no"),
        ValueError("no"),
        Own("no"),
        MemoryError(),
        KeyboardInterrupt(),
        SystemExit(3),
        StopIteration(1),
        AttributeError("__dlpack__"),
        TypeError("no"),
        TypeError(),
        TypeError("unsupported operand type(s) for +: 'int' and 'str'"),
        TypeError("f() got an unexpected keyword argument 'mode'"),
        TypeError("f() missing 1 required positional argument: 'x'"),
        TypeError("the stream is closed"),
        TypeError("max_version must be (1, 0)"),
        OwnTypeError("got an unexpected keyword argument 'max_version'"),
    ],
    ids=repr,
)
def test_exception_of_a_producer_is_raised(imports: Any, error: BaseException) -> None:
    producer = Producer(error)
    with pytest.raises(type(error)) as caught:
        imports(producer)
    assert caught.value is error
    assert len(producer.asked) == 1, "asked once"


@pytest.mark.parametrize(("imports", "name"), [(dlbridge.asdlpack, "__fspath__"), (dlbridge.from_dlpack, "__dlpack__")])
def test_interrupt_while_attributes_are_looked_up_is_raised(imports: Any, name: str) -> None:
    class Interrupting:
        asked = 0

        def __getattr__(self, asked_for: str) -> Any:
            if asked_for == name:
                self.asked += 1
                if self.asked == 1:
                    raise KeyboardInterrupt
            raise AttributeError(asked_for)

    with pytest.raises(KeyboardInterrupt):
        imports(Interrupting())


def test_producer_that_refuses_is_asked_for_its_device_with_care() -> None:
    class Producer:
        asked = 0

        def __dlpack_device__(self) -> Any:
            self.asked += 1
            if self.asked == 2:
                raise KeyboardInterrupt
            return 1, 0

        def __dlpack__(self, **_: object) -> Any:
            raise BufferError("no")

    with pytest.raises(KeyboardInterrupt):
        dlbridge.asdlpack(Producer())

    class Endless(Producer):
        def __dlpack_device__(self) -> Any:
            Endless.asked += 1
            return dlbridge.asdlpack(self)

    with pytest.raises(RecursionError):
        dlbridge.asdlpack(Endless())
    assert Endless.asked < 100


@pytest.mark.parametrize("name", ["copy", "open_stream", "negotiate_max_version", "dl_device"])
def test_unknown_keyword_inside_a_producer_is_not_retried(name: str) -> None:
    """A function that the producer calls may have the name of one of our keywords."""

    def inner() -> None:
        """Supports no keyword."""

    inner.__qualname__ = inner.__name__ = name
    asked = []

    class Faulty:
        def __dlpack__(self, **keywords: Any) -> Any:
            asked.append(keywords)
            inner(order="C")  # type: ignore[call-arg]

    with pytest.raises(TypeError, match="'order'"):
        dlbridge.asdlpack(Faulty())
    assert len(asked) == 1, "asked once"


@IMPORTS
@pytest.mark.parametrize("error", [RuntimeError("no"), TypeError("no"), Own()], ids=repr)
def test_exception_of_dlpack_device_is_raised(imports: Any, error: BaseException) -> None:
    class Lost(Producer):
        __dlpack_device__ = raises(error)

    producer = Lost(None)
    with pytest.raises(type(error)) as caught:
        imports(producer)
    assert caught.value is error
    assert producer.asked == []


@pytest.mark.parametrize(
    "device", [None, 1, (1,), (1, 0, 0), [1, 0, 0], ("cpu", 0), (1, "0"), (None, 0), "ab", b"ab", {1: 0}], ids=repr
)
def test_device_that_is_not_two_numbers_is_refused(device: Any) -> None:
    producer = Producer(None, device)
    with pytest.raises(TypeError, match="the result of __dlpack_device__ must be a tuple or list of two integers"):
        dlbridge.asdlpack(producer)
    assert producer.asked == []


@IMPORTS
def test_exception_of_an_attribute_is_raised(imports: Any) -> None:
    with pytest.raises(Own, match="attribute"):
        imports(producer(__dlpack__=property(raises(Own("attribute")))))


@pytest.mark.parametrize("found", [None, 1, b"dltensor", "dltensor", object()])
def test_answer_that_is_not_a_capsule_is_refused(found: Any) -> None:
    with pytest.raises(TypeError, match=r"Producer.__dlpack__\(\) returned \w+; .* a capsule"):
        dlbridge.asdlpack(Producer(found))


@BOTH
@pytest.mark.parametrize("name", ["arrow_array", "", "dltensor_", "DLTENSOR", "used", None])
def test_capsule_of_another_name_is_refused_unchanged(
    native: Native, versioned: bool, name: str | None
) -> None:
    # Not `capsule` of the crafted tensor, where an empty name means the default.
    capsule = native.craft(versioned=versioned, deleter=False).native.capsule(name)
    with pytest.raises(ValueError, match="expected one named 'dltensor' or 'dltensor_versioned'"):
        dlbridge.asdlpack(Producer(capsule))
    assert native.name(capsule) == name


@BOTH
def test_used_capsule_is_renamed_and_refused(native: Native, versioned: bool) -> None:
    crafted = native.craft(versioned=versioned)
    capsule = crafted.capsule()
    tensor = dlbridge.asdlpack(Producer(capsule))
    assert native.name(capsule) == ("used_dltensor_versioned" if versioned else "used_dltensor")
    with pytest.raises(ValueError, match="consumed before; ask the producer for a new one"):
        dlbridge.asdlpack(Producer(capsule))
    del capsule
    assert crafted.record.calls == 0
    del tensor
    assert crafted.record.calls == 1


def refused(native: Native, match: str, *, device: Any = CPU, **fields: Any) -> None:
    """Asserts that the import of a crafted tensor raises a BufferError and deletes the tensor."""
    for imports in (dlbridge.asdlpack, dlbridge.from_dlpack):
        for copy in (None, True, False):
            crafted = native.craft(**{"device": device, **fields})
            capsule = crafted.capsule()
            with pytest.raises(BufferError, match=match):
                imports(Producer(capsule, device), copy=copy)
            assert crafted.record.calls == 1, "deleted during the call"
            assert str(native.name(capsule)).startswith("used_")
            del capsule
            assert crafted.record.calls == 1, "not deleted again"


@pytest.mark.parametrize("version", [(2, 0), (0, 8), (0, 0), (2**32 - 1, 7)])
def test_another_major_version(native: Native, version: tuple[int, int]) -> None:
    match = rf"DLPack version {version[0]}\.{version[1]}, whose layout is unknown"
    refused(native, match, version=version)
    # The import must not read the fields behind the deleter.
    refused(native, match, version=version, shape=None, strides=None, ndim=3, data=0, flags=255)


@BOTH
@pytest.mark.parametrize(
    ("fields", "match"),
    [
        ({"ndim": -1}, "ndim is -1"),
        ({"ndim": -(2**31), "shape": None, "strides": None}, "ndim is -2147483648"),
        ({"shape": (1,) * 1025}, "ndim is 1025"),
        ({"ndim": 2**31 - 1, "shape": None, "strides": None}, "ndim is 2147483647"),
        ({"shape": None, "ndim": 2, "strides": None}, "shape .* is NULL"),
        ({"shape": None, "ndim": 2, "strides": (1, 1)}, "shape .* is NULL"),
        ({"shape": (-1,)}, "extent of axis 0 is -"),
        ({"shape": (2, -(2**63)), "strides": (1, 1)}, "extent of axis 1 is -"),
        ({"shape": (0, -1), "strides": (1, 1)}, "extent of axis 1 is -"),
        ({"shape": (2**62, 2**62), "strides": None}, "spans more than the address space"),
        ({"shape": (2**62, 2**62), "strides": (0, 0)}, "spans more than the address space"),
        ({"shape": (0, 2**62, 2**62), "strides": None}, "spans more than the address space"),
        ({"shape": (2**61,), "strides": None}, "spans more than the address space"),
        ({"shape": (3,), "strides": (2**62,)}, "spans more than the address space"),
        ({"shape": (2,), "strides": (-(2**63),)}, "spans more than the address space"),
        ({"shape": (2, 2), "strides": (2**60, -(2**60))}, "spans more than the address space"),
        ({"data": 0}, "data .* is NULL"),
        ({"data": 0, "byte_offset": 64}, "data .* is NULL"),
        ({"shape": (), "data": 0}, "data .* is NULL"),
        ({"data": 0, "device": n.CUDA}, "data .* is NULL"),
        ({"byte_offset": 2**64 - 1}, "spans more than the address space"),
        ({"data": 2**64 - 8}, "spans more than the address space"),
        ({"shape": (2,), "strides": (-4,), "data": 8}, "spans more than the address space"),
        ({"byte_offset": 2**64 - 4, "device": n.OPENCL}, "spans more than the address space"),
        ({"dtype": (2, 0, 1)}, "no dtype has code 2, 0 bits and 1 lane"),
        ({"dtype": (2, 32, 0)}, "no dtype has code 2, 32 bits and 0 lanes"),
        ({"dtype": (99, 0, 1)}, "code 99, 0 bits"),
        ({"dtype": (10, 16, 1)}, "code 10, 16 bits"),
        ({"dtype": (17, 8, 1)}, "code 17, 8 bits"),
        ({"dtype": (2, 0, 1), "shape": (0,)}, "code 2, 0 bits"),
    ],
    ids=str,
)
def test_struct_that_breaks_the_specification_is_refused(
    native: Native, versioned: bool, fields: dict[str, Any], match: str
) -> None:
    refused(native, match, versioned=versioned, **fields)


@BOTH
def test_invalid_struct_without_a_deleter_is_refused(native: Native, versioned: bool) -> None:
    crafted = native.craft(versioned=versioned, data=0, deleter=False)
    with pytest.raises(BufferError, match="NULL"):
        dlbridge.asdlpack(Producer(crafted))


@BOTH
@pytest.mark.parametrize(
    ("claimed", "found"),
    [(CPU, n.CUDA), (n.CUDA, CPU), ((13, 0), CPU), ((2, 1), n.CUDA), ((99, 0), CPU)],
)
def test_device_and_tensor_must_agree(
    native: Native, versioned: bool, claimed: tuple[int, int], found: tuple[int, int]
) -> None:
    crafted = native.craft(versioned=versioned, device=found)
    with pytest.raises(BufferError, match="must agree"):
        dlbridge.asdlpack(Producer(crafted, claimed))
    assert crafted.record.calls == 1


@pytest.mark.parametrize(
    ("device", "flags", "keywords", "match"),
    [(n.CUDA, 0, {"device": CPU}, "must agree"), (CPU, Flags.IS_COPIED, {"copy": False}, "made a copy despite")],
)
def test_producer_that_ignores_an_option_is_refused(
    native: Native, device: tuple[int, int], flags: int, keywords: dict[str, Any], match: str
) -> None:
    crafted = native.craft(device=device, flags=flags)
    with pytest.raises(BufferError, match=match):
        dlbridge.from_dlpack(Producer(crafted, device), **keywords)
    assert crafted.record.calls == 1


@BOTH
@pytest.mark.parametrize("found", [CPU, (3, 0), (11, 0)])
def test_pinned_memory_may_be_reported_as_the_cpu(
    native: Native, versioned: bool, found: tuple[int, int]
) -> None:
    for claimed in (CPU, (3, 0)):
        crafted = native.craft(versioned=versioned, device=found)
        tensor = dlbridge.asdlpack(Producer(crafted, claimed))
        assert (tensor.__dlpack_device__(), tensor.copied) == (found, False)


@BOTH
@pytest.mark.parametrize("device", [n.CUDA, n.OPENCL, (99, 0)])
def test_copy_of_data_that_the_cpu_cannot_read_is_left_to_the_producer(
    native: Native, versioned: bool, device: tuple[int, int]
) -> None:
    producer = Producer(native.craft(versioned=versioned, device=device), device)
    assert dlbridge.asdlpack(producer, copy=True).copied
    assert producer.asked[0]["copy"] is True
    crafted = native.craft(versioned=versioned, device=device)
    without_device = SimpleNamespace(__dlpack__=lambda **_: crafted.capsule())
    with pytest.raises(BufferError, match="where the CPU cannot read it|cannot be copied to cuda:0: no CUDA driver"):
        dlbridge.asdlpack(without_device, copy=True)
    assert crafted.record.calls == 1


@BOTH
def test_copy_without_memory_raises_and_deletes(native: Native, versioned: bool) -> None:
    # One repeated element: valid, and far too large for a copy.
    crafted = native.craft((2**58,), strides=(0,), versioned=versioned)
    with pytest.raises((MemoryError, BufferError)):
        dlbridge.asdlpack(Producer(crafted), copy=True)
    assert crafted.record.calls == 1


@pytest.mark.parametrize("thing", [None, 1, "text", [1.0], {}, object(), Own(), lambda: None])
def test_object_without_a_protocol_is_refused(thing: Any) -> None:
    with pytest.raises(TypeError, match="supports no exchange protocol: looked for __dlpack_c_exchange_api__"):
        dlbridge.asdlpack(thing)
    with pytest.raises(TypeError, match="supports no exchange protocol: looked for __dlpack__;"):
        dlbridge.asdlpack(thing, protocol="dlpack")
    with pytest.raises(AttributeError, match="has no attribute '__dlpack__'; asdlpack looks for other protocols"):
        dlbridge.from_dlpack(thing)


@pytest.mark.parametrize(
    ("methods", "advice"),
    [
        (("__array__", "__arrow_array__"), r"let its library make an array of it: numpy\.asarray\(x\)"),
        (("__arrow_array__",), r"let its library make an array of it: pyarrow\.array\(x\)"),
    ],
)
def test_object_that_converts_itself_gets_the_function_that_does(methods: tuple[str, ...], advice: str) -> None:
    thing = type("Lazy", (), dict.fromkeys(methods, lambda self: None))
    with pytest.raises(TypeError, match=advice):
        dlbridge.asdlpack(thing())
    with pytest.raises(TypeError, match="not a module or a class"):
        dlbridge.asdlpack(thing)


def test_capsule_is_imported_once(native: Native) -> None:
    crafted = native.craft()
    capsule = crafted.capsule()
    tensor = dlbridge.asdlpack(capsule)
    assert tensor.protocol == "dlpack"
    assert native.name(capsule) == "used_dltensor_versioned"
    with pytest.raises(ValueError, match="consumed before"):
        dlbridge.asdlpack(capsule)
    with pytest.raises(AttributeError, match="PyCapsule"):
        dlbridge.from_dlpack(native.craft().capsule())
    with pytest.raises(TypeError, match="looked for the buffer protocol; leave out protocol"):
        dlbridge.asdlpack(native.craft().capsule(), protocol="buffer")
    copied = native.craft(flags=Flags.IS_COPIED)
    assert dlbridge.asdlpack(copied.capsule()).copy_reason == "the producer made a copy"
    with pytest.raises(BufferError, match="the producer made a copy, and copy=False"):
        dlbridge.asdlpack(native.craft(flags=Flags.IS_COPIED).capsule(), copy=False)
    del tensor
    assert crafted.record.calls == 1


def test_class_cannot_be_made_changed_or_subclassed(native: Native) -> None:
    with pytest.raises(TypeError, match="asdlpack.*empty"):
        dlbridge.Tensor()
    with pytest.raises(TypeError):
        type("Sub", (dlbridge.Tensor,), {})
    tensor, _ = native.tensor()
    for name in ("shape", "strides", "dtype", "device", "readonly", "address", "other"):
        with pytest.raises(AttributeError):
            setattr(tensor, name, 1)


#: TensorFlow cannot share a process with all other libraries.
TENSORFLOW = """
import dlbridge, keras, pytest, tensorflow as tf

with pytest.raises(TypeError, match=r"pass its value: variable\\.value\\(\\)"):
    dlbridge.asdlpack(tf.Variable([1.0]))
with pytest.raises(TypeError, match=r"pass its value: variable\\.value$"):
    dlbridge.asdlpack(keras.Variable([1.0]))

@tf.function
def compiled(x):
    with pytest.raises(TypeError, match="it stands for elements that are not computed yet"):
        dlbridge.asdlpack(x)
    return x

compiled(tf.constant([1.0]))
with pytest.raises(TypeError, match="it stands for elements that are not computed yet"):
    dlbridge.asdlpack(keras.Input((3,)))
print("done")
"""


def test_variables_and_symbolic_tensors_say_what_to_pass() -> None:
    require_installed("tensorflow")
    assert output(TENSORFLOW, options=(), quiet=False).endswith("done\n")
