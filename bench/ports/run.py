"""Ports real extensions from rust-numpy to dlbridge, and compares both versions.

It downloads each extension from PyPI and edits it with the scripts here: `NAME.base.ed` moves it to the PyO3 and rust-numpy of
the comparison, `NAME.ed` to dlbridge. It builds both versions, from the extension's own lock file, runs the extension's own
tests, and measures the versions in turn.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import xml.etree.ElementTree as ET
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from build import BUILT, ROOT

from ports import page
from ports.edits import apply

HERE = Path(__file__).resolve().parent
VERSIONS = ("base", "port")

#: the published sources, which no script edits
ORIGINAL = "original"

#: the programs of the environment that runs this
PROGRAMS = Path(sys.executable).absolute().parent

#: A round is one process of each version. Other programs disturb rounds, so they end only when CALM_ROUNDS in a row
#: lowered no least time by more than FALL. The rule does not compare the versions, so it favours neither.
CALM_ROUNDS, MOST_ROUNDS, FALL = 5, 20, 0.02


class Extension:
    """An extension in both versions. All built files are below one folder."""

    def __init__(self, name: str, description: dict[str, Any], folder: Path, python: Path) -> None:
        self.name, self.described, self.folder, self.python = name, description, folder / name, python

    def source(self, version: str) -> Path:
        return self.folder / version

    def modules(self, version: str) -> Path:
        return self.folder / f"{version}-modules"

    def fetch(self) -> None:
        """Unpacks the pinned sdist for each version, and once as the original."""
        wanted = self.folder / "requirement.txt"
        self.folder.mkdir(parents=True, exist_ok=True)
        wanted.write_text(f"{self.described['package']} --hash={self.described['hash']}\n")
        archives = self.folder / "archives"
        if not list(archives.glob("*.tar.gz")):
            options = ["--no-deps", "--no-binary=:all:", "--no-build-isolation", "--require-hashes"]
            # pip asks maturin for the name of the package.
            path = f"{PROGRAMS}{os.pathsep}{os.environ['PATH']}"
            run([self.python, "-m", "pip", "download", "-q", *options, "-r", wanted, "-d", archives], PATH=path)
        (archive,) = archives.glob("*.tar.gz")
        for version in (ORIGINAL, *VERSIONS):
            unpacked = self.folder / "unpacked"
            for old in (unpacked, self.source(version)):
                shutil.rmtree(old, ignore_errors=True)
            with tarfile.open(archive) as tar:
                tar.extractall(unpacked, filter="data")
            (only,) = unpacked.iterdir()
            only.rename(self.source(version))

    def edit(self) -> dict[str, Any]:
        """Applies the scripts. Returns the lines that each one changed, and `unsafe` before and after."""
        changed = {}
        original = self.source(ORIGINAL)
        for version in VERSIONS:
            source = self.source(version)
            apply(HERE / f"{self.name}.base.ed", source, ROOT, original)
            if version == "port":
                changed["lines"] = apply(HERE / f"{self.name}.ed", source, ROOT, original)
            texts = [(source / file).read_text() for file in self.described["edited"]]
            changed[f"unsafe {version}"] = sum(text.count("unsafe ") for text in texts)
        return changed

    def build(self, version: str) -> dict[str, Any]:
        """Builds the wheel from scratch. Returns CPU seconds and bytes."""
        target, wheels = self.folder / f"{version}-target", self.folder / f"{version}-wheels"
        for old in (target, wheels, self.modules(version)):
            shutil.rmtree(old, ignore_errors=True)
        before = cpu_seconds()
        build = ["build", "-q", "--release", "--interpreter", self.python, "--out", wheels]
        run(
            [PROGRAMS / "maturin", *build],
            cwd=self.source(version),
            CARGO_TARGET_DIR=str(target),
            CARGO_BUILD_JOBS="1",
            # The time of a cache of compiled crates is that of its server.
            RUSTC_WRAPPER="",
        )
        seconds = cpu_seconds() - before
        (wheel,) = wheels.iterdir()
        install = [self.python, "-m", "pip", "install", "-q", "--no-deps", "--target", self.modules(version)]
        run([*install, wheel])
        return {"seconds": seconds, "bytes": wheel.stat().st_size}

    def test(self, version: str) -> dict[str, Any]:
        """Runs the extension's own tests, unchanged."""
        modules = [self.modules(version)]
        if "in_place" in self.described:
            modules.insert(0, self.source(version) / self.described["in_place"])
            for library in modules[1].rglob("*.so"):
                shutil.copy(library, modules[0] / library.relative_to(modules[1]))
        report = self.folder / f"{version}-tests.xml"
        # Without a configuration file here, pytest would use that of this repository, in a parent folder.
        options = ["-q", "-c", "pyproject.toml", "-p", "no:cacheprovider", f"--junitxml={report}"]
        command = [self.python, "-m", "pytest", *options, *self.described["tests"]]
        path = os.pathsep.join(map(str, modules))
        run(command, cwd=self.source(version), accepted=(0, 1), PYTHONPATH=path, CI="true")
        suite = next(ET.parse(report).iter("testsuite"))
        counts = {what: int(suite.get(what, "0")) for what in ("tests", "failures", "errors", "skipped")}
        bad = [
            f"{case.get('classname')}::{case.get('name')}"
            for case in suite.iter("testcase")
            if case.find("failure") is not None or case.find("error") is not None
        ]
        return {"passed": counts["tests"] - len(bad) - counts["skipped"], "failed": sorted(bad)}

    def measure(self) -> dict[str, dict[str, float]]:
        """Returns the least time of each call in each version, from processes that take turns."""
        least: dict[str, dict[str, float]] = {version: {} for version in VERSIONS}
        calm = 0
        for _ in range(MOST_ROUNDS):
            calm += 1
            for version in VERSIONS:
                for label, time in self.ask(version, "times").items():
                    known = least[version].get(label, math.inf)
                    if time < known * (1 - FALL):
                        calm = 0
                    least[version][label] = min(time, known)
            if calm == CALM_ROUNDS:
                break
        return least

    def ask(self, version: str, what: str) -> dict[str, Any]:
        path = os.pathsep.join([str(self.modules(version)), str(HERE)])
        environment = {**os.environ, "PYTHONPATH": path}
        command = [self.python, HERE / "measure.py", self.name, what]
        answer = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True)
        return json.loads(answer.stdout)


def run(command: list[Any], accepted: tuple[int, ...] = (0,), cwd: Path | None = None, **environment: str) -> None:
    """Runs a command, which must exit with an accepted code."""
    print("$", *command, flush=True)
    # Uses the toolchain that a folder names, for all crates, instead of the one that runs this.
    inherited = {name: value for name, value in os.environ.items() if name not in ("CARGO", "RUSTUP_TOOLCHAIN")}
    code = subprocess.run(command, cwd=cwd, env=inherited | environment).returncode
    if code not in accepted:
        raise SystemExit(f"{command[0]} failed with exit code {code}")


def cpu_seconds() -> float:
    """Returns the CPU time of all ended child processes."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main(options: argparse.Namespace) -> None:
    described = tomllib.loads((HERE / "extensions.toml").read_text())
    if options.only and (unknown := set(options.only) - described.keys()):
        raise SystemExit(f"unknown extensions: {', '.join(sorted(unknown))}")
    results = results_of(options, described)
    print(page.rendered(results))
    (BUILT / "ports.json").write_text(json.dumps(results, indent=1) + "\n")
    (BUILT / "ports.md").write_text(page.rendered(results))
    if worse := page.regressions(results):
        raise SystemExit(page.worse_table(worse))


def environment(requirements: list[str]) -> Path:
    """Returns the Python of an environment that has the packages of this one, and the requirements of the extensions' tests."""
    folder = BUILT / "ports" / "venv"
    python = folder / "bin" / "python"
    run([sys.executable, "-m", "venv", folder])
    packages = folder / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
    (packages / "of_caller.pth").write_text(sysconfig.get_path("purelib") + "\n")
    run([python, "-m", "pip", "install", "-q", "pip", *requirements])
    return python


def results_of(options: argparse.Namespace, described: dict[str, Any]) -> dict[str, Any]:
    """Ports, tests and measures the extensions."""
    os.nice(19)
    results = {}
    chosen = {name: described[name] for name in options.only or described}
    python = environment([need for one in chosen.values() for need in one["requirements"]])
    for name, description in chosen.items():
        one = Extension(name, description, BUILT / "ports", python)
        one.fetch()
        result: dict[str, Any] = {"package": description["package"], **one.edit()}
        known = one.folder / "steps.json"
        steps = json.loads(known.read_text()) if options.resume and known.exists() else {}

        def step(label: str, make: Callable[[], Any], steps: dict[str, Any] = steps, known: Path = known) -> None:
            if label not in steps:
                steps[label] = make()
                known.write_text(json.dumps(steps))

        for version in VERSIONS:
            step(f"build {version}", partial(one.build, version))
            step(f"tests {version}", partial(one.test, version))
            step(f"accepts {version}", partial(one.ask, version, "accepts"))
        step("accepts alone", partial(one.ask, "port", "accepts-alone"))
        step("times", one.measure)
        results[name] = result | steps
    return results
