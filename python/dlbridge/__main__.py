"""``python -m dlbridge``: the commands of the package."""

from __future__ import annotations

import sys
from importlib import import_module

from dlbridge import __version__

USAGE = """\
usage: python -m dlbridge COMMAND [--help]
       python -m dlbridge --version

clean   remove the shared memory that killed processes left behind
doctor  test which installed libraries exchange tensors with dlbridge, and how

The package dlbridge-conformance has python -m dlbridge_conformance, which checks libraries against DLPack 1.3."""

#: The module of each command; its function ``main`` gets the arguments.
COMMANDS = {
    "clean": "dlbridge.clean",
    "doctor": "dlbridge.doctor",
}


def main(arguments: list[str]) -> int:
    """Run the command that the first argument names."""
    if arguments[:1] in (["-h"], ["--help"]):
        print(USAGE)
        return 0
    if arguments[:1] == ["--version"]:
        print(f"dlbridge {__version__}")
        return 0
    if not arguments:
        print(USAGE, file=sys.stderr)
        return 2
    if arguments[0] not in COMMANDS:
        print(f"unknown command: {arguments[0]}\n{USAGE}", file=sys.stderr)
        return 2
    return int(import_module(COMMANDS[arguments[0]]).main(arguments[1:]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
