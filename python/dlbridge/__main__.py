"""``python -m dlbridge``: the commands of the package."""

from __future__ import annotations

import sys

from dlbridge import doctor

USAGE = """\
usage: python -m dlbridge doctor [framework ...] [--json]

doctor  try out which frameworks exchange tensors with dlbridge, and how"""


def main(arguments: list[str]) -> int:
    """Run the command that the first argument names."""
    if arguments[:1] == ["doctor"]:
        return doctor.main(arguments[1:])
    asked = arguments[:1] in (["-h"], ["--help"])
    print(USAGE, file=sys.stdout if asked else sys.stderr)
    return 0 if asked else 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
