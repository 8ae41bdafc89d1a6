"""The sources of the comparison, as an author writes them with each library, and their counts.

The source of a function is between the comments `begin: NAME` and `end: NAME`; `shared` has the code that several
functions need. The counts are lines that are neither blank nor a comment, and each `unsafe` in code.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).parents[1]
PARTS = ("mean", "invert", "twice", "shared")


@dataclass(frozen=True)
class Library:
    """A column of the tables."""

    name: str
    module: str
    source: str
    package: str

    @property
    def folder(self) -> Path:
        return ROOT / self.name

    @property
    def language(self) -> str:
        return "cpp" if self.source.endswith(".cpp") else "rust"

    def versions(self) -> str:
        """Returns the library's version, and PyO3's."""
        lock = self.folder / "Cargo.lock"
        if not lock.exists():
            return version(self.package)
        packages = {p["name"]: p["version"] for p in tomllib.loads(lock.read_text())["package"]}
        return f"{packages[self.package]}, PyO3 {packages['pyo3']}"

    def part(self, name: str) -> str:
        """Returns the source of one part, without the markers and what the module of an extension needs besides."""
        text = (self.folder / self.source).read_text().replace("pub(crate) ", "")
        pattern = rf"^[ ]*// begin: {name}\n(.*?)^[ ]*// end: {name}\n"
        found = re.findall(pattern, text, re.MULTILINE | re.DOTALL)
        if not found and name != "shared":
            raise SystemExit(f"{self.folder.name}/{self.source} lacks the part `{name}`")
        return "\n".join(unindented(piece) for piece in found)


LIBRARIES = (
    Library("dlbridge", "with_dlbridge", "src/compared.rs", "dlbridge-pyo3"),
    Library("dlpark", "with_dlpark", "src/compared.rs", "dlpark"),
    Library("dlpk", "with_dlpk", "src/compared.rs", "dlpk"),
    Library("pyo3-dlpack", "with_pyo3_dlpack", "src/compared.rs", "pyo3-dlpack"),
    Library("rust-numpy", "with_rust_numpy", "src/compared.rs", "numpy"),
    Library("nanobind", "with_nanobind", "functions.cpp", "nanobind"),
)


def unindented(piece: str) -> str:
    lines = piece.rstrip().splitlines()
    margin = min(len(line) - len(line.lstrip()) for line in lines if line)
    return "\n".join(line[margin:] for line in lines) + "\n"


def code(part: str) -> list[str]:
    """Returns the lines that count."""
    lines = [line.strip() for line in part.splitlines()]
    return [line for line in lines if line and not line.startswith("//")]


def counts(library: Library) -> list[str]:
    """Returns a cell per part, their sum, and the number of `unsafe`."""
    parts = [code(library.part(name)) for name in PARTS]
    lines = [len(part) for part in parts]
    words = [re.sub(r'"(\\.|[^"\\])*"', "", line) for part in parts for line in part]
    unsafe = sum(len(re.findall(r"\bunsafe\b", line)) for line in words)
    shown = "C++" if library.language == "cpp" else str(unsafe)
    return [*(str(count or "") for count in lines), str(sum(lines)), shown]


def table(header: list[str], rows: list[list[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line).rstrip() + " |" for line in lines)


def counted() -> str:
    """Returns the table of lines and `unsafe`."""
    heads = ["", "version", "`mean`", "`invert`", "`twice`", "shared", "lines", "`unsafe`"]
    return table(heads, [[f"**{x.name}**", x.versions(), *counts(x)] for x in LIBRARIES])


def listing() -> str:
    """Returns all sources, function by function."""
    titles = {name: f"`{name}`" for name in PARTS} | {"shared": "Shared code"}
    text = []
    for name in PARTS:
        text.append(f"### {titles[name]}")
        for library in LIBRARIES:
            if part := library.part(name):
                text.append(f"{library.name}\n\n```{library.language}\n{part}```")
    return "\n\n".join(text)
