"""The tables of builds, and the comparison of sizes, from invented results."""

from __future__ import annotations

from pathlib import Path

import build
import pytest

PEERS = Path(__file__).parents[2] / "peers"


def test_faults_names_each_size_that_grew() -> None:
    stored = {"template": 1_000_000, "one dtype": 2000, "gone": 1}
    assert build.faults({"template": 1_029_999, "one dtype": 2064, "gone": 0}, stored) == []
    wrong = build.faults({"template": 1_030_001, "one dtype": 2065, "new": 1}, stored)
    assert wrong == [
        "template: 1030001 bytes, of 1000000",
        "one dtype: 2065 bytes, of 2000",
        "new: no stored size",
        "gone: a stored size, and no measurement",
    ]


def test_larger_size_fails_and_write_stores_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measured = {"template": 1000}
    monkeypatch.setattr(build, "sizes", lambda _scratch: measured)
    path = tmp_path / "sizes.json"
    with pytest.raises(SystemExit, match="template: no stored size"):
        build.check(path, tmp_path, write=False)
    build.check(path, tmp_path, write=True)
    build.check(path, tmp_path, write=False)
    measured["template"] = 1100
    with pytest.raises(SystemExit, match="template: 1100 bytes, of 1000"):
        build.check(path, tmp_path, write=False)


def test_tables_have_ratios_to_rust_numpy() -> None:
    def built(seconds: float, size: int) -> dict[str, float]:
        return {"seconds": seconds, "crates": 20, "size": size}

    rows = {"dlbridge": built(30, 2**20), "rust-numpy": built(20, 2**19), "nanobind": built(5, 2**17)}
    one = {"one argument": 1, "2 dtypes": 30, "4 dtypes": 20, "10 dtypes": 10, "dimensions": 40}
    results = {"template": {"with `lto`": rows}, "arguments": {"dlbridge": one}, "rust": "rustc 1"}
    lines = build.tables(results).splitlines()
    assert "| **dlbridge** | 30.0 | 1.50 | 20 | 1.00 | 2.00 |" in lines
    assert "| nanobind | 5.00 | 0.25 | 2 files | 0.12 | 0.25 |" in lines
    assert "| **dlbridge** | 30 | 20 | 10 | 40 |" in lines


@pytest.mark.parametrize("extension", ["template", "typed_arguments"])
def test_every_library_builds_with_the_profile_of_the_script(extension: str) -> None:
    for manifest in (PEERS / extension).glob("*/Cargo.toml"):
        assert "[profile" not in manifest.read_text(), manifest


def test_extensions_have_the_same_functions() -> None:
    def names(source: str) -> list[str]:
        return [line.split(":")[0].strip() for line in source.splitlines() if line.strip().startswith("of_")]

    ours, peer = [(PEERS / f"typed_arguments/{p}/src/lib.rs").read_text() for p in ("dlbridge", "rust-numpy")]
    cpp = (PEERS / "typed_arguments/nanobind/typed_arguments.cpp").read_text()
    assert names(ours) == names(peer)
    assert all(f'"{name}"' in cpp for name in names(ours))
