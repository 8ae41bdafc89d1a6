"""The process of a library, which :mod:`dlbridge.conformance.process` starts."""

from __future__ import annotations

import gc
import os
import sys
import time

from dlbridge.conformance.adapter import Adapter, adapter_named
from dlbridge.conformance.process import check, in_fork
from dlbridge.conformance.result import line_of
from dlbridge.conformance.rule import all_rules

#: how many times as long as in this process the import may take in one that a check starts, on a machine that is busy
LOADING = 5


def serve(library: Adapter, limit: float) -> None:
    """Runs the rules whose ids come by standard input, each in a fork."""
    # What the library prints must not come between the results.
    results = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    start = time.monotonic()
    library.load()
    loading = time.monotonic() - start
    rules = all_rules()
    # A collection in a fork would visit, and so copy, all objects of the library.
    gc.freeze()
    for line in sys.stdin:
        rule = rules[line.strip()]
        result = in_fork(library, rule, limit + rule.processes * (LOADING * loading))
        print(line_of(result), file=results, flush=True)


def main(arguments: list[str]) -> None:
    """The process of a library: of all rules, or of the one that is named."""
    library = adapter_named(arguments[0])
    if len(arguments) == 2:
        serve(library, float(arguments[1]))
    else:
        library.load()
        print(line_of(check(library, all_rules()[arguments[2]])), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
