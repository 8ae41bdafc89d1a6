"""Makes the faults of conformance/faults.toml in a copy of dlbridge, one at a time, and lists the rules that find each.

Fails if a fault is missed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
import xml.etree.ElementTree as ElementTree
from pathlib import Path

ROOT = Path(__file__).parents[1]
COPY = ROOT / "target/seeded"
TARGET = ROOT / "target/seeded-target"


def broken() -> list[str]:
    """Builds the copy, and returns the rules that the kit finds broken."""
    os.environ |= {"PYO3_PYTHON": sys.executable, "PYO3_BUILD_EXTENSION_MODULE": "1", "RUSTFLAGS": "-Awarnings"}
    build = ["cargo", "build", "--quiet", "--package", "dlbridge-python", "--target-dir", TARGET]
    subprocess.run(build, cwd=COPY, check=True)
    shutil.copy(TARGET / "debug/lib_core.so", COPY / "python/dlbridge/_core.abi3.so")
    report = COPY / "report.xml"
    # An old report would hide that the kit itself ended early.
    report.unlink(missing_ok=True)
    kit = [sys.executable, "-m", "dlbridge_conformance", "dlbridge", "--quiet", "--junit", str(report)]
    subprocess.run(kit, cwd=COPY, env={**os.environ, "PYTHONPATH": str(COPY / "python")}, stdout=subprocess.DEVNULL)
    cases = ElementTree.parse(report).iter("testcase")
    return [case.get("name", "") for case in cases if case.find("failure") is not None or case.find("error") is not None]


def main() -> int:
    """Tries all faults, and prints a row for each."""
    shutil.rmtree(COPY, ignore_errors=True)
    subprocess.run(["git", "clone", "--quiet", ROOT, COPY], check=True)
    if without := broken():
        print("broken rules without a fault:", *without)
        return 1
    missed = 0
    for name, faults in tomllib.loads((ROOT / "conformance/faults.toml").read_text(encoding="utf-8")).items():
        file = COPY / name
        text = file.read_text(encoding="utf-8")
        for fault, (old, new) in faults.items():
            assert old in text, f"{name}: {fault}"
            file.write_text(text.replace(old, new), encoding="utf-8")
            found = broken()
            missed += not found
            print(f"{fault}: {', '.join(found) or 'MISSED'}", flush=True)
        file.write_text(text, encoding="utf-8")
    return 1 if missed else 0


sys.exit(main())
