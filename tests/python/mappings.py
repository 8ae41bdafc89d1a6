"""The mappings of this process, as Linux lists them in /proc/self/maps."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple


class MappedRange(NamedTuple):
    """A range of mapped memory. Memory without a file has the inode 0."""

    inode: int
    path: str


def mapping(address: int) -> MappedRange:
    """The mapping that contains an address of this process."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        addresses, _, _, _, inode, *path = line.split(maxsplit=5)
        begin, end = (int(text, 16) for text in addresses.split("-"))
        if begin <= address < end:
            return MappedRange(int(inode), path[0] if path else "")
    raise AssertionError(f"nothing is mapped at {address:#x}")
