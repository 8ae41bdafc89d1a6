"""The process of a library; :mod:`dlbridge_conformance.process` starts it."""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
import time
from typing import Any

from dlbridge_conformance import fork
from dlbridge_conformance.adapter import Adapter
from dlbridge_conformance.isolation import end_group
from dlbridge_conformance.module_adapter import ModuleAdapter
from dlbridge_conformance.result import line_of
from dlbridge_conformance.registry import adapter_named, all_rules
from dlbridge_conformance.search_path import search_here


def serve(library: Adapter) -> None:
    """Imports the library, prints how many seconds that took, and then runs the rules that standard input names.

    Each line of the input has the id of a rule and the time limit of its check. The answer is the result.
    """
    # The library's own output goes to stderr, so that it does not mix with the results.
    results = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    fork.own_files.append(results.fileno())
    start = time.monotonic()
    library.load()
    rules = all_rules()
    signal.signal(signal.SIGTERM, lambda *_: leave())
    # A garbage collection in a fork would touch all objects of the library, and so copy their pages.
    gc.freeze()
    print(f"loaded {time.monotonic() - start}", file=results, flush=True)
    for line in sys.stdin:
        id, limit = line.split()
        print(line_of(fork.in_fork(library, rules[id], float(limit))), file=results, flush=True)


def found(library: Adapter) -> dict[str, Any]:
    """The findings of a :class:`ModuleAdapter` in its library, or the reason why it checks nothing."""
    assert isinstance(library, ModuleAdapter)
    library.load()
    try:
        return {"lines": library.found()}
    except LookupError as error:
        return {"error": error.args[0]}


def leave() -> None:
    """Ends this process and the check that it waits for, without the library's exit handlers."""
    if fork.running is not None:
        end_group(fork.running)
    os._exit(0)


def main(arguments: list[str]) -> None:
    """Serves all rules of a library, or prints what the library has."""
    search_here()
    library = adapter_named(arguments[0])
    if len(arguments) == 1:
        serve(library)
    else:
        print(json.dumps(found(library)), flush=True)
    leave()


if __name__ == "__main__":
    main(sys.argv[1:])
