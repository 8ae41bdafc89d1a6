"""Runs every Python block of the README and of pages in docs/."""

from __future__ import annotations

import array
import doctest
import inspect
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import dlbridge
import numpy
import pytest
from frameworks import require, require_installed

FRAMEWORKS = ("numpy", "torch", "jax", "pyarrow", "tensorflow", "paddle", "cupy", "mpi4py", "ray", "distributed", "gguf")

#: The pages of docs/ for users of Python.
PAGES = (
    "exchange.md",
    "files.md",
    "processes.md",
    "conformance.md",
    "getting-started/python.md",
    "guides/load-model-file.md",
    "guides/tables.md",
    "guides/share-between-processes.md",
    "guides/gpu-streams.md",
)

#: The pages of docs/ with Rust programs that readers paste.
RUST_PAGES = ("libraries.md", "getting-started/rust.md", "guides/load-model-file.md", "guides/write-adapter.md")


def readme() -> Path | None:
    """The README of the repository; None if only the package is installed."""
    for directory in Path(__file__).resolve().parents:
        if (directory / "pyproject.toml").is_file() and (directory / "README.md").is_file():
            return directory / "README.md"
    return None


def blocks(text: str) -> list[tuple[int, str]]:
    """The Python blocks of a Markdown text, each with the number of its first line."""
    found = []
    for match in re.finditer(r"^```(?:python|py)(?:[ ,][^\n]*)?\n(.*?)^```\s*$", text, re.M | re.S):
        found.append((text.count("\n", 0, match.start(1)) + 1, match[1]))
    return found


def frameworks(code: str) -> list[str]:
    """The frameworks that a block imports."""
    pattern = r"^(?:>>>|\.\.\.)?\s*(?:import|from)\s+(\w+)"
    imported = re.findall(pattern, code, re.M)
    imported += re.findall(r"import [^\n#]*?,\s*(\w+)", code)
    imported += re.findall(r"\bto=\"(\w+)\"", code)
    return sorted({name for name in imported if name in FRAMEWORKS})


def params() -> list[Any]:
    """One parameter for each block."""
    path = readme()
    pages = [path, *(path.parent / "docs" / name for name in PAGES)] if path else []
    return [
        pytest.param(line, code, id=f"{page.name}, line {line}")
        for page in pages
        for line, code in blocks(page.read_text(encoding="utf-8"))
    ]


@pytest.fixture
def path() -> Path:
    """The README of the repository."""
    if (found := readme()) is None:
        pytest.skip("an installed package does not include the README")
    return found


@pytest.mark.usefixtures("path")
def test_readme_has_python_blocks() -> None:
    assert params(), "the README shows no Python"


@pytest.mark.parametrize(("line", "code"), params())
def test_block_of_a_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: int, code: str) -> None:
    # Some blocks write files.
    monkeypatch.chdir(tmp_path)
    require_installed(*frameworks(code))
    # The empty lines let tracebacks name the lines of the page.
    code = "\n" * (line - 1) + code
    if "__main__" in code:
        # Worker processes import the file.
        file = tmp_path / "block.py"
        file.write_text(code, encoding="utf-8")
        done = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stdout + done.stderr
    else:
        execute(code)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("```python\na\n```\n", [(2, "a\n")]),
        ("x\n```rust\nb\n```\n```python\nc\nd\n```\n", [(6, "c\nd\n")]),
        ("```py\na\n```\n\n```python title\nb\n```\n", [(2, "a\n"), (6, "b\n")]),
        ("```python-console\na\n```", []),
        ("```\na\n```\n`python`\n", []),
    ],
)
def test_blocks_are_found(text: str, found: list[tuple[int, str]]) -> None:
    assert blocks(text) == found


def execute(code: str) -> None:
    """Runs a block as a program, or its examples with prompts, whose output must be the shown one."""
    namespace = {"__name__": "__main__"}
    if not re.search(r"^>>> ", code, re.M):
        exec(compile(code, "block", "exec"), namespace)
        return
    options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    examples = doctest.DocTestParser().get_doctest(code, namespace, "block", None, 0)
    assert not doctest.DocTestRunner(optionflags=options).run(examples).failed


def test_failures_are_seen() -> None:
    execute(">>> 1 + 1\n2\n")
    for code in (">>> 1 + 1\n3\n", "assert False", ">>> assert False\n"):
        with pytest.raises(AssertionError):
            execute(code)


def test_rust_blocks_of_the_readme_are_compiled_ones(path: Path) -> None:
    extension, operator = re.findall(r"^```rs\n(.*?)^```$", path.read_text(encoding="utf-8"), re.M | re.S)
    crate = path.parent / "crates/dlbridge-pyo3/README.md"
    assert f"```rust,no_run\n{extension}```" in crate.read_text(encoding="utf-8")
    crate = path.parent / "crates/dlbridge-ops/README.md"
    assert operator in crate.read_text(encoding="utf-8"), "an excerpt"


def test_options_page_names_every_option(path: Path) -> None:
    page = (path.parent / "docs/options.md").read_text(encoding="utf-8")
    named = set(re.findall(r"\w+", " ".join(re.findall(r"`([^`\n]+)`", page))))
    functions = (dlbridge.asdlpack, dlbridge.from_dlpack, dlbridge.empty, dlbridge.like, dlbridge.load, dlbridge.save)
    parameters = {name for function in functions for name in inspect.signature(function).parameters}
    public = {name for name in (*dir(dlbridge.Tensor), *dlbridge.__all__) if not name.startswith("_")}
    source = path.parent / "crates/dlbridge-pyo3/src/argument/constraint.rs"
    constraints = source.read_text(encoding="utf-8")
    types = set(re.findall(r"^impl.* Constraint\s+for (\w+)", constraints, re.M))
    assert {"AllowCopy", "COrder", "Dims"} <= types
    positional = {"x"}
    assert not (parameters | public | types) - positional - named


def test_readme_is_short(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").split()) <= 700


def test_readme_rust_has_no_hidden_lines(path: Path) -> None:
    """A line that begins with ``#`` is hidden in rustdoc only, so a pasted block would not compile."""
    for page in (path, *(path.parent / "docs" / name for name in RUST_PAGES)):
        text = page.read_text(encoding="utf-8")
        for block in re.findall(r"^```(?:rust|rs)[^\n]*\n(.*?)^```$", text, re.M | re.S):
            assert not re.search(r"^\s*# ", block, re.M), page.name
            assert "fn main()" in block or "pymodule" in block or block.startswith("#[op("), page.name


def links(page: Path) -> set[Path]:
    """The files and folders of the repository that a page links to."""
    text = re.sub(r"^```.*?^```$|`[^`\n]*`", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    targets = re.findall(r"\]\(([^)#\s]+)[^)]*\)", text)
    return {(page.parent / target).resolve() for target in targets if "://" not in target}


def test_lists_of_pages_and_examples_are_complete(path: Path) -> None:
    docs, examples = path.parent / "docs", path.parent / "examples"
    assert {*docs.rglob("*.md")} - links(docs / "SUMMARY.md") == {docs / "SUMMARY.md"}
    packages = {folder for folder in examples.iterdir() if (folder / "README.md").exists()}
    assert packages <= links(examples / "README.md")


@pytest.mark.parametrize("library", ["array", "numpy", "pandas"])
def test_readme_torch_refuses_what_dlbridge_imports(library: str) -> None:
    torch = require("torch")
    if library == "array":
        data: Any = array.array("f", [1, 2, 3])
        with pytest.raises(AttributeError):
            numpy.from_dlpack(data)
    else:
        data = numpy.arange(4.0)[::-1] if library == "numpy" else require("pandas").Series([1.0, 2.0])
    with pytest.raises(Exception):
        torch.from_dlpack(data)
    tensor = dlbridge.asdlpack(data)
    assert not tensor.copied
    assert tensor.torch().tolist() == list(data)
