"""Compares the compiler's errors for the mistakes in compile_errors.rs with the comments above them.

The errors, without the notes, must also be in docs/troubleshooting.md, which explains them. Documentation tests compare
only the codes of errors.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "target/compile-errors"
MANIFEST = """[package]
name = "compile_errors"
edition = "2024"

[dependencies]
dlbridge-pyo3 = { path = "../../crates/dlbridge-pyo3" }
ndarray = "0.17"
pyo3 = { version = "*", features = ["abi3-py311"] }

[workspace]
"""

source = Path(__file__).with_suffix(".rs")
expected = re.findall(r"^// (.*)$", source.read_text(encoding="utf-8"), re.MULTILINE)
page = (ROOT / "docs/troubleshooting.md").read_text(encoding="utf-8")
lacking = [f"docs/troubleshooting.md lacks: {text}" for text in expected if not text.startswith("note: ") and text not in page]
(FOLDER / "src").mkdir(parents=True, exist_ok=True)
(FOLDER / "Cargo.toml").write_text(MANIFEST, encoding="utf-8")
shutil.copy(source, FOLDER / "src/lib.rs")
shutil.copy(ROOT / "Cargo.lock", FOLDER)
check = ["cargo", "check", "--quiet", "--color", "never", "--target-dir", str(ROOT / "target")]
compiler = subprocess.run(check, cwd=FOLDER, capture_output=True, text=True)
lacking += [f"the compiler does not say: {text}" for text in expected if text not in compiler.stderr]
if lacking or compiler.returncode == 0:
    print(compiler.stderr, *lacking, sep="\n")
    sys.exit(1)
