"""Makes deliberate faults in a copy of dlbridge, one at a time, and lists the rules of the conformance kit that find each.

Fails if a fault is missed. A fault is a patch in conformance/faults, whose first line says what is wrong.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

ROOT = Path(__file__).parents[1]
COPY = ROOT / "target/seeded"
TARGET = ROOT / "target/seeded-target"


def run(*command: str | Path) -> None:
    """Runs a command in the copy."""
    subprocess.run(command, cwd=COPY, check=True)


def broken() -> list[str]:
    """Builds the copy, and returns the rules that the kit finds broken."""
    os.environ |= {"PYO3_PYTHON": sys.executable, "PYO3_BUILD_EXTENSION_MODULE": "1", "RUSTFLAGS": "-Awarnings"}
    run("cargo", "build", "--quiet", "--package", "dlbridge-python", "--target-dir", TARGET)
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
    for patch in sorted((ROOT / "conformance/faults").glob("*.patch")):
        run("git", "apply", patch)
        found = broken()
        run("git", "apply", "--reverse", patch)
        missed += not found
        print(f"{patch.read_text(encoding='utf-8').splitlines()[0]}: {', '.join(found) or 'MISSED'}", flush=True)
    return 1 if missed else 0


sys.exit(main())
