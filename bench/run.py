"""Measures dlbridge beside its peers: `python bench/run.py WHAT`, with a Python that has the packages below.

The results are printed in Markdown, and written to `target/bench`. `rows.py` has the list of the rows.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys

import build
from build import BUILT

PACKAGES = """\
WHAT          the environment needs, beside numpy
instructions  dlbridge as a release wheel; torch and jax for their rows; the program valgrind
sizes         nothing; with --peers nanobind
speed         dlbridge as a release wheel, torch, jax, pyarrow, pandas, polars, apache-tvm-ffi, nanobind, pydlpack
files         dlbridge as a release wheel, torch, jax, onnxruntime, safetensors, gguf
tables        dlbridge as a release wheel, pandas, polars, pyarrow, torch
compare       torch, jax, pyarrow, tensorflow-cpu, paddlepaddle, nanobind
operators     torch, jax, apache-tvm-ffi
ports         maturin, pytest, torch, jax, pyarrow, polars, pandas; PyPI
build NAME    nothing; prints the folder of the built modules
"""


def instructions(options: argparse.Namespace) -> None:
    from instructions import PYTHON, check

    if sys.version_info[:2] != PYTHON or platform.machine() != "x86_64" or sys.platform != "linux":
        raise SystemExit(f"the instruction budgets are for Python {'.'.join(map(str, PYTHON))} on Linux and x86-64")
    build.module("dlbridge")
    os.environ |= build.ENVIRONMENT
    check(str(build.rust_program("--no-default-features")), BUILT / "callgrind", options.write)


def sizes(options: argparse.Namespace) -> None:
    import sizes

    if options.peers:
        sizes.compare()
    else:
        sizes.check(options.write)


def speed(options: argparse.Namespace) -> None:
    import speed

    for name in (*build.CARGO, "nanobind", "floor"):
        build.module(name)
    speed.measure(str(build.rust_program()), 1 if options.quick else 2, options.quick)


def files(options: argparse.Namespace) -> None:
    import files

    files.main(options.rest)


def tables(options: argparse.Namespace) -> None:
    import tables

    tables.main(options.rest)


def compare(options: argparse.Namespace) -> None:
    from compare import run
    from compare.sources import LIBRARIES

    for library in LIBRARIES:
        build.module(library.name)
    run.main(options.only)


def operators(options: argparse.Namespace) -> None:
    build.operators()
    sys.path.insert(0, str(build.MODULES))
    from operator_peers import measure

    measure.main()


def ports(options: argparse.Namespace) -> None:
    from ports import run

    run.main(options)


def module(options: argparse.Namespace) -> None:
    for name in options.names:
        folder = build.module(name)
    print(folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, epilog=PACKAGES, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_subparsers(metavar="WHAT")

    def command(name: str, run: object, text: str) -> argparse.ArgumentParser:
        found = what.add_parser(name, help=text, description=text)
        found.set_defaults(run=run)
        return found

    counted = command("instructions", instructions, "count the instructions of the rows with a budget; fail above it")
    counted.add_argument("--write", action="store_true", help="store the counts as the budgets")
    sized = command("sizes", sizes, "build extensions on dlbridge; fail if one is larger than the stored size")
    sized.add_argument("--write", action="store_true", help="store the sizes")
    sized.add_argument("--peers", action="store_true", help="measure time and size beside rust-numpy and nanobind instead")
    command("speed", speed, "time all rows two times").add_argument("--quick", action="store_true", help="one run of fewer rounds")
    timed = command("files", files, "time reading and writing model files")
    timed.add_argument("rest", nargs=argparse.REMAINDER, help="options of files.py")
    timed = command("tables", tables, "time tables as matrices")
    timed.add_argument("rest", nargs=argparse.REMAINDER, help="options of tables.py")
    compared = command("compare", compare, "call the same functions on all libraries with the same arguments")
    compared.add_argument("--only", default="", metavar="TEXT", help="only rows with this text")
    command("operators", operators, "time operators beside the same ones in C++")
    ported = command("ports", ports, "port published extensions, test and time them; fail if one is worse than the original")
    ported.add_argument("--only", nargs="*", metavar="NAME", help="names of extensions")
    ported.add_argument("--resume", action="store_true", help="keep the completed steps of a failed run")
    one = command("build", module, "build the module of a library, for the tests of dlbridge beside it")
    one.add_argument("names", nargs="+", choices=[*build.CARGO, "nanobind", "floor"])
    options = parser.parse_args()
    if not hasattr(options, "run"):
        parser.print_help()
        return
    BUILT.mkdir(parents=True, exist_ok=True)
    options.run(options)


if __name__ == "__main__":
    main()
