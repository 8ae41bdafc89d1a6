"""Operators called by tvm-ffi: both forms of a call, errors, memory, threads."""

import inspect
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import operators
import pytest
from cases import CASES, check, several, softclip
from concurrently import concurrently
from processes import output
from stand_in import compiled

torch = pytest.importorskip("torch")
tvm_ffi = pytest.importorskip("tvm_ffi")


@pytest.fixture(scope="module")
def module():
    return tvm_ffi.load_module(operators.softclip.path)


KINDS = {"torch": torch.from_numpy, "numpy": lambda array: array, "tvm_ffi": tvm_ffi.from_dlpack}
EACH = pytest.mark.parametrize("case", CASES, ids=str)


@EACH
@pytest.mark.parametrize("kind", KINDS)
def test_operator_on_tensors_returns_tensors(module, case, kind):
    arguments = [KINDS[kind](one) if isinstance(one, np.ndarray) else one for one in case.copied()]
    returned = several(getattr(module, case.operator)(*arguments))
    if any(isinstance(one, np.ndarray) for one in case.arguments):
        # The first releases convert a tensor, but not those in a list.
        converts = hasattr(tvm_ffi, "List") or len(returned) == 1
        expected = torch.Tensor if kind == "torch" and converts else tvm_ffi.Tensor
        assert all(isinstance(one, expected) for one in returned)
    check(case, [np.from_dlpack(one) for one in (*arguments[: case.changed], *returned)])


@EACH
def test_destinations_are_filled(module, case):
    outputs = case.results[case.changed :]
    filled = [np.empty(np.shape(one), np.asarray(one).dtype) for one in outputs]
    arguments = list(case.copied())
    given = [None if default is ... else default for _, _, default in getattr(operators, case.operator).parameters]
    arguments += given[len(arguments) :]
    assert getattr(module, case.operator)(*arguments, *filled) is None
    check(case, [*arguments[: case.changed], *filled])


@EACH
def test_function_of_the_module_accepts_tensors_of_tvm_ffi(case):
    arguments = [tvm_ffi.from_dlpack(one) if isinstance(one, np.ndarray) else one for one in case.copied()]
    found = several(getattr(operators, case.operator)(*arguments))
    check(case, [np.from_dlpack(one) for one in found])


def test_strided_destination_is_filled(module):
    x, out = torch.arange(6.0), torch.full((6, 2), -1.0)
    module.softclip(x, out[:, 0])
    torch.testing.assert_close(out[:, 0], softclip(x))
    assert (out[:, 1] == -1).all()


def test_destination_begins_as_zeros(module):
    x, out = torch.ones(6), [torch.full((6, 2), 7.0)[:, 0], torch.full((6,), 7.0)]
    module.accumulated(x, *out)
    assert [one.tolist() for one in out] == [[1] * 6] * 2


def test_operator_sees_the_address_of_the_argument(module):
    x = torch.ones(8)
    assert module.address(x).item() == x.data_ptr()
    assert module.address(x[3:]).item() == x[3:].data_ptr()
    array = np.ones(8, "f4")
    assert np.from_dlpack(module.address(array)).tolist() == [array.ctypes.data]


def test_reversed_array_is_read_in_its_order(module):
    array = np.arange(6, dtype="f4")[::-2]
    np.testing.assert_allclose(np.from_dlpack(module.softclip(array)), softclip(array))


def test_destination_of_a_shape_that_the_function_decides_is_filled_or_refused(module):
    x, out = torch.tensor([0.0, 1.0, 0.0, 2.0]), torch.empty(2, dtype=torch.int64)
    module.nonzero(x, out)
    assert out.tolist() == [1, 3]
    with pytest.raises(ValueError, match=r"indices must have the shape \[2\]"):
        module.nonzero(x, torch.empty(3, dtype=torch.int64))


@pytest.mark.parametrize("text", ["", "short", "sevenby", "eight by", "a long text" * 100, "é"])
def test_text_of_any_length_arrives(module, text):
    x = torch.ones(1)
    assert module.described(x, text, True).tolist() == [[2 * len(text.encode()) + 1] * 2]


def test_shape_object_is_a_list(module):
    x, shape = torch.ones(1, dtype=torch.float64), tvm_ffi.Shape((1, 2))
    assert module.mixed(x, None, 1, 0, False, "", shape, shape).item() == 1 + 3 + 3


def test_none_stands_for_a_default(module):
    x = torch.ones(1)
    assert module.affine(x, None, None).item() == 2
    assert module.described(x, None, None, None).tolist() == [[4, 4]]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda m, x: m.softclip(x.double()), TypeError, "softclip: x must be float32, but is float64"),
        (lambda m, x: m.softclip(1.5), TypeError, "softclip: x must be a tensor, but is a float"),
        (lambda m, x: m.softclip(None), TypeError, "softclip: x must be a tensor, but is None"),
        (lambda m, x: m.softclip([1.5]), TypeError, "softclip: x: must be a tensor, but is a list"),
        (lambda m, x: m.softclip(), TypeError, "1 arguments are expected, or 2 with"),
        (lambda m, x: m.softclip(x, x, x), TypeError, "there are 3"),
        (lambda m, x: m.softclip(x, x), ValueError, "out is written and shares memory with x"),
        (lambda m, x: m.softclip(x[1:], x[:-1]), ValueError, "shares memory"),
        (lambda m, x: m.softclip(x, torch.empty(5)), ValueError, r"must have the shape \[4\], but has \[5\]"),
        (lambda m, x: m.softclip(x, torch.empty(4).double()), TypeError, "out must be float32"),
        (lambda m, x: m.softclip(x, torch.empty(1).expand(4)), ValueError, "softclip: out"),
        (lambda m, x: m.relu_(torch.empty(1).expand(4)), ValueError, "relu_: x"),
        (lambda m, x: m.add_(x, x), ValueError, "add_: x is written and shares memory with y|add_: .*shares memory"),
        (lambda m, x: m.strided_sum(x, x[1:]), ValueError, "is required"),
        (lambda m, x: m.described(x, "", False, 2**58), (MemoryError, RuntimeError), "described: .*memory"),
        (lambda m, x: m.min_max(x), ValueError, "min_max: x must have 2 dimensions, but has 1"),
        (lambda m, x: m.min_max(x.view(2, 2), *[torch.empty(2)] * 2), ValueError, "shares memory"),
        (lambda m, x: m.affine(x, None, "2"), TypeError, "affine: scale must be a float, but is a string"),
        (lambda m, x: m.mixed(x.double(), None, 1, 1, True, "", [1.5]), TypeError, "element 0 must be an integer"),
        (lambda m, x: m.described(x, "", False, -1), ValueError, "an extent of the result would be -1"),
        (lambda m, x: m.fails(-x), RuntimeError, "fails: x has the element -1; it must not be negative"),
        (lambda m, x: m.panics(-x), RuntimeError, "panics: panicked: element 0 is negative"),
        (lambda m, x: m.unallocated(x), RuntimeError, "unallocated: the function did not allocate out"),
    ],
)
def test_error_has_class_and_message(module, call, error, message):
    with pytest.raises(error, match=message):
        call(module, torch.ones(4))


def test_error_and_panic_drop_the_values_of_the_function(module):
    x = torch.ones(4)
    for wrong in (-x, x * torch.nan):
        with pytest.raises((RuntimeError, ValueError), match="^alive: .*x begins with"):
            module.alive(wrong)
    assert module.alive(x).item() == 1


def test_operator_runs_without_the_gil(module):
    x = torch.ones(1)
    with ThreadPoolExecutor(2) as pool:
        # Each waits for the other.
        assert [met.item() for met in pool.map(module.meets, [x, x])] == [True, True]


def test_threads_call_at_once(module):
    def is_right(value):
        x = torch.full((100,), value)
        return all(module.softclip(x)[0] == x[0] / (1 + x[0]) for _ in range(500))

    assert concurrently([partial(is_right, float(i)) for i in range(4)]) == [True] * 4


UNLOADED = """
import ctypes, gc, sys
import numpy, tvm_ffi
file = sys.argv[1]
module = tvm_ffi.load_module(file, keep_module_alive=False)
x = numpy.ones(100000, 'f4')
if sys.argv[2] == "return":
    kept = numpy.from_dlpack(tensor := module.softclip(x))
    del tensor
else:
    module.softclip(x, kept := numpy.empty(100000, 'f4'))
del module
gc.collect()
gc.collect()
loaded = any(file in line for line in open("/proc/self/maps"))
assert kept[-1] == 0.5
del kept
gc.collect()
print("loaded" if loaded else "unloaded")
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.skipif("keep_module_alive" not in inspect.signature(tvm_ffi.load_module).parameters, reason="never unloads")
@pytest.mark.parametrize(("form", "result"), [("return", "loaded"), ("fill", "unloaded")])
def test_unloaded_module_keeps_returned_tensors_valid(form, result):
    """The tensor's deleter is code of the library, which stays loaded once it has returned a tensor."""
    printed = output(UNLOADED, operators.softclip.path, form, options=(), quiet=False)
    assert printed.strip() in {result, "loaded"}


# Releases


STAND_IN = """
#include <stdio.h>
void TVMFFIGetVersion(unsigned *version) { version[0] = MAJOR; version[1] = MINOR; version[2] = 9; }
void TVMFFIErrorSetRaisedFromCStr(const char *kind, const char *message) { printf("%s: %s\\n", kind, message); fflush(stdout); }
"""
CALLED = """
import ctypes, sys
library = ctypes.CDLL(sys.argv[1])
assert ctypes.CDLL(sys.argv[2]).__tvm_ffi_softclip(None, None, 0, None) == -1
"""


@pytest.mark.parametrize(
    ("major", "minor", "found"),
    [(0, 0, "is 0.0.9"), (0, 2, "is 0.2.9"), (1, 1, "is 1.1.9"), (0, 1, "has no `TVMFFITensorFromDLPackVersioned`")],
)
def test_library_of_another_release_is_refused(tmp_path, major, minor, found):
    source = tmp_path / "stand_in.c"
    source.write_text(STAND_IN)
    library = compiled(source, tmp_path / "libtvm_ffi.so", f"-DMAJOR={major}", f"-DMINOR={minor}")
    message = f"RuntimeError: softclip: tvm-ffi {found}, but the operator needs 0.1; install apache-tvm-ffi 0.1, or build"
    assert output(CALLED, library, operators.softclip.path, options=(), quiet=False).startswith(message)


# The same numbers are in crates/dlbridge-ops/src/tvm/abi.rs.
STRUCTS = """
#include <stddef.h>
#include <tvm/ffi/c_api.h>
#define IS(found, expected) _Static_assert((found) == (expected), #found)
IS(sizeof(TVMFFIAny), 16);
IS(offsetof(TVMFFIAny, small_str_len), 4);
IS(offsetof(TVMFFIAny, v_int64), 8);
IS(sizeof(TVMFFIObject), 24);
IS(offsetof(TVMFFIObject, type_index), 8);
IS(offsetof(TVMFFIObject, deleter), 16);
IS(sizeof(TVMFFIByteArray), 2 * sizeof(void *));
IS(offsetof(TVMFFIByteArray, size), sizeof(void *));
IS(sizeof(TVMFFIShapeCell), 2 * sizeof(void *));
IS(offsetof(TVMFFIShapeCell, size), sizeof(void *));
IS(kTVMFFINone, 0);
IS(kTVMFFIInt, 1);
IS(kTVMFFIBool, 2);
IS(kTVMFFIFloat, 3);
IS(kTVMFFIDLTensorPtr, 7);
IS(kTVMFFIRawStr, 8);
IS(kTVMFFIObjectRValueRef, 10);
IS(kTVMFFISmallStr, 11);
IS(kTVMFFIStaticObjectBegin, 64);
IS(kTVMFFIStr, 65);
IS(kTVMFFIShape, 69);
IS(kTVMFFITensor, 70);
IS(kTVMFFIArray, 71);
#if LIST
IS(kTVMFFIList, 75);
IS(offsetof(TVMFFISeqCell, data), 0);
IS(offsetof(TVMFFISeqCell, size), 8);
#endif
"""


def test_headers_have_the_structs_of_the_crate(tmp_path):
    source, info = tmp_path / "structs.c", tvm_ffi.libinfo
    source.write_text(STRUCTS)
    include = [f"-I{path}" for path in (info.find_include_path(), info.find_dlpack_include_path())]
    # Fails if a number is another one.
    compiled(source, tmp_path / "structs", "-fsyntax-only", "-std=c11", f"-DLIST={int(hasattr(tvm_ffi, 'List'))}", *include)
