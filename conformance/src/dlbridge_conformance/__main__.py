"""``dlbridge-conformance`` and ``python -m dlbridge_conformance``."""

from __future__ import annotations

import argparse
import io
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor, wait

import dlbridge
from dlbridge_conformance import arguments, known_failures
from dlbridge_conformance.adapter import Adapter
from dlbridge_conformance.module_adapter import ModuleAdapter
from dlbridge_conformance.process import Server, found
from dlbridge_conformance.registry import (
    adapter_named, installed_adapters, is_installed, known_adapters, selected, version_of,
)  # fmt: skip
from dlbridge_conformance.report import badge, findings, junit, summary, totals, visible
from dlbridge_conformance.result import Library, Report
from dlbridge_conformance.rule import Rule
from dlbridge_conformance.search_path import search_here


def check_library(library: Library, rules: dict[str, Rule], server: Server, quiet: bool) -> None:
    """Runs the rules on one library, and appends the results."""
    start = time.monotonic()
    for number, rule in enumerate(rules.values(), 1):
        library.results.append(server.check(rule))
        if not quiet and (number % 20 == 0 or number == len(rules)):
            seconds = time.monotonic() - start
            print(f"{library.name}: {number} of {len(rules)} rules, {seconds:.0f} s", file=sys.stderr)
    server.close()


def measure(adapters: list[Adapter], rules: dict[str, Rule], options: argparse.Namespace) -> Report:
    """Runs the rules on the named libraries, or on all installed ones."""
    chosen = adapters or installed_adapters()
    libraries = [Library(adapter.name, version_of(adapter)) for adapter in chosen]
    report = Report(list(rules.values()), libraries, dlbridge.__version__, limit=options.limit)
    servers = [Server(adapter.name, options.limit) for adapter in chosen]
    with ThreadPoolExecutor(max(options.jobs, 1)) as pool:
        pairs = zip(libraries, servers, strict=True)
        running = [pool.submit(check_library, library, rules, server, options.quiet) for library, server in pairs]
        try:
            wait(running)
        except KeyboardInterrupt:
            for server in servers:
                server.stop()
            raise
    for one in running:
        one.result()
    return report


def show_evidence(report: Report) -> None:
    """Prints the evidence of the rules that --rule selects: the inputs and the results."""
    for library in report.libraries:
        for one in library.results:
            detail = f": {visible(one.detail)}" if one.detail else ""
            print(f"{visible(library.name)} {one.rule}: {one.status.value}{detail}")
            for kind, text in one.evidence:
                print(f"    {kind}: {visible(text)}")


def write_files(report: Report, options: argparse.Namespace) -> None:
    """Writes the report in every requested format."""
    if options.json:
        options.json.write_text(report.to_json(), encoding="utf-8")
    if options.junit:
        options.junit.write_text(junit(report), encoding="utf-8")
    if options.summary:
        with options.summary.open("a", encoding="utf-8") as file:
            file.write(summary(report))
    if options.badge:
        options.badge.write_text(badge(report), encoding="utf-8")
    if options.write_known_failures:
        known_failures.write(options.write_known_failures, report)
        print(f"wrote {options.write_known_failures}: use it with --known-failures")


def show_rules(rules: dict[str, Rule]) -> None:
    """Prints the rules, and the libraries with an adapter."""
    for rule in rules.values():
        print(f"{rule.id} ({rule.role.value}, {rule.level.value}): {rule.says} [{rule.source}]")
    print(f"\n{len(rules)} rules. Libraries: {', '.join(known_adapters())}")


def prepare(options: argparse.Namespace, adapters: list[Adapter]) -> None:
    """Checks the arguments, and prints what modules without an adapter have. Raises ValueError or LookupError."""
    if not hasattr(os, "fork"):
        raise ValueError("the kit forks for each check, and this system lacks fork")
    if missing := [adapter.name for adapter in adapters if not is_installed(adapter)]:
        raise LookupError(f"not installed: {', '.join(missing)}")
    if said := arguments.wrong(options):
        raise ValueError(said)
    for adapter in adapters:
        version_of(adapter)
        lines = found(adapter.name) if isinstance(adapter, ModuleAdapter) else []
        if lines and not options.quiet:
            print("\n".join(lines), file=sys.stderr)
    if not adapters and not any(adapter.name != "dlbridge" for adapter in installed_adapters()):
        print(f"{sys.executable} lacks a library with an adapter, except dlbridge. Name your library", file=sys.stderr)


def show(report: Report, options: argparse.Namespace) -> int:
    """Prints the report, and returns the exit status."""
    if options.rule:
        show_evidence(report)
    else:
        for library in report.libraries:
            print(findings(report, library))
    print(totals(report, sys.stdout.isatty() and "NO_COLOR" not in os.environ))
    results = [one for library in report.libraries for one in library.results]
    if known := [one for one in results if one.status.is_broken and one.rule in report.known]:
        print(f"{len(known)} known failures, by {options.known_failures}")
    kept = known_failures.kept(report)
    for id in kept:
        print(f"{id} is kept now: remove it from {options.known_failures}")
    broken = [one for one in results if report.fails(one)]
    if broken:
        print(f"{len(broken)} broken rules that are MUST or SHOULD")
    return 1 if (broken or kept) and not options.write_known_failures else 0


def main(words: list[str] | None = None) -> int:
    """Runs the kit, and returns the exit status, which :data:`arguments.EXIT_STATUS` describes."""
    options = arguments.parser().parse_args(words)
    search_here()
    try:
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
        report = measure(adapters, rules, options)
        report.known = known
        status = show(report, options)
        write_files(report, options)
    except (OSError, ValueError, LookupError) as error:
        print(error if isinstance(error, OSError) else error.args[0], file=sys.stderr)
        return 2
    return status


def script() -> int:
    """Runs the kit; 130 if it was interrupted, 141 if the reader of its output closed the pipe."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A name or a path may have characters that the encoding of the terminal lacks.
            stream.reconfigure(errors="backslashreplace")
    try:
        return main()
    except KeyboardInterrupt:
        print("interrupted: no report is written", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # Without this, Python's flush at exit would raise the same error again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 141


if __name__ == "__main__":
    sys.exit(script())
