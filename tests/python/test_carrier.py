"""A tensor as a carrier: sub-tensors, elements, text, and what it leaves to the libraries that compute."""

from __future__ import annotations

import copy
import gc
import json
import math
import operator
import pickle
import re
import signal
import sys
import weakref
from pathlib import Path
from typing import Any

import dlbridge
import pytest
from conftest import Run, require

np = pytest.importorskip("numpy")


def grid() -> tuple[Any, dlbridge.Tensor]:
    array = np.arange(24, dtype="int32").reshape(2, 3, 4)
    return array, dlbridge.asdlpack(array)


INDICES = [
    0, -1, np.int64(1), slice(None), slice(1), slice(None, None, -1), slice(5, None, -2), slice(3, 1), slice(-1, -9, -1),
    Ellipsis, None, (), (0, 1), (0, 1, 2), (Ellipsis, 0), (0, Ellipsis, 1), (slice(None), None, slice(None, None, 2)),
    (None, -1, Ellipsis, None), (slice(0, 2), slice(2, 0, -1), slice(3, None, -3)), (slice(None, None, 2**62), 0),
]


@pytest.mark.parametrize("index", INDICES, ids=str)
def test_index_gives_the_same_sub_tensor_as_numpy(index: Any) -> None:
    array, tensor = grid()
    found, expected = tensor[index], array[index]
    assert isinstance(found, dlbridge.Tensor)
    assert found.shape == expected.shape
    assert found.tolist() == expected.tolist()
    if found.size:
        assert tensor.address <= found.address < tensor.address + tensor.nbytes


@pytest.mark.parametrize(
    ("index", "error"),
    [
        (2, IndexError), (-3, IndexError), (2**70, IndexError), ((0, 0, 4), IndexError), ((0, 0, 0, 0), IndexError),
        ((Ellipsis, Ellipsis), IndexError), ([0], TypeError), (np.array([0, 1]), TypeError), (True, TypeError),
        (np.ones(2, bool), TypeError), (1.0, TypeError), ("a", TypeError),
    ],
    ids=str,
)  # fmt: skip
def test_index_out_of_bounds_or_of_another_kind_is_refused(index: Any, error: type[Exception]) -> None:
    _, tensor = grid()
    with pytest.raises(error, match=r"numpy\(\)" if error is TypeError else None):
        tensor[index]


def test_sub_tensor_keeps_receipt_mark_and_memory_but_not_the_tensor() -> None:
    array, _ = grid()
    array.flags.writeable = False
    tensor = dlbridge.asdlpack(array, contiguous="F")
    part = tensor[0][1:]
    assert (part.protocol, part.copied, part.copy_reason) == (tensor.protocol, True, tensor.copy_reason)
    frozen = dlbridge.asdlpack(array)
    assert frozen[0, 1].readonly
    gone, expected = weakref.ref(frozen), array[0, 1].tolist()
    part = frozen[0][1]
    del frozen, array
    gc.collect()
    assert gone() is None
    assert part.tolist() == expected


def test_slices_of_slices_many_deep_are_dropped() -> None:
    part = dlbridge.asdlpack(bytearray(8))
    for _ in range(20_000):
        part = part[:]
    assert part.tolist() == [0] * 8
    del part


def test_writes_through_a_sub_tensor_reach_the_source() -> None:
    array, tensor = grid()
    tensor[1, :, ::-1].numpy()[0, 0] = -5
    assert array[1, 0, 3] == -5


def test_views_have_the_shapes_of_numpy_and_share_the_memory() -> None:
    array, tensor = grid()
    pairs = [
        (tensor.T, array.T), (tensor.mT, array.swapaxes(1, 2)), (tensor.transpose(), array.T),
        (tensor.permute(2, 0, 1), array.transpose(2, 0, 1)), (tensor.permute((-1, 0, 1)), array.transpose(2, 0, 1)),
        (tensor.reshape(6, -1), array.reshape(6, 4)), (tensor.reshape((24,)), array.reshape(24)),
        (tensor.slice(1, 1, 3), array[:, 1:3]), (tensor.step_by(2, 3), array[:, :, ::3]),
        (tensor.flip(-1), array[:, :, ::-1]), (tensor.index_axis(1, -1), array[:, -1]),
        (tensor.insert_axis(1), array[:, None]),
    ]  # fmt: skip
    for found, expected in pairs:
        assert (found.shape, found.tolist()) == (expected.shape, expected.tolist())
        assert np.shares_memory(found.numpy(), array)


def test_view_that_cannot_be_is_refused_by_class() -> None:
    _, tensor = grid()
    with pytest.raises(BufferError, match="needs a copy.*contiguous='C'"):
        tensor.T.reshape(24)
    for wrong in (lambda: tensor.reshape(5), lambda: tensor.reshape(-1, -1), lambda: tensor.permute(0, 0, 1)):
        with pytest.raises(ValueError, match=r".+"):
            wrong()
    with pytest.raises(ValueError, match="mT swaps"):
        _ = tensor[0, 0].mT
    for out in (lambda: tensor.flip(3), lambda: tensor.slice(0, 1, 3), lambda: tensor.permute(0, 1, 3)):
        with pytest.raises(IndexError):
            out()


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1, 2**70])
def test_number_beyond_64_bits_is_refused_as_one_that_is_out_of_bounds(number: int) -> None:
    _, tensor = grid()
    for method, arguments in [("permute", (number, 0, 1)), ("flip", (number,)), ("step_by", (number, 1)), ("insert_axis", (number,))]:
        with pytest.raises(IndexError, match=f"axis {number} is out of bounds for a tensor of [34] dimensions"):
            getattr(tensor, method)(*arguments)
    with pytest.raises(ValueError, match=rf"24 elements cannot have the shape \({number}, -1\)"):
        tensor.reshape(number, -1)
    for name, arguments in [("start", (0, -number, 1)), ("stop", (0, 0, -abs(number)))]:
        with pytest.raises(IndexError, match=f"{name} must be an integer from 0 to 9223372036854775807, not"):
            tensor.slice(*arguments)
    with pytest.raises(IndexError, match=f"step must be an integer from 0 to 9223372036854775807, not {number}"):
        tensor.step_by(0, number)


def test_length_and_iteration_follow_the_first_dimension() -> None:
    array, tensor = grid()
    assert (len(tensor), tensor.size, tensor.itemsize, tensor.data_ptr()) == (2, 24, 4, tensor.address)
    assert [part.tolist() for part in tensor] == array.tolist()
    for what in (len, iter, reversed):
        with pytest.raises(TypeError, match="without a dimension"):
            what(tensor[0, 0, 0])


def test_reversed_tensor_iterates_over_the_same_memory_from_the_end() -> None:
    array, tensor = grid()
    parts = list(reversed(tensor))
    assert [part.tolist() for part in parts] == array[::-1].tolist()
    assert [part.address for part in parts] == [part.address for part in tensor][::-1]
    assert list(reversed(tensor[:0])) == []


def test_boolean_as_an_extent_or_dimension_is_refused_as_numpy_does() -> None:
    array, tensor = grid()
    cases: list[tuple[str, tuple[Any, ...]]] = [
        ("reshape", (True, 24)), ("reshape", ((24, True),)), ("permute", (2, True, False)), ("flip", (True,)), ("slice", (0, False)),
    ]  # fmt: skip
    for method, arguments in cases:
        with pytest.raises(TypeError, match="(each extent|axis|start) must be an integer, not (True|False)"):
            getattr(tensor, method)(*arguments)
    with pytest.raises(TypeError):
        array.reshape((True, 24))
    assert tensor.reshape(np.int64(24)).shape == tensor.reshape((np.uint8(24),)).shape == (24,)


DTYPES = ["bool", "int8", "uint64", "int64", "float16", "float32", "float64", "complex64", "complex128"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_elements_are_the_numbers_that_numpy_gives(dtype: str) -> None:
    array = np.array([[0, 1], [100, 0]]).astype(dtype)
    tensor = dlbridge.asdlpack(array)
    assert tensor.tolist() == array.tolist()
    assert tensor[1, 0].item() == array[1, 0].item()
    assert type(tensor[1, 0].item()) is type(array[1, 0].item())
    shown = {"bool": "True", "float": "100.0", "compl": "(100.0+0.0j)"}.get(dtype[:5].rstrip("136"), "100")
    assert shown in repr(tensor)


SMALL = [
    "bfloat16", "float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2",
    "float8_e5m2fnuz", "float8_e8m0fnu", "float6_e2m3fn", "float6_e3m2fn", "float4_e2m1fn", "int4", "uint4", "int2", "uint2",
]  # fmt: skip


@pytest.mark.parametrize("name", SMALL)
def test_every_bit_pattern_of_a_small_dtype_is_the_number_of_ml_dtypes(name: str) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    scalar = getattr(ml_dtypes, name)
    if name == "bfloat16":
        array = np.arange(2**16, dtype="uint16").view(scalar)
    else:
        bits = int("".join(c for c in name.split("_")[0] if c.isdigit()))
        array = np.arange(2**bits, dtype="uint8").view(scalar)
    found = dlbridge.asdlpack(array).tolist()
    with np.errstate(all="ignore"):
        expected = array.astype("float64").tolist()
    assert all(a == b or (a != a and b != b) for a, b in zip(found, expected, strict=True))


def test_elements_of_packed_integers_are_read() -> None:
    tensor = dlbridge.empty((2, 2), "int4")
    assert tensor.tolist() == [[0, 0], [0, 0]]
    assert tensor[1].tolist() == [0, 0]
    with pytest.raises(BufferError, match="begin within a byte"):
        dlbridge.empty((3, 3), "int4")[1]


def test_repr_shows_elements_up_to_a_limit() -> None:
    assert repr(dlbridge.asdlpack(b"ab")).startswith("dlbridge.Tensor([97, 98], shape=(2,), strides=(1,), dtype='uint8'")
    assert "[0, 1, 2, ..., 997, 998, 999]" in repr(dlbridge.asdlpack(np.arange(1000)))
    assert len(repr(dlbridge.asdlpack(np.zeros((10,) * 5)))) < 3000
    assert repr(dlbridge.asdlpack(np.broadcast_to(np.float32(0.1), (2**40,)))).startswith("dlbridge.Tensor([0.1, 0.1")


OPERATIONS: list[Any] = [
    lambda t: t + 1, lambda t: 1 + t, lambda t: t - t, lambda t: [1] * t, lambda t: t / 2.0, lambda t: t**2, lambda t: 2 @ t,
    lambda t: -t, lambda t: ~t, lambda t: abs(t), lambda t: divmod(t, 2), lambda t: divmod(2, t), lambda t: round(t),
    lambda t: round(t, 1), lambda t: math.trunc(t), lambda t: t < 1, lambda t: 1 >= t, lambda t: t == copy.copy(t),
    lambda t: t != 1, lambda t: t == [1, 2], lambda t: 1 in t, lambda t: bool(t), lambda t: float(t), lambda t: int(t),
    lambda t: complex(t), lambda t: t.astype("float32"), lambda t: t.__setitem__(0, 1), lambda t: t.__delitem__(0),
    lambda t: t == b"abc", lambda t: t & True,
]  # fmt: skip


@pytest.mark.parametrize("operation", OPERATIONS)
def test_computing_is_refused_with_the_way_to_compute(operation: Any) -> None:
    with pytest.raises(TypeError, match=r"\.numpy\(\).*\.torch\(\)"):
        operation(grid()[1])


def test_operand_of_numpy_computes_by_its_own_operator() -> None:
    array, tensor = grid()
    assert np.array_equal(tensor + np.ones(4), array + 1)
    assert np.array_equal(np.ones(4) + tensor, array + 1)
    assert np.array_equal(np.add(tensor, 1), array + 1)
    assert np.array_equal(tensor * np.float64(2), array * 2)
    assert np.array_equal(tensor == array, array == array)
    assert np.array_equal(tensor < array + 1, array < array + 1)


OPERATORS = [operator.add, operator.matmul, operator.and_, operator.pow, operator.lt, operator.ge, operator.eq, operator.ne]


@pytest.mark.parametrize("compute", OPERATORS)
def test_operand_of_torch_is_refused_on_both_sides(compute: Any) -> None:
    torch = require("torch")
    _, tensor = grid()
    for operands in ((tensor, torch.ones(4)), (torch.ones(4), tensor)):
        with pytest.raises(TypeError, match=r"\.torch\(\)") as refused:
            compute(*operands)
        assert refused.value.__cause__ is None, "PyTorch returns NotImplemented"


@pytest.mark.parametrize("compute", OPERATORS)
def test_type_error_of_the_other_operand_is_the_cause(compute: Any) -> None:
    class Other:
        """A number that computes with nothing."""

        def refuse(self, other: Any) -> Any:
            raise TypeError("not with a tensor")

        __radd__ = __rmatmul__ = __rand__ = __rpow__ = __gt__ = __le__ = __eq__ = __ne__ = refuse
        __hash__ = None  # type: ignore[assignment]

        def __float__(self) -> float:
            return 1.0

    with pytest.raises(TypeError, match=r"does not compute.*\.torch\(\)") as refused:
        compute(grid()[1], Other())
    assert repr(refused.value.__cause__) == "TypeError('not with a tensor')"


class Meta(type):
    """A metaclass whose methods are not those of the objects."""

    def __radd__(cls, *arguments: Any) -> str:
        return "metaclass"


class OfMeta(metaclass=Meta):
    """An object without arithmetic."""


class Static:
    """A method that is not bound."""

    __radd__ = staticmethod(lambda *arguments: len(arguments))


class Computed:
    """A method that a property returns."""

    @property
    def __radd__(self) -> Any:
        return lambda other: "property"


class Unsupported:
    """A class that says that it does not add."""

    __radd__ = None


def test_method_of_the_other_operand_is_found_as_python_finds_it() -> None:
    tensor = grid()[1]
    assert (tensor + Static(), tensor + Computed()) == (1, "property")
    for compute in (lambda: tensor + OfMeta(), lambda: tensor | OfMeta(), lambda: tensor + Unsupported()):
        with pytest.raises(TypeError, match="does not compute") as refused:
            compute()
        assert refused.value.__cause__ is None


def test_other_exception_of_the_other_operand_is_passed_on() -> None:
    class Other:
        """A number whose arithmetic fails."""

        def __radd__(self, other: Any) -> Any:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        grid()[1] + Other()


def test_comparison_by_identity_keeps_containers_working() -> None:
    _, tensor = grid()
    assert tensor in [tensor]
    assert {tensor: 1}[tensor] == 1
    assert weakref.WeakKeyDictionary({tensor: 1})[tensor] == 1
    same = tensor
    assert (tensor == same, tensor != same) == (True, False)
    assert tensor in weakref.WeakSet([tensor])
    assert (tensor == None, tensor != None, tensor == object()) == (False, True, False)  # noqa: E711
    assert len({tensor, copy.copy(tensor)}) == 2


def test_one_element_is_a_number() -> None:
    one = dlbridge.asdlpack(np.array([2.5]))
    assert (float(one), int(one), complex(one), bool(one), one.item()) == (2.5, 2, 2.5 + 0j, True, 2.5)
    assert not dlbridge.asdlpack(np.array(0))
    assert "abcd"[dlbridge.asdlpack(np.array(3))] == "d"
    assert bytes(dlbridge.asdlpack(np.array(7, "uint8"))) == b"\x07"
    assert bytearray(dlbridge.asdlpack(np.array([7], "uint8"))) == b"\x07"
    with pytest.raises(ValueError, match=r"tolist\(\)"):
        dlbridge.asdlpack(b"ab").item()


def test_class_that_is_called_names_the_functions_that_make_tensors() -> None:
    with pytest.raises(TypeError, match="asdlpack.*empty"):
        dlbridge.Tensor([1])  # type: ignore[misc]


def test_copies_share_or_say_that_they_do_not() -> None:
    array, tensor = grid()
    shared, copied = copy.copy(tensor), copy.deepcopy(tensor)
    assert (shared.address, shared.copied, shared.protocol) == (tensor.address, False, tensor.protocol)
    assert (copied.address != tensor.address, copied.copied) == (True, True)
    array[0] = -1
    assert (shared.tolist() == array.tolist(), copied.tolist() == array.tolist()) == (True, False)


@pytest.mark.parametrize("dtype", ["float33", "int31", "complex63", "uint3", "float128", "code99_16", ">f4", "f16", "u16", "i16", "c4", "flaot32"])
def test_dtype_that_the_specification_does_not_know_is_refused(dtype: str) -> None:
    with pytest.raises(ValueError, match=f"dtype is '{dtype}'"):
        dlbridge.empty(3, dtype)


@pytest.mark.parametrize("dtype", ["f4", "<f4", "=i2", "|u1", "?", "b1", "d", "float", "int", "c8", "bool_", "intp", "l", "L", "short", "byte", "intc", "longlong", "cdouble", float, int, bool, complex, np.float16])
def test_dtype_by_a_name_of_numpy_is_that_of_numpy(dtype: Any) -> None:
    assert dlbridge.empty(3, dtype).dtype == np.dtype(dtype).name


def test_text_of_a_tensor_without_elements_is_short() -> None:
    for shape in [(0,), (200_000, 0), (1 << 40, 0), (0, 1 << 40)]:
        text = repr(dlbridge.empty(shape, "uint8"))
        assert len(text) < 300, text[:300]


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs a timer of the system")
def test_lists_without_end_are_interrupted() -> None:
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(KeyboardInterrupt):
            dlbridge.empty((1 << 40, 0), "uint8").tolist()
    finally:
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_index_that_raises_passes_its_exception_on(error: type[BaseException]) -> None:
    class Index:
        def __index__(self) -> int:
            raise error

    _, tensor = grid()
    with pytest.raises(error):
        tensor[Index()]
    with pytest.raises(error):
        tensor.index_axis(0, Index())


def test_dtype_beside_hostile_objects_is_unequal_or_interrupted() -> None:
    class DType:
        name = property(lambda self: (_ for _ in ()).throw(KeyboardInterrupt))

    dtype = dlbridge.empty(1).dtype
    assert dtype != "\ud800"
    with pytest.raises(KeyboardInterrupt):
        dtype == DType()


def test_dtype_in_the_other_byte_order_is_refused() -> None:
    with pytest.raises(ValueError, match="newbyteorder"):
        dlbridge.empty(3, np.dtype(">f4"))


@pytest.mark.parametrize(
    ("name", "match"),
    [("cuda", "device='cuda:0'"), ("cpu", "device='cpu'"), ("cuda:1", "device='cuda:1'")],
)
def test_name_that_is_not_a_consumer_gets_the_way(name: str, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        dlbridge.asdlpack(b"abc").to(name)


@pytest.mark.parametrize(
    ("thing", "match"),
    [
        *(("cat.png", "PIL.Image.open"), (Path("cat.png"), "PIL.Image.open"), (np, "not a module"), (int, "a class")),
        *(([1, 2], "numpy.asarray"), ((1, 2), "numpy.asarray"), (3.0, "numpy.asarray"), (3, "numpy.asarray")),
        *(({1: 2}, "that has its elements"), ({1, 2}, "that has its elements"), (iter([1]), "that has its elements")),
    ],
)
def test_import_of_what_is_not_a_tensor_names_the_remedy(thing: Any, match: str) -> None:
    with pytest.raises(TypeError, match=match):
        dlbridge.asdlpack(thing)


@pytest.mark.parametrize("name", ["float64", "float32", "int64", "bool", "complex128", "uint8", "float16"])
def test_dtype_equals_the_dtypes_of_numpy_and_python(name: str) -> None:
    dtype = dlbridge.empty(1, name).dtype
    same, code = np.dtype(name), np.dtype(name).str
    for other in (same, same.type, name, code, str(dtype)):
        assert dtype == other
        assert other == dtype
        assert not dtype != other
        assert not other != dtype
    for other in (np.int16, np.dtype(">f8"), np.floating, "int16", "", None, 8, object(), np.arange(1).dtype.newbyteorder()):
        assert dtype != other
        assert not dtype == other
    meant = {float: "float64", int: "int64", bool: "bool", complex: "complex128", str: "", object: ""}
    assert [dtype == python for python in meant] == [name == means for means in meant.values()]


@pytest.mark.parametrize("library", ["torch", "jax.numpy", "ml_dtypes", "mlx.core"])
def test_dtype_equals_the_dtypes_of_another_library(library: str) -> None:
    module = pytest.importorskip(library)
    for name, other in [("bfloat16", "float8_e5m2"), ("float32", "float64"), ("float8_e4m3fn", "bfloat16")]:
        dtype = dlbridge.empty(1, name).dtype
        if same := getattr(module, name, None):
            assert dtype == same
            # MLX compares its dtypes with no string.
            assert same == dtype or library == "mlx.core"
            assert dtype not in [getattr(module, other, None)]
            assert getattr(module, other, None) != dtype


def test_dtype_is_not_equal_to_objects_that_only_have_its_name() -> None:
    class Named:
        name = "float32"

    pandas = pytest.importorskip("pandas")
    for other in (Named(), pandas.Series([1], name="float32"), pandas.Float32Dtype(), [], "f8"):
        assert (dlbridge.empty(1).dtype == other) is False


def test_dtype_is_a_string_in_every_other_way() -> None:
    dtype = dlbridge.empty(1).dtype
    assert isinstance(dtype, str)
    assert (repr(dtype), str(dtype), f"{dtype:>8}", json.dumps([dtype])) == ("'float32'", "float32", " float32", '["float32"]')
    assert type(str(dtype)) is str
    assert {dtype: 1}["float32"] == {"float32": 1}[dtype] == 1
    assert np.dtype(dtype) == np.float32
    assert np.zeros(1, dtype).dtype == dtype
    for other in (copy.copy(dtype), copy.deepcopy(dtype), *(pickle.loads(pickle.dumps(dtype, p)) for p in range(6))):
        assert (type(other), other, other == np.float32) == (type(dtype), "float32", True)


def test_dtype_without_one_lane_or_a_usual_width_is_its_name() -> None:
    assert dlbridge.empty(1, "float32x4").dtype == "float32x4"
    assert dlbridge.empty(1, "float32x4").dtype != np.float32
    assert dlbridge.empty(1, "float6_e2m3fn").dtype == "float6_e2m3fn"


def test_empty_takes_every_scalar_type_of_numpy() -> None:
    for scalar in (np.longlong, np.intc, np.bool_, np.double, np.ubyte):
        assert dlbridge.empty(1, scalar).dtype == scalar
    with pytest.raises(ValueError, match="dtype is 'floating'"):
        dlbridge.empty(1, np.floating)


@pytest.mark.parametrize("dtype", ["float32", np.float32])
def test_asdlpack_with_a_dtype_says_how_to_convert(dtype: Any) -> None:
    with pytest.raises(TypeError, match="argument dtype: dlbridge never converts numbers"):
        dlbridge.asdlpack(np.ones(3), dtype=dtype)  # type: ignore[call-arg]


@pytest.mark.parametrize("source", ["numpy.ones(3)", "bytearray(3)", "dlbridge.empty(3)", "numpy.ones(3, '>f4')"])
def test_cuda_without_a_driver_is_the_reason_of_the_refusal(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    # Files that no linker loads, in front of a driver that may be installed.
    for name in ("libcuda.so.1", "libcuda.so"):
        (tmp_path / name).write_text("not a library")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    code = f"""
import dlbridge, numpy
source = {source}
for function in (dlbridge.asdlpack, dlbridge.from_dlpack):
    for keywords in ({{}}, {{"copy": False}}):
        try:
            function(source, device="cuda", **keywords)
        except (BufferError, AttributeError) as error:
            print(error)
"""
    done = run(code)
    assert done.returncode == 0, done.stderr
    copied, shared, copied_by_dlpack, shared_by_dlpack = done.stdout.splitlines()
    assert re.fullmatch(r".* is on (cpu|the CPU) and cannot be copied to cuda:0: no CUDA driver was found: .*", copied)
    assert "cuda:0" in shared
    assert "driver" not in shared
    if source == "bytearray(3)":
        assert "no attribute '__dlpack__'" in copied_by_dlpack
    else:
        assert re.fullmatch(r"the data is on cpu and cannot be copied to cuda:0: no CUDA driver.*", copied_by_dlpack)
        assert "cuda:0" in shared_by_dlpack
        assert "driver" not in shared_by_dlpack


@pytest.mark.parametrize("device", ["rocm", "metal:1", (7, 0)])
def test_a_device_that_numpy_does_not_export_to_is_a_refusal_of_ours(device: Any) -> None:
    for function in (dlbridge.asdlpack, dlbridge.from_dlpack):
        with pytest.raises(BufferError, match="the data is on cpu, and its producer does not export it to .*unsupported device.*; move") as refused:
            function(np.ones(3), device=device)
        assert str(refused.value.__cause__) == "unsupported device requested"


def test_a_device_that_torch_does_not_export_to_is_a_refusal_of_ours() -> None:
    torch = require("torch")
    with pytest.raises(BufferError, match="the data is on cpu, and its producer does not export it to rocm:0 .*; move") as refused:
        dlbridge.from_dlpack(torch.ones(3), device="rocm")
    assert isinstance(refused.value.__cause__, AssertionError)


@pytest.mark.parametrize(
    ("dtype", "match"),
    [
        *[(name, "holds Python objects.*like 'float64'") for name in ("object", "O", object, np.dtype("O"))],
        *[(name, "holds text.*'uint8'") for name in ("str", str, bytes, "S3", "U", np.dtype("U3"))],
        *[(name, "dates or durations.*'int64'") for name in ("datetime64[ns]", "m8", np.dtype("M8[s]"))],
        *[(name, "records or raw bytes.*each field.*'uint8'") for name in ("V5", "void", np.dtype([("a", int)]))],
        *[(name, "DLPack does not have; write 'float64'") for name in ("f16", "g", "float128", "longdouble")],
        *[(name, "DLPack does not have; write 'complex128'") for name in ("c32", "clongdouble", "complex256")],
        (np.longdouble, "DLPack does not have; write 'float64'"),
        (">f4" if sys.byteorder == "little" else "<f4", "in the other order.*write 'f4'"),
    ],
)
def test_a_dtype_of_numpy_that_dlpack_lacks_is_refused_with_the_one_to_name(dtype: Any, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        dlbridge.empty(3, dtype)


def test_asarray_that_needs_a_copy_raises_what_numpy_raises() -> None:
    for tensor, dtype in [
        (dlbridge.empty(3), "float64"),
        (dlbridge.empty(3, "bool"), "uint8"),
        (dlbridge.empty(3, "bfloat16"), "float32"),
        (dlbridge.empty(4, "int4"), None),
    ]:
        with pytest.raises(ValueError, match="copy"):
            np.asarray(tensor, dtype=dtype, copy=False)
        with pytest.raises(ValueError, match="copy"):
            tensor.__array__(dtype and np.dtype(dtype), copy=False)
        assert np.asarray(tensor, dtype=dtype).shape == tensor.shape
    tensor = dlbridge.empty(3, "bfloat16")
    assert np.asarray(tensor, copy=False).ctypes.data == tensor.address
