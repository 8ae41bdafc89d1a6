"""``python -m dlbridge.conformance``."""

from __future__ import annotations

import argparse
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import dlbridge
from dlbridge.conformance import process
from dlbridge.conformance.adapter import Adapter, known_adapters
from dlbridge.conformance.report import terminal
from dlbridge.conformance.result import Library, Report
from dlbridge.conformance.rule import Level, Rule, selected


def parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m dlbridge.conformance",
        description="Whether libraries keep the rules of DLPack, as producers and as consumers.",
    )
    parser.add_argument("libraries", nargs="*", metavar="LIBRARY", help="by default all that are installed")
    parser.add_argument("--rule", action="append", default=[], metavar="ID", help="only this rule, or those below it")
    parser.add_argument("--list", action="store_true", help="show the rules and the libraries, and check nothing")
    parser.add_argument("--limit", type=float, default=process.LIMIT, help="seconds that a check may take")
    parser.add_argument("--jobs", type=int, default=2, help="how many libraries are checked at once")
    parser.add_argument("--in-process", action="store_true", help="no processes of their own, for a debugger")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the report as JSON")
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress")
    return parser


def check_library(adapter: Adapter, rules: dict[str, Rule], options: argparse.Namespace) -> Library:
    """Runs the rules on one library."""
    library = Library(adapter.name, adapter.version())
    start = time.monotonic()
    if options.in_process:
        adapter.load()
        library.results = [process.check(adapter, rule) for rule in rules.values()]
        return library
    for number, result in enumerate(process.run(adapter.name, rules.values(), options.limit), 1):
        library.results.append(result)
        if not options.quiet and (number % 20 == 0 or number == len(rules)):
            seconds = time.monotonic() - start
            print(f"{adapter.name}: {number} of {len(rules)} rules, {seconds:.0f} s", file=sys.stderr)
    return library


def show_evidence(report: Report) -> None:
    """What was fed and what came back, of the few rules that were asked for."""
    for library in report.libraries:
        for result in library.results:
            print(f"{library.name} {result.rule}: {result.status.value}" + (f": {result.detail}" if result.detail else ""))
            for kind, text in result.evidence:
                print(f"    {kind}: {text}")


def main(arguments: list[str] | None = None) -> int:
    """Runs the kit: 0 if no MUST and no SHOULD is broken, 1 if one is, 2 for wrong arguments."""
    options = parser().parse_args(arguments)
    known = known_adapters()
    try:
        rules = selected(options.rule)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    if options.list:
        for rule in rules.values():
            print(f"{rule.id} ({rule.role.value}, {rule.level.value}): {rule.says} [{rule.source}]")
        print(f"\n{len(rules)} rules. Libraries: {', '.join(known)}")
        return 0
    if unknown := [name for name in options.libraries if name not in known]:
        print(f"there is no adapter for {', '.join(unknown)}; there are {', '.join(known)}", file=sys.stderr)
        return 2
    if missing := [name for name in options.libraries if not known[name].is_installed()]:
        print(f"not installed: {', '.join(missing)}", file=sys.stderr)
        return 2
    chosen = [known[name] for name in options.libraries or known if known[name].is_installed()]
    with ThreadPoolExecutor(max(options.jobs, 1)) as pool:
        libraries = list(pool.map(lambda adapter: check_library(adapter, rules, options), chosen))
    report = Report(list(rules.values()), libraries, dlbridge.__version__)
    if options.json:
        options.json.write_text(report.to_json())
    if options.rule:
        show_evidence(report)
    else:
        for library in libraries:
            print(terminal.broken(report, library))
    print(terminal.table(report))
    binding = {rule.id for rule in rules.values() if rule.level is not Level.MAY}
    broken = [r for library in libraries for r in library.results if r.status.is_broken and r.rule in binding]
    if broken:
        print(f"{len(broken)} broken rules that are MUST or SHOULD")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
