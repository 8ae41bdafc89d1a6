"""For tests of code that exchanges tensors: consumers must release every export.

With pytest, ask for the fixture ``no_leaked_exports``; the package registers it. Without,

>>> import dlbridge
>>> from dlbridge.testing import exports_released
>>> with exports_released():
...     view = memoryview(dlbridge.empty(3))
...     del view
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

from dlbridge._core import live_exports, record_exports
from dlbridge.typing import Export

__all__ = ["LeakedExports", "exports_released"]


class LeakedExports(AssertionError):
    """Consumers still hold exports; :attr:`exports` lists them."""

    def __init__(self, exports: list[Export]) -> None:
        self.exports = exports
        lines = [
            f"  {export['dtype']} of shape {export['shape']} on {export['device']}, "
            f"exported through {export['protocol']} {export['age']:.1f} s ago"
            for export in exports
        ]
        text = f"{len(exports)} exported tensors were not released:"
        super().__init__("\n".join([text, *lines]))


@contextmanager
def exports_released() -> Iterator[None]:
    """Raise :class:`LeakedExports` at the end if a consumer still holds a tensor that was exported within the block.

    Exports from before the block do not count. Exports of other threads during the block do: a record does not show
    which thread made it.
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
