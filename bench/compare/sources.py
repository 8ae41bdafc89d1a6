"""The counts of the sources of the comparison, as an author writes them with each library.

The source of a function is between the comments `begin: NAME` and `end: NAME`; `shared` has the code that several
functions need. The counts are lines that are neither blank nor a comment, and each `unsafe` in code.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from report import table

PEERS = Path(__file__).parents[1] / "peers"
PARTS = ("mean", "invert", "twice", "shared")


@dataclass(frozen=True)
class Library:
    """A column of the tables."""

    name: str
    package: str
    """The package that has its version."""

    @property
    def module(self) -> str:
        return f"with_{self.name.replace('-', '_')}"

    @property
    def source(self) -> Path:
        rust = PEERS / self.name / "src/lib.rs"
        return rust if rust.exists() else PEERS / f"{self.name}.cpp"

    def versions(self) -> str:
        """Returns the library's version, and PyO3's."""
        if self.source.suffix == ".cpp":
            return version(self.package)
        folders = (PEERS / self.name, PEERS.parent)
        lock = next(folder / "Cargo.lock" for folder in folders if (folder / "Cargo.lock").exists())
        packages = {p["name"]: p["version"] for p in tomllib.loads(lock.read_text())["package"]}
        return f"{packages[self.package]}, PyO3 {packages['pyo3']}"

    def part(self, name: str) -> str:
        """Returns the source of one part, without the markers."""
        pattern = rf"^[ ]*// begin: {name}\n(.*?)^[ ]*// end: {name}\n"
        found = re.findall(pattern, self.source.read_text(), re.MULTILINE | re.DOTALL)
        if not found and name != "shared":
            raise SystemExit(f"{self.source} lacks the part `{name}`")
        return "\n".join(found)


LIBRARIES = (
    Library("dlbridge", "dlbridge-pyo3"),
    Library("dlpark", "dlpark"),
    Library("dlpk", "dlpk"),
    Library("pyo3-dlpack", "pyo3-dlpack"),
    Library("rust-numpy", "numpy"),
    Library("nanobind", "nanobind"),
)


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
    shown = "C++" if library.source.suffix == ".cpp" else str(unsafe)
    return [*(str(count or "") for count in lines), str(sum(lines)), shown]


def counted() -> str:
    """Returns the table of lines and `unsafe`."""
    heads = ["", "version", "`mean`", "`invert`", "`twice`", "shared", "lines", "`unsafe`"]
    return table(heads, [[f"**{x.name}**", x.versions(), *counts(x)] for x in LIBRARIES])
