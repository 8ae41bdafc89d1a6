"""The size of extensions, and the cost of building them beside rust-numpy and nanobind.

`extension` is built in an empty folder: with the functions of `examples/template`, and with functions that differ only in the
type of their argument, to get the size of one more. With `lto`, the crates of dlbridge have the settings of the template.
"""

from __future__ import annotations

import json
import os
import platform
import resource
import shutil
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from build import BENCH, BUILT, SHARED, cargo, nanobind_folder, output
from report import number, table

SIZES = BENCH / "sizes.json"

TOLERANCE = 0.03
"""The allowed excess over a stored size, as a share: another minor release of the compiler changes sizes that much."""

SLACK = 64
"""The allowed excess of one more argument, in bytes: functions are aligned, so that single bytes become several."""

LTO = "with `lto`"

PROFILES: dict[str, dict[str, str]] = {
    "the release profile": {"LTO": "false", "CODEGEN_UNITS": "16"},
    LTO: {"LTO": "fat", "CODEGEN_UNITS": "1"},
}
"""The options of Cargo's profile `release`, besides `strip`."""

SETTINGS = tomllib.loads((BENCH.parent / "examples/template/pyproject.toml").read_text())["tool"]["maturin"]["config"]
"""The settings of Cargo in the template."""

SMALL = [part for setting in SETTINGS if ".package." in setting for part in ("--config", setting)]
"""Those for the crates of dlbridge, which extensions on other libraries lack."""

TEMPLATE = {
    "dlbridge": ["dlbridge"],
    "rust-numpy": ["rust-numpy"],
    "nanobind": [],
}
"""Rows of the template, and their features."""

DTYPES = {1: "", 2: "two", 4: "four", 10: "ten"}
"""Features for arguments of a number of dtypes."""

ROUNDS = 3
"""Builds of each row; the one with the middle time counts."""


@dataclass(frozen=True)
class Built:
    """A build: its time in all processes, and its crates."""

    seconds: float
    crates: int
    size: int
    """The bytes of the stripped library."""
    code: int
    """The bytes of code and data: a file also aligns its segments to pages, so a few bytes more can add 4096."""

    @classmethod
    def of(cls, library: Path, seconds: float, crates: int) -> Built:
        text, data = output(["size", library]).splitlines()[1].split()[:2]
        return cls(seconds, crates, library.stat().st_size, int(text) + int(data))


def cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def rust(features: list[str], profile: str, target: Path) -> Built:
    """Builds the extension with Cargo, without downloads: they would add to the time."""
    manifest = BENCH / "extension/Cargo.toml"
    print(f"building an extension: {', '.join(features)}", file=sys.stderr, flush=True)
    output(["cargo", "fetch", "--locked", "--manifest-path", manifest])
    environment = {
        "CARGO_TARGET_DIR": str(target),
        "CARGO_INCREMENTAL": "0",
        "CARGO_PROFILE_RELEASE_STRIP": "true",
        **{f"CARGO_PROFILE_RELEASE_{name}": value for name, value in PROFILES[profile].items()},
    }
    begun = cpu_of_children()
    small = SMALL if profile == LTO and "dlbridge" in features else []
    files, crates = cargo(manifest, ["--offline", "--features", ",".join(features), *small], environment)
    return Built.of(files[0], cpu_of_children() - begun, crates)


def cxx(options: list[str], profile: str, target: Path) -> Built:
    """Compiles nanobind and an extension with the options of `nanobind_add_module` in CMake, which uses `-Os` for nanobind itself."""
    target.mkdir(parents=True)
    folder, needed = nanobind_folder()
    compiler = os.environ.get("CXX", "c++")
    common = [*needed, *(option for option in SHARED if not option.startswith(("-O", "-flto", "-shared")))]
    common += ["-ffunction-sections", "-fdata-sections", *(["-flto"] if profile == LTO else [])]
    objects, library = [target / "nanobind.o", target / "extension.o"], target / "extension.so"
    begun = cpu_of_children()
    output([compiler, "-c", "-Os", *common, folder / "src/nb_combined.cpp", "-o", objects[0]])
    output([compiler, "-c", "-O3", *common, *options, BENCH / "extension/nanobind.cpp", "-o", objects[1]])
    output([compiler, "-shared", "-O3", *common, "-Wl,--gc-sections", "-Wl,-s", *objects, "-o", library])
    return Built.of(library, cpu_of_children() - begun, 2)


def template(row: str, profile: str) -> Built:
    """Builds the template in an empty folder."""
    target = BUILT / "extension" / "template"
    shutil.rmtree(target, ignore_errors=True)
    if row == "nanobind":
        return cxx([], profile, target)
    return rust(["template", *TEMPLATE[row]], profile, target)


def per_argument(library: str) -> dict[str, int]:
    """Returns the code of an extension with one argument, of one more dtype, and of one more number of dimensions, in bytes."""
    target = BUILT / "extension" / library
    shutil.rmtree(target, ignore_errors=True)

    def code(dtypes: int, dimensions: bool = False) -> int:
        if library == "nanobind":
            shutil.rmtree(target, ignore_errors=True)
            return cxx([f"-DDTYPES={dtypes}", *(["-DDIMENSIONS"] if dimensions else [])], LTO, target).code
        # The dependencies are the same each time, so the folder need not be empty.
        features = [*TEMPLATE[library], DTYPES[dtypes], "dimensions" if dimensions else ""]
        return rust(list(filter(None, features)), LTO, target).code

    one = code(1)
    dtypes = {f"{count} dtypes": (code(count) - one) // (count - 1) for count in DTYPES if count > 1}
    return {"one argument": one, **dtypes, "dimensions": (code(1, dimensions=True) - one) // 3}


def of_template() -> dict[str, dict[str, Built]]:
    """Returns the builds of the template by profile and row, interleaved."""
    builds: dict[tuple[str, str], list[Built]] = {(profile, row): [] for profile in PROFILES for row in TEMPLATE}
    for _ in range(ROUNDS):
        for (profile, row), found in builds.items():
            found.append(template(row, profile))
    middle = {key: sorted(found, key=lambda built: built.seconds)[len(found) // 2] for key, found in builds.items()}
    return {profile: {row: middle[profile, row] for row in TEMPLATE} for profile in PROFILES}


def build_table(profile: str, rows: Mapping[str, Built]) -> str:
    """Returns a table of the template, with the ratios to rust-numpy."""
    peer = rows["rust-numpy"]
    header = [profile, "s of CPU", "x rust-numpy, goal 1.2", "crates", "MiB", "x rust-numpy, goal 1.45"]
    lines = [
        [
            row,
            number(built.seconds),
            number(built.seconds / peer.seconds),
            str(built.crates) if row != "nanobind" else "2 files",
            number(built.size / 2**20),
            number(built.size / peer.size),
        ]
        for row, built in rows.items()
    ]
    return table(header, lines)


def compare() -> None:
    """Prints the cost of builds beside peers."""
    # The time of a cache of compiled crates is that of its server.
    os.environ["RUSTC_WRAPPER"] = ""
    built = of_template()
    arguments = {library: per_argument(library) for library in ("dlbridge", "rust-numpy", "nanobind")}
    for profile, rows in built.items():
        print(build_table(profile, rows), end="\n\n")
    columns = [f"{count} dtypes" for count in DTYPES if count > 1] + ["dimensions"]
    header = ["bytes of one more argument, of", *columns]
    print(table(header, [[library, *(str(found[name]) for name in columns)] for library, found in arguments.items()]))
    results = {"template": {profile: {row: asdict(one) for row, one in rows.items()} for profile, rows in built.items()}}
    (BUILT / "sizes.json").write_text(json.dumps({**results, "arguments": arguments}, indent=1) + "\n")


def sizes() -> dict[str, int]:
    """Returns the sizes that are stored: of the template, and of one more argument."""
    found = per_argument("dlbridge")
    return {
        "template": rust(["template", *TEMPLATE["dlbridge"]], LTO, BUILT / "extension/dlbridge").code,
        "one dtype": found["10 dtypes"],
        "one number of dimensions": found["dimensions"],
    }


def faults(measured: Mapping[str, int], stored: Mapping[str, int]) -> list[str]:
    """Returns a line for each size that is larger than the stored one, or is stored and not measured, or the reverse."""
    wrong = []
    for name, size in measured.items():
        limit = stored.get(name)
        if limit is None:
            wrong.append(f"{name}: no stored size")
        elif size > max(limit * (1 + TOLERANCE), limit + SLACK):
            wrong.append(f"{name}: {size} bytes, of {limit}")
    return wrong + [f"{name}: a stored size, and no measurement" for name in stored if name not in measured]


def check(write: bool, file: Path = SIZES) -> None:
    """Compares the sizes with the stored ones, or stores them."""
    if platform.machine() != "x86_64" or sys.platform != "linux":
        raise SystemExit("the sizes of extensions are stored for Linux on x86-64 alone")
    measured = sizes()
    stored: dict[str, int] = json.loads(file.read_text()) if file.exists() else {}
    for name, size in measured.items():
        print(f"{name}: {size} bytes, stored {stored.get(name, 'nothing')}")
    if write:
        file.write_text(json.dumps(measured, indent=2) + "\n")
    elif wrong := faults(measured, stored):
        raise SystemExit("\n".join([*wrong, "if this is intended, run `bench/run.py sizes --write` to store the sizes"]))
