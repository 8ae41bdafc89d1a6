"""The matrix: passes tensors from every producer to every consumer, directly and through dlbridge.

``python -m dlbridge_conformance.matrix`` runs it. Each exchange is made in up to four ways:

* ``direct``: the consumer's ``from_dlpack``, called with the producer's object, as users write it; for consumers without
  ``from_dlpack``, their closest function;
* ``asdlpack``: the same function, called with ``dlbridge.asdlpack(object)``;
* ``to``: ``dlbridge.asdlpack(object).to(consumer)``, for the libraries that dlbridge knows;
* ``converted``: the consumer's function that converts any object to an array, as ``numpy.asarray``, without dlbridge.

The matrix compares ``direct`` with ``to``, which dlbridge recommends, or with ``asdlpack`` if dlbridge has no ``to`` for
the consumer. It shows the other two for information: ``asdlpack`` passes a tensor to a function that does not know
dlbridge, and ``converted`` is the usual workaround when the library refuses ``direct``.

Values are always compared. An exchange is zero-copy if producer and consumer report the same address, and if the producer
sees the consumer's writes, where the consumer can write. Values are compared as Python numbers, so a wider dtype with the
same numbers counts as right. If read-only memory can be written, the exchange is ``unprotected``, and not zero-copy.
"""

from dlbridge_conformance.matrix.outcome import Cell, Change, Kind, Matrix, Outcome, Pair, Spec, Way, change

__all__ = ["Cell", "Change", "Kind", "Matrix", "Outcome", "Pair", "Spec", "Way", "change"]
