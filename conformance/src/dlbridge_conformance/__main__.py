"""``dlbridge-conformance`` and ``python -m dlbridge_conformance``."""

from __future__ import annotations

import argparse
import io
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import dlbridge
from dlbridge_conformance import arguments, environment, known_failures, result
from dlbridge_conformance.adapter import (
    Adapter, adapter_named, ask, described, installed_adapters, known_adapters, version_of,
)  # fmt: skip
from dlbridge_conformance.check import check
from dlbridge_conformance.module_adapter import ModuleAdapter
from dlbridge_conformance.process import Server, found
from dlbridge_conformance.report import badge, chromium, html, junit, markdown, png, summary, svg, terminal
from dlbridge_conformance.report.text import visible
from dlbridge_conformance.result import Library, Report, read
from dlbridge_conformance.rule import Rule, selected
from dlbridge_conformance.search_path import search_here


def check_library(adapter: Adapter, library: Library, rules: dict[str, Rule], server: Server, options: argparse.Namespace) -> None:
    """Runs the rules on one library, and appends the results."""
    start = time.monotonic()
    if options.in_process:
        try:
            adapter.load()
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            raise LookupError(f"{adapter.name} cannot be imported: {described(error)}") from error
    for number, rule in enumerate(rules.values(), 1):
        library.results.append(check(adapter, rule) if options.in_process else server.check(rule))
        if not options.quiet and (number % 20 == 0 or number == len(rules)):
            seconds = time.monotonic() - start
            print(f"{adapter.name}: {number} of {len(rules)} rules, {seconds:.0f} s", file=sys.stderr)
    server.close()


def measure(adapters: list[Adapter], rules: dict[str, Rule], options: argparse.Namespace) -> Report:
    """Runs the rules on the named libraries, or on all installed ones. Ctrl-C ends this early."""
    chosen = adapters or installed_adapters()
    libraries = [Library(adapter.name, version_of(adapter)) for adapter in chosen]
    report = Report(list(rules.values()), libraries, dlbridge.__version__, limit=options.limit)
    servers = [Server(adapter.name, options.limit) for adapter in chosen]
    with ThreadPoolExecutor(1 if options.in_process else max(options.jobs, 1)) as pool:
        parts = zip(chosen, libraries, servers, strict=True)
        running = [pool.submit(check_library, adapter, library, rules, server, options) for adapter, library, server in parts]
        try:
            wait(running)
        except KeyboardInterrupt:
            report.is_interrupted = True
            for server in servers:
                server.stop()
    for one in running:
        one.result()
    return report


def reread(files: list[Path]) -> Report:
    """Joins the reports of several files. Raises ValueError if one is not a report, or if they cannot be compared."""
    first, *others = map(report_in, files)
    shared = (first.rules, first.dlbridge, first.python, first.system)
    for file, other in zip(files[1:], others, strict=True):
        if (other.rules, other.dlbridge, other.python, other.system) != shared:
            raise ValueError(f"{file} has other rules, or another dlbridge, Python or system, than {files[0]}")
        first.libraries += other.libraries
        first.is_interrupted |= other.is_interrupted
    return first


def report_in(file: Path) -> Report:
    """The report in a file. Raises ValueError, with the name of the file, if it has none."""
    text = known_failures.text_of(file)
    try:
        return read(text)
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from error


def show_evidence(report: Report) -> None:
    """Prints the evidence of the rules that --rule selects: the inputs and the results."""
    for library in report.libraries:
        for one in library.results:
            detail = f": {visible(one.detail)}" if one.detail else ""
            print(f"{visible(library.name)} {one.rule}: {one.status.value}{detail}")
            for kind, text in one.evidence:
                print(f"    {kind}: {visible(text)}")


def write_files(report: Report, options: argparse.Namespace) -> None:
    """Writes the report in every requested format. An interrupted run makes no badge, which cannot say so."""
    forms = {
        "json": Report.to_json, "html": html.page, "junit": junit.suites, "svg": svg.svg, "markdown": markdown.document,
    }  # fmt: skip
    for name, form in forms.items():
        if file := getattr(options, name):
            file.write_text(form(report), encoding="utf-8")
    if not report.is_interrupted:
        for file in options.badge:
            file.write_text(badge.badge(report, file.suffix), encoding="utf-8")
    if options.summary:
        with options.summary.open("a", encoding="utf-8") as file:
            file.write(summary.summary(report))
    browser = chromium.executable()
    if options.png and browser:
        png.write(report, options.png, browser)


def show_rules(rules: dict[str, Rule]) -> None:
    """Prints the rules, and the libraries with an adapter."""
    for rule in rules.values():
        print(f"{rule.id} ({rule.role.value}, {rule.level.value}): {rule.says} [{rule.source}]")
    print(f"\n{len(rules)} rules. Libraries: {', '.join(known_adapters())}")


def prepare(options: argparse.Namespace, adapters: list[Adapter]) -> None:
    """Checks the arguments, and prints what modules without an adapter have. Raises ValueError or LookupError."""
    if missing := [adapter.name for adapter in adapters if not ask(adapter.is_installed, adapter)]:
        raise LookupError(f"not installed: {', '.join(missing)}")
    if said := arguments.wrong(options):
        raise ValueError(said)
    if options.png and not chromium.executable():
        raise ValueError("--png needs Chromium; the environment variable CHROMIUM names it")
    if options.from_json:
        return
    for adapter in adapters:
        lines = found(adapter.name) if isinstance(adapter, ModuleAdapter) else []
        if lines and not options.quiet:
            print("\n".join(lines), file=sys.stderr)
    if not adapters and not any(adapter.name != "dlbridge" for adapter in installed_adapters()):
        print(
            f"{sys.executable} lacks a library with an adapter, except dlbridge. Name your library, and its environment with "
            "--python PATH",
            file=sys.stderr,
        )


def show(report: Report, options: argparse.Namespace) -> int:
    """Prints the report, and returns the exit status."""
    if options.rule:
        show_evidence(report)
    else:
        for library in report.libraries:
            print(terminal.broken(report, library))
    print(terminal.table(report, sys.stdout.isatty() and "NO_COLOR" not in os.environ))
    results = [one for library in report.libraries for one in library.results]
    if known := [one for one in results if one.status.is_broken and one.rule in report.known]:
        print(f"{len(known)} known failures, by {options.known_failures}")
    kept = known_failures.kept(report)
    for id in kept:
        print(f"{id} is kept now: remove it from {options.known_failures}")
    broken = [one for one in results if report.fails(one)]
    if broken:
        print(f"{len(broken)} broken rules that are MUST or SHOULD")
    return 1 if broken or kept else 0


def main(words: list[str] | None = None) -> int:
    """Runs the kit, and returns the exit status, which :data:`arguments.EXIT_STATUS` describes."""
    words = sys.argv[1:] if words is None else words
    options = arguments.parser().parse_args(words)
    try:
        if options.python:
            return environment.run(options.python, without_python(words))
        search_here()
        adapters = [adapter_named(name) for name in options.libraries]
        rules = selected(options.rule)
        if options.list:
            show_rules(rules)
            return 0
        prepare(options, adapters)
        known = known_failures.read(options.known_failures) if options.known_failures else {}
        if options.write_known_failures and options.write_known_failures.exists():
            # Its comments are kept at the end, so a fault in it must not cost a whole run.
            known_failures.read(options.write_known_failures)
        report = reread(options.from_json) if options.from_json else measure(adapters, rules, options)
        if len(report.libraries) != 1 and (options.known_failures or options.write_known_failures):
            raise ValueError(f"known failures need a report of one library, and it has {len(report.libraries)}")
        report.known = known
    except (OSError, ValueError, LookupError) as error:
        print(error if isinstance(error, OSError) else error.args[0], file=sys.stderr)
        return 2
    status = show(report, options)
    try:
        write_files(report, options)
        if options.write_known_failures and not report.is_interrupted:
            known_failures.write(options.write_known_failures, report)
            print(f"wrote {options.write_known_failures}: use it with --known-failures")
            status = 0
    except (OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2
    if report.is_interrupted:
        if unwritten := [str(file) for file in (*options.badge, options.write_known_failures) if file]:
            print(f"not written after an interrupt: {', '.join(unwritten)}", file=sys.stderr)
        print("interrupted: the rules that were not run count as not applicable", file=sys.stderr)
        return 130
    return status


def without_python(words: list[str]) -> list[str]:
    """The arguments without ``--python PATH``."""
    own = argparse.ArgumentParser(add_help=False, allow_abbrev=True)
    own.add_argument("--python")
    return own.parse_known_args(words)[1]


def script() -> int:
    """Runs the kit as the command ``dlbridge-conformance``."""
    result.PROGRAM = os.environ.get(result.PROGRAM_VARIABLE, "dlbridge-conformance")
    return guarded()


def guarded() -> int:
    """Runs the kit; 141 if the reader of its output closed the pipe."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A name or a path may have characters that the encoding of the terminal lacks.
            stream.reconfigure(errors="backslashreplace")
    try:
        return main()
    except BrokenPipeError:
        # Without this, Python's flush at exit would raise the same error again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 141


if __name__ == "__main__":
    sys.exit(guarded())
