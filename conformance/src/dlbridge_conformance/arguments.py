"""The command line."""

from __future__ import annotations

import argparse
import math
from pathlib import Path

from dlbridge_conformance import result

EXIT_STATUS = """\
exit status:
  0    no MUST and no SHOULD is broken, except those in --known-failures
  1    another one is broken, or one in --known-failures is kept now
  2    wrong arguments, a faulty adapter, or a file that cannot be read or written
  130  interrupted
"""

#: the options that write the report to one file, with the form of the report
FORMS = ("json", "junit", "summary", "badge")


def parser() -> argparse.ArgumentParser:
    """The parser of the command line."""
    parser = argparse.ArgumentParser(
        prog=result.PROGRAM,
        description="Checks whether libraries keep the rules of DLPack, as producers and as consumers.",
        epilog=EXIT_STATUS, formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument(
        "libraries", nargs="*", metavar="LIBRARY",
        help="a module with from_dlpack, a library that --list shows, or module:attribute for an adapter, a class or a "
        "function; by default all installed libraries with an adapter",
    )  # fmt: skip
    parser.add_argument("--rule", action="append", default=[], metavar="ID", help="run only this rule, or the rules whose ids begin with ID")
    parser.add_argument("--list", action="store_true", help="show the rules and the libraries, and check nothing")
    parser.add_argument("--limit", type=seconds, default=result.LIMIT, help="stop a check after this many seconds")
    parser.add_argument("--jobs", type=int, default=2, help="check this many libraries at once")
    parser.add_argument("--known-failures", type=Path, metavar="FILE", help="broken rules in this file do not fail")
    parser.add_argument("--write-known-failures", type=Path, metavar="FILE", help="write the broken rules to this file, and do not fail")
    parser.add_argument("--summary", type=Path, metavar="FILE", help="append a short report in Markdown, as for $GITHUB_STEP_SUMMARY")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the report as JSON")
    parser.add_argument("--junit", type=Path, metavar="FILE", help="write the report as JUnit XML")
    parser.add_argument("--badge", type=Path, metavar="FILE", help="write the endpoint of a badge for shields.io, as JSON")
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress")
    return parser


def seconds(text: str) -> float:
    """A time limit. Raises ArgumentTypeError for what is not a finite number above 0."""
    try:
        limit = float(text)
    except ValueError:
        limit = math.nan
    if not (math.isfinite(limit) and limit > 0):
        raise argparse.ArgumentTypeError(f"{text!r} is not a finite number of seconds above 0")
    return limit


def wrong(options: argparse.Namespace) -> str:
    """The fault of options together; empty if they fit."""
    reports = (getattr(options, form) for form in FORMS)
    files = [file for file in (*reports, options.write_known_failures) if file]
    if nowhere := [str(file) for file in files if not file.absolute().parent.is_dir()]:
        return f"the folder does not exist: {', '.join(nowhere)}"
    if folders := [str(file) for file in files if file.is_dir()]:
        return f"a folder, and not a file: {', '.join(folders)}"
    used = [file.absolute() for file in files]
    if twice := sorted({str(file) for file in used if used.count(file) > 1}):
        return f"one file for two reports: {', '.join(twice)}"
    for name in ("known_failures", "write_known_failures"):
        if getattr(options, name) and len(options.libraries) != 1:
            return f"--{name.replace('_', '-')} needs exactly one LIBRARY, and {len(options.libraries)} are named"
    if options.write_known_failures and options.rule:
        return "--write-known-failures needs the results of all rules: leave --rule out"
    return ""
