"""Tensors without arithmetic: sub-tensors, elements, text, operators, and refusals that name the library to use instead."""

import copy
import gc
import math
import operator
import re
import weakref
from pathlib import Path
from typing import Any

import dlbridge
import pytest
from conftest import require
from processes import output
from producers import producer, raises

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


def test_sub_tensor_keeps_receipt_read_only_mark_and_memory_but_not_the_tensor() -> None:
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
        (tensor.T, array.T),
        (tensor.permute(2, 0, 1), array.transpose(2, 0, 1)), (tensor.permute((-1, 0, 1)), array.transpose(2, 0, 1)),
        (tensor.reshape(6, -1), array.reshape(6, 4)), (tensor.reshape((24,)), array.reshape(24)),
    ]  # fmt: skip
    for found, expected in pairs:
        assert (found.shape, found.tolist()) == (expected.shape, expected.tolist())
        assert np.shares_memory(found.numpy(), array)


def test_impossible_view_raises_the_matching_exception() -> None:
    _, tensor = grid()
    with pytest.raises(BufferError, match=r"without a copy; call asdlpack\(t, contiguous='C'\)"):
        tensor.T.reshape(24)
    for wrong, match in [
        (lambda: tensor.reshape(5), "has 5 elements, but there are 24"),
        (lambda: tensor.reshape(-1, -1), "several extents are -1; only one can be computed"),
        (lambda: tensor.permute(0, 0, 1), "axis 0 is named twice"),
    ]:
        with pytest.raises(ValueError, match=match):
            wrong()
    with pytest.raises(IndexError):
        tensor.permute(0, 1, 3)


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1, 2**70])
def test_number_beyond_64_bits_is_refused_as_one_that_is_out_of_bounds(number: int) -> None:
    _, tensor = grid()
    with pytest.raises(IndexError, match=f"axis {number} is out of bounds for a tensor of 3 dimensions"):
        tensor.permute(number, 0, 1)
    with pytest.raises(ValueError, match=rf"24 elements cannot have the shape \({number}, -1\)"):
        tensor.reshape(number, -1)


def test_length_and_iteration_follow_the_first_dimension() -> None:
    array, tensor = grid()
    assert (len(tensor), tensor.size, tensor.itemsize, tensor.data_ptr()) == (2, 24, 4, tensor.address)
    assert [part.tolist() for part in tensor] == array.tolist()
    for what in (len, iter):
        with pytest.raises(TypeError, match="without a dimension"):
            what(tensor[0, 0, 0])


def test_boolean_as_an_extent_or_dimension_is_refused_as_numpy_does() -> None:
    array, tensor = grid()
    cases: list[tuple[str, tuple[Any, ...]]] = [
        ("reshape", (True, 24)), ("reshape", ((24, True),)), ("permute", (2, True, False)),
    ]  # fmt: skip
    for method, arguments in cases:
        with pytest.raises(TypeError, match="(each extent|axis) must be an integer, not (True|False)"):
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


def test_copy_shares_the_memory_and_deepcopy_reports_a_copy() -> None:
    array, tensor = grid()
    shared, copied = copy.copy(tensor), copy.deepcopy(tensor)
    assert (shared.address, shared.copied, shared.protocol) == (tensor.address, False, tensor.protocol)
    assert (copied.address != tensor.address, copied.copied) == (True, True)
    array[0] = -1
    assert (shared.tolist() == array.tolist(), copied.tolist() == array.tolist()) == (True, False)


def test_text_of_a_tensor_without_elements_is_short() -> None:
    for shape in [(0,), (200_000, 0), (1 << 40, 0), (0, 1 << 40)]:
        text = repr(dlbridge.empty(shape, "uint8"))
        assert len(text) < 300, text[:300]


def test_lists_without_an_element_are_refused_if_they_are_many() -> None:
    assert dlbridge.empty((1 << 10, 2, 0), "uint8").tolist() == [[[], []]] * (1 << 10)
    assert dlbridge.empty((0, 1 << 40), "uint8").tolist() == []
    with pytest.raises(MemoryError, match=r"\[1099511627776, 0\] would make 1099511627776 lists for no element"):
        dlbridge.empty((1 << 40, 0), "uint8").tolist()


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_index_that_raises_passes_its_exception_on(error: type[BaseException]) -> None:
    _, tensor = grid()
    with pytest.raises(error):
        tensor[producer(__index__=raises(error))]


@pytest.mark.parametrize(
    ("name", "device"),
    [("cuda", "cuda:0"), ("cpu", "cpu"), ("cuda:1", "cuda:1")],
)
def test_device_name_as_a_library_names_the_device_argument(name: str, device: str) -> None:
    match = f"'{name}' is a device, not a library; call dlbridge.asdlpack(t, device='{device}')"
    with pytest.raises(ValueError, match=re.escape(match)):
        dlbridge.asdlpack(b"abc").to(name)


@pytest.mark.parametrize(
    ("thing", "match"),
    [
        *(("cat.png", "PIL.Image.open"), (Path("cat.png"), "PIL.Image.open"), (np, "not a module"), (int, "a class")),
        *(([1, 2], "numpy.asarray"), ((1, 2), "numpy.asarray"), (3.0, "numpy.asarray"), (3, "numpy.asarray")),
        *(({1: 2}, "of its elements"), ({1, 2}, "of its elements"), (iter([1]), "of its elements")),
    ],
)
def test_import_of_an_object_that_is_not_a_tensor_names_the_fix(thing: Any, match: str) -> None:
    with pytest.raises(TypeError, match=match):
        dlbridge.asdlpack(thing)


@pytest.mark.parametrize("source", ["numpy.ones(3)", "bytearray(3)", "dlbridge.empty(3)", "numpy.ones(3, '>f4')"])
def test_cuda_without_a_driver_is_the_reason_of_the_refusal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    # Files that the loader rejects, in front of a driver that may be installed.
    for name in ("libcuda.so.1", "libcuda.so"):
        (tmp_path / name).write_text("not a library")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    code = f"""

import dlbridge, numpy, pytest
source = {source}
for function in (dlbridge.asdlpack, dlbridge.from_dlpack):
    for keywords in ({{}}, {{"copy": False}}):
        with pytest.raises((BufferError, AttributeError)) as error:
            function(source, device="cuda", **keywords)
        print(error.value)
"""
    copied, shared, copied_by_dlpack, shared_by_dlpack = output(code, quiet=False).splitlines()
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
def test_device_that_numpy_refuses_raises_buffer_error_with_the_cause(device: Any) -> None:
    for function in (dlbridge.asdlpack, dlbridge.from_dlpack):
        with pytest.raises(BufferError, match="the data is on cpu, and its producer does not export it to .*unsupported device.*; move") as refused:
            function(np.ones(3), device=device)
        assert str(refused.value.__cause__) == "unsupported device requested"


def test_device_that_torch_refuses_raises_buffer_error_with_the_cause() -> None:
    torch = require("torch")
    with pytest.raises(BufferError, match="the data is on cpu, and its producer does not export it to rocm:0 .*; move") as refused:
        dlbridge.from_dlpack(torch.ones(3), device="rocm")
    assert isinstance(refused.value.__cause__, AssertionError)


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


def test_bytes_are_in_c_order() -> None:
    array, tensor = grid()
    assert bytes(tensor.permute(2, 0, 1)[::-1]) == array.transpose(2, 0, 1)[::-1].tobytes()


REFUSED: list[Any] = [
    lambda t: t == copy.copy(t), lambda t: t != 1, lambda t: t == [1, 2], lambda t: t == b"abc", lambda t: 1 in t[0, 0],
    lambda t: bool(t), lambda t: float(t), lambda t: int(t), lambda t: complex(t), lambda t: t.__setitem__(0, 1),
    lambda t: t.__delitem__(0),
]  # fmt: skip


@pytest.mark.parametrize("operation", REFUSED)
def test_computing_is_refused_with_the_way_to_compute(operation: Any) -> None:
    with pytest.raises(TypeError, match=r"\.numpy\(\).*\.torch\(\)"):
        operation(grid()[1])


WITHOUT_METHOD: list[Any] = [
    lambda t: t + 1, lambda t: 1 + t, lambda t: t - t, lambda t: [1] * t, lambda t: t / 2.0, lambda t: t**2, lambda t: 2 @ t,
    lambda t: -t, lambda t: ~t, lambda t: abs(t), lambda t: divmod(t, 2), lambda t: divmod(2, t), lambda t: round(t),
    lambda t: math.trunc(t), lambda t: t < 1, lambda t: 1 >= t, lambda t: t < t, lambda t: t & True,
]  # fmt: skip


@pytest.mark.parametrize("operation", WITHOUT_METHOD)
def test_arithmetic_is_refused_by_python(operation: Any) -> None:
    with pytest.raises(TypeError):
        operation(grid()[1])


def test_operand_of_numpy_computes_by_its_own_operator() -> None:
    array, tensor = grid()
    assert np.array_equal(tensor + np.ones(4), array + 1)
    assert np.array_equal(np.ones(4) + tensor, array + 1)
    assert np.array_equal(np.add(tensor, 1), array + 1)
    assert np.array_equal(tensor * np.float64(2), array * 2)
    assert np.array_equal(tensor == array, array == array)
    assert np.array_equal(tensor != array + 1, array != array + 1)
    assert np.array_equal(tensor < array + 1, array < array + 1)


@pytest.mark.parametrize(
    ("compute", "match"),
    [
        *((compute, None) for compute in (operator.add, operator.matmul, operator.and_)),
        *((compute, None) for compute in (operator.pow, operator.lt, operator.ge)),
        *((compute, r"\.torch\(\)") for compute in (operator.eq, operator.ne)),
    ],
)
def test_computing_with_torch_is_refused_on_both_sides(compute: Any, match: str | None) -> None:
    torch = require("torch")
    _, tensor = grid()
    for operands in ((tensor, torch.ones(4)), (torch.ones(4), tensor)):
        with pytest.raises(TypeError, match=match):
            compute(*operands)


@pytest.mark.parametrize("error", [TypeError, ZeroDivisionError])
def test_exception_of_the_other_operand_is_passed_on(error: type[Exception]) -> None:
    refuse = raises(error("not with a tensor"))
    other = producer(__radd__=refuse, __eq__=refuse, __float__=lambda _: 1.0)
    for compute in (operator.add, operator.eq):
        with pytest.raises(error, match="not with a tensor"):
            compute(grid()[1], other)


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
