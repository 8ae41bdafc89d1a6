"""The installed package: its version, its names, its types, its docstrings."""

import ast
import doctest
import importlib.metadata
import importlib.resources
import inspect
import re
from typing import Any

import dlbridge
import pytest
from dlbridge import _core
from processes import output

PACKAGE = importlib.resources.files(dlbridge)


def test_version_is_that_of_the_distribution() -> None:
    assert dlbridge.__version__ == importlib.metadata.version("dlbridge")
    assert re.fullmatch(r"\d+\.\d+\.\d+\S*", dlbridge.__version__)


def test_import_needs_no_other_module() -> None:
    code = "import sys; before = set(sys.modules); import dlbridge; print(*sorted(set(sys.modules) - before))"
    assert set(output(code, options=(), quiet=False).split()) <= {"__future__", "dlbridge", "dlbridge._core"}


def test_public_names_exist_and_are_sorted() -> None:
    assert dlbridge.__all__ == sorted(dlbridge.__all__)
    assert len(set(dlbridge.__all__)) == len(dlbridge.__all__)
    for name in dlbridge.__all__:
        assert hasattr(dlbridge, name)
    assert set(dlbridge.__all__) >= {"Tensor", "asdlpack", "from_dlpack", "__version__"}


def test_dir_shows_the_public_names_only() -> None:
    code = "import dlbridge; print(dir(dlbridge) == sorted(dlbridge.__all__)); dlbridge.explain; dlbridge.share_memory;"
    code += "import dlbridge.typing; print(dir(dlbridge) == sorted(dlbridge.__all__))"
    assert output(code, options=(), quiet=False).split() == ["True", "True"]


def test_public_names_of_the_core_are_all_exported() -> None:
    public = {name for name in vars(_core) if not name.startswith("_")}
    assert public <= set(dlbridge.__all__)


def test_package_is_typed() -> None:
    assert PACKAGE.joinpath("py.typed").is_file()
    assert PACKAGE.joinpath("_core.pyi").is_file()


def public_things() -> list[tuple[str, Any]]:
    """All public functions, classes and members, with their names."""
    things = [(name, getattr(dlbridge, name)) for name in dlbridge.__all__]
    members = [
        (f"{name}.{member}", value)
        for name, thing in things
        if inspect.isclass(thing)
        for member, value in vars(thing).items()
        if not member.startswith("_") or member.startswith("__dlpack")
    ]
    # Sorted, because the order of a class of the extension differs from process to process.
    public = sorted(things + members, key=lambda named: named[0])
    return [(name, thing) for name, thing in public if not isinstance(thing, str)]


@pytest.mark.parametrize(("name", "thing"), public_things(), ids=lambda value: value if isinstance(value, str) else "")
def test_everything_public_has_a_docstring(name: str, thing: Any) -> None:
    text = inspect.getdoc(thing)
    assert text, name
    assert text[0].isupper(), name
    assert "```" not in text, f"{name}: the text is Markdown for users of Rust"
    assert text.rstrip().endswith("."), name


def test_docstring_of_the_package_is_true() -> None:
    assert dlbridge.__doc__
    failed, tried = doctest.testmod(dlbridge)
    assert tried > 0
    assert failed == 0


def stub() -> ast.Module:
    """The stub, parsed."""
    return ast.parse(PACKAGE.joinpath("_core.pyi").read_text(encoding="utf-8"))


def test_stub_has_all_functions_and_members() -> None:
    classes = {node.name: node for node in stub().body if isinstance(node, ast.ClassDef)}
    functions = {node.name for node in stub().body if isinstance(node, ast.FunctionDef)}
    assert functions == {name for name, thing in vars(_core).items() if inspect.isbuiltin(thing)}
    described = {node.name for node in classes["Tensor"].body if isinstance(node, ast.FunctionDef)}
    there = {name for name in vars(dlbridge.Tensor) if not name.startswith("__")}
    protocols = {"__dlpack__", "__dlpack_device__", "__buffer__"}
    protocols |= {"__array_interface__", "__array_struct__", "__cuda_array_interface__"}
    protocols |= {"__arrow_c_array__", "__arrow_c_schema__", "__array__", "__jax_array__"}
    methods = {name for name in vars(dlbridge.Tensor) if name.startswith("__") and name in described}
    assert described - methods == (there | protocols) - methods


@pytest.mark.parametrize(
    ("function", "signature"),
    [
        (
            dlbridge.asdlpack,
            "(obj, /, *, protocol=None, copy=None, device=None, align=None, contiguous=None, "
            "writable=None, assume_writable=None, stream=None)",
        ),
        (dlbridge.empty, "(shape, /, dtype='float32', *, device=None, align=None)"),
        (dlbridge.like, "(prototype, obj, /, *, copy=None)"),
        (dlbridge.Tensor.to, "($self, library, /, *, copy=None, columns=None)"),
        (dlbridge.matrix, "(frame, columns=None, *, dtype=None, nulls='raise', order='C', copy=None)"),
        (dlbridge.Tensor.numpy, "($self, /, *, copy=None)"),
        (dlbridge.from_dlpack, "(x, /, *, device=None, copy=None, stream=None)"),
        (
            dlbridge.Tensor.__dlpack__,
            "($self, /, *, stream=None, max_version=None, dl_device=None, copy=None)",
        ),
        (dlbridge.Tensor.__dlpack_device__, "($self, /)"),
    ],
)
def test_signatures_can_be_read(function: Any, signature: str) -> None:
    assert str(inspect.signature(function)) == signature.replace("$", "")


def test_class_and_functions_name_their_module() -> None:
    assert f"{dlbridge.Tensor.__module__}.{dlbridge.Tensor.__qualname__}" == "dlbridge.Tensor"
    assert dlbridge.asdlpack.__module__.startswith("dlbridge")


def test_attributes_have_the_types_of_the_stub() -> None:
    tensor = dlbridge.asdlpack(bytearray(6))
    assert type(tensor.__dlpack__()).__name__ == "PyCapsule"
    for value, kind in [
        *((tensor.shape, tuple), (tensor.strides, tuple), (tensor.ndim, int)),
        *((tensor.dtype, dlbridge.DTypeName), (tensor.device, str), (tensor.readonly, bool)),
        *((tensor.protocol, str), (tensor.copied, bool), (tensor.nbytes, int)),
        *((tensor.address, int), (tensor.__dlpack_device__(), tuple)),
    ]:
        assert type(value) is kind
