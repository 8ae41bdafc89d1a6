"""``python -m dlbridge_conformance``."""

from __future__ import annotations

import argparse
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import dlbridge
from dlbridge_conformance.adapter import Adapter, adapter_named, known_adapters
from dlbridge_conformance.check import check
from dlbridge_conformance.process import Server
from dlbridge_conformance.report import chromium, html, junit, markdown, png, svg, terminal
from dlbridge_conformance.report.text import visible
from dlbridge_conformance.result import LIMIT, Library, Report, read
from dlbridge_conformance.rule import Level, Rule, selected


def parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m dlbridge_conformance",
        description="Checks whether libraries keep the rules of DLPack, as producers and as consumers.",
    )
    parser.add_argument(
        "libraries", nargs="*", metavar="LIBRARY",
        help="a library that --list shows, or module:Class for an adapter; by default all installed libraries",
    )  # fmt: skip
    parser.add_argument("--rule", action="append", default=[], metavar="ID", help="run only this rule, or the rules whose ids begin with ID")
    parser.add_argument("--list", action="store_true", help="show the rules and the libraries, and check nothing")
    parser.add_argument("--limit", type=float, default=LIMIT, help="stop a check after this many seconds")
    parser.add_argument("--jobs", type=int, default=2, help="check this many libraries at once")
    parser.add_argument("--in-process", action="store_true", help="run all checks in this process, for a debugger")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the report as JSON")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write the report as a page for a browser")
    parser.add_argument("--junit", type=Path, metavar="FILE", help="write the report as JUnit XML")
    parser.add_argument("--svg", type=Path, metavar="FILE", help="write the heat map as SVG")
    parser.add_argument("--png", type=Path, metavar="FILE", help="write the heat map as PNG; Chromium draws it")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the report as a page for documentation")
    parser.add_argument(
        "--from-json", action="append", default=[], type=Path, metavar="FILE",
        help="read a report from JSON instead of checking; several reports, from several environments, become one",
    )  # fmt: skip
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress")
    return parser


def check_library(adapter: Adapter, rules: dict[str, Rule], server: Server, options: argparse.Namespace) -> Library:
    """Runs the rules on one library."""
    library = Library(adapter.name, adapter.version())
    start = time.monotonic()
    if options.in_process:
        adapter.load()
    for number, rule in enumerate(rules.values(), 1):
        library.results.append(check(adapter, rule) if options.in_process else server.check(rule))
        if not options.quiet and (number % 20 == 0 or number == len(rules)):
            seconds = time.monotonic() - start
            print(f"{adapter.name}: {number} of {len(rules)} rules, {seconds:.0f} s", file=sys.stderr)
    server.close()
    return library


def measure(adapters: list[Adapter], rules: dict[str, Rule], options: argparse.Namespace) -> tuple[Report, bool]:
    """Runs the rules on the named libraries, or on all installed ones. Also returns whether Ctrl-C ended this early."""
    chosen = adapters or [adapter for adapter in known_adapters().values() if adapter.is_installed()]
    servers = [Server(adapter.name, options.limit) for adapter in chosen]
    was_interrupted = False
    with ThreadPoolExecutor(1 if options.in_process else max(options.jobs, 1)) as pool:
        pairs = zip(chosen, servers, strict=True)
        running = [pool.submit(check_library, adapter, rules, server, options) for adapter, server in pairs]
        try:
            wait(running)
        except KeyboardInterrupt:
            was_interrupted = True
            for server in servers:
                server.stop()
    libraries = [library.result() for library in running]
    return Report(list(rules.values()), libraries, dlbridge.__version__, limit=options.limit), was_interrupted


def reread(files: list[Path]) -> Report:
    """Joins the reports of several files. Raises ValueError if they cannot be compared."""
    first, *others = (read(file.read_text(encoding="utf-8")) for file in files)
    shared = (first.rules, first.dlbridge, first.python, first.system)
    for file, other in zip(files[1:], others, strict=True):
        if (other.rules, other.dlbridge, other.python, other.system) != shared:
            raise ValueError(f"{file} has other rules, or another dlbridge, Python or system, than {files[0]}")
        first.libraries += other.libraries
    return first


def show_evidence(report: Report) -> None:
    """Prints the evidence of the rules that --rule selects: the inputs and the results."""
    for library in report.libraries:
        for result in library.results:
            detail = f": {visible(result.detail)}" if result.detail else ""
            print(f"{library.name} {result.rule}: {result.status.value}{detail}")
            for kind, text in result.evidence:
                print(f"    {kind}: {visible(text)}")


def write_files(report: Report, options: argparse.Namespace) -> None:
    """Writes the report in every requested format."""
    forms = {
        "json": Report.to_json, "html": html.page, "junit": junit.suites, "svg": svg.svg, "markdown": markdown.document,
    }  # fmt: skip
    for name, form in forms.items():
        if file := getattr(options, name):
            file.write_text(form(report), encoding="utf-8")
    browser = chromium.executable()
    if options.png and browser:
        png.write(report, options.png, browser)


def main(arguments: list[str] | None = None) -> int:
    """Runs the kit: 0 if no MUST and no SHOULD is broken, 1 if one is, 2 for wrong arguments, 130 if interrupted."""
    options = parser().parse_args(arguments)
    try:
        adapters = [adapter_named(name) for name in options.libraries]
        rules = selected(options.rule)
    except (ValueError, LookupError) as error:
        print(error.args[0], file=sys.stderr)
        return 2
    if options.list:
        for rule in rules.values():
            print(f"{rule.id} ({rule.role.value}, {rule.level.value}): {rule.says} [{rule.source}]")
        print(f"\n{len(rules)} rules. Libraries: {', '.join(known_adapters())}")
        return 0
    if missing := [adapter.name for adapter in adapters if not adapter.is_installed()]:
        print(f"not installed: {', '.join(missing)}", file=sys.stderr)
        return 2
    written = (options.json, options.html, options.junit, options.svg, options.png, options.markdown)
    files = [file for file in written if file]
    if nowhere := [str(file) for file in files if not file.absolute().parent.is_dir()]:
        print(f"the folder does not exist: {', '.join(nowhere)}", file=sys.stderr)
        return 2
    if options.png and not chromium.executable():
        print("--png needs Chromium; the environment variable CHROMIUM names it", file=sys.stderr)
        return 2
    was_interrupted = False
    try:
        if options.from_json:
            report = reread(options.from_json)
        else:
            report, was_interrupted = measure(adapters, rules, options)
    except (OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2
    if options.rule:
        show_evidence(report)
    else:
        for library in report.libraries:
            print(terminal.broken(report, library))
    print(terminal.table(report, sys.stdout.isatty() and "NO_COLOR" not in os.environ))
    binding = {rule.id for rule in report.rules if rule.level is not Level.MAY}
    broken = [r for library in report.libraries for r in library.results if r.status.is_broken and r.rule in binding]
    if broken:
        print(f"{len(broken)} broken rules that are MUST or SHOULD")
    try:
        write_files(report, options)
    except OSError as error:
        print(error, file=sys.stderr)
        return 2
    if was_interrupted:
        print("interrupted: the rules that were not run count as not applicable", file=sys.stderr)
        return 130
    return 1 if broken else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BrokenPipeError:
        # The reader closed the pipe. Without this, Python's flush at exit would raise the same error again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(141)
