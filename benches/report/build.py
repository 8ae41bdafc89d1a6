"""The cost of a build: `build.py --scratch FOLDER (--page FILE --results FILE | --sizes FILE [--write])`.

Builds `examples/template` and the same extension on rust-numpy and nanobind in empty folders, and extensions that
differ in the number of their typed arguments, and writes the results and the tables of a page. With `--sizes`, builds only dlbridge's,
and fails if an extension or one more argument is larger than the stored size. `--write` stores the sizes.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from machine import first_line
from page import number, replaced, table

ROOT = Path(__file__).parents[2]

TOLERANCE = 0.03
"""The allowed excess over a stored size, as a share: another minor release of the compiler changes sizes that much."""

SLACK = 64
"""The allowed excess of one more argument, in bytes: functions are aligned, so that single bytes become several."""

PROFILES: dict[str, dict[str, str]] = {
    "the release profile": {},
    "with `lto`": {"LTO": "fat", "CODEGEN_UNITS": "1"},
}
"""The options of Cargo's profile `release`, besides `strip`."""

LTO = "with `lto`"

TEMPLATE = {
    "dlbridge": ("dlbridge", []),
    "dlbridge, only `tensor-class`": ("dlbridge", ["--no-default-features"]),
    "rust-numpy": ("rust-numpy", []),
    "nanobind": ("nanobind", []),
}
"""Rows of the template: the folder in `peers/template`, and options of Cargo."""

DTYPES = {1: [], 2: ["--features=two"], 4: ["--features=four"], 10: ["--features=ten"]}
"""Options of Cargo for an extension with arguments of a number of dtypes."""

DIMENSIONS = {1: [], 4: ["--features=dimensions"]}
"""The same for numbers of dimensions."""


ROUNDS = 3
"""Builds of each row; the one with the middle time counts."""


@dataclass(frozen=True)
class Built:
    """A build from an empty folder: its time in all processes, and its crates."""

    seconds: float
    crates: int
    size: int
    """The bytes of the stripped library."""
    code: int
    """The bytes of code and data: a file also aligns its segments to pages, so a few bytes more can add 4096."""

    @classmethod
    def of(cls, library: Path, seconds: float, crates: int) -> Built:
        text, data = output(["size", str(library)]).splitlines()[1].split()[:2]
        return cls(seconds, crates, library.stat().st_size, int(text) + int(data))


def cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def output(command: list[str], environment: Mapping[str, str] | None = None) -> str:
    """Returns what a command prints; its other output is shown only if it fails."""
    done = subprocess.run(command, env={**os.environ, **(environment or {})}, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}: {done.returncode}\n{done.stderr}")
    return done.stdout


def cargo(folder: str, options: list[str], profile: Mapping[str, str], target: Path) -> Built:
    """Builds a package. It does not download: that would add to the time."""
    manifest = ["--manifest-path", f"peers/{folder}/Cargo.toml", "--locked"]
    output(["cargo", "fetch", *manifest])
    environment = {
        "CARGO_TARGET_DIR": str(target),
        "CARGO_INCREMENTAL": "0",
        "PYO3_PYTHON": sys.executable,
        "PYO3_BUILD_EXTENSION_MODULE": "1",
        "CARGO_PROFILE_RELEASE_STRIP": "true",
        **{f"CARGO_PROFILE_RELEASE_{name}": value for name, value in profile.items()},
    }
    begun = cpu_of_children()
    said = output(["cargo", "build", "--release", "--offline", "--message-format=json", *manifest, *options], environment)
    seconds = cpu_of_children() - begun
    messages = [json.loads(line) for line in said.splitlines()]
    made = [message for message in messages if message["reason"] == "compiler-artifact"]
    library = next(file for message in made if "cdylib" in message["target"]["kind"] for file in message["filenames"])
    return Built.of(Path(library), seconds, len({message["package_id"] for message in made}))


def cxx(source: str, options: list[str], profile: Mapping[str, str], target: Path) -> Built:
    """Compiles nanobind and an extension with the options of `nanobind_add_module` in CMake, which uses `-Os` for nanobind itself."""
    import nanobind

    target.mkdir(parents=True)
    folder = Path(nanobind.__file__).parent
    compiler = os.environ.get("CXX", "c++")
    includes = [folder / "include", folder / "ext/robin_map/include", Path(sysconfig.get_path("include"))]
    common = ["-std=c++17", "-fPIC", "-fvisibility=hidden", "-fno-strict-aliasing", "-ffunction-sections", "-fdata-sections"]
    common += ["-DNDEBUG", "-DNB_COMPACT_ASSERTIONS", *(["-flto"] if profile else []), *(f"-I{path}" for path in includes)]
    objects = [str(target / "nanobind.o"), str(target / "extension.o")]
    library = target / "extension.so"
    begun = cpu_of_children()
    output([compiler, "-c", "-Os", *common, str(folder / "src/nb_combined.cpp"), "-o", objects[0]])
    output([compiler, "-c", "-O3", *common, *options, source, "-o", objects[1]])
    output([compiler, "-shared", "-O3", *common, "-Wl,--gc-sections", "-Wl,-s", *objects, "-o", str(library)])
    return Built.of(library, cpu_of_children() - begun, 2)


def build(extension: str, library: str, options: list[str], profile: Mapping[str, str], target: Path) -> Built:
    """Builds an extension on one library in an empty folder."""
    shutil.rmtree(target, ignore_errors=True)
    if library == "nanobind":
        return cxx(f"peers/{extension}/nanobind/{extension}.cpp", options, profile, target)
    return cargo(f"{extension}/{library}", options, profile, target)


def median(builds: list[Built]) -> Built:
    """Returns the build of the middle time; all have the same size."""
    return sorted(builds, key=lambda built: built.seconds)[len(builds) // 2]


def of_template(scratch: Path) -> dict[str, dict[str, Built]]:
    """Returns the builds of the template by profile and row, interleaved."""
    found: dict[str, dict[str, list[Built]]] = {profile: {row: [] for row in TEMPLATE} for profile in PROFILES}
    for _ in range(ROUNDS):
        for profile, rows in found.items():
            for row, builds in rows.items():
                library, options = TEMPLATE[row]
                builds.append(build("template", library, options, PROFILES[profile], scratch / "template"))
    return {profile: {row: median(builds) for row, builds in rows.items()} for profile, rows in found.items()}


def cxx_options(dtypes: int, dimensions: int) -> list[str]:
    return [f"-DDTYPES={dtypes}", *(["-DDIMENSIONS"] if dimensions > 1 else [])]


def per_argument(library: str, scratch: Path) -> dict[str, int]:
    """Returns the code of an extension with one argument, of one more dtype, and of one more number of dimensions, in bytes."""

    def code(dtypes: int, dimensions: int) -> int:
        options = cxx_options(dtypes, dimensions) if library == "nanobind" else DTYPES[dtypes] + DIMENSIONS[dimensions]
        if library == "nanobind":
            return build("typed_arguments", library, options, PROFILES[LTO], scratch / library).code
        # The dependencies are the same each time, so the folder need not be empty.
        return cargo(f"typed_arguments/{library}", options, PROFILES[LTO], scratch / library).code

    shutil.rmtree(scratch / library, ignore_errors=True)
    one = code(1, 1)
    dtypes = {count: code(count, 1) - one for count in DTYPES if count > 1}
    found = {f"{count} dtypes": more // (count - 1) for count, more in dtypes.items()}
    return {"one argument": one, **found, "dimensions": (code(1, 4) - one) // 3}


def build_table(found: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> str:
    """Returns a table of the template for each profile, with the ratios to rust-numpy."""
    texts = []
    for profile, rows in found.items():
        peer = rows["rust-numpy"]
        header = [profile, "s of CPU", "x rust-numpy, goal 1.2", "crates", "MiB", "x rust-numpy, goal 1.0"]
        lines = [
            [
                f"**{row}**" if row == "dlbridge" else row,
                number(built["seconds"]),
                number(built["seconds"] / peer["seconds"]),
                str(built["crates"]) if row != "nanobind" else "2 files",
                number(built["size"] / 2**20),
                number(built["size"] / peer["size"]),
            ]
            for row, built in rows.items()
        ]
        texts.append(table(header, lines))
    return "\n\n".join(texts)


def argument_table(found: Mapping[str, Mapping[str, int]]) -> str:
    """Returns the table of the bytes of one more argument."""
    header = ["bytes of one more argument", *(f"of {count} dtypes" for count in DTYPES if count > 1), "of another number of dimensions"]
    rows = [
        [f"**{library}**" if library == "dlbridge" else library, *(str(more) for name, more in row.items() if name != "one argument")]
        for library, row in found.items()
    ]
    return table(header, rows)


def tables(results: Mapping[str, Any]) -> str:
    """Returns the tables of stored results."""
    made_by = f"Built with {results['rust']}."
    return f"{build_table(results['template'])}\n\n{argument_table(results['arguments'])}\n\n{made_by}"


def sizes(scratch: Path) -> dict[str, int]:
    """Returns the sizes of code that are guarded: of the template, and of one more argument."""
    target = scratch / "dlbridge"
    found = per_argument("dlbridge", scratch)
    template = cargo("template/dlbridge", [], PROFILES[LTO], target)
    return {"template": template.code, "one dtype": found["10 dtypes"], "one number of dimensions": found["dimensions"]}


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


def check(path: Path, scratch: Path, write: bool) -> None:
    """Compares the sizes with the stored ones, or stores them."""
    measured = sizes(scratch)
    stored: dict[str, int] = json.loads(path.read_text()) if path.exists() else {}
    for name, size in measured.items():
        print(f"{name}: {size} bytes, stored {stored.get(name, 'nothing')}")
    if write:
        path.write_text(json.dumps(measured, indent=2) + "\n")
    elif wrong := faults(measured, stored):
        hint = "if this is intended, run `cargo xtask bench --build --write` to update the sizes"
        raise SystemExit("\n".join([*wrong, hint]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scratch", type=Path, required=True)
    parser.add_argument("--page", type=Path)
    parser.add_argument("--results", type=Path)
    parser.add_argument("--sizes", type=Path)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    scratch = options.scratch / "build"
    if options.sizes:
        check(options.sizes, scratch, options.write)
    if options.page:
        template = {profile: {row: asdict(built) for row, built in rows.items()} for profile, rows in of_template(scratch).items()}
        arguments = {library: per_argument(library, scratch) for library in ("dlbridge", "rust-numpy", "nanobind")}
        results = {"template": template, "arguments": arguments, "rust": first_line("rustc", "--version")}
        options.results.write_text(json.dumps(results, indent=2) + "\n")
        options.page.write_text(replaced(options.page.read_text(), "build", tables(results)))


if __name__ == "__main__":
    main()
