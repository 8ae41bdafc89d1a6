"""``python -m dlbridge clean``: removes the shared memory that killed processes left behind."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import Any

from dlbridge import _segments


def main(arguments: Sequence[str], write: Callable[[str], Any] = print) -> int:
    """Run the command and return the exit code: 1 if segments of an ended owner are left, 2 if none can be listed."""
    parser = argparse.ArgumentParser(
        prog="python -m dlbridge clean",
        description=(
            "List the shared memory of this user that dlbridge made, and remove the segments whose owner has ended. "
            "Processes that have attached keep the memory."
        ),
    )
    parser.add_argument("--dry-run", action="store_true", help="list the segments and remove nothing")
    options = parser.parse_args(arguments)
    if not _segments.SHM.is_dir():
        print(f"this system does not list shared memory in {_segments.SHM}", file=sys.stderr)
        return 2
    removed = freed = left = 0
    for segment in _segments.segments():
        ended = segment.owner == _segments.ENDED
        if not ended:
            result = "kept"
        elif options.dry_run:
            result = "would be removed"
        elif _segments.remove_abandoned(segment):
            result = "removed"
            removed += 1
            freed += segment.nbytes
        else:
            # Another process has removed it, or is doing so.
            gone = _segments.examine(segment.name) is None
            result = "already removed" if gone else "in use by another cleaner"
            left += not gone
        owner = "the owner" if segment.pid is None else f"process {segment.pid}"
        write(f"{segment.name}  {segment.nbytes} bytes  {owner} {segment.owner}: {result}")
    write(f"removed {removed} segment{'' if removed == 1 else 's'}, {freed} bytes")
    return int(left > 0)
