"""For tests of code that exchanges tensors: what is lent must be given back.

With pytest, ask for the fixture ``no_leaked_exports``; the package registers it. Without,

>>> import dlbridge
>>> from dlbridge.testing import exports_given_back
>>> with exports_given_back():
...     view = memoryview(dlbridge.empty(3))
...     del view
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

from dlbridge._core import live_exports, record_exports
from dlbridge.typing import Export

__all__ = ["LeakedExports", "exports_given_back"]


class LeakedExports(AssertionError):
    """Tensors that were lent and not given back; :attr:`exports` tells which."""

    def __init__(self, exports: list[Export]) -> None:
        self.exports = exports
        lines = [
            f"  {export['dtype']} of shape {export['shape']} on {export['device']}, "
            f"lent through {export['door']} {export['age']:.1f} s ago"
            for export in exports
        ]
        text = f"{len(exports)} tensors were lent and not given back:"
        super().__init__("\n".join([text, *lines]))


@contextmanager
def exports_given_back() -> Iterator[None]:
    """Raise :class:`LeakedExports` at the end if a tensor that was lent within is not given back.

    What was lent before does not count. What another thread lends meanwhile and keeps does: nobody can
    tell whose it is.
    """
    before = record_exports(True)
    known = {export["number"] for export in live_exports()}
    try:
        yield
        gc.collect()
        leaked = [export for export in live_exports() if export["number"] not in known]
    finally:
        record_exports(before)
    if leaked:
        raise LeakedExports(leaked)
