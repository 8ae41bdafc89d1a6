"""The ABI that the installed extension is built for."""

from __future__ import annotations

from importlib.metadata import distribution

TAGS = distribution("typed_arguments").read_text("WHEEL") or ""

#: The stable ABI includes the buffer protocol from Python 3.11.
STABLE_ABI_BELOW_3_11 = "cp39-abi3" in TAGS or "cp310-abi3" in TAGS

#: True if classes of the extension have the slots of the buffer protocol.
EXPORTS_BUFFERS = not STABLE_ABI_BELOW_3_11
